#include "fusion/pressure.h"

#include <algorithm>

namespace opweld {

Dim Pressure::on_chip_bytes(const Target& target) const {
  const int spilled = std::max(0, vector_registers - target.vector_registers);
  return cache_bytes + spilled * (target.vector_bits / 8);
}

}  // namespace opweld
