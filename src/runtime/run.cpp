#include "runtime/run.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstring>
#include <mutex>

#include "ops/reference.h"
#include "runtime/oversize.h"
#include "support/memory_block.h"

namespace opweld {

bool WorkBytes::resize(std::int64_t bytes) {
  if (bytes <= capacity_) return true;
  block_ = allocate_block(static_cast<std::size_t>(bytes));
  capacity_ = block_ == nullptr ? 0 : bytes;
  return block_ != nullptr;
}

namespace {

using Clock = std::chrono::steady_clock;

// Of all failures the one that comes first when kernels run one after another, task by task.
class FirstFailure {
 public:
  // Whether the kernel lies behind a failure: then nobody may look at what it would make.
  [[nodiscard]] bool is_before(std::size_t kernel) const {
    return kernel_.load(std::memory_order_acquire) < kernel;
  }

  void add(std::size_t kernel, std::int64_t task, Error error) {
    const std::lock_guard lock(mutex_);
    const std::size_t known = kernel_.load(std::memory_order_relaxed);
    if (kernel > known || (kernel == known && task >= task_)) return;
    task_ = task;
    error_ = std::move(error);
    kernel_.store(kernel, std::memory_order_release);
  }

  // Once nothing runs any more.
  [[nodiscard]] Status status() const {
    if (kernel_.load(std::memory_order_relaxed) == kNone) return {};
    return tl::unexpected(error_);
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  std::atomic<std::size_t> kernel_{kNone};
  std::mutex mutex_;
  std::int64_t task_ = 0;
  Error error_;
};

// From the first task that a thread began to the last that it ended.
struct Span {
  Clock::time_point begin = Clock::time_point::max();
  Clock::time_point end = Clock::time_point::min();

  void include(const Span& other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
  [[nodiscard]] double seconds() const {
    return end < begin ? 0 : std::chrono::duration<double>(end - begin).count();
  }
};

// Resolves values to addresses and goes through the kernels.
class Run {
 public:
  Run(const RunnablePlan& plan, const SizedPlan& sizes, std::span<const Tensor> inputs,
      std::span<Tensor> outputs, Workspace& workspace, ThreadTeam& team)
      : plan_(plan),
        sizes_(sizes),
        inputs_(inputs),
        outputs_(outputs),
        workspace_(workspace),
        team_(team) {}

  Status operator()(RunStats* stats, const RunOptions& options) {
    if (!workspace_.arena.resize(sizes_.memory.arena_bytes)) return no_arena();
    workspace_.scratch.resize(static_cast<std::size_t>(team_.size()));
    for (WorkBytes& scratch : workspace_.scratch) {
      if (!scratch.resize(std::max(sizes_.scratch_bytes, kKeyBytes))) return no_scratch();
    }
    last_.assign(workspace_.scratch.size(), LastKernel{});
    workspace_.params.resize(plan_.kernels.size());
    // Of a launch of all kernels only the threads can tell when each of them ran.
    timed_ = options.trace || (options.profile && sizes_.launch);
    spans_.assign(timed_ ? plan_.kernels.size() * workspace_.scratch.size() : 0, Span{});
    began_ = timed_ ? Clock::now() : Clock::time_point{};
    if (stats != nullptr) *stats = {};
    copy_caches(stats);
    if (sizes_.launch) {
      OPWELD_CHECK(run_together(stats, options));
    } else {
      OPWELD_CHECK(run_apart(stats, options));
    }
    if (stats != nullptr && options.trace) record_work(stats->timeline);
    if (stats != nullptr) stats->arena_bytes = sizes_.memory.arena_bytes;
    copy_remaining_outputs();
    return {};
  }

 private:
  Status no_arena() const {
    std::string largest;
    std::int64_t most = 0;
    for (const StorageMap::ArenaValue& value : plan_.storage.arena()) {
      const auto bytes = value.value->type().num_bytes().evaluate(sizes_.bindings);
      if (!bytes || *bytes <= most) continue;
      most = *bytes;
      largest = tensor_text(*value.value, sizes_.bindings);
    }
    for (std::size_t i = 0; i < sizes_.kernels.size(); ++i) {
      for (const auto& shared : sizes_.kernels[i].shared) {
        if (shared.bytes <= most) continue;
        most = shared.bytes;
        largest = "what tasks share of " + name_of(i);
      }
    }
    return out_of_memory("the intermediate tensors of a run", sizes_.memory.arena_bytes, largest,
                         sizes_.bindings);
  }

  Status no_scratch() const {
    const auto largest =
        std::ranges::max_element(sizes_.kernels, {}, &SizedPlan::KernelSizes::scratch_bytes);
    return out_of_memory(
        "the buffers of each thread", sizes_.scratch_bytes,
        "those of " + name_of(static_cast<std::size_t>(largest - sizes_.kernels.begin())),
        sizes_.bindings);
  }

  std::string name_of(std::size_t kernel) const {
    const Kernel& planned = plan_.plan.kernels[kernel];
    return fmt::format("{} ({})", planned.name, planned.label);
  }

  Status run_apart(RunStats* stats, const RunOptions& options) {
    const bool clocked = options.profile || options.trace;
    for (std::size_t i = 0; i < plan_.kernels.size(); ++i) {
      Span span;
      if (clocked) span.begin = Clock::now();
      OPWELD_CHECK(options.observer ? run_observed(i, options.observer) : run_kernel(i));
      if (stats == nullptr) continue;
      if (clocked) span.end = Clock::now();
      record(i, options.profile ? span.seconds() : 0, *stats);
      ++stats->launches;
      if (options.trace) record_launch(i, 1, span, stats->timeline);
    }
    return {};
  }

  // Everything that threads would have to wait for is done before they start.
  Status run_together(RunStats* stats, const RunOptions& options) {
    const std::size_t kernels = plan_.kernels.size();
    for (std::size_t i = 0; i < kernels; ++i) prepare(i);
    const std::vector<SingleLaunch::Step>& steps = sizes_.launch->steps;
    workspace_.steps.clear();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool new_stretch = i > 0 && steps[i].stretch != steps[i - 1].stretch;
      workspace_.steps.push_back({steps[i].tasks, new_stretch});
    }
    Span launch;
    if (timed_) launch.begin = Clock::now();
    FirstFailure failure;
    team_.run_steps(workspace_.steps,
                    [&](std::size_t step, std::int64_t begin, std::int64_t end, int thread) {
                      for (const int index : steps[step].kernels) {
                        const auto kernel = static_cast<std::size_t>(index);
                        if (sizes_.kernels[kernel].tasks == 0 || failure.is_before(kernel))
                          continue;
                        run_timed_tasks(kernel, begin, end, thread, failure);
                      }
                    });
    OPWELD_CHECK(failure.status());
    if (timed_) launch.end = Clock::now();
    if (stats == nullptr) return {};
    record_together(options, *stats);
    if (options.trace && kernels > 0) record_launch(0, kernels, launch, stats->timeline);
    return {};
  }

  void record_together(const RunOptions& options, RunStats& stats) {
    const std::size_t kernels = plan_.kernels.size();
    for (std::size_t i = 0; i < kernels; ++i) {
      Span span;
      for (std::size_t at = i; at < spans_.size(); at += kernels) span.include(spans_[at]);
      record(i, options.profile ? span.seconds() : 0, stats);
    }
    stats.launches = kernels == 0 ? 0 : 1;
    stats.barriers = sizes_.launch->barriers();
  }

  [[nodiscard]] double since_begin(Clock::time_point time) const {
    return std::chrono::duration<double>(time - began_).count();
  }

  void record_launch(std::size_t first, std::size_t kernels, const Span& span,
                     Timeline& timeline) const {
    timeline.launches.push_back({static_cast<int>(first), static_cast<int>(kernels),
                                 since_begin(span.begin), since_begin(span.end)});
  }

  void record_work(Timeline& timeline) const {
    const std::size_t kernels = plan_.kernels.size();
    for (std::size_t kernel = 0; kernel < kernels; ++kernel) {
      for (std::size_t thread = 0; thread < workspace_.scratch.size(); ++thread) {
        const Span& span = spans_[thread * kernels + kernel];
        if (span.end < span.begin) continue;  // it had no task of it
        timeline.work.push_back({static_cast<int>(kernel), static_cast<int>(thread),
                                 since_begin(span.begin), since_begin(span.end)});
      }
    }
  }

  const std::byte* read(StorageMap::Slot slot) {
    const auto index = static_cast<std::size_t>(slot.index);
    switch (slot.place) {
      case StorageMap::Place::Input:
        return inputs_[index].data();
      case StorageMap::Place::Constant:
        return plan_.constants[index].data();
      case StorageMap::Place::Output:
        return outputs_[index].data();
      case StorageMap::Place::Arena:
        return workspace_.arena.data() + sizes_.memory.offsets[index];
    }
    return nullptr;
  }

  std::byte* write(StorageMap::Slot slot) {
    const auto index = static_cast<std::size_t>(slot.index);
    if (slot.place == StorageMap::Place::Output) return outputs_[index].mutable_data();
    assert(slot.place == StorageMap::Place::Arena);
    return workspace_.arena.data() + sizes_.memory.offsets[index];
  }

  // A kernel's params: inputs, constants, outputs, what tasks share, in the order of the program's;
  // and zeroes where it counts.
  void prepare(std::size_t index) {
    const ExecutableKernel& executable = plan_.kernels[index];
    if (executable.code == nullptr) return;
    const StorageMap::KernelSlots& slots = plan_.storage.kernels()[index];
    std::vector<void*>& params = workspace_.params[index];
    params.clear();
    for (const auto& slot : slots.inputs) params.push_back(const_cast<std::byte*>(read(slot)));
    for (const auto& constant : executable.constants) {
      params.push_back(const_cast<std::byte*>(constant.value.data()));
    }
    for (const auto& slot : slots.outputs) params.push_back(write(slot));
    for (const auto& shared : sizes_.kernels[index].shared) {
      std::byte* const at = workspace_.arena.data() + shared.offset;
      if (shared.zeroed && shared.bytes > 0) {
        std::memset(at, 0, static_cast<std::size_t>(shared.bytes));
      }
      params.push_back(at);
    }
  }

  Status run_kernel(std::size_t index) {
    prepare(index);
    FirstFailure failure;
    const auto work = [&](std::int64_t begin, std::int64_t end, int thread) {
      run_timed_tasks(index, begin, end, thread, failure);
    };
    team_.run(sizes_.kernels[index].tasks, work);
    return failure.status();
  }

  // With the time that this thread spends on the kernel, if anybody wants to know.
  void run_timed_tasks(std::size_t index, std::int64_t begin, std::int64_t end, int thread,
                       FirstFailure& failure) {
    if (!timed_) return run_tasks(index, begin, end, thread, failure);
    Span span;
    span.begin = Clock::now();
    run_tasks(index, begin, end, thread, failure);
    span.end = Clock::now();
    spans_[static_cast<std::size_t>(thread) * plan_.kernels.size() + index].include(span);
  }

  void run_tasks(std::size_t index, std::int64_t begin, std::int64_t end, int thread,
                 FirstFailure& failure) {
    const ExecutableKernel& executable = plan_.kernels[index];
    if (executable.code == nullptr) {
      if (Status called = run_call(index); !called) {
        failure.add(index, begin, std::move(called.error()));
      }
      return;
    }
    std::byte* const scratch = scratch_of(index, static_cast<std::size_t>(thread));
    const std::int32_t code = executable.code->function(
        workspace_.params[index].data(), sizes_.kernels[index].symbols.data(), begin, end, scratch);
    if (code == 0) return;
    failure.add(index, begin, Error{ErrorKind::Failure, executable.code->failure(code, scratch)});
  }

  // What a kernel keeps there is worth nothing once another one was there, or in another run.
  std::byte* scratch_of(std::size_t index, std::size_t thread) {
    std::byte* const scratch = workspace_.scratch[thread].data();
    const auto kernel = static_cast<std::int64_t>(index);
    if (std::exchange(last_[thread].kernel, kernel) != kernel) std::memset(scratch, 0, kKeyBytes);
    return scratch;
  }

  Status run_observed(std::size_t index, const KernelObserver& observer) {
    const Kernel& kernel = plan_.plan.kernels[index];
    std::vector<Tensor> inputs;
    for (const Value* input : kernel.inputs) {
      OPWELD_TRY(const Tensor tensor, view(input));
      auto copy = tensor.clone();
      if (!copy) {
        return out_of_memory("the elements of a kernel's input", tensor.num_bytes(),
                             tensor_text(*input, sizes_.bindings), sizes_.bindings);
      }
      inputs.push_back(std::move(*copy));
    }
    OPWELD_CHECK(run_kernel(index));
    std::vector<Tensor> outputs;
    for (const Value* output : kernel.outputs) {
      OPWELD_TRY(Tensor tensor, view(output));
      outputs.push_back(std::move(tensor));
    }
    return observer(kernel, inputs, outputs);
  }

  Expected<Tensor> view(const Value* value) {
    OPWELD_TRY(Sizes sizes, evaluate(value->shape(), sizes_.bindings));
    return Tensor::borrow(value->dtype(), std::move(sizes), read(plan_.storage.slot(value)),
                          nullptr);
  }

  Status run_call(std::size_t index) {
    const Node& node = *plan_.plan.kernels[index].nodes.front();
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
      const auto& outputs = plan_.plan.kernels[index].outputs;
      if (std::find(outputs.begin(), outputs.end(), node.result(i)) == outputs.end()) continue;
      const Tensor& result = (*results)[static_cast<std::size_t>(i)];
      if (result.num_bytes() > 0) {
        std::memcpy(write(plan_.storage.slot(node.result(i))), result.data(),
                    static_cast<std::size_t>(result.num_bytes()));
      }
    }
    return {};
  }

  void record(std::size_t index, double seconds, RunStats& stats) {
    KernelStats kernel;
    kernel.bytes_read = sizes_.kernels[index].bytes_read;
    kernel.bytes_written = sizes_.kernels[index].bytes_written;
    kernel.seconds = seconds;
    ++stats.kernels;
    stats.bytes_read += kernel.bytes_read;
    stats.bytes_written += kernel.bytes_written;
    stats.by_kernel.push_back(kernel);
  }

  // Outputs in place of an input begin as what it holds, unless they are its memory.
  void copy_caches(RunStats* stats) {
    const auto graph_inputs = plan_.graph.inputs();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Value* const input = plan_.graph.outputs()[i].in_place_of;
      if (input == nullptr) continue;
      const auto position = std::find(graph_inputs.begin(), graph_inputs.end(), input);
      const Tensor& from = inputs_[static_cast<std::size_t>(position - graph_inputs.begin())];
      if (from.data() == outputs_[i].data() || from.num_bytes() == 0) continue;
      std::memcpy(outputs_[i].mutable_data(), from.data(),
                  static_cast<std::size_t>(from.num_bytes()));
      if (stats == nullptr) continue;
      stats->bytes_read += from.num_bytes();
      stats->bytes_written += from.num_bytes();
    }
  }

  // Outputs that no kernel writes: inputs, constants, and values given out a second time.
  void copy_remaining_outputs() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const StorageMap::Slot slot = plan_.storage.slot(plan_.graph.outputs()[i].value);
      if (slot.place == StorageMap::Place::Output && slot.index == static_cast<int>(i)) continue;
      if (outputs_[i].num_bytes() == 0) continue;
      std::memcpy(outputs_[i].mutable_data(), read(slot),
                  static_cast<std::size_t>(outputs_[i].num_bytes()));
    }
  }

  static constexpr std::int64_t kKeyBytes = sizeof(std::int64_t);

  // Whose tasks a thread had last; on a cache line of its own.
  struct alignas(64) LastKernel {
    std::int64_t kernel = -1;
  };

  const RunnablePlan& plan_;
  const SizedPlan& sizes_;
  std::span<const Tensor> inputs_;
  std::span<Tensor> outputs_;
  Workspace& workspace_;
  ThreadTeam& team_;
  std::vector<LastKernel> last_;  // by thread
  bool timed_ = false;            // each thread's part of each kernel
  Clock::time_point began_;
  std::vector<Span> spans_;  // by thread, then by kernel
};

}  // namespace

Status run_plan(const RunnablePlan& plan, const SizedPlan& sizes, std::span<const Tensor> inputs,
                std::span<Tensor> outputs, Workspace& workspace, ThreadTeam& team, RunStats* stats,
                const RunOptions& options) {
  return Run(plan, sizes, inputs, outputs, workspace, team)(stats, options);
}

}  // namespace opweld
