#include "runtime/sized_plan.h"

#include <algorithm>
#include <utility>

#include "runtime/oversize.h"

namespace opweld {

namespace {

// A size such as s - 1 is sound for most lengths, and negative for some.
Status check_not_negative(const Graph& graph, const Bindings& bindings) {
  for (const auto& node : graph.nodes()) {
    for (int i = 0; i < node->num_results(); ++i) {
      for (const Dim& size : node->result(i)->shape()) {
        if (size.lower_bound() >= 0) continue;
        const auto value = size.evaluate(bindings);
        if (!value) return too_large(*node->result(i), bindings);
        if (*value >= 0) continue;
        return usage_error("{} '{}': these inputs make its size {} negative ({})", node->op(),
                           node->display_name(), size, *value);
      }
    }
  }
  return {};
}

Expected<SizedPlan::KernelSizes> count_kernel(const Kernel& kernel,
                                              const ExecutableKernel& executable,
                                              const Bindings& bindings) {
  SizedPlan::KernelSizes sizes;
  OPWELD_TRY(sizes.bytes_read, FusionPlan::bytes_read(kernel).evaluate(bindings));
  OPWELD_TRY(sizes.bytes_written, FusionPlan::bytes_written(kernel).evaluate(bindings));
  sizes.tasks = 1;
  if (executable.code == nullptr) return sizes;
  for (const std::string& symbol : executable.code->symbols) {
    const auto value = bindings.find(symbol);
    if (!value) return usage_error("the size {} is not known; give it a value", symbol);
    sizes.symbols.push_back(*value);
  }
  OPWELD_TRY(sizes.tasks, executable.code->num_tasks.evaluate(sizes.symbols));
  OPWELD_TRY(sizes.scratch_bytes, executable.code->scratch_bytes.evaluate(sizes.symbols));
  sizes.shared.reserve(executable.code->shared.size());
  for (const auto& shared : executable.code->shared) {
    OPWELD_TRY(const std::int64_t bytes, shared.bytes.evaluate(sizes.symbols));
    sizes.shared.push_back({0, bytes, shared.zeroed});
  }
  return sizes;
}

Expected<SizedPlan::KernelSizes> size_kernel(const Kernel& kernel,
                                             const ExecutableKernel& executable,
                                             const Bindings& bindings) {
  auto sizes = count_kernel(kernel, executable, bindings);
  if (!sizes) return too_large(kernel, sizes.error(), bindings);
  return sizes;
}

SingleLaunch arrange(const FusionPlan& plan, const StorageMap& storage, const SizedPlan& sizes) {
  std::vector<std::vector<int>> producers = producers_of(plan, storage);
  std::vector<LaunchedKernel> launched;
  launched.reserve(producers.size());
  for (std::size_t i = 0; i < producers.size(); ++i) {
    launched.push_back({sizes.kernels[i].tasks, std::move(producers[i])});
  }
  return arrange_launch(launched);
}

// When an intermediate is live: in kernels where each is a launch, else in stretches, all kernels
// of which run at once.
Lifetime lifetime_of(const StorageMap::ArenaValue& value, std::int64_t bytes,
                     const std::optional<SingleLaunch>& launch) {
  if (!launch) return {bytes, value.first_step, value.last_step, value.in_place_of};
  const auto stretch_of = [&](int kernel) {
    return launch->stretch_of[static_cast<std::size_t>(kernel)];
  };
  Lifetime lifetime{bytes, stretch_of(value.first_step), stretch_of(value.first_step),
                    value.in_place_of};
  for (const int reader : value.readers) {
    lifetime.last_step = std::max(lifetime.last_step, stretch_of(reader));
  }
  return lifetime;
}

// Whether the kernel that writes over an operand may still do so: nobody reads that beside it.
bool reads_alone(const StorageMap::ArenaValue& operand, int kernel, const SingleLaunch& launch) {
  const auto stretch_of = [&](int other) {
    return launch.stretch_of[static_cast<std::size_t>(other)];
  };
  return std::all_of(operand.readers.begin(), operand.readers.end(), [&](int reader) {
    return reader == kernel || stretch_of(reader) < stretch_of(kernel);
  });
}

Status place_intermediates(const StorageMap& storage, SizedPlan& sizes) {
  std::vector<Lifetime> lifetimes;
  std::vector<Lifetime> in_turn;  // of kernels one after another
  for (const StorageMap::ArenaValue& value : storage.arena()) {
    const auto counted = value.value->type().num_bytes().evaluate(sizes.bindings);
    if (!counted) return too_large(*value.value, sizes.bindings);
    const std::int64_t bytes = *counted;
    Lifetime lifetime = lifetime_of(value, bytes, sizes.launch);
    if (sizes.launch && value.in_place_of >= 0) {
      const auto& operand = storage.arena()[static_cast<std::size_t>(value.in_place_of)];
      if (!reads_alone(operand, value.first_step, *sizes.launch)) lifetime.in_place_of = -1;
    }
    lifetimes.push_back(lifetime);
    in_turn.push_back(lifetime_of(value, bytes, std::nullopt));
  }
  sizes.live_bytes = most_live_bytes(in_turn);
  for (std::size_t i = 0; i < sizes.kernels.size(); ++i) {
    const int step = sizes.launch ? sizes.launch->stretch_of[i] : static_cast<int>(i);
    for (const auto& shared : sizes.kernels[i].shared) {
      // Zeroes that are written before the launch must last until then.
      const int first = sizes.launch && shared.zeroed ? 0 : step;
      lifetimes.push_back({shared.bytes, first, step});
    }
  }
  auto memory = plan_memory(lifetimes);
  if (!memory) {
    const auto largest = std::ranges::max_element(in_turn, {}, &Lifetime::bytes);
    if (largest == in_turn.end()) return tl::unexpected(memory.error());
    const auto index = static_cast<std::size_t>(largest - in_turn.begin());
    return too_large(*storage.arena()[index].value, sizes.bindings);
  }
  sizes.memory = std::move(*memory);
  std::size_t next = storage.arena().size();
  for (auto& kernel : sizes.kernels) {
    for (auto& shared : kernel.shared) shared.offset = sizes.memory.offsets[next++];
  }
  return {};
}

}  // namespace

Expected<SizedPlan> size_plan(const Graph& graph, const PlanVersion& version,
                              const StorageMap& storage, const Bindings& bindings,
                              bool single_launch) {
  const auto& [plan, kernels] = version;
  OPWELD_CHECK(check_not_negative(graph, bindings));
  SizedPlan sizes;
  sizes.bindings = bindings;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    OPWELD_TRY(auto kernel, size_kernel(plan.kernels[i], kernels[i], bindings));
    sizes.scratch_bytes = std::max(sizes.scratch_bytes, kernel.scratch_bytes);
    sizes.kernels.push_back(std::move(kernel));
  }
  if (single_launch) sizes.launch = arrange(plan, storage, sizes);
  OPWELD_CHECK(place_intermediates(storage, sizes));
  for (const auto& output : graph.outputs()) {
    auto output_sizes = evaluate(output.value->shape(), bindings);
    if (!output_sizes || !checked_num_bytes(output.value->dtype(), *output_sizes)) {
      return too_large(*output.value, bindings);
    }
    sizes.output_sizes.push_back(std::move(*output_sizes));
  }
  return sizes;
}

}  // namespace opweld
