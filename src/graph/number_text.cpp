#include "graph/number_text.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>

namespace opweld {

std::string real_text(double value, DType dtype) {
  assert(is_float(dtype));
  if (std::isnan(value)) return "nan";
  // What an f16 or bf16 holds is an f32 too, so that the shortest f32 decimal determines it.
  std::string text =
      dtype == DType::F64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  const bool looks_real = text.find_first_of(".einf") != std::string::npos;
  return looks_real ? text : text + ".0";
}

}  // namespace opweld
