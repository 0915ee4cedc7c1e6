// Types of a model's inputs: free dimensions become symbols.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/tensor_type.h"
#include "support/expected.h"

namespace opweld {

// Names the sizes of all inputs of one graph.
class InputTypes {
 public:
  using Inputs = std::vector<const onnx::ValueInfoProto*>;

  InputTypes(const Inputs& inputs, const std::map<std::string, std::int64_t>& fixed_dims);

  // Errors do not name the input.
  Expected<TensorType> type_of(const onnx::ValueInfoProto& input);

  // Fails where a fixed dimension was not found in any input.
  [[nodiscard]] Status check_all_fixed() const;

 private:
  Expected<Dim> size_of(const onnx::TensorShapeProto::Dimension& dimension,
                        const std::string& input, int axis);
  Expected<Dim> size_named(const std::string& name);

  const std::map<std::string, std::int64_t>& fixed_dims_;
  std::set<std::string> parameters_;  // every dim_param
  std::set<std::string> symbols_;     // every name given to a size
};

// "f32[batch, 3]", or what the type is instead of a known tensor.
std::string describe_type(const onnx::ValueInfoProto& info);

}  // namespace opweld
