#include "tile/schedules/row_groups.h"

#include "ops/row_groups.h"

namespace opweld::tile {

RowGroups::RowGroups(GroupLowering& lowering, const Node& node)
    : lowering_(lowering),
      node_(node),
      groups_(node.operand(2)->shape()[0]),
      rows_(node.operand(0)->shape()[0]) {
  starts_ = lowering.program().buffer("starts", DType::I64, {groups_ + 1}, Buffer::Space::Cache);
}

Status RowGroups::emit_starts() {
  ProgramBuilder& program = lowering_.program();
  IndexMath& math = lowering_.math();
  program.store(program.at(starts_, {0}), math.constant(0));
  OPWELD_CHECK(lowering_.serial("e", groups_, [&](Expr group) -> Status {
    const Expr at[] = {group};
    OPWELD_TRY(const Expr bound, lowering_.elements().element(node_.operand(2), at));
    const Expr start = program.load(program.at(starts_, {group}), kNoExpr, "start");
    const Expr end = emit_end(group, start, program.exprs().convert(bound, DType::I64));
    program.store(program.at(starts_, {program.add(group, 1)}), end);
    return {};
  }));
  const Expr total = program.load(program.at(starts_, {groups_}), kNoExpr, "total");
  const Expr rows = math.size(rows_);
  program.check(program.exprs().binary(ExprKind::Eq, total, rows), message(kGroupsTooSmall),
                {{"groups", total}, {"'x'", rows}});
  return {};
}

Expr RowGroups::emit_end(Expr group, Expr start, Expr bound) {
  ProgramBuilder& program = lowering_.program();
  ExprPool& exprs = program.exprs();
  const Expr rows = lowering_.math().size(rows_);
  if (node_.attributes().integer("cumulative", 0) != 0) {
    program.check(exprs.binary(ExprKind::Le, start, bound), message(kDecreasingEnds),
                  {{"group", group}, {"start", start}, {"end", bound}});
    program.check(exprs.binary(ExprKind::Le, bound, rows), message(kGroupsTooLarge),
                  {{"group", group}, {"start", start}, {"end", bound}, {"'x'", rows}});
    return bound;
  }
  program.check(exprs.binary(ExprKind::Le, exprs.integer(0), bound), message(kNegativeGroup),
                {{"group", group}, {"rows", bound}});
  // Not start + bound <= rows, which may overflow.
  program.check(exprs.binary(ExprKind::Le, bound, program.sub(rows, start)),
                message(kGroupsTooLarge),
                {{"group", group}, {"start", start}, {"rows", bound}, {"'x'", rows}});
  return program.add(start, bound);
}

Expr RowGroups::count_groups(const std::function<Expr(Expr start, Expr stop)>& counts) {
  ProgramBuilder& program = lowering_.program();
  ExprPool& exprs = program.exprs();
  Expr total = kNoExpr;
  program.serial("e", groups_, [&](Expr group) {
    const Expr start = program.load(program.at(starts_, {group}));
    const Expr stop = program.load(program.at(starts_, {program.add(group, 1)}));
    const Expr one = exprs.select(counts(start, stop), exprs.integer(1), exprs.integer(0));
    total = program.reduce(Combiner::Sum, one, group, "groups");
  });
  return total;
}

Status RowGroups::each_group(Expr first, Expr count, const Body& body) {
  ProgramBuilder& program = lowering_.program();
  IndexMath& math = lowering_.math();
  ExprPool& exprs = program.exprs();
  const Expr end = program.add(first, count);
  const Expr before =
      count_groups([&](Expr, Expr stop) { return exprs.binary(ExprKind::Le, stop, first); });
  const Expr within = count_groups([&](Expr start, Expr stop) {
    return exprs.binary(ExprKind::And, exprs.binary(ExprKind::Lt, start, end),
                        exprs.binary(ExprKind::Lt, first, stop));
  });
  return lowering_.serial("g", within, groups_, [&](Expr step) -> Status {
    const Expr group = program.map(program.add(before, step), "group");
    math.set_bound(group, groups_);
    const Expr start = program.load(program.at(starts_, {group}));
    const Expr stop = program.load(program.at(starts_, {program.add(group, 1)}));
    const Expr from = program.map(exprs.binary(ExprKind::Max, start, first), "from");
    const Expr to = program.map(program.min(stop, end), "to");
    Status status;
    // Not for an empty one between two others.
    program.when(exprs.binary(ExprKind::Lt, from, to), [&]() {
      const ElementBuilder::Scope scope(lowering_.elements());
      // No more than there are, which says to whoever counts the work how many they may be.
      status = body(group, from, program.min(program.map(program.sub(to, from), "rows"), count));
    });
    return status;
  });
}

std::string RowGroups::message(std::string_view fault) const {
  return fmt::format("{} '{}': {}", node_.op(), node_.display_name(), fault);
}

}  // namespace opweld::tile
