#include "tile/executable_kernel.h"

#include <utility>

namespace opweld::tile {

PackedForm packed_form(const Param& param) {
  PackedForm form;
  form.columns = param.packed_columns;
  form.from_transposed = param.packed_from_transposed;
  form.parts = param.packed_parts;
  for (const ColumnStretch& stretch : param.packed_stretches) {
    form.stretches.push_back({stretch.columns, stretch.run});
  }
  if (param.packed_pairs) form.paired_depth = kMatrixDepth;
  return form;
}

ExecutableKernel executable_kernel(LoweredKernel lowered) {
  ExecutableKernel kernel;
  for (LoweredKernel::ConstantParam& constant : lowered.constants) {
    const Param& param = lowered.program.params[static_cast<std::size_t>(constant.param)];
    kernel.constants.push_back({std::move(constant.value), packed_form(param)});
  }
  kernel.program = std::make_shared<const TileProgram>(std::move(lowered.program));
  return kernel;
}

}  // namespace opweld::tile
