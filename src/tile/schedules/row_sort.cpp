#include "tile/schedules/row_sort.h"

#include "ops/sort_by_group.h"

namespace opweld::tile {

namespace {

constexpr int kResults = 3;

class SortEmitter {
 public:
  SortEmitter(GroupLowering& lowering, const Node& node, const StoreSorted& store)
      : lowering_(lowering),
        program_(lowering.program()),
        exprs_(program_.exprs()),
        node_(node),
        store_(store),
        rows_(node.operand(0)->shape()[0]),
        groups_(node.result(2)->shape()[0]) {}

  Status emit() {
    size_ = program_.buffer("size", DType::I64, {groups_}, Buffer::Space::Cache);
    next_ = program_.buffer("next", DType::I64, {groups_ + 1}, Buffer::Space::Cache);
    OPWELD_CHECK(lowering_.serial("e", groups_, [&](Expr group) -> Status {
      program_.store(program_.at(size_, {group}), lowering_.math().constant(0));
      return {};
    }));
    OPWELD_CHECK(each_row([&](Expr, Expr group) {
      program_.store(program_.at(size_, {group}), program_.add(size_of(group), 1));
      return Status();
    }));
    OPWELD_CHECK(emit_starts());
    return each_row([&](Expr row, Expr group) -> Status {
      const Expr place = program_.load(program_.at(next_, {group}), kNoExpr, "place");
      OPWELD_CHECK(store_(0, place, row));
      OPWELD_CHECK(store_(1, row, place));
      program_.store(program_.at(next_, {group}), program_.add(place, 1));
      return {};
    });
  }

 private:
  Expr size_of(Expr group) { return program_.load(program_.at(size_, {group}), kNoExpr, "size"); }

  // Rows whose group there is.
  Status each_row(const std::function<Status(Expr row, Expr group)>& body) {
    return lowering_.serial("r", rows_, [&](Expr row) -> Status {
      const Expr at[] = {row};
      OPWELD_TRY(const Expr given, lowering_.elements().element(node_.operand(0), at));
      const Expr group = program_.map(exprs_.convert(given, DType::I64), "group");
      const Expr exists =
          exprs_.binary(ExprKind::And, exprs_.binary(ExprKind::Le, exprs_.integer(0), group),
                        exprs_.binary(ExprKind::Lt, group, lowering_.math().size(groups_)));
      program_.check(exists,
                     fmt::format("{} '{}': {}", node_.op(), node_.display_name(), kNoSuchGroup),
                     {{"row", row}, {"group", group}, {"groups", lowering_.math().size(groups_)}});
      Status status;
      program_.when(exists, [&]() { status = body(row, group); });
      return status;
    });
  }

  Status emit_starts() {
    program_.store(program_.at(next_, {0}), lowering_.math().constant(0));
    return lowering_.serial("e", groups_, [&](Expr group) -> Status {
      const Expr size = size_of(group);
      const Expr start = program_.load(program_.at(next_, {group}), kNoExpr, "start");
      program_.store(program_.at(next_, {program_.add(group, 1)}), program_.add(start, size));
      return store_(2, group, size);
    });
  }

  GroupLowering& lowering_;
  ProgramBuilder& program_;
  ExprPool& exprs_;
  const Node& node_;
  const StoreSorted& store_;
  Dim rows_;
  Dim groups_;
  MemoryRef size_ = {};  // of each group
  MemoryRef next_ = {};  // where each group's next row goes
};

// The output seen from the result of the node that it is a view of.
std::optional<DomainOutput> result_behind(const Value* output, const Node& node) {
  for (int i = 0; i < node.num_results(); ++i) {
    auto over = output_over(output, node.result(i)->shape());
    if (over && over->value == node.result(i)) return over;
  }
  return std::nullopt;
}

}  // namespace

RowSort find_row_sort(const Graph& group) {
  RowSort found;
  for (const auto& node : group.nodes()) {
    if (node->op() == "sort_by_group") found.node = node.get();
  }
  for (const Value* output : outputs_of(group)) {
    auto over = found.node == nullptr ? std::nullopt : result_behind(output, *found.node);
    if (over) {
      found.outputs.push_back(std::move(*over));
    } else {
      found.others.push_back(output);
    }
  }
  return found;
}

Status emit_row_sort(GroupLowering& lowering, const RowSort& sort, const StoreSorted& store) {
  return SortEmitter(lowering, *sort.node, store).emit();
}

Status store_sorted(GroupLowering& lowering, const RowSort& sort, int result, Expr index,
                    Expr value, Expr where) {
  ElementBuilder& elements = lowering.elements();
  const Expr at[] = {index};
  for (const DomainOutput& output : sort.outputs) {
    if (output.value != sort.node->result(result)) continue;
    elements.define(output.value, [=](std::span<const Expr>) { return value; });
    OPWELD_CHECK(lowering.store(output, at, where));
    elements.undefine(output.value);
  }
  return {};
}

Status keep_sorted(GroupLowering& lowering, const RowSort& sort, Expr is_first) {
  ProgramBuilder& program = lowering.program();
  std::optional<MemoryRef> kept[kResults];
  for (int i = 0; i < kResults; ++i) {
    const Value* const result = sort.node->result(i);
    if (result->uses().empty()) continue;
    kept[i] = program.buffer("sorted", result->dtype(), result->shape(), Buffer::Space::Outer);
  }
  const auto store = [&](int result, Expr index, Expr value) -> Status {
    if (kept[result]) program.store(program.at(*kept[result], {index}), value);
    return store_sorted(lowering, sort, result, index, value, is_first);
  };
  Status status;
  const Expr key = lowering.math().constant(0);
  program.keep(key, sort.outputs.empty() ? kNoExpr : is_first, [&] {
    const ElementBuilder::Scope scope(lowering.elements());
    status = emit_row_sort(lowering, sort, store);
  });
  OPWELD_CHECK(status);
  for (int i = 0; i < kResults; ++i) {
    if (!kept[i]) continue;
    lowering.elements().define(sort.node->result(i),
                               [&program, memory = *kept[i]](std::span<const Expr> at) {
                                 return program.load(program.at(memory, {at[0]}));
                               });
  }
  return {};
}

}  // namespace opweld::tile
