// Reads ONNX files: models become graphs, tensors become tensors.
//
// Whatever the bytes are, the answer is a graph that passes verify() or an error that names the
// file and, where there is one, the node. Weights are not copied: constants of the graph point into
// the mapped file and keep it mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"
#include "support/expected.h"

namespace opweld {

struct ImportOptions {
  // Values for free dimensions, by the name of their symbol; naming one that the model does not
  // have is a usage error.
  std::map<std::string, std::int64_t> fixed_dims;
};

// Free dimensions become symbols named by their `dim_param`, or "<input>_<axis>" where they have
// none; each may be 0 or more.
Expected<Graph> import_onnx(const std::string& path, const ImportOptions& options = {});

// The same of a model in memory. `name` stands for the file in messages, external data is looked
// for in `directory`. The bytes need not outlive the call.
Expected<Graph> import_onnx_bytes(std::span<const std::byte> model, const std::string& name,
                                  const std::string& directory, const ImportOptions& options = {});

// What a model says of itself, and what of it cannot be imported.
struct ModelInfo {
  struct Tensor {
    std::string name;
    std::string type;  // "f32[batch, sequence, 384]", or what it is where it is no known tensor
  };
  struct Unsupported {
    std::string op;  // "com.example.Foo", "Loop"
    std::int64_t count = 0;
    std::string why;
  };

  std::int64_t ir_version = 0;
  std::int64_t opset = 0;  // of the standard operators; 0 if the model imports none
  std::string producer;    // "pytorch 2.1"
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::map<std::string, std::int64_t> operators;  // counted in the graph and in called functions
  std::vector<Unsupported> unsupported;
};

Expected<ModelInfo> inspect_onnx(const std::string& path);

// The operators that can be imported ("Add", "com.microsoft.Gelu") and the element types that
// values may have, by ONNX's names for them ("float16"); both sorted.
struct Supported {
  std::vector<std::string> operators;
  std::vector<std::string> element_types;
};

Supported supported_by_import();

// A serialized TensorProto (.pb), as ONNX keeps test inputs and outputs.
Expected<Tensor> read_tensor_pb(const std::string& path);

}  // namespace opweld
