#include "rewrite/simplify.h"

#include <cmath>

#include "ops/builder.h"
#include "rewrite/match.h"

namespace opweld {

namespace {

// The constant on the right, if it leaves the left operand's shape and dtype as they are.
std::optional<double> right_constant(const Node& node) {
  const bool same_type = node.operand(0)->type() == node.result()->type();
  return same_type ? scalar_constant(node.operand(1)) : std::nullopt;
}

bool is_power_of_two(double value) {
  int exponent = 0;
  // Far from the ends of the range, where the reciprocal would be denormal.
  constexpr int kSafeExponent = 100;
  return std::abs(std::frexp(value, &exponent)) == 0.5 && std::abs(exponent) < kSafeExponent;
}

// The value that replaces the node's result; null when the rule does not apply.
using Rule = Value* (*)(Builder&, Node&);

struct NamedRule {
  std::string_view op;
  Rule rule;
};

constexpr NamedRule kRules[] = {
    // pow(x, 2) -> x * x
    {"pow",
     [](Builder& build, Node& node) -> Value* {
       Value* const x = node.operand(0);
       return right_constant(node) == 2 ? build.binary("mul", x, x) : nullptr;
     }},
    // pow(x, 1) -> x
    {"pow",
     [](Builder&, Node& node) -> Value* {
       return right_constant(node) == 1 ? node.operand(0) : nullptr;
     }},
    // x / 2^n -> x * 2^-n
    {"div",
     [](Builder& build, Node& node) -> Value* {
       const auto divisor = right_constant(node);
       const bool exact = divisor && is_float(node.result()->dtype()) && is_power_of_two(*divisor);
       if (!exact || node.result()->dtype() == DType::F16) return nullptr;
       Value* const factor = build.scalar(1 / *divisor, node.result()->dtype());
       return build.binary("mul", node.operand(0), factor);
     }},
    // x * 1 -> x
    {"mul",
     [](Builder&, Node& node) -> Value* {
       return right_constant(node) == 1 ? node.operand(0) : nullptr;
     }},
    // transpose that moves nothing -> x
    {"transpose",
     [](Builder&, Node& node) -> Value* {
       const Ints& permutation = node.attributes().ints("permutation");
       for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
         if (permutation[axis] != static_cast<std::int64_t>(axis)) return nullptr;
       }
       return node.operand(0);
     }},
    // reshape, expand or cast to what the operand is already -> x
    {"reshape",
     [](Builder&, Node& node) -> Value* {
       return node.operand(0)->type() == node.result()->type() ? node.operand(0) : nullptr;
     }},
    {"expand",
     [](Builder&, Node& node) -> Value* {
       return node.operand(0)->type() == node.result()->type() ? node.operand(0) : nullptr;
     }},
    {"cast",
     [](Builder&, Node& node) -> Value* {
       return node.operand(0)->type() == node.result()->type() ? node.operand(0) : nullptr;
     }},
};

}  // namespace

Status simplify(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    for (const NamedRule& each : kRules) {
      if (each.op != node->op()) continue;
      Builder build(graph, node, node->source());
      Value* const replacement = each.rule(build, *node);
      OPWELD_CHECK(build.status());
      if (replacement == nullptr) continue;
      graph.replace_all_uses(node->result(), replacement);
      graph.erase(node);
      break;
    }
  }
  return {};
}

}  // namespace opweld
