#include "graph/tensor_type.h"

#include <fmt/format.h>

namespace opweld {

std::string_view to_string(Format format) {
  switch (format) {
    case Format::Plain:
      return "plain";
    case Format::NCHW:
      return "nchw";
    case Format::NHWC:
      return "nhwc";
  }
  return "plain";
}

Dim TensorType::num_elements() const {
  return opweld::num_elements(shape);
}

Dim TensorType::num_bytes() const {
  return num_elements() * byte_size(dtype);
}

std::string to_string(const TensorType& type) {
  std::string text = fmt::format("{}{}", to_string(type.dtype), to_string(type.shape));
  if (type.format != Format::Plain) text += fmt::format(":{}", to_string(type.format));
  return text;
}

}  // namespace opweld
