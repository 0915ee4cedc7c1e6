// Tensors in the textual form: "f32[2] {1.0, 2.0}", "i64[99] splat 0".
#pragma once

#include <string>

#include "graph/tensor.h"
#include "graph/text_cursor.h"

namespace opweld {

// With `full`, large tensors print their bytes, else a hash of them.
std::string tensor_text(const Tensor& tensor, bool full);

// Reads what follows the dtype: sizes and elements. `budget` is the number of bytes that tensors
// may still take, and is reduced.
Expected<Tensor> parse_tensor(TextCursor& cursor, DType dtype, std::int64_t& budget);

// A real number: "0.5", "-inf", "nan", "nan:0x7ff8000000000001". Nothing if it is none.
Expected<double> parse_real(TextCursor& cursor);
std::string real_bits_text(double value);  // the inverse; NaN with its bits where they are special

}  // namespace opweld
