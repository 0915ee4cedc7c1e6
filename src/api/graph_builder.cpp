#include "opweld/graph_builder.h"

#include <cstring>

#include "api/builder_state.h"
#include "api/convert.h"
#include "ops/builder.h"

namespace opweld {

using detail::BuilderAccess;
using detail::BuilderState;

namespace {

const TensorType* type_of(const GraphTensor& tensor, const std::shared_ptr<BuilderState>& state,
                          int index) {
  return tensor.valid() ? &state->types[static_cast<std::size_t>(index)] : nullptr;
}

}  // namespace

DType GraphTensor::dtype() const {
  const TensorType* type = type_of(*this, state_, index_);
  return type != nullptr ? type->dtype : DType::F32;
}

std::vector<Size> GraphTensor::sizes() const {
  const TensorType* type = type_of(*this, state_, index_);
  return type != nullptr ? to_sizes(type->shape) : std::vector<Size>{};
}

std::string GraphTensor::type() const {
  const TensorType* type = type_of(*this, state_, index_);
  return type != nullptr ? to_string(*type) : "invalid";
}

GraphBuilder::GraphBuilder(std::string name)
    : state_(std::make_shared<BuilderState>(std::move(name))) {}
GraphBuilder::~GraphBuilder() = default;

namespace {

Status declare(BuilderState& state, const std::string& name, SymbolRange range) {
  if (range.min < 0) {
    return usage_error("symbol '{}': a size cannot be negative, as {}", name, range.min);
  }
  return state.symbols.add({name, range});
}

Expected<TensorType> input_type(BuilderState& state, const std::string& name, DType dtype,
                                const std::vector<Size>& sizes) {
  if (name.empty()) return usage_error("an input must have a name");
  if (!is_dtype(dtype)) return usage_error("input '{}' has no valid dtype", name);
  auto shape = state.shape(sizes, true);
  if (!shape) {
    return tl::unexpected(shape.error().with_context(fmt::format("input '{}'", name)));
  }
  for (const Dim& size : *shape) {
    if (size.is_overflow() || size.upper_bound() < 0) {
      return usage_error("input '{}': the size {} is negative or too large", name, size);
    }
  }
  if (!state.input_names.insert(name).second) {
    return usage_error("two inputs are named '{}'", name);
  }
  return TensorType{dtype, std::move(*shape)};
}

Status give_out(BuilderState& state, const std::string& name, Value* value) {
  if (name.empty()) return usage_error("an output must have a name");
  if (value == nullptr) return usage_error("output '{}' is given no tensor", name);
  if (!state.output_names.insert(name).second) {
    return usage_error("two outputs are named '{}'", name);
  }
  state.graph.add_output(name, value);
  return {};
}

}  // namespace

void GraphBuilder::symbol(const std::string& name, std::int64_t min, std::int64_t max,
                          std::int64_t divisor) {
  if (state_->usable()) state_->keep(declare(*state_, name, {min, max, divisor}));
}

GraphTensor GraphBuilder::input(const std::string& name, DType dtype,
                                const std::vector<Size>& sizes) {
  if (!state_->usable()) return BuilderAccess::invalid(state_);
  auto type = input_type(*state_, name, dtype, sizes);
  if (!type) {
    state_->fail_with(type.error());
    return BuilderAccess::invalid(state_);
  }
  return BuilderAccess::tensor(state_, state_->graph.add_input(name, std::move(*type)));
}

GraphTensor GraphBuilder::weight(const std::string& name, const TensorView& view,
                                 std::shared_ptr<const void> owner) {
  if (!state_->usable()) return BuilderAccess::invalid(state_);
  auto tensor = to_tensor(view, fmt::format("weight '{}'", name), std::move(owner));
  if (!tensor) {
    state_->fail_with(tensor.error());
    return BuilderAccess::invalid(state_);
  }
  return append_constant(state_, std::move(*tensor), name);
}

GraphTensor GraphBuilder::constant(const TensorView& view) {
  return op("constant", {}, {{"value", view}});
}

GraphTensor GraphBuilder::scalar(double value, DType dtype) {
  return append_scalar(state_, value, dtype);
}

void GraphBuilder::output(const std::string& name, const GraphTensor& tensor) {
  if (!state_->usable()) return;
  const auto& owner = BuilderAccess::state(tensor);
  if (owner != nullptr && owner != state_) {
    state_->fail_with(
        {ErrorKind::Usage, fmt::format("output '{}' belongs to another builder", name)});
    return;
  }
  state_->keep(give_out(*state_, name, BuilderAccess::value(tensor)));
}

GraphTensor GraphBuilder::op(std::string_view name, const std::vector<GraphTensor>& operands,
                             const AttributeList& attributes) {
  return append_operator(state_, name, 1, operands, attributes).front();
}

std::vector<GraphTensor> GraphBuilder::op_results(std::string_view name, std::size_t count,
                                                  const std::vector<GraphTensor>& operands,
                                                  const AttributeList& attributes) {
  return append_operator(state_, name, count, operands, attributes);
}

void GraphBuilder::layer(std::string name) {
  if (state_->usable()) state_->layer = std::move(name);
}

Result<void> GraphBuilder::status() const {
  if (state_->error) return *state_->error;
  return {};
}

Result<Model> GraphBuilder::finish() {
  if (!state_->usable()) return *state_->error;
  if (state_->graph.outputs().empty()) {
    state_->fail_with({ErrorKind::Usage, "the graph has no output; give a tensor out by output()"});
  } else {
    state_->keep(verify(state_->graph));
  }
  if (state_->error) return *state_->error;
  state_->finished = true;
  return Model(
      std::make_shared<const detail::ModelState>(detail::ModelState{std::move(state_->graph)}));
}

}  // namespace opweld
