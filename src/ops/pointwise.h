// What the families of pointwise operators share: shape rules, evaluation element by element, and
// definitions of operators that are a single node of the scalar language.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ops/broadcast.h"
#include "ops/op.h"

namespace opweld {

// Operands broadcast; the result has the dtype of operand 0.
Expected<std::vector<TensorType>> infer_same_dtype(const OpContext& context);
// Operands broadcast; the result is bool.
Expected<std::vector<TensorType>> infer_predicate(const OpContext& context);

inline void put_element(Tensor& tensor, std::int64_t at, double value) {
  tensor.set_double(at, value);
}
inline void put_element(Tensor& tensor, std::int64_t at, std::int64_t value) {
  tensor.set_int(at, value);
}
inline void put_element(Tensor& tensor, std::int64_t at, bool value) {
  tensor.set_int(at, value ? 1 : 0);
}

// Fills result 0 with function(x), function(x, attributes) or function(x, y) of the elements x and
// y that `get` reads from operands 0 and 1.
template <auto function, typename Element, Element (Tensor::*get)(std::int64_t) const>
Status evaluate_elements(const EvalContext& context) {
  const auto read = [&](int operand, std::span<const std::int64_t> from) {
    return (context.operands[operand]->*get)(from[operand]);
  };
  for_each_broadcast(context, [&](std::int64_t at, std::span<const std::int64_t> from) {
    if constexpr (std::is_invocable_v<decltype(function), Element, Element>) {
      put_element(context.results[0], at, function(read(0, from), read(1, from)));
    } else if constexpr (std::is_invocable_v<decltype(function), Element, const Attributes&>) {
      put_element(context.results[0], at, function(read(0, from), context.attributes));
    } else {
      put_element(context.results[0], at, function(read(0, from)));
    }
  });
  return {};
}

// `real` is applied to floats as doubles, `integer` to integers and bools as int64.
template <auto real>
Status evaluate_real(const EvalContext& context) {
  return evaluate_elements<real, double, &Tensor::get_double>(context);
}
template <auto integer>
Status evaluate_integer(const EvalContext& context) {
  return evaluate_elements<integer, std::int64_t, &Tensor::get_int>(context);
}
template <auto real, auto integer>
Status evaluate_number(const EvalContext& context) {
  return is_float(context.operands[0]->dtype()) ? evaluate_real<real>(context)
                                                : evaluate_integer<integer>(context);
}

template <ExprKind kind>
Expr scalar_of_kind(const OpContext&, ExprPool& pool, std::span<const Expr> arguments) {
  return pool.make(kind, arguments);
}

// Every constant among `contents` wrapped to an integer dtype.
void wrap_contents(std::vector<Dim>& contents, DType dtype);

using ContentsRule = std::optional<std::vector<Dim>> (*)(const OpContext&);

// The contents of a pointwise result of which `rule` says what one element is. Known numbers wrap
// to the dtype of operand 0; symbolic sizes are taken to fit.
template <auto rule>
std::optional<std::vector<Dim>> contents_of(const OpContext& context) {
  auto contents = pointwise_contents(context, rule);
  if (contents) wrap_contents(*contents, context.type(0).dtype);
  return contents;
}

// x of one of `dtypes` to a result of the same dtype.
template <ExprKind kind>
OpDef unary_op(std::string_view name, std::string_view summary, DTypeSet dtypes,
               Status (*evaluate)(const EvalContext&), ContentsRule contents = nullptr) {
  return {.name = name,
          .summary = summary,
          .trait = FusionTrait::Pointwise,
          .operands = {{"x", dtypes}},
          .attributes = {},
          .infer = infer_same_dtype,
          .contents = contents,
          .evaluate = evaluate,
          .scalar = scalar_of_kind<kind>};
}

// a and b of one dtype, one of `dtypes`, to a result of the same dtype.
template <ExprKind kind>
OpDef binary_op(std::string_view name, std::string_view summary, DTypeSet dtypes,
                Status (*evaluate)(const EvalContext&), ContentsRule contents = nullptr) {
  return {.name = name,
          .summary = summary,
          .trait = FusionTrait::Pointwise,
          .operands = {{"a", dtypes, 1}, {"b", dtypes, 1}},
          .attributes = {},
          .infer = infer_same_dtype,
          .contents = contents,
          .evaluate = evaluate,
          .scalar = scalar_of_kind<kind>};
}

}  // namespace opweld
