// Logic on bools, bitwise logic and shifts on integers.
#include "ops/families.h"
#include "ops/pointwise.h"

namespace opweld {
namespace {

using DimArguments = std::span<const Dim>;

// ---- contents of bools: 0 or 1 ----

std::optional<Dim> and_of_dims(DimArguments x) {
  return x[0] * x[1];
}

std::optional<Dim> or_of_dims(DimArguments x) {
  return max(x[0], x[1]);
}

std::optional<Dim> xor_of_dims(DimArguments x) {
  return max(x[0], x[1]) - min(x[0], x[1]);
}

std::optional<Dim> not_of_dim(DimArguments x) {
  return 1 - x[0];
}

// ---- shifts ----

// Whether `count` moves bits within the dtype; otherwise the result is 0.
bool shifts_within(DType dtype, std::int64_t count) {
  return count >= 0 && count < 8 * byte_size(dtype);
}

template <auto shift>
Status evaluate_shift(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  const Tensor& counts = *context.operands[1];
  for_each_broadcast(context, [&](std::int64_t at, std::span<const std::int64_t> from) {
    const std::int64_t count = counts.get_int(from[1]);
    if (!shifts_within(x.dtype(), count)) return;  // results are zero from the start
    context.results[0].set_int(at, shift(x.get_int(from[0]), count));
  });
  return {};
}

std::int64_t moved_up(std::int64_t x, std::int64_t count) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) << count);
}

std::int64_t moved_down(std::int64_t x, std::int64_t count) {
  return x >> count;
}

// Elements of a narrow signed dtype are computed in more bits, in which a shift by its width or
// more would still show copies of the sign.
Expr scalar_shift_right(const OpContext& context, ExprPool& pool, std::span<const Expr> arguments) {
  const Expr shifted = pool.binary(ExprKind::ShiftRight, arguments[0], arguments[1]);
  const DType dtype = context.type(0).dtype;
  const DType compute_type = compute_dtype(dtype);
  if (dtype == compute_type || dtype == DType::U8) return shifted;
  const Expr width = pool.integer(8 * byte_size(dtype), compute_type);
  const Expr within = pool.binary(ExprKind::Lt, arguments[1], width);
  return pool.select(within, shifted, pool.integer(0, compute_type));
}

OpDef shift_right_op() {
  OpDef def = binary_op<ExprKind::ShiftRight>(
      "shift_right",
      "a moved down by b bits, copying the sign; 0 where b is negative or the width or more",
      kIntegers, evaluate_shift<moved_down>);
  def.scalar = scalar_shift_right;
  return def;
}

}  // namespace

std::span<const OpDef> logic_ops() {
  using Int = std::int64_t;
  static const OpDef defs[] = {
      binary_op<ExprKind::And>("and", "a and b", kBool,
                               evaluate_integer<[](Int a, Int b) { return a & b; }>,
                               contents_of<and_of_dims>),
      binary_op<ExprKind::Or>("or", "a or b", kBool,
                              evaluate_integer<[](Int a, Int b) { return a | b; }>,
                              contents_of<or_of_dims>),
      binary_op<ExprKind::Xor>("xor", "either a or b, not both", kBool,
                               evaluate_integer<[](Int a, Int b) { return a ^ b; }>,
                               contents_of<xor_of_dims>),
      unary_op<ExprKind::Not>("not", "not x", kBool,
                              evaluate_integer<[](Int x) { return Int{x == 0}; }>,
                              contents_of<not_of_dim>),
      binary_op<ExprKind::And>("bit_and", "a and b, bit by bit", kIntegers,
                               evaluate_integer<[](Int a, Int b) { return a & b; }>),
      binary_op<ExprKind::Or>("bit_or", "a or b, bit by bit", kIntegers,
                              evaluate_integer<[](Int a, Int b) { return a | b; }>),
      binary_op<ExprKind::Xor>("bit_xor", "a xor b, bit by bit", kIntegers,
                               evaluate_integer<[](Int a, Int b) { return a ^ b; }>),
      unary_op<ExprKind::Not>("bit_not", "not x, bit by bit", kIntegers,
                              evaluate_integer<[](Int x) { return ~x; }>),
      binary_op<ExprKind::ShiftLeft>(
          "shift_left", "a moved up by b bits; 0 where b is negative or the width or more",
          kIntegers, evaluate_shift<moved_up>),
      shift_right_op(),
  };
  return defs;
}

}  // namespace opweld
