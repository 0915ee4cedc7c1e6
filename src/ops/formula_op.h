// Pointwise functions of one float that are given twice: as a formula in the scalar language, which
// becomes code, and as a plain function of a double, which checks it.
#pragma once

#include <string_view>
#include <type_traits>
#include <vector>

#include "ops/pointwise.h"
#include "ops/term.h"

namespace opweld {

// `formula` is a function (Term) or (Term, const Attributes&), `real` likewise of a double.
template <auto formula, auto real>
OpDef formula_op(std::string_view name, std::string_view summary,
                 const std::vector<AttributeDef>& attributes = {}) {
  return {.name = name,
          .summary = summary,
          .trait = FusionTrait::Pointwise,
          .operands = {{"x", kFloats}},
          .attributes = attributes,
          .infer = infer_same_dtype,
          .evaluate = evaluate_real<real>,
          .scalar = [](const OpContext& context, ExprPool& pool, std::span<const Expr> arguments) {
            const Term x(pool, arguments[0]);
            if constexpr (std::is_invocable_v<decltype(formula), Term, const Attributes&>) {
              return formula(x, context.attributes).expr();
            } else {
              return formula(x).expr();
            }
          }};
}

}  // namespace opweld
