// What is known of a tensor before it exists: element type, symbolic shape, memory format.
#pragma once

#include <string>

#include "graph/dtype.h"
#include "support/shape.h"

namespace opweld {

// How the logical dimensions of an image-like tensor lie in memory. Everything else is Plain
// (row-major). Two operators whose formats disagree share a kernel only by converting in the load.
enum class Format : std::uint8_t { Plain, NCHW, NHWC };

std::string_view to_string(Format format);

struct TensorType {
  DType dtype = DType::F32;
  Shape shape;  // one Dim per axis; empty for a scalar
  Format format = Format::Plain;

  [[nodiscard]] int rank() const { return static_cast<int>(shape.size()); }
  [[nodiscard]] Dim num_elements() const;
  [[nodiscard]] Dim num_bytes() const;

  bool operator==(const TensorType&) const = default;
};

// "f32[b, s, 384]"; a format other than Plain follows: "f32[n, 3, 8, 8]:nhwc".
std::string to_string(const TensorType& type);

}  // namespace opweld
