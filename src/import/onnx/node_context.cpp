#include "import/onnx/node_context.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <numeric>

#include "import/onnx/constant_value.h"
#include "ops/infer_helpers.h"

namespace opweld {

Status NodeContext::status() const {
  OPWELD_CHECK(attributes_);
  return builder_.status();
}

int NodeContext::num_results() const {
  return node_.output_size();
}

bool NodeContext::wants(int result) const {
  return result < node_.output_size() && !node_.output(result).empty();
}

// ---- operands whose values decide shapes ----

Expected<std::vector<Dim>> NodeContext::dims(int operand, std::string_view what) const {
  const Value* value = this->operand(operand);
  if (value == nullptr) return fail("operand {} ({}) is missing", operand, what);
  if (value->contents()) return *value->contents();
  if (const auto tensor = constant_value(*value); tensor && !is_float(tensor->dtype())) {
    std::vector<Dim> elements;
    elements.reserve(static_cast<std::size_t>(tensor->num_elements()));
    for (std::int64_t i = 0; i < tensor->num_elements(); ++i) {
      elements.emplace_back(tensor->get_int(i));
    }
    return elements;
  }
  return fail(
      "operand {} ({}) must be known from constants and sizes, but it depends on the data given at "
      "run time; make it an initializer",
      operand, what);
}

Expected<Ints> NodeContext::integers(int operand, std::string_view what) const {
  OPWELD_TRY(const auto elements, dims(operand, what));
  Ints values;
  for (const Dim& element : elements) {
    const auto value = element.constant();
    if (!value) {
      return fail("operand {} ({}) must be constant, but an element of it is {}", operand, what,
                  element);
    }
    values.push_back(*value);
  }
  return values;
}

Expected<Dim> NodeContext::dim(int operand, std::string_view what) const {
  OPWELD_TRY(const auto elements, dims(operand, what));
  if (elements.size() != 1) {
    return fail("operand {} ({}) must have one element, not {}", operand, what, elements.size());
  }
  return elements[0];
}

std::optional<Tensor> NodeContext::constant(int operand) const {
  const Value* value = this->operand(operand);
  return value == nullptr ? std::nullopt : constant_value(*value);
}

// ---- attributes ----

bool NodeContext::has_attribute(std::string_view name) const {
  return std::any_of(node_.attribute().begin(), node_.attribute().end(),
                     [&](const auto& attribute) { return attribute.name() == name; });
}

std::vector<std::string> NodeContext::attribute_names() const {
  std::vector<std::string> names;
  for (const auto& attribute : node_.attribute()) names.push_back(attribute.name());
  return names;
}

const onnx::AttributeProto* NodeContext::find(std::string_view name, int type) {
  for (const auto& attribute : node_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.type() == type) return &attribute;
    if (attributes_) attributes_ = fail("attribute '{}' has the wrong type", name);
  }
  return nullptr;
}

std::int64_t NodeContext::integer(std::string_view name, std::int64_t otherwise) {
  const auto* attribute = find(name, onnx::AttributeProto::INT);
  return attribute == nullptr ? otherwise : attribute->i();
}

double NodeContext::real(std::string_view name, double otherwise) {
  const auto* attribute = find(name, onnx::AttributeProto::FLOAT);
  return attribute == nullptr ? otherwise : static_cast<double>(attribute->f());
}

std::string NodeContext::text(std::string_view name, std::string_view otherwise) {
  const auto* attribute = find(name, onnx::AttributeProto::STRING);
  return attribute == nullptr ? std::string(otherwise) : attribute->s();
}

std::optional<Ints> NodeContext::integers_attribute(std::string_view name) {
  const auto* attribute = find(name, onnx::AttributeProto::INTS);
  if (attribute == nullptr) return std::nullopt;
  return Ints(attribute->ints().begin(), attribute->ints().end());
}

std::optional<Doubles> NodeContext::reals_attribute(std::string_view name) {
  const auto* attribute = find(name, onnx::AttributeProto::FLOATS);
  if (attribute == nullptr) return std::nullopt;
  return Doubles(attribute->floats().begin(), attribute->floats().end());
}

Expected<Tensor> NodeContext::tensor_attribute(std::string_view name) {
  const auto* attribute = find(name, onnx::AttributeProto::TENSOR);
  OPWELD_CHECK(attributes_);
  if (attribute == nullptr) return fail("attribute '{}' is missing", name);
  auto tensor = reader_.read(attribute->t());
  if (!tensor) return fail("attribute '{}' {}", name, tensor.error().message);
  return tensor;
}

Expected<DType> NodeContext::dtype_attribute(std::string_view name,
                                             std::optional<DType> otherwise) {
  const auto* attribute = find(name, onnx::AttributeProto::INT);
  OPWELD_CHECK(attributes_);
  if (attribute == nullptr && otherwise) return *otherwise;
  if (attribute == nullptr) return fail("attribute '{}' is missing", name);
  const std::int64_t number = attribute->i();
  auto dtype = require_dtype(number < 0 || number > 1000 ? -1 : static_cast<int>(number));
  if (!dtype) return tl::unexpected(dtype.error().with_context(fmt::format("'{}'", name)));
  return dtype;
}

Expected<int> NodeContext::axis(std::string_view name, std::int64_t otherwise, int rank) {
  const std::int64_t axis = integer(name, otherwise);
  OPWELD_CHECK(attributes_);
  return normalize_axis(axis, rank);
}

// ---- what many handlers say ----

Dim product(const Shape& shape, std::size_t first, std::size_t last) {
  Dim result = 1;
  for (std::size_t axis = first; axis < last; ++axis) result *= shape[axis];
  return result;
}

Value* sizes_value(Builder& builder, const std::vector<Dim>& sizes) {
  Ints values;
  for (const Dim& size : sizes) {
    if (!size.is_constant()) return builder.op("sizes", {}, {{"values", sizes}});
    values.push_back(*size.constant());
  }
  return builder.ints(values);
}

Value* slice_axis(Builder& builder, Value* x, int axis, const Dim& start, const Dim& size) {
  if (x == nullptr) return nullptr;
  Shape starts(x->shape().size(), 0);
  Shape sizes = x->shape();
  starts[static_cast<std::size_t>(axis)] = start;
  sizes[static_cast<std::size_t>(axis)] = size;
  Ints steps(x->shape().size(), 1);
  return builder.op("slice", {x},
                    {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", steps}});
}

Ints swapped_axes(int rank, int a, int b) {
  Ints permutation(static_cast<std::size_t>(rank));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[static_cast<std::size_t>(a)], permutation[static_cast<std::size_t>(b)]);
  return permutation;
}

}  // namespace opweld
