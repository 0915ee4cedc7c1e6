// Groups with reductions: what is computed in which pass over the reduced axes.
//
// All reductions of the group run over the same axes of the same shape, the domain. A reduction
// that needs another's result (the variance needs the mean) needs a pass of its own, so every value
// has a level: the number of passes that must have ended before it can be computed. Norms and
// softmax are three levels; the last one only stores.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "support/pointer_map.h"
#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

class StagedReduction {
 public:
  // Fails with the reason when the group is not of this form.
  static Expected<StagedReduction> analyze(const Graph& group);
  // Of part of a group: `results` are wanted, and what other nodes make is there from the first.
  static Expected<StagedReduction> analyze(std::span<const Node* const> nodes,
                                           std::span<const Value* const> results);

  [[nodiscard]] const Shape& domain() const { return domain_; }
  [[nodiscard]] bool is_reduced(std::size_t axis) const { return reduced_[axis]; }

  // How the schedule walks the reduced axes: opens its loops, calls `body` with the complete domain
  // index and the variable of the outermost of those loops.
  using ColumnBody = std::function<Status(std::span<const Expr> index, Expr outermost)>;
  using Columns = std::function<Status(const ColumnBody& body)>;

  struct Options {
    // Values needed by a later pass and dear to compute again stay in on-chip buffers.
    bool keep_rows = false;
    // A later pass fetches what the first pass over the next row will load: a row is on its way
    // from memory while this one is computed, not waited for between the two.
    bool prefetch = false;
    // Outputs are stored where this holds; absent: everywhere.
    Expr where = kNoExpr;
    // Stores an element of a result of the domain's shape; absent: into the output's param.
    std::function<Status(const DomainOutput& output, std::span<const Expr> index)> store = {};
  };
  // Emits all passes for the row at `row_index` (domain rank; entries of reduced axes are ignored).
  Status emit(GroupLowering& lowering, std::span<const Expr> row_index, const Columns& columns,
              const Options& options);

 private:
  // What is stored once for each row: a number, or a few of them side by side.
  struct RowOutput {
    DomainOutput output;
    bool keeps_axes;
    std::int64_t columns = 1;  // with axes kept, on the last one
  };

  int level(const Value* value);
  Status add_reduction(const Node& node);
  Status classify(std::span<const Value* const> results);
  std::optional<RowOutput> few_columns_of_rows(const Value* result) const;
  // Of the domain's shape, by that pass.
  std::vector<const Value*> computed_by(int stage) const;
  // Values computed by pass `stage` that a later pass reads again and that cost more than a load.
  std::vector<const Value*> values_to_keep(int stage) const;
  void collect_computed(const Value* value, int stage, std::vector<const Value*>& found) const;
  double recompute_cost(const Value* value) const;
  double computed_recompute_cost(const Value* value) const;
  [[nodiscard]] Shape row_shape(bool keeps_axes) const;
  [[nodiscard]] Index row_only(std::span<const Expr> index, bool keeps_axes) const;
  // Whether the value is made by one of the nodes that are staged.
  [[nodiscard]] bool is_staged(const Value* value) const {
    return value->producer() != nullptr && nodes_.contains(value->producer());
  }
  Status emit_pass(GroupLowering& lowering, int stage, std::span<const Expr> row_index,
                   const Columns& columns, const Options& options);
  [[nodiscard]] int fetching_pass() const;
  Status prefetch_next_row(GroupLowering& lowering, std::span<const Expr> index);
  void define_result(GroupLowering& lowering, const Node& node, Expr total,
                     std::span<const Expr> row_index);
  void define_kept(GroupLowering& lowering, const Value* value, MemoryRef buffer,
                   std::span<const Expr> row_index);

  Shape domain_;
  std::vector<bool> reduced_;
  PointerMap<Node, bool> nodes_;  // true of all
  std::vector<const Node*> reductions_;
  std::vector<DomainOutput> full_outputs_;
  std::vector<RowOutput> row_outputs_;
  PointerMap<Value, int> levels_;
  mutable PointerMap<Value, double> recompute_costs_;  // those that are known
  int last_level_ = 0;
};

// Opens a serial loop over each reduced axis of [axis, end) and calls `body` inside, with the
// outermost loop variable there is: `outermost`, or that of the first loop opened here.
Status walk_reduced(GroupLowering& lowering, const StagedReduction& stages, Index& index,
                    std::size_t axis, std::size_t end, Expr outermost,
                    const StagedReduction::ColumnBody& body);

// The columns of a row where the last axis is reduced: serial loops over the other reduced axes, a
// vector loop over the last. `row` is a domain index, of which entries of reduced axes are written.
StagedReduction::Columns row_columns(GroupLowering& lowering, const StagedReduction& stages,
                                     const Index& row);

}  // namespace opweld::tile
