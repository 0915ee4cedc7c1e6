// The tables of simplify(), by family of operators.
#pragma once

#include <span>
#include <string_view>

#include "ops/builder.h"

namespace opweld {

// A rule for one operator: the value that replaces the node's result, of the same type; null when
// the rule does not apply. The builder's nodes go before the node and carry its source.
struct SimplifyRule {
  std::string_view op;
  Value* (*replacement)(Builder&, Node&);
};

std::span<const SimplifyRule> arithmetic_simplifications();
std::span<const SimplifyRule> cast_simplifications();
std::span<const SimplifyRule> integer_simplifications();
std::span<const SimplifyRule> view_simplifications();

}  // namespace opweld
