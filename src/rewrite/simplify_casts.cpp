#include "rewrite/match.h"
#include "rewrite/simplify_rules.h"

namespace opweld {

namespace {

// Bits of an integer's magnitude: all integers up to 2^bits have a place in a float with as many
// bits of precision.
int magnitude_bits(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return 1;
    case DType::I8:
      return 7;
    case DType::U8:
      return 8;
    case DType::I16:
      return 15;
    case DType::I32:
      return 31;
    default:
      return 63;
  }
}

int precision_bits(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return 53;
    case DType::F32:
      return 24;
    case DType::F16:
      return 11;
    default:
      return 8;  // bf16
  }
}

// Whether every number of `from` is one of `to`.
bool holds_all(DType to, DType from) {
  if (to == from || from == DType::Bool) return true;
  if (to == DType::Bool || to == DType::U8) return false;  // the only ones without a sign
  if (is_float(from)) {
    // f16 and bf16 hold numbers that the other does not.
    return to == DType::F64 || (to == DType::F32 && from != DType::F64);
  }
  if (is_float(to)) return magnitude_bits(from) <= precision_bits(to);
  return magnitude_bits(from) < magnitude_bits(to);
}

// cast to what the operand is already -> x
Value* cast_to_same(Builder&, Node& node) {
  return node.operand(0)->type() == node.result()->type() ? node.operand(0) : nullptr;
}

// cast(cast(x, wider), to) -> cast(x, to), or x: the first cast changes no number, and a cast goes
// by the number alone.
Value* cast_of_exact_cast(Builder& build, Node& node) {
  const Node* const inner = made_by(node.operand(0), "cast");
  if (inner == nullptr) return nullptr;
  Value* const x = inner->operand(0);
  if (!holds_all(inner->result()->dtype(), x->dtype())) return nullptr;
  return build.cast(x, node.result()->dtype());
}

}  // namespace

std::span<const SimplifyRule> cast_simplifications() {
  static constexpr SimplifyRule kRules[] = {
      {"cast", cast_to_same},
      {"cast", cast_of_exact_cast},
  };
  return kRules;
}

}  // namespace opweld
