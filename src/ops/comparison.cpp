// Comparisons: two operands of one dtype to bool. With NaN every one is false but `ne`, which is
// true.
#include <functional>

#include "ops/families.h"
#include "ops/pointwise.h"

namespace opweld {
namespace {

using DimArguments = std::span<const Dim>;
using ElementRule = std::optional<Dim> (*)(DimArguments);

// ---- what is certain of two sizes, whatever their symbols are ----

std::optional<Dim> negation(std::optional<Dim> truth) {
  if (truth) truth = 1 - *truth;
  return truth;
}

std::optional<Dim> is_less(const Dim& a, const Dim& b) {
  if (provably_lt(a, b)) return Dim(1);
  if (provably_le(b, a)) return Dim(0);
  return std::nullopt;
}

std::optional<Dim> is_equal(const Dim& a, const Dim& b) {
  if (a == b) return Dim(1);
  if (provably_lt(a, b) || provably_lt(b, a)) return Dim(0);
  return std::nullopt;
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

template <typename Compare, ExprKind kind, ElementRule rule, bool swapped = false>
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
      comparison_op<std::equal_to<>, ExprKind::Eq,
                    [](DimArguments x) { return is_equal(x[0], x[1]); }>("eq", "whether a == b",
                                                                         kAnyDType),
      comparison_op<std::not_equal_to<>, ExprKind::Ne,
                    [](DimArguments x) { return negation(is_equal(x[0], x[1])); }>(
          "ne", "whether a != b", kAnyDType),
      comparison_op<std::less<>, ExprKind::Lt, [](DimArguments x) { return is_less(x[0], x[1]); }>(
          "lt", "whether a < b"),
      comparison_op<std::less_equal<>, ExprKind::Le,
                    [](DimArguments x) { return negation(is_less(x[1], x[0])); }>("le",
                                                                                  "whether a <= b"),
      comparison_op<std::greater<>, ExprKind::Lt,
                    [](DimArguments x) { return is_less(x[1], x[0]); }, true>("gt",
                                                                              "whether a > b"),
      comparison_op<std::greater_equal<>, ExprKind::Le,
                    [](DimArguments x) { return negation(is_less(x[0], x[1])); }, true>(
          "ge", "whether a >= b"),
  };
  return defs;
}

}  // namespace opweld
