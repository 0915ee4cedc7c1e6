// sort_by_group: in which order rows stand group after group, as the tokens of a mixture of experts
// do before each expert computes its own.
//
//   order [R]   the row that stands at each place: those of group 0 first, each group's in their
//               order (a stable counting sort)
//   place [R]   the place at which each row stands, the inverse of order
//   counts [E]  how many rows each group has
//
// groups [R] says of which group each row is, in [0, E); another number is an error of the run.
#include "ops/sort_by_group.h"

#include "ops/families.h"
#include "ops/infer_helpers.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_sort_by_group(const OpContext& context) {
  OPWELD_CHECK(require_rank(context, 0, 1));
  OPWELD_TRY(const Dim groups, single_dim(context.attributes, "groups"));
  OPWELD_CHECK(check_sizes(context, {groups}, "the number of groups of"));
  const TensorType rows{DType::I64, context.type(0).shape};
  return std::vector<TensorType>{rows, rows, {DType::I64, {groups}}};
}

Status evaluate_sort_by_group(const EvalContext& context) {
  const Tensor& groups = *context.operands[0];
  Tensor& order = context.results[0];
  Tensor& place = context.results[1];
  Tensor& counts = context.results[2];
  const std::int64_t count = counts.num_elements();
  for (std::int64_t row = 0; row < groups.num_elements(); ++row) {
    const std::int64_t group = groups.get_int(row);
    if (group < 0 || group >= count) {
      return fail("{} (row {}, group {}, groups {})", kNoSuchGroup, row, group, count);
    }
    counts.set_int(group, counts.get_int(group) + 1);
  }
  std::vector<std::int64_t> next(static_cast<std::size_t>(count), 0);
  for (std::size_t group = 1; group < next.size(); ++group) {
    next[group] = next[group - 1] + counts.get_int(static_cast<std::int64_t>(group) - 1);
  }
  for (std::int64_t row = 0; row < groups.num_elements(); ++row) {
    const std::int64_t at = next[static_cast<std::size_t>(groups.get_int(row))]++;
    order.set_int(at, row);
    place.set_int(row, at);
  }
  return {};
}

}  // namespace

std::span<const OpDef> sort_by_group_ops() {
  static const OpDef defs[] = {
      {
          .name = "sort_by_group",
          .summary = "groups[R] -> order[R], place[R], counts[E], all i64: the rows group after "
                     "group, where each stands, and how many each group has; see the head of "
                     "ops/sort_by_group.cpp",
          .trait = FusionTrait::Opaque,
          .operands = {{"groups", kIndices}},
          .attributes = {{"groups", AttributeKind::Shape}},
          .infer = infer_sort_by_group,
          .evaluate = evaluate_sort_by_group,
      },
  };
  return defs;
}

Expected<GroupedRows> sort_by_group(Builder& build, Value* groups, const Dim& count) {
  Value* const order = build.op("sort_by_group", {groups}, {{"groups", Shape{count}}});
  OPWELD_CHECK(build.status());
  const Node& node = *order->producer();
  return GroupedRows{order, node.result(1), node.result(2)};
}

}  // namespace opweld
