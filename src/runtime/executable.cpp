#include "runtime/executable.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>

#include "ops/op.h"
#include "ops/reference.h"
#include "runtime/memory_plan.h"
#include "runtime/pack.h"
#include "runtime/storage.h"
#include "support/block_pool.h"
#include "support/memory_block.h"
#include "support/thread_team.h"

namespace opweld {

namespace {

using Clock = std::chrono::steady_clock;

// Bytes that a run works in, kept for the next one; what they hold does not matter.
class WorkBytes {
 public:
  Status resize(std::int64_t bytes) {
    if (bytes <= capacity_) return {};
    block_ = allocate_block(static_cast<std::size_t>(bytes));
    capacity_ = block_ == nullptr ? 0 : bytes;
    if (block_ == nullptr) return fail("cannot allocate {} bytes for intermediate tensors", bytes);
    return {};
  }
  [[nodiscard]] std::byte* data() { return block_.get(); }

 private:
  std::shared_ptr<std::byte> block_;
  std::int64_t capacity_ = 0;
};

// Everything that depends on the sizes of a run, kept for the next run with the same sizes.
struct SizedPlan {
  Bindings bindings;
  MemoryPlan memory;
  std::vector<Sizes> output_sizes;
  struct KernelSizes {
    std::vector<std::int64_t> symbols;  // of the kernel's program, in order
    std::int64_t tasks = 0;
    std::int64_t scratch_bytes = 0;
    // What the tasks share: where in the arena, by shared param.
    struct Shared {
      std::int64_t offset = 0;
      std::int64_t bytes = 0;
      bool zeroed = false;
    };
    std::vector<Shared> shared;
    std::int64_t bytes_read = 0;
    std::int64_t bytes_written = 0;
  };
  std::vector<KernelSizes> kernels;
  std::int64_t scratch_bytes = 0;  // the largest of any kernel
};

// What one call of run() needs for itself; pooled between calls.
struct Workspace {
  WorkBytes arena;
  std::vector<WorkBytes> scratch;  // by thread
};

}  // namespace

struct Executable::State {
  State(Graph the_graph, FusionPlan the_plan, std::vector<ExecutableKernel> the_kernels,
        int threads)
      : graph(std::move(the_graph)),
        plan(std::move(the_plan)),
        kernels(std::move(the_kernels)),
        storage(graph, plan),
        results(graph.outputs().size()),
        team(threads) {}

  Graph graph;
  FusionPlan plan;
  std::vector<ExecutableKernel> kernels;
  StorageMap storage;
  std::vector<Tensor> constants;  // by storage index
  BlockPool results;              // of run()

  std::mutex team_mutex;  // one run at a time has the team
  ThreadTeam team;

  std::mutex cache_mutex;
  std::vector<std::shared_ptr<const SizedPlan>> sized;  // most recent first
  std::vector<std::unique_ptr<Workspace>> workspaces;

  Expected<std::shared_ptr<const SizedPlan>> sized_plan(const Bindings& bindings);
  Expected<std::shared_ptr<const SizedPlan>> make_sized_plan(const Bindings& bindings);
  Status size_kernels(SizedPlan& sizes);
  // Everything that the sizes of the inputs decide; fails where they contradict the model.
  Expected<std::shared_ptr<const SizedPlan>> plan_run(std::span<const Tensor> inputs);
  // A tensor for run() to give away; what it holds does not matter.
  Expected<Tensor> take_result(DType dtype, const Sizes& sizes);
  Status execute(const SizedPlan& sizes, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                 RunStats* stats, const RunOptions& options);
};

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

const Graph& Executable::graph() const {
  return state_->graph;
}
const FusionPlan& Executable::plan() const {
  return state_->plan;
}
std::span<const ExecutableKernel> Executable::kernels() const {
  return state_->kernels;
}
int Executable::threads() const {
  return state_->team.size();
}

namespace {

// Constants that kernels have of their own are not kept by the graph as well, unless a call, a
// model output or an alias reads them from there.
void release_constants(Executable& executable, Graph& graph, const StorageMap& storage,
                       std::vector<Tensor>& constants, const FusionPlan& plan) {
  std::vector<bool> needed(constants.size(), false);
  const auto need = [&](const Value* value) {
    const StorageMap::Slot slot = storage.slot(value);
    if (slot.place == StorageMap::Place::Constant)
      needed[static_cast<std::size_t>(slot.index)] = true;
  };
  for (const auto& output : graph.outputs()) need(output.value);
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    for (const Value* input : plan.kernels[i].inputs) need(input);
    if (executable.kernels()[i].code != nullptr) continue;
    for (const Value* constant : plan.kernels[i].constants) need(constant);
  }
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (needed[i]) continue;
    constants[i] = Tensor();
    storage.constants()[i]->producer()->attributes().erase("value");
  }
}

}  // namespace

Expected<Executable> Executable::create(Graph graph, FusionPlan plan,
                                        std::vector<ExecutableKernel> kernels, int threads,
                                        GraphConstants constants) {
  assert(plan.kernels.size() == kernels.size());
  auto state =
      std::make_unique<State>(std::move(graph), std::move(plan), std::move(kernels), threads);
  for (const Value* constant : state->storage.constants()) {
    state->constants.push_back(constant->producer()->attributes().tensor("value"));
  }
  State& parts = *state;
  Executable executable(std::move(state));
  if (constants == GraphConstants::Release) {
    release_constants(executable, parts.graph, parts.storage, parts.constants, parts.plan);
  }
  // After that, so that what is packed goes one by one as its packed form comes.
  OPWELD_CHECK(pack_constants(parts.kernels));
  return executable;
}

Expected<std::shared_ptr<const SizedPlan>> Executable::State::sized_plan(const Bindings& bindings) {
  constexpr std::size_t kKept = 8;
  const std::lock_guard lock(cache_mutex);
  for (std::size_t i = 0; i < sized.size(); ++i) {
    if (sized[i]->bindings == bindings) {
      std::rotate(sized.begin(), sized.begin() + static_cast<std::ptrdiff_t>(i),
                  sized.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return sized.front();
    }
  }
  OPWELD_TRY(auto made, make_sized_plan(bindings));
  sized.insert(sized.begin(), made);
  if (sized.size() > kKept) sized.pop_back();
  return made;
}

namespace {

// A size such as s - 1 is sound for most lengths, and negative for some.
Status check_not_negative(const Graph& graph, const Bindings& bindings) {
  for (const auto& node : graph.nodes()) {
    for (int i = 0; i < node->num_results(); ++i) {
      for (const Dim& size : node->result(i)->shape()) {
        if (size.lower_bound() >= 0) continue;
        OPWELD_TRY(const std::int64_t value, size.evaluate(bindings));
        if (value >= 0) continue;
        return usage_error("{} '{}': these inputs make its size {} negative ({})", node->op(),
                           node->display_name(), size, value);
      }
    }
  }
  return {};
}

}  // namespace

Expected<std::shared_ptr<const SizedPlan>> Executable::State::make_sized_plan(
    const Bindings& bindings) {
  OPWELD_CHECK(check_not_negative(graph, bindings));
  auto result = std::make_shared<SizedPlan>();
  result->bindings = bindings;
  std::vector<Lifetime> lifetimes;
  for (const auto& value : storage.arena()) {
    OPWELD_TRY(const std::int64_t bytes, value.value->type().num_bytes().evaluate(bindings));
    lifetimes.push_back({bytes, value.first_step, value.last_step, value.in_place_of});
  }
  OPWELD_CHECK(size_kernels(*result));
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    for (const auto& shared : result->kernels[i].shared) {
      lifetimes.push_back({shared.bytes, static_cast<int>(i), static_cast<int>(i)});
    }
  }
  OPWELD_TRY(result->memory, plan_memory(lifetimes));
  std::size_t next = storage.arena().size();
  for (auto& kernel : result->kernels) {
    for (auto& shared : kernel.shared) shared.offset = result->memory.offsets[next++];
  }
  for (const auto& output : graph.outputs()) {
    OPWELD_TRY(Sizes sizes, evaluate(output.value->shape(), bindings));
    result->output_sizes.push_back(std::move(sizes));
  }
  return result;
}

Status Executable::State::size_kernels(SizedPlan& sizes) {
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    SizedPlan::KernelSizes kernel;
    OPWELD_TRY(kernel.bytes_read, FusionPlan::bytes_read(plan.kernels[i]).evaluate(sizes.bindings));
    OPWELD_TRY(kernel.bytes_written,
               FusionPlan::bytes_written(plan.kernels[i]).evaluate(sizes.bindings));
    if (const auto& code = kernels[i].code) {
      for (const Dim& symbol : kernels[i].program.symbols) {
        OPWELD_TRY(const std::int64_t value, symbol.evaluate(sizes.bindings));
        kernel.symbols.push_back(value);
      }
      OPWELD_TRY(kernel.tasks, code->num_tasks.evaluate(kernel.symbols));
      OPWELD_TRY(kernel.scratch_bytes, code->scratch_bytes.evaluate(kernel.symbols));
      sizes.scratch_bytes = std::max(sizes.scratch_bytes, kernel.scratch_bytes);
      for (const auto& shared : code->shared) {
        OPWELD_TRY(const std::int64_t bytes, shared.bytes.evaluate(kernel.symbols));
        kernel.shared.push_back({0, bytes, shared.zeroed});
      }
    }
    sizes.kernels.push_back(std::move(kernel));
  }
  return {};
}

namespace {

// One call of run(): resolves values to addresses and goes through the kernels.
class Run {
 public:
  Run(const Graph& graph, const FusionPlan& plan, std::span<const ExecutableKernel> kernels,
      const StorageMap& storage, std::span<const Tensor> constants, const SizedPlan& sizes,
      std::span<const Tensor> inputs, std::span<Tensor> outputs, Workspace& workspace,
      ThreadTeam& team)
      : graph_(graph),
        plan_(plan),
        kernels_(kernels),
        storage_(storage),
        constants_(constants),
        sizes_(sizes),
        inputs_(inputs),
        outputs_(outputs),
        workspace_(workspace),
        team_(team) {}

  Status operator()(RunStats* stats, const RunOptions& options) {
    OPWELD_CHECK(workspace_.arena.resize(sizes_.memory.arena_bytes));
    workspace_.scratch.resize(static_cast<std::size_t>(team_.size()));
    for (WorkBytes& scratch : workspace_.scratch) {
      OPWELD_CHECK(scratch.resize(sizes_.scratch_bytes));
    }
    if (stats != nullptr) *stats = {};
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      const Clock::time_point start = options.profile ? Clock::now() : Clock::time_point{};
      OPWELD_CHECK(options.observer ? run_observed(i, options.observer) : run_kernel(i));
      if (stats != nullptr) record(i, start, options, *stats);
    }
    if (stats != nullptr) stats->arena_bytes = sizes_.memory.arena_bytes;
    copy_remaining_outputs();
    return {};
  }

 private:
  const std::byte* read(const Value* value) {
    const StorageMap::Slot slot = storage_.slot(value);
    const auto index = static_cast<std::size_t>(slot.index);
    switch (slot.place) {
      case StorageMap::Place::Input:
        return inputs_[index].data();
      case StorageMap::Place::Constant:
        return constants_[index].data();
      case StorageMap::Place::Output:
        return outputs_[index].data();
      case StorageMap::Place::Arena:
        return workspace_.arena.data() + sizes_.memory.offsets[index];
    }
    return nullptr;
  }

  std::byte* write(const Value* value) {
    const StorageMap::Slot slot = storage_.slot(value);
    const auto index = static_cast<std::size_t>(slot.index);
    if (slot.place == StorageMap::Place::Output) return outputs_[index].mutable_data();
    assert(slot.place == StorageMap::Place::Arena);
    return workspace_.arena.data() + sizes_.memory.offsets[index];
  }

  Status run_kernel(std::size_t index) {
    return kernels_[index].code != nullptr ? run_generated(index) : run_call(index);
  }

  Status run_observed(std::size_t index, const KernelObserver& observer) {
    const Kernel& kernel = plan_.kernels[index];
    std::vector<Tensor> inputs;
    for (const Value* input : kernel.inputs) {
      OPWELD_TRY(const Tensor tensor, view(input));
      OPWELD_TRY(Tensor copy, tensor.clone());
      inputs.push_back(std::move(copy));
    }
    OPWELD_CHECK(run_kernel(index));
    std::vector<Tensor> outputs;
    for (const Value* output : kernel.outputs) {
      OPWELD_TRY(Tensor tensor, view(output));
      outputs.push_back(std::move(tensor));
    }
    return observer(kernel, inputs, outputs);
  }

  // Inputs, constants, outputs, what tasks share: the order of the program's params.
  Status run_generated(std::size_t index) {
    const Kernel& kernel = plan_.kernels[index];
    const ExecutableKernel& executable = kernels_[index];
    std::vector<void*> params;
    params.reserve(executable.program.params.size());
    for (const Value* input : kernel.inputs) {
      params.push_back(const_cast<std::byte*>(read(input)));
    }
    for (const auto& constant : executable.constants) {
      params.push_back(const_cast<std::byte*>(constant.value.data()));
    }
    for (const Value* output : kernel.outputs) params.push_back(write(output));
    const SizedPlan::KernelSizes& sizes = sizes_.kernels[index];
    for (const auto& shared : sizes.shared) {
      std::byte* const at = workspace_.arena.data() + shared.offset;
      if (shared.zeroed && shared.bytes > 0)
        std::memset(at, 0, static_cast<std::size_t>(shared.bytes));
      params.push_back(at);
    }
    // Of several failures that of the first task, however the tasks are shared out.
    std::mutex failure_mutex;
    std::int64_t failed_at = sizes.tasks;
    std::string failure;
    team_.run(sizes.tasks, [&](std::int64_t begin, std::int64_t end, int thread) {
      std::byte* const scratch = workspace_.scratch[static_cast<std::size_t>(thread)].data();
      const std::int32_t code =
          executable.code->function(params.data(), sizes.symbols.data(), begin, end, scratch);
      if (code == 0) return;
      const std::lock_guard lock(failure_mutex);
      if (begin >= failed_at) return;
      failed_at = begin;
      failure = executable.code->failure(code, scratch);
    });
    if (failed_at < sizes.tasks) return fail("{}", failure);
    return {};
  }

  Expected<Tensor> view(const Value* value) {
    OPWELD_TRY(Sizes sizes, evaluate(value->shape(), sizes_.bindings));
    return Tensor::borrow(value->dtype(), std::move(sizes), read(value), nullptr);
  }

  Status run_call(std::size_t index) {
    const Node& node = *plan_.kernels[index].nodes.front();
    std::vector<Tensor> operands(static_cast<std::size_t>(node.num_operands()));
    for (int i = 0; i < node.num_operands(); ++i) {
      if (node.operand(i) == nullptr) continue;
      OPWELD_TRY(operands[static_cast<std::size_t>(i)], view(node.operand(i)));
    }
    auto results = evaluate_node(node, operands, sizes_.bindings);
    if (!results) {
      return tl::unexpected(
          results.error().with_context(fmt::format("{} '{}'", node.op(), node.display_name())));
    }
    for (int i = 0; i < node.num_results(); ++i) {
      const auto& outputs = plan_.kernels[index].outputs;
      if (std::find(outputs.begin(), outputs.end(), node.result(i)) == outputs.end()) continue;
      const Tensor& result = (*results)[static_cast<std::size_t>(i)];
      if (result.num_bytes() > 0) {
        std::memcpy(write(node.result(i)), result.data(),
                    static_cast<std::size_t>(result.num_bytes()));
      }
    }
    return {};
  }

  void record(std::size_t index, Clock::time_point start, const RunOptions& options,
              RunStats& stats) {
    KernelStats kernel;
    kernel.bytes_read = sizes_.kernels[index].bytes_read;
    kernel.bytes_written = sizes_.kernels[index].bytes_written;
    if (options.profile) {
      kernel.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    ++stats.kernels;
    ++stats.launches;
    stats.bytes_read += kernel.bytes_read;
    stats.bytes_written += kernel.bytes_written;
    stats.by_kernel.push_back(kernel);
  }

  // Outputs that no kernel writes: inputs, constants, and values given out a second time.
  void copy_remaining_outputs() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const StorageMap::Slot slot = storage_.slot(graph_.outputs()[i].value);
      if (slot.place == StorageMap::Place::Output && slot.index == static_cast<int>(i)) continue;
      if (outputs_[i].num_bytes() == 0) continue;
      std::memcpy(outputs_[i].mutable_data(), read(graph_.outputs()[i].value),
                  static_cast<std::size_t>(outputs_[i].num_bytes()));
    }
  }

  const Graph& graph_;
  const FusionPlan& plan_;
  std::span<const ExecutableKernel> kernels_;
  const StorageMap& storage_;
  std::span<const Tensor> constants_;
  const SizedPlan& sizes_;
  std::span<const Tensor> inputs_;
  std::span<Tensor> outputs_;
  Workspace& workspace_;
  ThreadTeam& team_;
};

// What generated code takes for granted of the tensors that a caller hands over; their sizes are
// bind_symbols' business.
Status check_inputs(const Graph& graph, std::span<const Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value* declared = graph.inputs()[i];
    if (inputs[i].dtype() != declared->dtype()) {
      return usage_error("input '{}' must be {}, but is {}", declared->name(),
                         to_string(declared->dtype()), to_string(inputs[i].dtype()));
    }
    if (inputs[i].data() == nullptr && inputs[i].num_elements() > 0) {
      return usage_error("input '{}' has no data", declared->name());
    }
  }
  return {};
}

bool overlap(const Tensor& a, const Tensor& b) {
  const std::less<> before;
  return a.num_bytes() > 0 && b.num_bytes() > 0 && before(a.data(), b.data() + b.num_bytes()) &&
         before(b.data(), a.data() + a.num_bytes());
}

Status check_outputs(const Graph& graph, std::span<const Sizes> sizes,
                     std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (outputs.size() != sizes.size()) {
    return usage_error("the model has {} outputs, but {} were given", sizes.size(), outputs.size());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, value] = graph.outputs()[i];
    if (outputs[i].dtype() != value->dtype() || outputs[i].sizes() != sizes[i]) {
      return usage_error("output '{}' is {}{} for these inputs, but {}{} was given", name,
                         to_string(value->dtype()), to_string(sizes[i]),
                         to_string(outputs[i].dtype()), to_string(outputs[i].sizes()));
    }
    if (outputs[i].data() == nullptr && outputs[i].num_elements() > 0) {
      return usage_error("output '{}' has no memory", name);
    }
    const auto shares = [&](const Tensor& other) { return overlap(outputs[i], other); };
    if (std::any_of(inputs.begin(), inputs.end(), shares) ||
        std::any_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), shares)) {
      return usage_error("output '{}' overlaps another tensor of the run", name);
    }
  }
  return {};
}

}  // namespace

Expected<std::shared_ptr<const SizedPlan>> Executable::State::plan_run(
    std::span<const Tensor> inputs) {
  OPWELD_TRY(const Bindings bindings, bind_symbols(graph, inputs));
  OPWELD_CHECK(check_assumptions(graph, bindings));
  return sized_plan(bindings);
}

Status Executable::State::execute(const SizedPlan& sizes, std::span<const Tensor> inputs,
                                  std::span<Tensor> outputs, RunStats* stats,
                                  const RunOptions& options) {
  std::unique_ptr<Workspace> workspace;
  {
    const std::lock_guard lock(cache_mutex);
    if (!workspaces.empty()) {
      workspace = std::move(workspaces.back());
      workspaces.pop_back();
    }
  }
  if (!workspace) workspace = std::make_unique<Workspace>();
  Status status;
  {
    const std::lock_guard lock(team_mutex);
    status = Run(graph, plan, kernels, storage, constants, sizes, inputs, outputs, *workspace,
                 team)(stats, options);
  }
  const std::lock_guard lock(cache_mutex);
  workspaces.push_back(std::move(workspace));
  return status;
}

Expected<std::vector<Sizes>> Executable::output_sizes(std::span<const Tensor> inputs) {
  OPWELD_TRY(const auto sizes, state_->plan_run(inputs));
  return sizes->output_sizes;
}

Expected<Tensor> Executable::State::take_result(DType dtype, const Sizes& sizes) {
  const auto bytes = checked_num_bytes(dtype, sizes);
  const auto block = bytes ? results.take(static_cast<std::size_t>(*bytes)) : nullptr;
  // It knows what to say of a tensor that cannot be had.
  if (block == nullptr) return Tensor::allocate(dtype, sizes);
  return Tensor::borrow_mutable(dtype, sizes, block.get(), block);
}

Expected<std::vector<Tensor>> Executable::run(std::span<const Tensor> inputs, RunStats* stats,
                                              const RunOptions& options) {
  OPWELD_TRY(const auto sizes, state_->plan_run(inputs));
  OPWELD_CHECK(check_inputs(state_->graph, inputs));
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < sizes->output_sizes.size(); ++i) {
    OPWELD_TRY(Tensor output, state_->take_result(state_->graph.outputs()[i].value->dtype(),
                                                  sizes->output_sizes[i]));
    outputs.push_back(std::move(output));
  }
  OPWELD_CHECK(state_->execute(*sizes, inputs, outputs, stats, options));
  return outputs;
}

Status Executable::run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                            RunStats* stats, const RunOptions& options) {
  OPWELD_TRY(const auto sizes, state_->plan_run(inputs));
  OPWELD_CHECK(check_inputs(state_->graph, inputs));
  OPWELD_CHECK(check_outputs(state_->graph, sizes->output_sizes, inputs, outputs));
  return state_->execute(*sizes, inputs, outputs, stats, options);
}

}  // namespace opweld
