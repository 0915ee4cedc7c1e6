// What a file says of a node beside what it computes.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <string_view>

namespace opweld {

// The value of that key among the node's metadata_props; empty where there is none.
std::string node_metadata(const onnx::NodeProto& node, std::string_view key);

}  // namespace opweld
