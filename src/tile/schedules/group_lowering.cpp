#include "tile/schedules/group_lowering.h"

#include <algorithm>
#include <cassert>

#include "tile/schedules/scattered_output.h"

namespace opweld::tile {

std::optional<DomainOutput> output_over(const Value* output, const Shape& domain) {
  if (computed_for(output) != output) return scattered_over(output, domain);
  for (const Value* value = output;;) {
    if (value->shape() == domain) {
      if (value == output) return DomainOutput{value, output, StridedView::contiguous(domain)};
      if (auto view = store_view(value, output)) return DomainOutput{value, output, *view};
      return std::nullopt;
    }
    const Node* node = value->producer();
    if (node == nullptr || (node->op() != "reshape" && node->op() != "transpose")) {
      return std::nullopt;
    }
    value = node->operand(0);
  }
}

std::vector<const Value*> outputs_of(const Graph& group) {
  std::vector<const Value*> values;
  for (const auto& output : group.outputs()) values.push_back(output.value);
  return values;
}

std::vector<const Node*> nodes_of(const Graph& group) {
  std::vector<const Node*> nodes;
  for (const auto& node : group.nodes()) nodes.push_back(node.get());
  return nodes;
}

Expected<std::vector<DomainOutput>> outputs_over(std::span<const Value* const> results,
                                                 const Shape& domain, std::string_view refusal) {
  std::vector<DomainOutput> outputs;
  for (const Value* result : results) {
    const auto over = output_over(result, domain);
    if (!over) return fail("{}", refusal);
    outputs.push_back(*over);
  }
  return outputs;
}

std::optional<StridedOperand> GroupLowering::strided_operand(const Value* value) const {
  for (const Value* input : group_.inputs()) {
    if (auto view = view_of(value, input)) {
      return StridedOperand{{Access::Memory::Param, elements_.param_of(input)}, std::move(*view)};
    }
  }
  for (const Value* output : read_back_) {
    if (auto view = view_of(value, output)) {
      return StridedOperand{output_params_.at(output), std::move(*view)};
    }
  }
  return std::nullopt;
}

GroupLowering::ReadBack::ReadBack(GroupLowering& owner, std::vector<const Value*> outputs)
    : owner_(owner) {
  assert(owner.read_back_.empty());
  owner.read_back_ = std::move(outputs);
  for (const Value* output : owner.read_back_) {
    owner.elements_.bind_param(output, owner.output_params_.at(output).target);
  }
}

GroupLowering::ReadBack::~ReadBack() {
  for (const Value* output : owner_.read_back_) owner_.elements_.unbind_param(output);
  owner_.read_back_.clear();
}

GroupLowering::GroupLowering(const Graph& group, const LowerOptions& options, std::string name)
    : group_(group),
      options_(options),
      program_(std::move(name), options.draft),
      math_(program_.exprs()),
      elements_(program_, math_, options.strict) {}

// Params are named by position: kernels that differ in nothing but the model's names are one
// kernel.
void GroupLowering::bind_params() {
  int position = 0;
  for (const Value* input : group_.inputs()) {
    const MemoryRef param =
        program_.input(fmt::format("x{}", position++), input->dtype(), input->shape());
    elements_.bind_param(input, param.target);
  }
  for (const auto& node : group_.nodes()) {
    if (node->op() != "constant" || node->result()->type().num_elements() == Dim(1)) continue;
    const MemoryRef param = bind_constant(node->result(), fmt::format("x{}", position++));
    elements_.bind_param(node->result(), param.target);
    constants_.push_back({param.target, node->attributes().tensor("value")});
  }
  position = 0;
  for (const auto& output : group_.outputs()) {
    output_params_[output.value] = program_.output(fmt::format("y{}", position++),
                                                   output.value->dtype(), output.value->shape());
  }
}

MemoryRef GroupLowering::bind_constant(const Value* value, const std::string& name) {
  const auto packed = packed_.find(value);
  if (packed == packed_.end()) return program_.input(name, value->dtype(), value->shape());
  const auto& [columns, parts, pairs, stretches] = packed->second;
  Shape shape = value->shape();
  const Dim depth = shape[shape.size() - 2];
  const Dim panels = ceil_div(floor_div(shape.back(), Dim(parts)), Dim(columns / parts));
  shape.resize(shape.size() - 2);
  if (pairs) {
    shape.insert(shape.end(),
                 {panels, ceil_div(depth, Dim(kMatrixDepth)) * (kMatrixDepth / 2), 2 * columns});
  } else {
    shape.insert(shape.end(), {panels, depth, columns});
  }
  return program_.packed_input(name, value->dtype(), shape, columns, false, parts, pairs,
                               stretches);
}

Expr GroupLowering::grid(const std::string& name, const Dim& extent, std::int64_t step) {
  if (step == 1 && extent == Dim(1)) return math_.constant(0);
  const Expr variable = program_.grid(name, extent, step);
  math_.set_bound(variable, extent);
  return variable;
}

Status GroupLowering::serial(const std::string& name, const Dim& extent, const LoopBody& body) {
  return serial(name, math_.size(extent), extent, body);
}

Status GroupLowering::serial(const std::string& name, Expr extent, const Dim& bound,
                             const LoopBody& body) {
  return serial(name, extent, bound, 1, body);
}

Status GroupLowering::serial(const std::string& name, Expr extent, const Dim& bound,
                             std::int64_t step, const LoopBody& body) {
  Status status;
  program_.serial(name, extent, step, [&](Expr variable) {
    const ElementBuilder::Scope scope(elements_);
    math_.set_bound(variable, bound);
    status = body(variable);
  });
  return status;
}

Status GroupLowering::vector(const std::string& name, Expr extent, const Dim& bound, int unroll,
                             const LoopBody& body) {
  Status status;
  program_.vector(name, extent, {.unroll = unroll, .lanes = lanes()}, [&](Expr variable) {
    const ElementBuilder::Scope scope(elements_);
    math_.set_bound(variable, bound);
    status = body(variable);
  });
  return status;
}

Status GroupLowering::vector(const std::string& name, const Dim& extent, int unroll,
                             const LoopBody& body) {
  return vector(name, math_.size(extent), extent, unroll, body);
}

Status GroupLowering::chunked_vector(const std::string& name, const Dim& extent, std::int64_t chunk,
                                     int unroll, const LoopBody& body) {
  return chunked_vector(
      name, extent, chunk, unroll, [](const Body& inner) { return inner(); }, body);
}

Status GroupLowering::chunked_vector(const std::string& name, const Dim& extent, std::int64_t chunk,
                                     int unroll, const std::function<Status(const Body&)>& around,
                                     const LoopBody& body) {
  if (const auto constant = extent.constant(); constant && *constant <= chunk) {
    return around([&]() { return vector(name, extent, unroll, body); });
  }
  const Expr start = grid(name + "0", extent, chunk);
  const Expr count = program_.min(program_.sub(extent, start), chunk);
  return around([&]() {
    return vector(name, count, Dim(chunk), unroll, [&](Expr lane) {
      const Expr position = math_.add(start, lane);
      math_.set_bound(position, extent);
      return body(position);
    });
  });
}

Status GroupLowering::store(const DomainOutput& output, std::span<const Expr> index, Expr where) {
  OPWELD_TRY(const Expr value, where == kNoExpr
                                   ? elements_.element(output.value, index)
                                   : elements_.element_where(where, output.value, index));
  OPWELD_TRY(Access place, place_in_output(output, index, where));
  const Expr past_caches = stores_past_caches_ ? exceeds_caches(output.output) : kNoExpr;
  program_.store(std::move(place), value, where, past_caches);
  return {};
}

Expr GroupLowering::exceeds_caches(const Value* output) {
  // What a kernel behind this one finds in the caches it reads sooner. A copy and a pass that reads
  // it took longer past caches of 2 MB a core on two cores for 16 MB, as long for 32, and less for
  // more (docs/inner-loops.md). Of a last-level cache other programs have their share.
  constexpr std::int64_t kManyCaches = 8;
  const Target& target = *options_.target;
  const std::int64_t limit =
      std::min(kManyCaches * target.l2_bytes * target.cores, target.l3_bytes);
  const Dim bytes = output->type().num_elements() * byte_size(output->dtype());
  ExprPool& exprs = program_.exprs();
  const auto known = bytes.constant();
  if (known && *known < limit) return kNoExpr;
  return exprs.binary(ExprKind::Le, math_.constant(limit), math_.size(bytes));
}

Index GroupLowering::ahead(std::span<const Expr> index, std::size_t axis, const Dim& size,
                           std::int64_t steps) {
  Index result(index.begin(), index.end());
  result[axis] = program_.min(program_.add(result[axis], math_.constant(steps)),
                              program_.sub(math_.size(size), math_.constant(1)));
  math_.set_bound(result[axis], size);
  return result;
}

Status GroupLowering::store_interleaved(const DomainOutput& output, std::span<const Expr> first,
                                        std::span<const Expr> second) {
  OPWELD_TRY(const Expr one, elements_.element(output.value, first));
  OPWELD_TRY(const Expr other, elements_.element(output.value, second));
  OPWELD_TRY(Access place, place_in_output(output, first, kNoExpr));
  program_.store_interleaved(std::move(place), one, other);
  return {};
}

Expected<Access> GroupLowering::place_in_output(const DomainOutput& output,
                                                std::span<const Expr> index, Expr where) {
  const MemoryRef param = output_params_.at(output.output);
  if (output.scatter != nullptr) {
    OPWELD_TRY(const Expr place, scattered_offset(*this, output, index, where));
    return program_.at_offset(param, place);
  }
  if (output.value == output.output) {
    const std::vector<IndexValue> place(index.begin(), index.end());
    const auto offset = math_.undivided_offset(index, output.value->shape());
    return offset ? program_.at_offset(param, *offset) : program_.at(param, place);
  }
  Expr offset = math_.size(output.view.offset);
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    offset = math_.add(offset, math_.mul(index[axis], output.view.strides[axis]));
  }
  return program_.at_offset(param, offset);
}

LoweredKernel GroupLowering::finish() {
  LoweredKernel kernel;
  kernel.program = program_.finish();
  kernel.constants = std::move(constants_);
  return kernel;
}

}  // namespace opweld::tile
