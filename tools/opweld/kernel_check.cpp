#include "kernel_check.h"

#include <algorithm>

#include "ops/reference.h"
#include "runtime/kernel_reference.h"

namespace opweld::cli {

Expected<std::vector<Tensor>> KernelCheck::run(Compiled& compiled, std::span<const Tensor> inputs) {
  Executable& executable = compiled.executable;
  OPWELD_TRY(const Bindings bindings, bind_symbols(executable.graph(), inputs));
  const std::size_t version = executable.version_for(bindings);
  RunOptions options;
  options.observer = [&](const Kernel& kernel, std::span<const Tensor> read,
                         std::span<const Tensor> written) {
    const auto tuned = std::ranges::find_if(compiled.tunable, [&](const TunableKernel& each) {
      return each.version == version && each.kernel == kernel.id;
    });
    tile::LowerOptions lowered{&target_, strict_};
    if (tuned != compiled.tunable.end()) lowered.blocking = tuned->used.blocking;
    return check(kernel, lowered, bindings, read, written);
  };
  return executable.run(inputs, nullptr, options);
}

Status KernelCheck::check(const Kernel& kernel, const tile::LowerOptions& options,
                          const Bindings& bindings, std::span<const Tensor> inputs,
                          std::span<const Tensor> outputs) {
  OPWELD_TRY(const std::vector<Comparison> comparisons,
             judge_kernel(kernel, options, bindings, inputs, outputs));
  ++checked_;
  bool differs = false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (comparisons[i].equal) continue;
    differs = true;
    if (!first_fault_.empty()) continue;
    first_fault_ =
        fmt::format("{} ({}), node '{}': {}", kernel.name, kernel.label,
                    kernel.outputs[i]->producer()->display_name(), comparisons[i].message);
  }
  if (differs) ++differ_;
  return {};
}

std::string KernelCheck::summary() const {
  return fmt::format("kernels: {} checked one by one on the inputs they had, {} differ", checked_,
                     differ_);
}

}  // namespace opweld::cli
