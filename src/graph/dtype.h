// Element types of tensors, and the types that arithmetic on them is done in.
#pragma once

#include "opweld/dtype.h"

namespace opweld {

// The type that kernels and the scalar language compute in: half types widen to f32, small integers
// to i32; their values are wrapped back at every operator, so widening is not visible.
constexpr DType compute_dtype(DType dtype) {
  switch (dtype) {
    case DType::F16:
    case DType::BF16:
      return DType::F32;
    case DType::I16:
    case DType::I8:
    case DType::U8:
      return DType::I32;
    default:
      return dtype;
  }
}

}  // namespace opweld
