#include "tile/schedules/collected_rows.h"

#include <algorithm>
#include <set>

#include "tile/schedules/contract_task.h"
#include "tile/schedules/scattered_output.h"

namespace opweld::tile {

namespace {

class Finder {
 public:
  Expected<RowCollection> run(const Graph& group, std::span<const Value* const> outputs) {
    for (const auto& node : group.nodes()) OPWELD_CHECK(look_at(*node));
    for (const Value* output : outputs) {
      if (!behind_.contains(output)) {
        found_.wanted.push_back(output);
        continue;
      }
      OPWELD_CHECK(check_columns(*output));
      found_.outputs.push_back(output);
    }
    if (!found_.collects()) return std::move(found_);
    if (found_.outputs.empty()) return fail("nothing reads the rows that it looks up");
    if (std::ranges::find(found_.wanted, found_.rows) != found_.wanted.end()) {
      return fail("rows that are looked up are stored as well");
    }
    found_.wanted.push_back(found_.rows);
    return std::move(found_);
  }

 private:
  Status look_at(const Node& node) {
    const auto reads = [&](const std::set<const Value*>& values) {
      return std::ranges::any_of(node.operands(),
                                 [&](const Value* operand) { return values.contains(operand); });
    };
    if (looks_up(node)) {
      if (found_.rows != nullptr && found_.rows != node.operand(0)) {
        return fail("it looks up rows of two results");
      }
      if (products_.contains(node.operand(1)) || behind_.contains(node.operand(1))) {
        return fail("it looks up rows by what it computes of them");
      }
      found_.rows = node.operand(0);
    } else if (!reads(behind_)) {
      found_.before.push_back(&node);
      const bool is_grouped = node.op() == "grouped_matmul";
      if (!is_grouped && !reads(products_)) return {};
      for (int i = 0; i < node.num_results(); ++i) products_.insert(node.result(i));
      return {};
    } else if (!has_element_form(node)) {
      return fail("{} goes on from rows that are looked up", node.op());
    }
    found_.nodes.push_back(&node);
    behind_.insert(node.result());
    return {};
  }

  // Rows of what a grouped matmul made.
  [[nodiscard]] bool looks_up(const Node& node) const {
    return node.op() == "gather" && node.attributes().integer("axis") == 0 &&
           node.operand(0)->rank() == 2 && products_.contains(node.operand(0));
  }

  // Tasks have some of its columns.
  Status check_columns(const Value& output) const {
    if (computed_for(&output) != &output) {
      return fail("rows that are looked up are stored in a cache");
    }
    if (output.rank() < 1 || output.shape().back() != found_.rows->shape().back()) {
      return fail("an output does not have the columns of the rows that are looked up");
    }
    return {};
  }

  RowCollection found_;
  std::set<const Value*> products_;  // made of a grouped matmul
  std::set<const Value*> behind_;    // and of rows that are looked up
};

}  // namespace

Expected<RowCollection> find_row_collection(const Graph& group,
                                            std::span<const Value* const> outputs) {
  return Finder().run(group, outputs);
}

CollectedRows::CollectedRows(GroupLowering& lowering, RowCollection found, const Dim& blocks)
    : lowering_(lowering), found_(std::move(found)) {
  ProgramBuilder& program = lowering.program();
  shared_ = program.shared("d", found_.rows->dtype(), found_.rows->shape());
  counter_ = program.counter("arrived", {blocks});
}

Status CollectedRows::store(const DomainOutput& output, std::span<const Expr> index, Expr inside) {
  if (output.value != output.output || output.scatter != nullptr) {
    return fail("rows are looked up in another order than they are computed");
  }
  ElementBuilder& elements = lowering_.elements();
  OPWELD_TRY(const Expr element, inside == kNoExpr
                                     ? elements.element(output.value, index)
                                     : elements.element_where(inside, output.value, index));
  ProgramBuilder& program = lowering_.program();
  program.store(program.at(shared_, {index[0], index[1]}), element, inside);
  return {};
}

Status CollectedRows::collect(const Columns& place, const Dim& tasks) {
  ProgramBuilder& program = lowering_.program();
  const Expr last = program.arrive(program.at(counter_, {place.block}), tasks);
  Status status;
  program.when(last, [&] {
    const ElementBuilder::Scope scope(lowering_.elements());
    // What a tile had at hand is gone. Of other columns other tasks may have rows to come.
    lowering_.elements().define(found_.rows, [this](std::span<const Expr> index) {
      ProgramBuilder& builder = lowering_.program();
      if (!(index[1] == column_)) return kNoExpr;
      return builder.load(builder.at(shared_, {index[0], index[1]}));
    });
    status = store_outputs(place);
    lowering_.elements().undefine(found_.rows);
  });
  return status;
}

Status CollectedRows::store_outputs(const Columns& place) {
  IndexMath& math = lowering_.math();
  const Dim& all_columns = found_.rows->shape().back();
  for (const Value* output : found_.outputs) {
    const Shape& shape = output->shape();
    const Dim rows = num_elements(Shape(shape.begin(), shape.end() - 1));
    const DomainOutput whole{output, output, StridedView::contiguous(shape)};
    OPWELD_CHECK(lowering_.serial("t", rows, [&](Expr row) {
      return lowering_.vector("j", place.columns, place.width, 2, [&](Expr j) {
        column_ = math.add(place.column0, j);
        math.set_bound(column_, all_columns);
        if (all_columns == Dim(1)) column_ = math.constant(0);
        return lowering_.store(whole, merged_index(math, shape, row, column_));
      });
    }));
  }
  return {};
}

}  // namespace opweld::tile
