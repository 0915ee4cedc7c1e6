#include "ops/builder.h"

#include <iterator>

#include "ops/schema.h"

namespace opweld {
namespace {

// What the shape rule says, checked against what no rule may say.
Expected<std::vector<TensorType>> infer_types(const OpDef& def, const OpContext& context) {
  OPWELD_TRY(auto types, def.infer(context));
  for (const TensorType& type : types) {
    for (const Dim& size : type.shape) {
      if (size.is_overflow()) return fail("the sizes of the result overflow 64 bits");
      if (size.upper_bound() < 0) return fail("the result {} has a negative size", to_string(type));
    }
  }
  return types;
}

Expected<Node*> build_checked(Graph& graph, const OpDef& def, std::vector<Value*> operands,
                              Attributes attributes, const Source& source, Node* before) {
  // Absent operands at the end are left out, so that equal nodes look equal.
  while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
  OPWELD_CHECK(check_operands(def, operands));
  OPWELD_CHECK(check_attributes(def, attributes));

  std::vector<SizeAssumption> assumptions;
  const OpContext context{operands, attributes, &assumptions};
  OPWELD_TRY(auto types, infer_types(def, context));
  auto contents = def.contents != nullptr ? def.contents(context) : std::nullopt;

  Node* node = graph.add_node(std::string(def.name), std::move(operands), std::move(attributes),
                              std::move(types), source, before);
  if (contents) node->result()->set_contents(std::move(contents));
  for (SizeAssumption& assumption : assumptions) {
    graph.assume_equal(std::move(assumption.left), std::move(assumption.right),
                       fmt::format("{}: {}", node_label(def.name, source), assumption.reason));
  }
  return node;
}

Tensor scalar_tensor(double value, DType dtype) {
  auto tensor = Tensor::allocate(dtype, {});
  assert(tensor);
  tensor->set_double(0, value);
  return std::move(*tensor);
}

}  // namespace

Expected<Node*> build_node(Graph& graph, std::string_view op, std::vector<Value*> operands,
                           Attributes attributes, const Source& source, Node* before) {
  const OpDef* def = find_op(op);
  if (def == nullptr) {
    const Error error = unknown_operator(op);
    return tl::unexpected(source.name.empty() ? error : error.with_context(source.name));
  }
  auto node =
      build_checked(graph, *def, std::move(operands), std::move(attributes), source, before);
  if (!node) return tl::unexpected(node.error().with_context(node_label(op, source)));
  return node;
}

Value* Builder::op(std::string_view name, std::vector<Value*> operands, Attributes attributes) {
  if (!status_) return nullptr;
  auto node =
      build_node(graph_, name, std::move(operands), std::move(attributes), source_, before_);
  if (!node) {
    status_ = tl::unexpected(node.error());
    return nullptr;
  }
  return (*node)->result();
}

Value* Builder::constant(Tensor tensor) {
  return op("constant", {}, {{"value", std::move(tensor)}});
}

Value* Builder::scalar(double value, DType dtype) {
  return constant(scalar_tensor(value, dtype));
}

Value* Builder::ints(const std::vector<std::int64_t>& values) {
  auto tensor = Tensor::allocate(DType::I64, {std::ssize(values)});
  if (!tensor) {
    if (status_) status_ = tl::unexpected(tensor.error());
    return nullptr;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor->set_int(static_cast<std::int64_t>(i), values[i]);
  }
  return constant(std::move(*tensor));
}

Value* Builder::reshape(Value* x, Shape shape) {
  return op("reshape", {x}, {{"shape", std::move(shape)}});
}

Value* Builder::transpose(Value* x, Ints permutation) {
  return op("transpose", {x}, {{"permutation", std::move(permutation)}});
}

Value* Builder::cast(Value* x, DType dtype) {
  if (x != nullptr && x->dtype() == dtype) return x;
  return op("cast", {x}, {{"to", dtype}});
}

Value* Builder::expand(Value* x, Shape shape) {
  return op("expand", {x}, {{"shape", std::move(shape)}});
}

}  // namespace opweld
