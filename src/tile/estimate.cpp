#include "tile/estimate.h"

#include <memory>

#include "tile/pressure.h"
#include "tile/work.h"

namespace opweld::tile {

KernelEstimate estimate(LoweredKernel kernel, const Target& target) {
  KernelEstimate result;
  result.pressure = estimate_pressure(kernel, target);
  const auto program = std::make_shared<const TileProgram>(std::move(kernel.program));
  result.work = [program, &target](const Bindings& sizes) {
    return count_work(*program, target, sizes);
  };
  return result;
}

}  // namespace opweld::tile
