#include "tile/schedules/staged_reduction.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <set>

#include "ops/few_elements.h"
#include "ops/op.h"
#include "tile/schedules/reduction_recipe.h"
#include "tile/schedules/scattered_output.h"

namespace opweld::tile {

namespace {

// Whether an element takes an instruction or so.
bool is_cheap(const Node& node) {
  static const std::set<std::string, std::less<>> kCheap = {
      "add", "sub",    "mul",  "neg",     "abs",       "min",    "max",  "eq", "ne", "lt",
      "le",  "select", "cast", "reshape", "transpose", "expand", "relu", "gt", "ge"};
  return kCheap.contains(node.op());
}

}  // namespace

int StagedReduction::level(const Value* value) {
  if (const int* const found = levels_.find(value)) return *found;
  int result = 0;
  if (is_staged(value)) {
    const Node* node = value->producer();
    for (const Value* operand : node->operands()) {
      if (operand != nullptr) result = std::max(result, level(operand));
    }
    if (is_staged_reduction(*node)) ++result;
  }
  levels_[value] = result;
  last_level_ = std::max(last_level_, result);
  return result;
}

Status StagedReduction::add_reduction(const Node& node) {
  const Value* operand = node.operand(0);
  if (reductions_.empty()) {
    domain_ = operand->shape();
    reduced_ = reduced_axes(node);
    if (std::find(reduced_.begin(), reduced_.end(), true) == reduced_.end()) {
      return fail("{} reduces no axis", node.op());
    }
  }
  if (!(operand->shape() == domain_) || reduced_axes(node) != reduced_) {
    return fail("its reductions run over different axes or shapes");
  }
  reductions_.push_back(&node);
  return {};
}

Shape StagedReduction::row_shape(bool keeps_axes) const {
  Shape shape;
  for (std::size_t axis = 0; axis < domain_.size(); ++axis) {
    if (!reduced_[axis]) shape.push_back(domain_[axis]);
    if (reduced_[axis] && keeps_axes) shape.push_back(1);
  }
  return shape;
}

Index StagedReduction::row_only(std::span<const Expr> index, bool keeps_axes) const {
  Index result;
  for (std::size_t axis = 0; axis < domain_.size(); ++axis) {
    if (!reduced_[axis] || keeps_axes) result.push_back(index[axis]);
  }
  return result;
}

Status StagedReduction::classify(std::span<const Value* const> results) {
  for (const Value* result : results) {
    if (const auto full = output_over(result, domain_)) {
      full_outputs_.push_back(*full);
    } else if (const auto kept = output_over(result, row_shape(true))) {
      row_outputs_.push_back({*kept, true});
    } else if (const auto dropped = output_over(result, row_shape(false))) {
      row_outputs_.push_back({*dropped, false});
    } else if (const auto few = few_columns_of_rows(result)) {
      row_outputs_.push_back(*few);
    } else {
      return fail("an output has neither the shape of the reduced tensor nor of its rows");
    }
  }
  return {};
}

// A few columns where a row was reduced, as those of a choice: computed one by one behind all
// passes.
std::optional<StagedReduction::RowOutput> StagedReduction::few_columns_of_rows(
    const Value* result) const {
  if (std::ranges::count(reduced_, true) != 1 || !reduced_.back()) return std::nullopt;
  for (std::int64_t columns = 2; columns <= kFewElements; ++columns) {
    Shape shape = row_shape(true);
    shape.back() = columns;
    if (const auto over = output_over(result, shape)) return RowOutput{*over, true, columns};
  }
  return std::nullopt;
}

Expected<StagedReduction> StagedReduction::analyze(const Graph& group) {
  return analyze(nodes_of(group), outputs_of(group));
}

Expected<StagedReduction> StagedReduction::analyze(std::span<const Node* const> nodes,
                                                   std::span<const Value* const> results) {
  StagedReduction stages;
  for (const Node* node : nodes) {
    if (is_staged_reduction(*node)) {
      OPWELD_CHECK(stages.add_reduction(*node));
    } else if (!has_element_form(*node) && !is_store(*node) && node->op() != "constant") {
      return fail("operator '{}' has no element form", node->op());
    }
    stages.nodes_[node] = true;
  }
  if (stages.reductions_.empty()) return fail("it has no reduction");
  OPWELD_CHECK(stages.classify(results));
  for (const Value* result : results) stages.level(result);
  for (const Node* node : stages.reductions_) stages.level(node->result());
  return stages;
}

// In loads: a value that costs no more than about one is computed again rather than kept.
double StagedReduction::recompute_cost(const Value* value) const {
  // Once for each value: what is read twice, all the way up, would double the work at every step.
  if (const double* const known = recompute_costs_.find(value)) return *known;
  const double cost = computed_recompute_cost(value);
  recompute_costs_[value] = cost;
  return cost;
}

double StagedReduction::computed_recompute_cost(const Value* value) const {
  constexpr double kCheapCost = 0.25;
  constexpr double kDearCost = 4;
  const Node* node = value->producer();
  if (!is_staged(value) || node->op() == "constant") {
    return value->type().num_elements() == Dim(1) ? 0 : 1;
  }
  if (is_staged_reduction(*node)) return 0;
  double cost = is_cheap(*node) ? kCheapCost : kDearCost;
  for (const Value* operand : node->operands()) {
    if (operand != nullptr) cost += recompute_cost(operand);
  }
  return cost;
}

void StagedReduction::collect_computed(const Value* value, int stage,
                                       std::vector<const Value*>& found) const {
  const Node* node = value->producer();
  if (levels_.at(value) != stage || !is_staged(value) || is_staged_reduction(*node)) return;
  if (std::find(found.begin(), found.end(), value) != found.end()) return;
  found.push_back(value);
  for (const Value* operand : node->operands()) {
    if (operand != nullptr) collect_computed(operand, stage, found);
  }
}

std::vector<const Value*> StagedReduction::computed_by(int stage) const {
  std::vector<const Value*> computed;
  for (const Node* node : reductions_) collect_computed(node->operand(0), stage, computed);
  for (const DomainOutput& output : full_outputs_) collect_computed(output.value, stage, computed);
  std::erase_if(computed, [&](const Value* value) { return !(value->shape() == domain_); });
  return computed;
}

std::vector<const Value*> StagedReduction::values_to_keep(int stage) const {
  constexpr double kWorthKeeping = 1.6;
  std::vector<const Value*> kept;
  for (const Value* value : computed_by(stage)) {
    const bool read_later =
        std::any_of(value->uses().begin(), value->uses().end(), [&](const Use& use) {
          const int* const reader = levels_.find(use.node->result());
          return reader != nullptr && *reader > stage && !is_staged_reduction(*use.node);
        });
    if (read_later && recompute_cost(value) > kWorthKeeping) {
      kept.push_back(value);
    }
  }
  return kept;
}

void StagedReduction::define_result(GroupLowering& lowering, const Node& node, Expr total,
                                    std::span<const Expr> row_index) {
  Dim count = 1;
  for (std::size_t axis = 0; axis < domain_.size(); ++axis) {
    if (reduced_[axis]) count *= domain_[axis];
  }
  const Expr result = after_combining(lowering, node, total, count);
  const bool keeps_axes = keeps_dims(node);
  const Index expected = row_only(row_index, keeps_axes);
  std::vector<bool> compare;
  for (std::size_t axis = 0; axis < domain_.size(); ++axis) {
    if (!reduced_[axis]) compare.push_back(!(domain_[axis] == Dim(1)));
    if (reduced_[axis] && keeps_axes) compare.push_back(false);
  }
  lowering.elements().define(node.result(), [=](std::span<const Expr> index) {
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      if (compare[axis] && !(index[axis] == expected[axis])) return kNoExpr;
    }
    return result;
  });
}

void StagedReduction::define_kept(GroupLowering& lowering, const Value* value, MemoryRef buffer,
                                  std::span<const Expr> row_index) {
  const Index row(row_index.begin(), row_index.end());
  const std::vector<bool> reduced = reduced_;
  const Shape domain = domain_;
  ProgramBuilder* program = &lowering.program();
  lowering.elements().define(value, [=](std::span<const Expr> index) {
    std::vector<IndexValue> column;
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      if (reduced[axis]) {
        column.emplace_back(index[axis]);
      } else if (!(domain[axis] == Dim(1)) && !(index[axis] == row[axis])) {
        return kNoExpr;
      }
    }
    return program->load(program->at(buffer, column));
  });
}

// The pass that has most to compute while the next row comes: exponentials of a softmax, behind
// which the last pass stores as fast as memory takes it. Of equals the last: the row then is in the
// cache for the shortest time. Not the first, which still waits for the row it is at.
int StagedReduction::fetching_pass() const {
  int found = last_level_;
  std::ptrdiff_t most = 0;
  for (int stage = last_level_; stage > 0; --stage) {
    const auto dear = std::ranges::count_if(
        computed_by(stage), [](const Value* value) { return !is_cheap(*value->producer()); });
    if (dear > most) found = stage;
    most = std::max(most, dear);
  }
  return found;
}

Status StagedReduction::prefetch_next_row(GroupLowering& lowering, std::span<const Expr> index) {
  std::optional<std::size_t> axis;
  for (std::size_t i = 0; i < domain_.size(); ++i) {
    if (!reduced_[i] && !(domain_[i] == Dim(1))) axis = i;
  }
  if (!axis) return {};
  const Index next = lowering.ahead(index, *axis, domain_[*axis], 1);
  for (const Node* node : reductions_) {
    if (levels_.at(node->operand(0)) > 0) continue;
    OPWELD_CHECK(lowering.elements().prefetch(node->operand(0), next, next.back(), next[*axis]));
  }
  return {};
}

Status StagedReduction::emit_pass(GroupLowering& lowering, int stage,
                                  std::span<const Expr> row_index, const Columns& columns,
                                  const Options& options) {
  ProgramBuilder& program = lowering.program();
  ExprPool& exprs = program.exprs();
  std::vector<const Node*> accumulated;
  for (const Node* node : reductions_) {
    if (levels_.at(node->operand(0)) == stage) accumulated.push_back(node);
  }
  std::vector<const DomainOutput*> stored;
  for (const DomainOutput& output : full_outputs_) {
    if (levels_.at(output.value) == stage) stored.push_back(&output);
  }
  if (accumulated.empty() && stored.empty()) return {};

  Shape column_shape;
  for (std::size_t axis = 0; axis < domain_.size(); ++axis) {
    if (reduced_[axis]) column_shape.push_back(domain_[axis]);
  }
  std::vector<std::pair<const Value*, MemoryRef>> kept;
  if (options.keep_rows) {
    for (const Value* value : values_to_keep(stage)) {
      kept.emplace_back(value, program.buffer("row", compute_dtype(value->dtype()), column_shape,
                                              Buffer::Space::Cache));
    }
  }
  std::vector<Expr> totals;
  OPWELD_CHECK(columns([&](std::span<const Expr> index, Expr outermost) -> Status {
    for (const auto& [value, buffer] : kept) {
      OPWELD_TRY(const Expr element, lowering.elements().element(value, index));
      std::vector<IndexValue> column;
      for (std::size_t axis = 0; axis < index.size(); ++axis) {
        if (reduced_[axis]) column.emplace_back(index[axis]);
      }
      program.store(program.at(buffer, column), element);
    }
    for (const DomainOutput* output : stored) {
      OPWELD_CHECK(options.store ? options.store(*output, index)
                                 : lowering.store(*output, index, options.where));
    }
    for (const Node* node : accumulated) {
      OPWELD_TRY(const Expr element, lowering.elements().element(node->operand(0), index));
      const Combiner combiner = combiner_of(*node);
      totals.push_back(
          is_arg_reduction(*node)
              ? program.arg_reduce(combiner, element, outermost, outermost)
              : program.reduce(combiner, before_combining(exprs, *node, element), outermost));
    }
    if (options.prefetch && stage == fetching_pass()) return prefetch_next_row(lowering, index);
    return {};
  }));
  for (std::size_t i = 0; i < accumulated.size(); ++i) {
    define_result(lowering, *accumulated[i], totals[i], row_index);
  }
  for (const auto& [value, buffer] : kept) define_kept(lowering, value, buffer, row_index);
  return {};
}

Status StagedReduction::emit(GroupLowering& lowering, std::span<const Expr> row_index,
                             const Columns& columns, const Options& options) {
  for (int stage = 0; stage <= last_level_; ++stage) {
    OPWELD_CHECK(emit_pass(lowering, stage, row_index, columns, options));
  }
  for (const RowOutput& row : row_outputs_) {
    Index index = row_only(row_index, row.keeps_axes);
    const Shape shape = row_shape(row.keeps_axes);
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      if (shape[axis] == Dim(1)) index[axis] = lowering.math().constant(0);
    }
    for (std::int64_t column = 0; column < row.columns; ++column) {
      if (row.columns > 1) index.back() = lowering.math().constant(column);
      OPWELD_CHECK(lowering.store(row.output, index, options.where));
    }
  }
  return {};
}

Status walk_reduced(GroupLowering& lowering, const StagedReduction& stages, Index& index,
                    std::size_t axis, std::size_t end, Expr outermost,
                    const StagedReduction::ColumnBody& body) {
  while (axis < end && !stages.is_reduced(axis)) ++axis;
  if (axis == end) return body(index, outermost);
  return lowering.serial(fmt::format("k{}", axis), stages.domain()[axis], [&](Expr position) {
    index[axis] = position;
    return walk_reduced(lowering, stages, index, axis + 1, end,
                        outermost == kNoExpr ? position : outermost, body);
  });
}

StagedReduction::Columns row_columns(GroupLowering& lowering, const StagedReduction& stages,
                                     const Index& row) {
  // Accumulators in flight: enough to hide the latency of an addition. Fixed, since it decides the
  // order in which elements are added.
  constexpr int kAccumulators = 4;
  return [&lowering, &stages, index = row](const StagedReduction::ColumnBody& body) mutable {
    const std::size_t last = stages.domain().size() - 1;
    const auto over_last = [&](std::span<const Expr>, Expr outermost) {
      return lowering.vector("j", stages.domain()[last], kAccumulators, [&](Expr position) {
        index[last] = position;
        return body(index, outermost == kNoExpr ? position : outermost);
      });
    };
    return walk_reduced(lowering, stages, index, 0, last, kNoExpr, over_last);
  };
}

}  // namespace opweld::tile
