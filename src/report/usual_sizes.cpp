#include "report/usual_sizes.h"

#include <algorithm>

namespace opweld {

std::int64_t usual_size(const SymbolInfo& symbol) {
  constexpr std::int64_t kUsualLength = 128;
  const bool batch = symbol.name.find("batch") != std::string::npos || symbol.name == "N";
  const std::int64_t wanted = batch ? 1 : kUsualLength;
  const auto& [min, max, divisor] = symbol.range;
  const std::int64_t fitting = std::clamp(wanted, min, max);
  const std::int64_t below = fitting - fitting % divisor;
  // Below the range only if the range begins between two multiples.
  return below >= min ? below : below + divisor;
}

Bindings usual_sizes(const Graph& graph) {
  Bindings bindings;
  for (const Dim& symbol : graph.symbols()) {
    const auto info = symbol.as_symbol();
    bindings.set(info->name, usual_size(*info));
  }
  return bindings;
}

}  // namespace opweld
