#include "kernel_check.h"

#include "ops/reference.h"
#include "runtime/compare.h"

namespace opweld::cli {

Expected<std::vector<Tensor>> KernelCheck::run(Executable& executable,
                                               std::span<const Tensor> inputs) {
  OPWELD_TRY(const Bindings bindings, bind_symbols(executable.graph(), inputs));
  RunOptions options;
  options.observer = [&](const Kernel& kernel, std::span<const Tensor> read,
                         std::span<const Tensor> written) {
    return check(kernel, bindings, read, written);
  };
  return executable.run(inputs, nullptr, options);
}

Status KernelCheck::check(const Kernel& kernel, const Bindings& bindings,
                          std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Graph group = extract_group(kernel);
  OPWELD_TRY(const std::vector<Tensor> expected,
             evaluate(group, inputs, bindings, {.in_f64 = true, .observer = {}}));
  ++checked_;
  bool differs = false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Comparison comparison =
        compare(outputs[i], expected[i], default_tolerance(outputs[i].dtype()));
    if (comparison.equal) continue;
    differs = true;
    if (!first_fault_.empty()) continue;
    first_fault_ = fmt::format("{} ({}), node '{}': {}", kernel.name, kernel.label,
                               kernel.outputs[i]->producer()->display_name(), comparison.message);
  }
  if (differs) ++differ_;
  return {};
}

std::string KernelCheck::summary() const {
  return fmt::format("kernels: {} checked one by one on the inputs they had, {} differ", checked_,
                     differ_);
}

}  // namespace opweld::cli
