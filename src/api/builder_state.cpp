#include "api/builder_state.h"

#include <cmath>
#include <cstring>

#include "api/convert.h"
#include "ops/builder.h"

namespace opweld::detail {

bool BuilderState::usable() {
  if (finished && !error) {
    error = Error{ErrorKind::Usage, "the builder was used after finish(), which ends its work"};
  }
  return !error;
}

void BuilderState::fail_with(Error first) {
  if (!error) error = std::move(first);
}

bool BuilderState::keep(const Status& status) {
  if (!status) fail_with(status.error());
  return status.has_value();
}

Expected<Dim> BuilderState::dim(const Size& size, bool declare) {
  if (declare && !size.constant()) {
    // A text that reads as a symbol and nothing more.
    auto named = SymbolInfo::parse(size.text());
    if (named && symbol_reference(named->name) == size.text() &&
        symbols.find(named->name) == nullptr) {
      OPWELD_CHECK(symbols.add(std::move(*named)));
    }
  }
  OPWELD_TRY(Dim dim, Dim::parse(size.text(), symbols));
  return dim;
}

Expected<Shape> BuilderState::shape(const std::vector<Size>& sizes, bool declare) {
  Shape shape;
  for (const Size& size : sizes) {
    OPWELD_TRY(Dim each, dim(size, declare));
    shape.push_back(std::move(each));
  }
  return shape;
}

GraphTensor BuilderAccess::tensor(const State& state, Value* value) {
  GraphTensor tensor;
  tensor.state_ = state;
  tensor.index_ = static_cast<int>(state->values.size());
  state->values.push_back(value);
  state->types.push_back(value->type());
  return tensor;
}

GraphTensor BuilderAccess::invalid(const State& state) {
  GraphTensor tensor;
  tensor.state_ = state;
  return tensor;
}

namespace {

Expected<Tensor> copy_of(const TensorView& view, const std::string& what) {
  OPWELD_TRY(const Tensor source, to_tensor(view, what));
  return source.clone();
}

// From the public form of an attribute's content to the graph's.
struct AttributeConversion {
  BuilderState& state;
  const std::string& name;

  Expected<Attribute> operator()(const std::vector<Size>& sizes) const {
    OPWELD_TRY(Shape shape, state.shape(sizes, false));
    return Attribute(std::move(shape));
  }
  Expected<Attribute> operator()(const TensorView& view) const {
    OPWELD_TRY(Tensor tensor, copy_of(view, fmt::format("attribute '{}'", name)));
    return Attribute(std::move(tensor));
  }
  Expected<Attribute> operator()(DType dtype) const {
    if (!is_dtype(dtype)) return usage_error("attribute '{}' has no valid dtype", name);
    return Attribute(dtype);
  }
  template <typename T>
  Expected<Attribute> operator()(const T& plain) const {
    return Attribute(plain);
  }
};

Expected<Attributes> to_attributes(BuilderState& state, const AttributeList& list) {
  Attributes attributes;
  for (const auto& [name, value] : list) {
    if (attributes.has(name)) return usage_error("attribute '{}' is given twice", name);
    OPWELD_TRY(Attribute attribute, std::visit(AttributeConversion{state, name}, value.content()));
    attributes.set(name, std::move(attribute));
  }
  return attributes;
}

Expected<std::vector<Value*>> to_values(const BuilderAccess::State& state,
                                        const std::vector<GraphTensor>& operands) {
  std::vector<Value*> values;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& owner = BuilderAccess::state(operands[i]);
    if (owner != nullptr && owner != state) {
      return usage_error("operand {} belongs to another builder", i);
    }
    values.push_back(BuilderAccess::value(operands[i]));
  }
  return values;
}

// "layers.0/matmul_3": what the account and messages call the operator.
Source source_of(BuilderState& state, std::string_view op) {
  const std::string name = fmt::format("{}_{}", op, ++state.operators);
  if (state.layer.empty()) return {name, "", ""};
  return {fmt::format("{}/{}", state.layer, name), "", state.layer};
}

Expected<Node*> build(const BuilderAccess::State& state, std::string_view op, std::size_t count,
                      const std::vector<GraphTensor>& operands, const AttributeList& list) {
  const auto in_operator = [&](const Error& error) {
    return tl::unexpected(error.with_context(std::string(op)));
  };
  auto values = to_values(state, operands);
  if (!values) return in_operator(values.error());
  auto attributes = to_attributes(*state, list);
  if (!attributes) return in_operator(attributes.error());
  OPWELD_TRY(Node * node, build_node(state->graph, op, std::move(*values), std::move(*attributes),
                                     source_of(*state, op)));
  if (static_cast<std::size_t>(node->num_results()) != count) {
    return usage_error("{}: has {} results, but {} were asked for", op, node->num_results(), count);
  }
  return node;
}

}  // namespace

std::vector<GraphTensor> append_operator(const BuilderAccess::State& state, std::string_view op,
                                         std::size_t count,
                                         const std::vector<GraphTensor>& operands,
                                         const AttributeList& attributes) {
  std::vector<GraphTensor> results(count, BuilderAccess::invalid(state));
  if (!state->usable()) return results;
  const auto node = build(state, op, count, operands, attributes);
  if (!node) {
    state->fail_with(node.error());
    return results;
  }
  for (std::size_t i = 0; i < count; ++i) {
    results[i] = BuilderAccess::tensor(state, (*node)->result(static_cast<int>(i)));
  }
  return results;
}

GraphTensor append_constant(const BuilderAccess::State& state, Tensor tensor,
                            const std::string& name) {
  if (!state->usable()) return BuilderAccess::invalid(state);
  auto node = build_node(state->graph, "constant", {}, {{"value", std::move(tensor)}},
                         Source{name, "", state->layer});
  if (!node) {
    state->fail_with(node.error());
    return BuilderAccess::invalid(state);
  }
  (*node)->result()->set_name(name);
  return BuilderAccess::tensor(state, (*node)->result());
}

GraphTensor append_scalar(const BuilderAccess::State& state, double value, DType dtype) {
  if (!state->usable()) return BuilderAccess::invalid(state);
  if (!is_dtype(dtype)) {
    state->fail_with({ErrorKind::Usage, "a scalar has no valid dtype"});
    return BuilderAccess::invalid(state);
  }
  auto tensor = Tensor::allocate(dtype, {});
  if (!state->keep(tensor ? Status() : tl::unexpected(tensor.error()))) {
    return BuilderAccess::invalid(state);
  }
  tensor->set_double(0, value);
  if (!is_float(dtype) && tensor->get_double(0) != value) {
    state->fail_with(
        {ErrorKind::Usage, fmt::format("{} is no value of {}", value, to_string(dtype))});
    return BuilderAccess::invalid(state);
  }
  return append_constant(state, std::move(*tensor), "");
}

}  // namespace opweld::detail
