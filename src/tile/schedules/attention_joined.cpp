// Keys and values that grow from run to run by a concat: the attention stores past and new rows, as
// one tensor, on its way.
//
// Tasks share rows out by number, not by what their queries see of them: a row that lengths, causal
// or the window hide is part of the tensor all the same. Where keys are split among tasks, a task
// stores the rows of its own chunk and then reads them where it stored them, while they are in its
// caches; past and new rows come from memory once. Where tasks are queries, which all read all
// keys, each stores an equal share, and packs what it reads, from past or new rows, block by block.
#include <algorithm>

#include "tile/schedules/attention_task.h"

namespace opweld::tile {

namespace {

constexpr std::size_t kRowAxis = 2;

}  // namespace

bool JoinedRows::is_output() const {
  return std::ranges::any_of(outputs,
                             [this](const DomainOutput& output) { return output.output == value; });
}

Expected<std::vector<JoinedRows>> find_joined_rows(const Graph& group, const Attention& attention) {
  std::vector<JoinedRows> found;
  for (const auto& node : group.nodes()) {
    if (node->op() != "concat") continue;
    JoinedRows joined{node->result(), {}};
    if (joined.value != attention.k && joined.value != attention.v) {
      return fail("it joins what is neither the keys nor the values of the attention");
    }
    const std::int64_t axis = node->attributes().integer("axis");
    if (attention.block_table != nullptr || (axis != kRowAxis && axis != -2)) {
      return fail("it joins keys or values, but not rows of them");
    }
    for (const auto& output : group.outputs()) {
      auto over = output_over(output.value, joined.value->shape());
      if (over && over->value == joined.value) joined.outputs.push_back(std::move(*over));
    }
    if (joined.outputs.empty()) return fail("it joins rows that nothing else reads");
    found.push_back(std::move(joined));
  }
  return found;
}

Status each_joined_row(GroupLowering& lowering, const Value* joined, Expr first, Expr end,
                       const JoinedRow& body) {
  ProgramBuilder& program = lowering.program();
  IndexMath& math = lowering.math();
  ExprPool& exprs = program.exprs();
  Dim start = 0;
  for (const Value* operand : joined->producer()->operands()) {
    const Dim rows = operand->shape()[kRowAxis];
    const Expr from = exprs.binary(ExprKind::Max, first, math.size(start));
    const Expr count = program.sub(program.min(end, math.size(start + rows)), from);
    OPWELD_CHECK(lowering.serial("t", count, rows, [&](Expr step) -> Status {
      const Expr at = math.add(from, step);
      const Expr row = math.sub(at, math.size(start));
      math.set_bound(at, joined->shape()[kRowAxis]);
      math.set_bound(row, rows);
      return body(operand, row, at);
    }));
    start = start + rows;
  }
  return {};
}

Status store_joined_rows(GroupLowering& lowering, const JoinedRows& joined, Expr batch,
                         Expr key_head, Expr first, Expr end) {
  const Dim& width = joined.value->shape().back();
  const auto store_row = [&](const Value* operand, Expr row, Expr at) -> Status {
    return lowering.vector("d", width, 1, [&](Expr d) -> Status {
      OPWELD_TRY(const Expr element,
                 lowering.elements().element(operand, Index{batch, key_head, row, d}));
      const Index place{batch, key_head, at, d};
      lowering.elements().define(joined.value, [&](std::span<const Expr> asked) {
        return std::ranges::equal(asked, place) ? element : kNoExpr;
      });
      Status stored;
      for (const DomainOutput& output : joined.outputs) {
        if (stored) stored = lowering.store(output, place);
      }
      lowering.elements().undefine(joined.value);
      return stored;
    });
  };
  return each_joined_row(lowering, joined.value, first, end, store_row);
}

}  // namespace opweld::tile
