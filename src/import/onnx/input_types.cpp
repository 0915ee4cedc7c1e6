#include "import/onnx/input_types.h"

#include "import/onnx/tensor_reader.h"

namespace opweld {
namespace {

// Sizes beyond this are taken for errors of the file.
constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1;

// A kind of value that is no tensor.
std::string_view kind_of(const onnx::TypeProto& type) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      return "a tensor";
    case onnx::TypeProto::kSequenceType:
      return "a sequence";
    case onnx::TypeProto::kMapType:
      return "a map";
    case onnx::TypeProto::kOptionalType:
      return "an optional value";
    case onnx::TypeProto::kSparseTensorType:
      return "a sparse tensor";
    default:
      return "of no known type";
  }
}

}  // namespace

InputTypes::InputTypes(const Inputs& inputs, const std::map<std::string, std::int64_t>& fixed_dims)
    : fixed_dims_(fixed_dims) {
  for (const auto* input : inputs) {
    for (const auto& dimension : input->type().tensor_type().shape().dim()) {
      if (!dimension.dim_param().empty()) parameters_.insert(dimension.dim_param());
    }
  }
}

Expected<TensorType> InputTypes::type_of(const onnx::ValueInfoProto& input) {
  if (!input.type().has_tensor_type()) {
    return fail("is {}; only tensors are supported", kind_of(input.type()));
  }
  const auto& tensor = input.type().tensor_type();
  OPWELD_TRY(const DType dtype, require_dtype(tensor.elem_type()));
  if (!tensor.has_shape()) {
    return fail("has no shape; its rank must be declared in the model");
  }
  TensorType type{dtype, {}};
  for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
    OPWELD_TRY(Dim size, size_of(tensor.shape().dim(axis), input.name(), axis));
    type.shape.push_back(std::move(size));
  }
  if (type.num_elements().is_overflow()) return fail("has more elements than can be counted");
  return type;
}

Expected<Dim> InputTypes::size_of(const onnx::TensorShapeProto::Dimension& dimension,
                                  const std::string& input, int axis) {
  if (dimension.has_dim_value()) {
    const std::int64_t value = dimension.dim_value();
    if (value < 0 || value > kMaxSize) return fail("has size {} on axis {}", value, axis);
    return Dim(value);
  }
  if (!dimension.dim_param().empty()) return size_named(dimension.dim_param());
  std::string name = fmt::format("{}_{}", input, axis);
  while (parameters_.contains(name)) name += '_';
  return size_named(name);
}

Expected<Dim> InputTypes::size_named(const std::string& name) {
  symbols_.insert(name);
  const auto fixed = fixed_dims_.find(name);
  if (fixed == fixed_dims_.end()) return Dim::symbol(name, {0, kMaxSize, 1});
  if (fixed->second < 0 || fixed->second > kMaxSize) {
    return usage_error("dimension '{}' cannot be fixed to {}", name, fixed->second);
  }
  return Dim(fixed->second);
}

Status InputTypes::check_all_fixed() const {
  for (const auto& [name, value] : fixed_dims_) {
    if (symbols_.contains(name)) continue;
    return usage_error("there is no free dimension '{}' to be fixed to {}; free are: {}", name,
                       value,
                       symbols_.empty() ? "none" : fmt::format("{}", fmt::join(symbols_, ", ")));
  }
  return {};
}

std::string describe_type(const onnx::ValueInfoProto& info) {
  if (!info.type().has_tensor_type()) return std::string(kind_of(info.type()));
  const auto& tensor = info.type().tensor_type();
  const auto dtype = dtype_of_element_type(tensor.elem_type());
  std::string text = dtype ? std::string(to_string(*dtype)) : element_type_name(tensor.elem_type());
  if (!tensor.has_shape()) return text + " of unknown rank";
  std::vector<std::string> sizes;
  for (const auto& dimension : tensor.shape().dim()) {
    if (dimension.has_dim_value()) {
      sizes.push_back(std::to_string(dimension.dim_value()));
    } else {
      sizes.push_back(dimension.dim_param().empty() ? "?" : dimension.dim_param());
    }
  }
  return fmt::format("{}[{}]", text, fmt::join(sizes, ", "));
}

}  // namespace opweld
