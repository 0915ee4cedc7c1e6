// Schedule `sort`: the order of rows by group (ops/sort_by_group.cpp), a counting sort.
//
//   for e in groups:  size[e] <- 0
//   for r in rows:    size[group r] <- size[group r] + 1
//   for e in groups:  next[e + 1] <- next[e] + size[e];  counts[e] <- size[e]
//   for r in rows:    p <- next[group r];  order[p] <- r;  place[r] <- p;  next[group r] <- p + 1
//
// One task: where a row goes depends on all rows before it, and rows are few beside what is then
// computed of each. A row of no group fails the run, and is written nowhere.
#include "ops/sort_by_group.h"
#include "tile/schedules/group_lowering.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

namespace {

class SortEmitter {
 public:
  SortEmitter(GroupLowering& lowering, const Node& node)
      : lowering_(lowering),
        program_(lowering.program()),
        exprs_(program_.exprs()),
        node_(node),
        rows_(node.operand(0)->shape()[0]),
        groups_(node.result(2)->shape()[0]) {}

  Status emit(std::span<const DomainOutput> outputs) {
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
    OPWELD_CHECK(emit_starts(outputs));
    return each_row([&](Expr row, Expr group) -> Status {
      const Expr place = program_.load(program_.at(next_, {group}), kNoExpr, "place");
      OPWELD_CHECK(store(outputs, 0, place, row));
      OPWELD_CHECK(store(outputs, 1, row, place));
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

  Status emit_starts(std::span<const DomainOutput> outputs) {
    program_.store(program_.at(next_, {0}), lowering_.math().constant(0));
    return lowering_.serial("e", groups_, [&](Expr group) -> Status {
      const Expr size = size_of(group);
      const Expr start = program_.load(program_.at(next_, {group}), kNoExpr, "start");
      program_.store(program_.at(next_, {program_.add(group, 1)}), program_.add(start, size));
      return store(outputs, 2, group, size);
    });
  }

  // An element of one of the node's results, where it is wanted.
  Status store(std::span<const DomainOutput> outputs, int result, Expr index, Expr value) {
    const Expr at[] = {index};
    for (const DomainOutput& output : outputs) {
      if (output.value != node_.result(result)) continue;
      lowering_.elements().define(output.value, [=](std::span<const Expr>) { return value; });
      OPWELD_CHECK(lowering_.store(output, at));
      lowering_.elements().undefine(output.value);
    }
    return {};
  }

  GroupLowering& lowering_;
  ProgramBuilder& program_;
  ExprPool& exprs_;
  const Node& node_;
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

const Node* find_sort(const Graph& group) {
  for (const auto& node : group.nodes()) {
    if (node->op() == "sort_by_group") return node.get();
  }
  return nullptr;
}

Expected<LoweredKernel> lower_sort(const Graph& group, const LowerOptions& options,
                                   std::string name) {
  const Node* const sort = find_sort(group);
  if (sort == nullptr) return fail("it sorts nothing");
  std::vector<DomainOutput> outputs;
  for (const Value* output : outputs_of(group)) {
    auto over = result_behind(output, *sort);
    if (!over) return fail("an output is not what sorting makes");
    outputs.push_back(std::move(*over));
  }
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  OPWELD_CHECK(SortEmitter(lowering, *sort).emit(outputs));
  return lowering.finish();
}

}  // namespace opweld::tile
