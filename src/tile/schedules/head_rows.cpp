#include "tile/schedules/head_rows.h"

#include <algorithm>
#include <map>
#include <set>

#include "ops/op.h"
#include "tile/schedules/chain_stages.h"
#include "tile/schedules/contract_task.h"
#include "tile/schedules/reduction_recipe.h"
#include "tile/schedules/scattered_output.h"

namespace opweld::tile {

bool reduces_heads(const Node& reduction, const Value& matmul_result) {
  const Value& operand = *reduction.operand(0);
  if (operand.rank() < 1 || operand.shape().back() == matmul_result.shape().back()) return false;
  return operand.rank() != matmul_result.rank() ||
         merged_rows(operand.shape()) != merged_rows(matmul_result.shape());
}

namespace {

// More parts of a head are gone through as one, each lane reading the part that it falls into.
constexpr std::size_t kMostCuts = 8;

class HeadRowsFinder {
 public:
  HeadRowsFinder(std::span<const Node* const> nodes, const Contraction& contraction)
      : nodes_(nodes), product_(contraction.result) {
    made_.insert(product_);
    for (const Node* node : nodes) {
      const auto& operands = node->operands();
      if (node == contraction.node) continue;
      if (std::ranges::any_of(operands, [&](const Value* each) { return made_.contains(each); })) {
        made_.insert(node->result());
      }
    }
  }

  Expected<HeadRows> run(std::span<const Value* const> results, std::vector<DomainOutput>& whole) {
    for (const Value* result : results) {
      auto output = output_over(result, product_->shape());
      if (output && reductions_of(output->value).empty()) {
        whole.push_back(std::move(*output));
      } else {
        OPWELD_CHECK(add(result));
      }
    }
    if (heads_.head == 0) return fail("none of its outputs is made of heads that are reduced");
    for (std::size_t i = 0; i < heads_.segments.size(); ++i) OPWELD_CHECK(complete(i));
    return std::move(heads_);
  }

 private:
  // What lies behind a segment's columns, each with the views that lead there.
  using Paths = std::map<const Value*, std::vector<const Node*>>;

  // The nodes between the product and the value, which is made of it.
  std::set<const Node*> nodes_of(const Value* value) const {
    std::set<const Node*> found;
    std::vector<const Value*> pending = {value};
    while (!pending.empty()) {
      const Value* const next = pending.back();
      pending.pop_back();
      const Node* const node = next->producer();
      if (next == product_ || node == nullptr) continue;
      if (std::ranges::find(nodes_, node) == nodes_.end() || !found.insert(node).second) continue;
      for (const Value* operand : node->operands()) {
        if (operand != nullptr) pending.push_back(operand);
      }
    }
    return found;
  }

  std::vector<const Node*> reductions_of(const Value* value) const {
    std::vector<const Node*> found;
    const auto needed = nodes_of(value);
    for (const Node* node : nodes_) {
      const bool reduces = needed.contains(node) && is_staged_reduction(*node);
      if (reduces && made_.contains(node->result())) found.push_back(node);
    }
    return found;
  }

  // The view of columns by which the result is made of the product.
  Expected<const Node*> entry_of(const std::set<const Node*>& needed) const {
    const Node* entry = nullptr;
    for (const Node* node : nodes_) {
      if (!needed.contains(node) || (node->op() != "slice" && node->op() != "reshape")) continue;
      const Value* const operand = node->operand(0);
      if (operand->shape() != product_->shape() || !made_.contains(operand)) continue;
      if (!reductions_of(operand).empty()) continue;
      if (node->op() == "slice" && !takes_columns(*node)) continue;
      if (entry != nullptr)
        return fail("an output is made of several parts of the matmul's result");
      entry = node;
    }
    if (entry == nullptr) return fail("{}", kNotOverResult);
    return entry;
  }

  // What is made of the columns by views and pointwise operators alone, among the needed nodes.
  Paths paths_from(const Node& entry, const std::set<const Node*>& needed) const {
    Paths paths;
    paths[entry.result()] = {&entry};
    std::vector<const Value*> pending = {entry.result()};
    while (!pending.empty()) {
      const Value* const value = pending.back();
      pending.pop_back();
      for (const Use& use : value->uses()) {
        const Node& node = *use.node;
        if (!needed.contains(&node) || paths.contains(node.result())) continue;
        std::vector<const Node*> views = paths.at(value);
        if (node.op() == "reshape" || node.op() == "transpose") {
          views.push_back(&node);
        } else if (op_def(node).trait != FusionTrait::Pointwise ||
                   node.result()->shape() != value->shape()) {
          continue;
        }
        paths.emplace(node.result(), std::move(views));
        pending.push_back(node.result());
      }
    }
    return paths;
  }

  Status add(const Value* result) {
    const auto needed = nodes_of(computed_for(result));
    OPWELD_TRY(const Node* const entry, entry_of(needed));
    const Paths paths = paths_from(*entry, needed);
    // Behind as many views as there are: whatever takes a head apart comes behind them.
    const Value* over = nullptr;
    for (const auto& [value, views] : paths) {
      if (over != nullptr && views.size() <= paths.at(over).size()) continue;
      if (output_over(result, value->shape())) over = value;
    }
    if (over == nullptr) return fail("{}", kNotOverResult);
    HeadRows::Segment& segment = segment_of(*entry);
    for (const Node* reduction : reductions_of(computed_for(result))) {
      OPWELD_CHECK(add_reduction(segment, *reduction, paths));
    }
    HeadSegment place{.views = paths.at(over), .head_axis = {}, .outputs = {}};
    place.head_axis = head_axis_of(place.views);
    place.outputs.push_back(*output_over(result, over->shape()));
    segment.results.push_back({std::move(place), {}});
    return {};
  }

  HeadRows::Segment& segment_of(const Node& entry) {
    const auto found = std::ranges::find_if(heads_.segments, [&](const HeadRows::Segment& segment) {
      return segment.columns.views.front() == &entry;
    });
    if (found != heads_.segments.end()) return *found;
    HeadSegment columns{.views = {&entry}, .head_axis = {}, .outputs = {}};
    return heads_.segments.emplace_back(HeadRows::Segment{std::move(columns), std::nullopt, {}});
  }

  Status add_reduction(HeadRows::Segment& segment, const Node& reduction, const Paths& paths) {
    const auto path = paths.find(reduction.operand(0));
    if (path == paths.end()) return fail("what is reduced is not a head's elements");
    const Shape& shape = reduction.operand(0)->shape();
    std::vector<bool> reduced = reduced_axes(reduction);
    const std::int64_t head = shape.back().constant().value_or(0);
    const bool last_alone = reduced.back() && std::ranges::count(reduced, true) == 1;
    if (!last_alone || head < 1 || head_axis_of(path->second) != shape.size() - 1) {
      return fail("it reduces other axes than a head's");
    }
    if (heads_.head != 0 && heads_.head != head) {
      return fail("heads of {} columns stand beside heads of {}", head, heads_.head);
    }
    heads_.head = head;
    std::vector<const Node*>& views = segment.columns.views;
    if (views.size() > 1 && views != path->second) {
      return fail("its reductions see a head in different places");
    }
    views = path->second;
    return {};
  }

  Status complete(std::size_t index) {
    HeadRows::Segment& segment = heads_.segments[index];
    const Dim head(heads_.head);
    if (!segment.columns.first().divisible_by(heads_.head) ||
        !segment.columns.columns().divisible_by(heads_.head)) {
      return fail("columns {} to {} do not make heads of {}", segment.columns.first(),
                  segment.columns.first() + segment.columns.columns(), head);
    }
    std::set<const Node*> needed;
    for (HeadRows::Result& result : segment.results) {
      const std::int64_t own = head_of(result.place.views);
      if (own != 0 && own != heads_.head) {
        return fail("heads of {} columns stand beside heads of {}", own, heads_.head);
      }
      const auto of_result = nodes_of(computed_for(result.place.outputs.front().output));
      result.cuts = cuts_of(result.place, of_result);
      needed.insert(of_result.begin(), of_result.end());
    }
    std::vector<const Node*> staged;
    bool any_reduced = false;
    for (const Node* node : nodes_) {
      if (!needed.contains(node)) continue;
      staged.push_back(node);
      any_reduced = any_reduced || is_staged_reduction(*node);
    }
    if (!any_reduced) return {};
    OPWELD_TRY(segment.passes, StagedReduction::analyze(staged, {}));
    return {};
  }

  // Where what is joined along the head begins and ends, be it joined of what was joined before.
  std::vector<std::int64_t> cuts_of(const HeadSegment& place,
                                    const std::set<const Node*>& needed) const {
    std::set<std::int64_t> cuts = {0, heads_.head};
    if (place.head_axis) {
      std::set<const Value*> seen;
      add_cuts(place.outputs.front().value, *place.head_axis, 0, needed, seen, cuts);
    }
    if (cuts.size() > kMostCuts) return {0, heads_.head};
    return {cuts.begin(), cuts.end()};
  }

  // Of a value whose first element on the axis is the head's element `start`.
  void add_cuts(const Value* value, std::size_t axis, std::int64_t start,
                const std::set<const Node*>& needed, std::set<const Value*>& seen,
                std::set<std::int64_t>& cuts) const {
    const Node* const node = value->producer();
    if (node == nullptr || !needed.contains(node) || !seen.insert(value).second) return;
    if (node->op() == "concat") {
      const std::int64_t given = node->attributes().integer("axis");
      const std::int64_t joined = given < 0 ? given + value->rank() : given;
      if (joined != static_cast<std::int64_t>(axis)) return;
      std::int64_t end = start;
      for (const Value* part : node->operands()) {
        add_cuts(part, axis, end, needed, seen, cuts);
        end += part->shape()[axis].constant().value_or(0);
        cuts.insert(std::min(end, heads_.head));
      }
    } else if (op_def(*node).trait == FusionTrait::Pointwise) {
      for (const Value* operand : node->operands()) {
        if (operand == nullptr || operand->shape() != value->shape()) continue;
        add_cuts(operand, axis, start, needed, seen, cuts);
      }
    }
  }

  std::span<const Node* const> nodes_;
  const Value* product_;
  std::set<const Value*> made_;  // of the product
  HeadRows heads_;
};

class HeadRowsEmitter {
 public:
  HeadRowsEmitter(GroupLowering& lowering, const Contraction& contraction, const HeadRows& heads,
                  HeldValues& held, const HeadBlock& block)
      : lowering_(lowering),
        program_(lowering.program()),
        math_(lowering.math()),
        contraction_(contraction),
        heads_(heads),
        head_(heads.head),
        held_(held),
        block_(block) {}

  Status emit() {
    const Expr count = math_.div(block_.column_count, head_);
    return lowering_.serial(
        "h", count, floor_div(Dim(block_.columns), head_), [&](Expr h) -> Status {
          in_block_ = h;
          // By a name of its own, so that a head is one variable to index arithmetic.
          of_all_ = program_.map(math_.add(math_.div(block_.column0, head_), h), "head");
          for (const HeadRows::Segment& segment : heads_.segments) {
            OPWELD_CHECK(emit_segment(segment));
          }
          return {};
        });
  }

 private:
  // For the head, if it is one of the segment.
  Status emit_segment(const HeadRows::Segment& segment) {
    const Dim first = floor_div(segment.columns.first(), head_);
    const Dim count = floor_div(segment.columns.columns(), head_);
    const auto emit_head = [&]() -> Status {
      const IndexMath::Scope bounds(math_);
      const Expr head = count == Dim(1) ? math_.constant(0) : math_.sub(of_all_, math_.size(first));
      math_.set_bound(head, count);
      return lowering_.serial("i", block_.row_count, Dim(block_.rows), [&](Expr i) {
        return emit_row(segment, i, head, math_.add(head, math_.size(first)));
      });
    };
    if (segment.columns.has_all_columns()) return emit_head();
    ExprPool& exprs = program_.exprs();
    const Expr belongs =
        exprs.binary(ExprKind::And, exprs.binary(ExprKind::Le, math_.size(first), of_all_),
                     exprs.binary(ExprKind::Lt, of_all_, math_.size(first + count)));
    Status status;
    program_.when(belongs, [&] {
      const ElementBuilder::Scope scope(lowering_.elements());
      status = emit_head();
    });
    return status;
  }

  // Row i of the task's, of head `head` of the segment, which is `of_result` of the result.
  Status emit_row(const HeadRows::Segment& segment, Expr i, Expr head, Expr of_result) {
    const Expr m = math_.add(block_.row0, i);
    math_.set_bound(m, contraction_.rows);
    held_.at_row(m, i);
    const Shape& shape = contraction_.result->shape();
    Index row = merged_index(math_, shape, m, math_.constant(0));
    for (std::size_t axis = 0; axis + 1 < row.size(); ++axis) {
      if (shape[axis] == Dim(1)) row[axis] = math_.constant(0);
    }
    define_products(segment.columns, row, i, of_result);
    const Expr first = math_.mul(head, head_);
    if (segment.passes) {
      StagedReduction passes = *segment.passes;
      const Index reduced = index_behind(math_, segment.columns, row, first);
      OPWELD_CHECK(passes.emit(lowering_, reduced, row_columns(lowering_, passes, reduced), {}));
    }
    for (const HeadRows::Result& result : segment.results) {
      for (std::size_t cut = 0; cut + 1 < result.cuts.size(); ++cut) {
        const Expr start = math_.constant(result.cuts[cut]);
        const Dim length(result.cuts[cut + 1] - result.cuts[cut]);
        OPWELD_CHECK(lowering_.vector("j", length, 1, [&](Expr lane) {
          const Expr element = math_.add(lane, start);
          const Index place = index_behind(math_, result.place, row, math_.add(first, element));
          return lowering_.store(result.place.outputs.front(), place);
        }));
      }
    }
    return {};
  }

  // The products of the row and head that are gone through now.
  void define_products(const HeadSegment& columns, const Index& row, Expr i, Expr head) {
    const Dim first = columns.first();
    const bool is_only_head = columns.columns() == head_;
    lowering_.elements().define(contraction_.result, [=, this](std::span<const Expr> asked) {
      for (std::size_t axis = 0; axis + 1 < row.size(); ++axis) {
        const bool is_single = contraction_.result->shape()[axis] == Dim(1);
        if (!is_single && asked[axis] != row[axis]) return kNoExpr;
      }
      const auto element =
          is_only_head ? within_only_head(asked.back(), first) : within_head(asked.back(), head);
      if (!element) return kNoExpr;
      const Expr column = math_.add(math_.mul(in_block_, head_), *element);
      return program_.load(program_.at(block_.memory, {i, column}));
    });
  }

  // Where in the head a column of the result is; absent if it is not in that head for certain.
  std::optional<Expr> within_head(Expr column, Expr head) {
    return math_.div(column, head_) == head ? std::optional(math_.mod(column, head_))
                                            : std::nullopt;
  }
  // The same of a segment that is one head: no term of the column tells which head it is in.
  std::optional<Expr> within_only_head(Expr column, const Dim& first) {
    const auto element = math_.past(column, first);
    return element && math_.below(*element, head_) ? element : std::nullopt;
  }

  GroupLowering& lowering_;
  ProgramBuilder& program_;
  IndexMath& math_;
  const Contraction& contraction_;
  const HeadRows& heads_;
  Dim head_;
  HeldValues& held_;
  HeadBlock block_;
  Expr in_block_ = kNoExpr;  // the head that is gone through now, of the block's
  Expr of_all_ = kNoExpr;    // and of all the matmul's
};

}  // namespace

Expected<HeadRows> find_head_rows(std::span<const Node* const> nodes,
                                  std::span<const Value* const> results, Contraction& contraction) {
  const auto columns = contraction.columns.constant();
  if (contraction.b->rank() != 2 || contraction.grouped || !columns) {
    return fail("{}", kNotOverResult);
  }
  std::vector<DomainOutput> whole;
  OPWELD_TRY(HeadRows heads, HeadRowsFinder(nodes, contraction).run(results, whole));
  if (*columns % heads.head != 0) {
    return fail("{} columns do not make heads of {}", *columns, heads.head);
  }
  const bool is_wanted = std::ranges::any_of(
      whole, [&](const DomainOutput& each) { return each.output == contraction.result; });
  if (!is_wanted) {
    whole.push_back(*output_over(contraction.result, contraction.result->shape()));
  }
  contraction.outputs = std::move(whole);
  return heads;
}

Status emit_head_rows(GroupLowering& lowering, const Contraction& contraction,
                      const HeadRows& heads, HeldValues& held, const HeadBlock& block) {
  return HeadRowsEmitter(lowering, contraction, heads, held, block).emit();
}

}  // namespace opweld::tile
