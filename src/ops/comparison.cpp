// Comparisons: two operands of one dtype to bool. With NaN every one is false but `ne`, which is
// true.
#include <functional>

#include "ops/families.h"
#include "ops/pointwise.h"

namespace opweld {
namespace {

using DimArguments = std::span<const Dim>;

// ---- what is certain of two sizes, whatever their symbols are ----

std::optional<Dim> certain(bool truth, bool falsehood) {
  if (truth) return Dim(1);
  if (falsehood) return Dim(0);
  return std::nullopt;
}

std::optional<Dim> is_equal(DimArguments x) {
  return certain(x[0] == x[1], provably_lt(x[0], x[1]) || provably_lt(x[1], x[0]));
}

std::optional<Dim> is_unequal(DimArguments x) {
  return certain(provably_lt(x[0], x[1]) || provably_lt(x[1], x[0]), x[0] == x[1]);
}

std::optional<Dim> is_less(DimArguments x) {
  return certain(provably_lt(x[0], x[1]), provably_le(x[1], x[0]));
}

std::optional<Dim> is_less_or_equal(DimArguments x) {
  return certain(provably_le(x[0], x[1]), provably_lt(x[1], x[0]));
}

std::optional<Dim> is_greater(DimArguments x) {
  return certain(provably_lt(x[1], x[0]), provably_le(x[0], x[1]));
}

std::optional<Dim> is_greater_or_equal(DimArguments x) {
  return certain(provably_le(x[1], x[0]), provably_lt(x[0], x[1]));
}

// ---- the definitions ----

// `kind` compares (a, b), or (b, a) where `swapped`.
template <ExprKind kind, bool swapped>
Expr compare(const OpContext&, ExprPool& pool, std::span<const Expr> arguments) {
  return swapped ? pool.binary(kind, arguments[1], arguments[0])
                 : pool.binary(kind, arguments[0], arguments[1]);
}

// Reads and compares doubles or int64.
template <typename Compare>
Status evaluate_comparison(const EvalContext& context) {
  return evaluate_number<[](double a, double b) -> bool { return Compare()(a, b); },
                         [](std::int64_t a, std::int64_t b) -> bool { return Compare()(a, b); }>(
      context);
}

template <typename Compare, ExprKind kind, auto rule, bool swapped = false>
OpDef comparison_op(std::string_view name, std::string_view summary, DTypeSet dtypes = kNumbers) {
  return {.name = name,
          .summary = summary,
          .trait = FusionTrait::Pointwise,
          .operands = {{"a", dtypes, 1}, {"b", dtypes, 1}},
          .attributes = {},
          .infer = infer_predicate,
          .contents = [](const OpContext& context) { return pointwise_contents(context, rule); },
          .evaluate = evaluate_comparison<Compare>,
          .scalar = compare<kind, swapped>};
}

}  // namespace

std::span<const OpDef> comparison_ops() {
  static const OpDef defs[] = {
      comparison_op<std::equal_to<>, ExprKind::Eq, is_equal>("eq", "whether a == b", kAnyDType),
      comparison_op<std::not_equal_to<>, ExprKind::Ne, is_unequal>("ne", "whether a != b",
                                                                   kAnyDType),
      comparison_op<std::less<>, ExprKind::Lt, is_less>("lt", "whether a < b"),
      comparison_op<std::less_equal<>, ExprKind::Le, is_less_or_equal>("le", "whether a <= b"),
      comparison_op<std::greater<>, ExprKind::Lt, is_greater, true>("gt", "whether a > b"),
      comparison_op<std::greater_equal<>, ExprKind::Le, is_greater_or_equal, true>(
          "ge", "whether a >= b"),
  };
  return defs;
}

}  // namespace opweld
