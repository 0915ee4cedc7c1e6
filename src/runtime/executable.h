// A compiled model: runs for any batch and length, from several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fusion/plan.h"
#include "graph/graph.h"
#include "runtime/compiled_kernel.h"
#include "runtime/packed_form.h"
#include "support/expected.h"

namespace opweld {

namespace tile {
struct TileProgram;
}

// What one run did. Bytes are counted at kernel boundaries from the sizes of the run: every tensor
// a kernel reads or writes, once.
struct KernelStats {
  // Only when RunOptions::profile is set. In a single launch from the first task's begin to the
  // last one's end: kernels of a stretch may overlap, and waiting at barriers is nobody's.
  double seconds = 0;
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
};

// When a run did what, in seconds since it began.
struct Timeline {
  // A hand-over to the thread team, from before it to after it.
  struct Launch {
    int first_kernel = 0;
    int kernels = 0;
    double begin = 0;
    double end = 0;
  };
  // What one thread did of a kernel, from the first task that it began to the last that it ended.
  struct Work {
    int kernel = 0;
    int thread = 0;
    double begin = 0;
    double end = 0;
  };
  std::vector<Launch> launches;
  std::vector<Work> work;  // by kernel, then by thread
};

struct RunStats {
  std::int64_t kernels = 0;   // kernels run
  std::int64_t launches = 0;  // hand-overs to the thread team
  std::int64_t barriers = 0;  // inside launches
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  std::int64_t arena_bytes = 0;
  std::vector<KernelStats> by_kernel;  // in the order of the kernels of the plan that was run
  Timeline timeline;                   // only when RunOptions::trace is set
};

// Sees a kernel with what it read (constants apart) and what it wrote, in the order of
// Kernel::inputs and Kernel::outputs; the tensors are valid during the call only. An error ends the
// run.
using KernelObserver = std::function<Status(const Kernel&, std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs)>;

struct RunOptions {
  bool profile = false;  // time every kernel
  bool trace = false;    // and every thread's part of it: RunStats::timeline
  // Hand all kernels to the thread team at once; threads wait for each other only where one reads
  // what another wrote. The same results, to the bit.
  bool single_launch = false;
  // Called after each kernel; may be empty. For judging kernels one by one: inputs are copied for
  // it, since a kernel may write over what it reads. Each
  // kernel is a launch then.
  KernelObserver observer;
};

// How a kernel of the plan is run: generated code, or a call of its one operator's definition.
struct ExecutableKernel {
  std::shared_ptr<const CompiledKernel> code;  // null: a call
  // What code was made of, for those who look at that; null for a call, and in a model that was
  // read from a file. A run does without.
  std::shared_ptr<const tile::TileProgram> program;
  // In the order of the kernel's params. Executable::create packs those that want it.
  struct Constant {
    Tensor value;
    PackedForm form;
  };
  std::vector<Constant> constants;
  std::string why_call;  // for a call: why no schedule serves it
};

// A plan and what runs it: kernels[i] runs plan.kernels[i].
struct PlanVersion {
  FusionPlan plan;
  std::vector<ExecutableKernel> kernels;
};

// The first that is for these values of the graph's symbols; the last one is for any.
std::size_t serving_version(std::span<const PlanVersion> versions, const Bindings& bindings);

// How often a run hands kernels over, and how often threads wait inside.
struct LaunchAccount {
  std::int64_t launches = 0;
  std::int64_t barriers = 0;
  std::vector<int> stretch_of;  // by kernel, in a single launch: the barriers before it
};

// What a model holds for its runs, inputs and outputs apart.
struct MemoryAccount {
  std::int64_t weight_bytes = 0;  // the constants of the graph, each once
  // The constants as they are kept: packed, which pads them, or as they are.
  std::int64_t held_weight_bytes = 0;
  std::int64_t arena_bytes = 0;    // intermediates, and what tasks of a kernel hand each other
  std::int64_t scratch_bytes = 0;  // on-chip buffers of all threads
  // The most that intermediates take up at once when kernels run one after another: no placing of
  // them needs less.
  std::int64_t live_bytes = 0;
};

// A place in the arena and when it is taken: from the kernel that writes it to the last that reads
// it.
struct ArenaBlock {
  const Value* value = nullptr;  // null: what the tasks of a kernel hand each other
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  int first_kernel = 0;
  int last_kernel = 0;
};

class Executable {
 public:
  // `graph` is what the plans speak of. A run takes the first version that is for its sizes; the
  // last one must be for any. Constants that a kernel wants packed are packed here, once for all
  // that want the same form; the graph's own copy of a constant that nothing else reads is
  // released, unless the graph is to be evaluated again.
  // A constant that is read from the graph must have its value there; others need not.
  enum class GraphConstants : std::uint8_t { Release, Keep };
  static Expected<Executable> create(Graph graph, std::vector<PlanVersion> versions, int threads,
                                     GraphConstants constants = GraphConstants::Release);
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  // Inputs in the order of graph().inputs(), results in that of its outputs. A wrong dtype, rank or
  // size is a usage error that names the input, the axis, and what was expected; so are sizes that
  // an operator needs to be equal and that are not.
  Expected<std::vector<Tensor>> run(std::span<const Tensor> inputs, RunStats* stats = nullptr,
                                    const RunOptions& options = {});

  // The same into the caller's memory: `outputs` in the order of the graph's, with the dtypes and
  // sizes that output_sizes() tells, apart from each other and from the inputs; but an output that
  // is declared in place of an input may be that input's memory, and is then updated, else it is
  // made a copy of the input first. After an error the contents of outputs are undefined, but for
  // what a run in place had not to write.
  Status run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                  RunStats* stats = nullptr, const RunOptions& options = {});
  // Sizes of the results; of the inputs, only their sizes are looked at.
  Expected<std::vector<Sizes>> output_sizes(std::span<const Tensor> inputs);

  // Of a run at these values of the graph's symbols.
  [[nodiscard]] Expected<LaunchAccount> launches(const Bindings& bindings,
                                                 bool single_launch) const;

  [[nodiscard]] Expected<MemoryAccount> memory(const Bindings& bindings, bool single_launch) const;

  // Where the intermediates of such a run lie when kernels run one after another. One that takes
  // over the place of another is a block of its own at the same offset.
  [[nodiscard]] Expected<std::vector<ArenaBlock>> arena(const Bindings& bindings) const;

  [[nodiscard]] const Graph& graph() const;
  [[nodiscard]] std::span<const PlanVersion> versions() const;
  // The one that a run at these values of the graph's symbols takes, and its plan.
  [[nodiscard]] std::size_t version_for(const Bindings& bindings) const;
  [[nodiscard]] const FusionPlan& plan(const Bindings& bindings) const;
  // Of the version for any sizes.
  [[nodiscard]] const FusionPlan& plan() const;
  [[nodiscard]] std::span<const ExecutableKernel> kernels() const;
  [[nodiscard]] int threads() const;

 private:
  struct State;
  explicit Executable(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace opweld
