// MatMul and Gemm.
#include "import/onnx/operators/table.h"

namespace opweld {
namespace {

// A vector is a row on the left, a column on the right; its axis leaves the result.
Expected<Values> matmul(NodeContext& c) {
  Builder& b = c.builder();
  Value* left = c.operand(0);
  Value* right = c.operand(1);
  if (left->rank() == 0 || right->rank() == 0) return fail("wants operands of rank 1 or more");
  const bool row = left->rank() == 1;
  const bool column = right->rank() == 1;
  if (row) left = b.reshape(left, {1, left->shape()[0]});
  if (column) right = b.reshape(right, {right->shape()[0], 1});
  Value* result = b.binary("matmul", left, right);
  OPWELD_CHECK(c.status());
  if (!row && !column) return one(result);
  Shape shape = result->shape();
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  return one(b.reshape(result, std::move(shape)));
}

// alpha * a' b' + beta * c
Expected<Values> gemm(NodeContext& c) {
  Builder& b = c.builder();
  if (c.operand(0)->rank() != 2 || c.operand(1)->rank() != 2) return fail("wants matrices");
  const auto operand = [&](int index, std::string_view transposed) {
    Value* matrix = c.operand(index);
    return c.integer(transposed, 0) != 0 ? b.transpose(matrix, {1, 0}) : matrix;
  };
  const auto scaled = [&](Value* x, std::string_view name) {
    const double factor = c.real(name, 1);
    return factor == 1 ? x : b.binary("mul", x, b.scalar(factor, c.operand(0)->dtype()));
  };
  Value* product = b.binary("matmul", operand(0, "transA"), operand(1, "transB"));
  product = scaled(product, "alpha");
  if (!c.has(2)) return one(product);
  if (c.operand(2)->rank() > 2) return fail("operand 2 (C) has rank {}", c.operand(2)->rank());
  return one(b.binary("add", product, scaled(c.operand(2), "beta")));
}

constexpr OperatorRule kRules[] = {
    {"Gemm", gemm, "", 2, 3},
    {"MatMul", matmul, "", 2, 2},
};

}  // namespace

std::span<const OperatorRule> contraction_operators() {
  return kRules;
}

}  // namespace opweld
