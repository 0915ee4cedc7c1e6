// The stream that a node was put on.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace opweld {

// The value of "stream" among the node's metadata_props; empty where there is none.
std::string stream_label(const onnx::NodeProto& node);

}  // namespace opweld
