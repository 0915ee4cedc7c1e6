// The product of two matrices for reference evaluation.
#pragma once

#include <cstdint>

#include "graph/tensor.h"

namespace opweld {

// Dense row-major matrices inside tensors: a [rows, depth], b [depth, columns] and the result
// [rows, columns], each from the element on that is given.
struct MatrixProduct {
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  const Tensor* a = nullptr;
  std::int64_t a_first = 0;
  const Tensor* b = nullptr;
  std::int64_t b_first = 0;
  const Tensor* bias = nullptr;  // added to every row [columns]; may be null
  std::int64_t bias_first = 0;
  Tensor* result = nullptr;
  std::int64_t result_first = 0;
};

// result = a b + bias. Every element gathers its products in order of depth, floats in double and
// integers in 64 bits that wrap, and is rounded once.
void multiply(const MatrixProduct& product);

}  // namespace opweld
