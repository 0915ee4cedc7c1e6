// Tensors as ONNX keeps test data: protocol buffers, which only the compiling half reads by itself.
#pragma once

#include <string>

#include "graph/tensor.h"
#include "support/expected.h"

namespace opweld::cli {

// Each half has its own: the one that runs asks the one that compiles.
Expected<Tensor> read_pb(const std::string& path);

}  // namespace opweld::cli
