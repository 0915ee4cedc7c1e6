#include <cmath>

#include "rewrite/match.h"
#include "rewrite/simplify_rules.h"

namespace opweld {

namespace {

// The constant on the right, if it leaves the left operand's shape and dtype as they are.
std::optional<double> right_constant(const Node& node) {
  const bool same_type = node.operand(0)->type() == node.result()->type();
  return same_type ? scalar_constant(node.operand(1)) : std::nullopt;
}

// The operand beside a constant of that value on either side, if it is of the result's type.
Value* beside(const Node& node, double constant) {
  for (int side = 0; side < 2; ++side) {
    Value* const other = node.operand(1 - side);
    const bool same_type = other->type() == node.result()->type();
    if (same_type && scalar_constant(node.operand(side)) == constant) return other;
  }
  return nullptr;
}

// Whether 1 / value is exact, and no denormal, in numbers of that dtype.
bool has_exact_reciprocal(double value, DType dtype) {
  int exponent = 0;
  const int greatest = dtype == DType::F16 ? 14 : 100;
  return std::abs(std::frexp(value, &exponent)) == 0.5 && std::abs(exponent) < greatest;
}

bool is_negative_zero(const Value* value) {
  const auto number = scalar_constant(value);
  return number && *number == 0 && std::signbit(*number);
}

// pow(x, 2) -> x * x: the square, rounded once, which is what pow stands for.
Value* pow_of_two(Builder& build, Node& node) {
  Value* const x = node.operand(0);
  return right_constant(node) == 2 ? build.binary("mul", x, x) : nullptr;
}

// pow(x, 1) -> x
Value* pow_of_one(Builder&, Node& node) {
  return right_constant(node) == 1 ? node.operand(0) : nullptr;
}

// x / 1 -> x
Value* div_by_one(Builder&, Node& node) {
  return right_constant(node) == 1 ? node.operand(0) : nullptr;
}

// x / 2^n -> x * 2^-n: the same real number before the one rounding.
Value* div_by_power_of_two(Builder& build, Node& node) {
  const auto divisor = right_constant(node);
  const DType dtype = node.result()->dtype();
  if (!divisor || !is_float(dtype) || !has_exact_reciprocal(*divisor, dtype)) return nullptr;
  return build.binary("mul", node.operand(0), build.scalar(1 / *divisor, dtype));
}

// x * 1 -> x
Value* mul_by_one(Builder&, Node& node) {
  return beside(node, 1);
}

// x + -0.0 -> x, for x = +0 and -0 too; of integers x + 0 -> x.
Value* add_of_nothing(Builder&, Node& node) {
  if (is_integer(node.result()->dtype())) return beside(node, 0);
  for (int side = 0; side < 2; ++side) {
    Value* const other = node.operand(1 - side);
    const bool same_type = other->type() == node.result()->type();
    if (same_type && is_negative_zero(node.operand(side))) return other;
  }
  return nullptr;
}

// x - 0.0 -> x: -0 - +0 is -0. Taking -0.0 away is adding +0, which is not exact.
Value* sub_of_nothing(Builder&, Node& node) {
  return right_constant(node) == 0 && !is_negative_zero(node.operand(1)) ? node.operand(0)
                                                                         : nullptr;
}

// neg(neg(x)) -> x: the sign flips twice; the least integer is its own negation both times.
// not(not(x)) -> x
Value* undone(Builder&, Node& node) {
  const Node* const inner = made_by(node.operand(0), node.op());
  return inner == nullptr ? nullptr : inner->operand(0);
}

// select(not c, a, b) -> select(c, b, a)
Value* select_of_not(Builder& build, Node& node) {
  const Node* const negation = made_by(node.operand(0), "not");
  if (negation == nullptr) return nullptr;
  return build.op("select", {negation->operand(0), node.operand(2), node.operand(1)});
}

// select(true, a, b) -> a, select(false, a, b) -> b
Value* select_of_constant(Builder&, Node& node) {
  const auto condition = uniform_value(node.operand(0));
  if (!condition) return nullptr;
  Value* const chosen = node.operand(*condition != 0 ? 1 : 2);
  return chosen->type() == node.result()->type() ? chosen : nullptr;
}

}  // namespace

std::span<const SimplifyRule> arithmetic_simplifications() {
  static constexpr SimplifyRule kRules[] = {
      {"pow", pow_of_two},
      {"pow", pow_of_one},
      {"div", div_by_one},
      {"div", div_by_power_of_two},
      {"mul", mul_by_one},
      {"add", add_of_nothing},
      {"sub", sub_of_nothing},
      {"neg", undone},
      {"not", undone},
      {"select", select_of_not},
      {"select", select_of_constant},
  };
  return kRules;
}

}  // namespace opweld
