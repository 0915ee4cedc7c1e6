#include "runtime/compiled_kernel.h"

#include <fmt/ranges.h>

#include <cstring>

namespace opweld {

std::string CompiledKernel::failure(std::int32_t code, const std::byte* scratch) const {
  const CheckText& check = checks[static_cast<std::size_t>(code - 1)];
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < check.shown.size(); ++i) {
    std::int64_t number = 0;
    std::memcpy(&number, scratch + i * sizeof number, sizeof number);
    numbers.push_back(fmt::format("{} {}", check.shown[i], number));
  }
  if (numbers.empty()) return check.message;
  return fmt::format("{} ({})", check.message, fmt::join(numbers, ", "));
}

}  // namespace opweld
