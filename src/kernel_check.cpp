#include "kernel_check.h"

#include <algorithm>

#include "ops/reference.h"
#include "tile/kernel_reference.h"

namespace opweld {

namespace {

Expected<KernelVerdict> check(const Kernel& kernel, const tile::LowerOptions& options,
                              const Bindings& bindings, std::span<const Tensor> inputs,
                              std::span<const Tensor> outputs) {
  OPWELD_TRY(const std::vector<Comparison> comparisons,
             judge_kernel(kernel, options, bindings, inputs, outputs));
  KernelVerdict verdict{kernel.name, kernel.label, kernel.scope, 0, {}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    verdict.largest_difference =
        std::max(verdict.largest_difference, comparisons[i].largest_difference);
    if (comparisons[i].equal || !verdict.fault.empty()) continue;
    verdict.fault = fmt::format("node '{}': {}", kernel.outputs[i]->producer()->display_name(),
                                comparisons[i].message);
  }
  return verdict;
}

}  // namespace

Expected<CheckedRun> check_kernels(Compiled& compiled, const Target& target, bool strict,
                                   std::span<const Tensor> inputs) {
  Executable& executable = compiled.executable;
  OPWELD_TRY(const Bindings bindings, bind_symbols(executable.graph(), inputs));
  const std::size_t version = executable.version_for(bindings);
  CheckedRun run;
  RunOptions options;
  options.observer = [&](const Kernel& kernel, std::span<const Tensor> read,
                         std::span<const Tensor> written) -> Status {
    const auto tuned = std::ranges::find_if(compiled.tunable, [&](const TunableKernel& each) {
      return each.version == version && each.kernel == kernel.id;
    });
    tile::LowerOptions lowered{&target, strict};
    if (tuned != compiled.tunable.end()) lowered.blocking = tuned->used.blocking;
    OPWELD_TRY(KernelVerdict verdict, check(kernel, lowered, bindings, read, written));
    run.kernels.push_back(std::move(verdict));
    return {};
  };
  OPWELD_TRY(run.outputs, executable.run(inputs, nullptr, options));
  return run;
}

}  // namespace opweld
