#include "runtime/executable.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <mutex>

#include "ops/op.h"
#include "ops/reference.h"
#include "ops/shape_values.h"
#include "runtime/oversize.h"
#include "runtime/pack.h"
#include "runtime/run.h"
#include "runtime/sized_plan.h"
#include "runtime/storage.h"
#include "support/block_pool.h"
#include "support/team_pool.h"

namespace opweld {

struct Executable::State {
  State(Graph the_graph, std::vector<PlanVersion> the_versions, int threads)
      : graph(std::move(the_graph)),
        versions(std::move(the_versions)),
        results(graph.outputs().size()),
        teams(TeamPool::of(threads)) {
    for (const PlanVersion& version : versions) storages.emplace_back(graph, version.plan);
  }

  Graph graph;
  std::vector<PlanVersion> versions;
  std::vector<StorageMap> storages;  // by version
  std::vector<Tensor> constants;     // by storage index, which is the same in every version
  std::int64_t weight_bytes = 0;     // of all of them, each once, before any was let go
  BlockPool results;                 // of run()

  std::mutex run_mutex;  // one run at a time has a team
  std::shared_ptr<TeamPool> teams;

  std::mutex cache_mutex;
  std::vector<std::shared_ptr<const SizedPlan>> sized;  // most recent first
  std::vector<std::unique_ptr<Workspace>> workspaces;

  [[nodiscard]] std::size_t version_for(const Bindings& bindings) const {
    return serving_version(versions, bindings);
  }
  // Kept from run to run.
  Expected<std::shared_ptr<const SizedPlan>> sized_plan(const Bindings& bindings,
                                                        bool single_launch);
  // Everything that the sizes of the inputs decide; fails where they contradict the model.
  Expected<std::shared_ptr<const SizedPlan>> plan_run(std::span<const Tensor> inputs,
                                                      bool single_launch);
  // A tensor for run() to give away; what it holds does not matter.
  Expected<Tensor> take_result(std::size_t output, const SizedPlan& sizes);
  Status execute(const SizedPlan& sizes, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                 RunStats* stats, const RunOptions& options);
};

std::size_t serving_version(std::span<const PlanVersion> versions, const Bindings& bindings) {
  const auto serving = std::ranges::find_if(
      versions, [&](const PlanVersion& version) { return version.plan.is_for(bindings); });
  return static_cast<std::size_t>(serving - versions.begin());
}

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

const Graph& Executable::graph() const {
  return state_->graph;
}
std::span<const PlanVersion> Executable::versions() const {
  return state_->versions;
}
std::size_t Executable::version_for(const Bindings& bindings) const {
  return state_->version_for(bindings);
}
const FusionPlan& Executable::plan(const Bindings& bindings) const {
  return state_->versions[version_for(bindings)].plan;
}
const FusionPlan& Executable::plan() const {
  return state_->versions.back().plan;
}
std::span<const ExecutableKernel> Executable::kernels() const {
  return state_->versions.back().kernels;
}
int Executable::threads() const {
  return state_->teams->threads();
}

namespace {

// What shape rules may look into.
bool is_shape_value(const Value& constant) {
  const auto elements = constant.type().num_elements().constant();
  return is_integer(constant.dtype()) && elements && *elements <= kMaxShapeValueElements;
}

// By storage index, whether a call, a model output or an alias reads the constant from the graph;
// others, kernels have of their own.
std::vector<bool> needed_constants(const Graph& graph, std::span<const PlanVersion> versions,
                                   std::span<const StorageMap> storages) {
  std::vector<bool> needed(storages.front().constants().size(), false);
  for (std::size_t v = 0; v < versions.size(); ++v) {
    const auto need = [&](const Value* value) {
      const StorageMap::Slot slot = storages[v].slot(value);
      if (slot.place == StorageMap::Place::Constant)
        needed[static_cast<std::size_t>(slot.index)] = true;
    };
    for (const auto& output : graph.outputs()) need(output.value);
    const auto& [plan, kernels] = versions[v];
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      for (const Value* input : plan.kernels[i].inputs) need(input);
      if (kernels[i].code != nullptr) continue;
      for (const Value* constant : plan.kernels[i].constants) need(constant);
    }
  }
  return needed;
}

Tensor constant_value(const Value& constant) {
  const Attribute* const value = constant.producer()->attributes().find("value");
  return value == nullptr ? Tensor() : std::get<Tensor>(*value);
}

// Of tensors that share memory once.
std::int64_t distinct_bytes(std::span<const Tensor> tensors) {
  std::map<const std::byte*, std::int64_t> bytes;
  for (const Tensor& tensor : tensors) {
    if (tensor.data() == nullptr) continue;
    std::int64_t& known = bytes[tensor.data()];
    known = std::max(known, tensor.num_bytes());
  }
  std::int64_t sum = 0;
  for (const auto& [data, size] : bytes) sum += size;
  return sum;
}

}  // namespace

Expected<Executable> Executable::create(Graph graph, std::vector<PlanVersion> versions, int threads,
                                        GraphConstants constants) {
  assert(!versions.empty() && versions.back().plan.conditions.empty());
  auto state = std::make_unique<State>(std::move(graph), std::move(versions), threads);
  const std::vector<const Value*>& values = state->storages.front().constants();
  for (const Value* constant : values) state->constants.push_back(constant_value(*constant));
  state->weight_bytes = distinct_bytes(state->constants);
  const auto needed = needed_constants(state->graph, state->versions, state->storages);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (needed[i] && !values[i]->producer()->attributes().has("value")) {
      return fail("the value of constant '{}' is missing", values[i]->producer()->display_name());
    }
    const bool keep = constants == GraphConstants::Keep || is_shape_value(*values[i]);
    if (needed[i] || keep) continue;
    state->constants[i] = Tensor();
    values[i]->producer()->attributes().erase("value");
  }
  // After that, so that what is packed goes one by one as its packed form comes.
  OPWELD_CHECK(pack_constants(state->versions));
  return Executable(std::move(state));
}

Expected<std::shared_ptr<const SizedPlan>> Executable::State::sized_plan(const Bindings& bindings,
                                                                         bool single_launch) {
  constexpr std::size_t kKept = 8;
  const std::lock_guard lock(cache_mutex);
  const auto found = std::find_if(sized.begin(), sized.end(), [&](const auto& each) {
    return each->launch.has_value() == single_launch && each->bindings == bindings;
  });
  if (found != sized.end()) {
    std::rotate(sized.begin(), found, found + 1);
    return sized.front();
  }
  const std::size_t version = version_for(bindings);
  OPWELD_TRY(SizedPlan made,
             size_plan(graph, versions[version], storages[version], bindings, single_launch));
  made.version = version;
  sized.insert(sized.begin(), std::make_shared<const SizedPlan>(std::move(made)));
  if (sized.size() > kKept) sized.pop_back();
  return sized.front();
}

namespace {

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
    const auto& [name, value, in_place_of] = graph.outputs()[i];
    if (outputs[i].dtype() != value->dtype() || outputs[i].sizes() != sizes[i]) {
      return usage_error("output '{}' is {}{} for these inputs, but {}{} was given", name,
                         to_string(value->dtype()), to_string(sizes[i]),
                         to_string(outputs[i].dtype()), to_string(outputs[i].sizes()));
    }
    if (outputs[i].data() == nullptr && outputs[i].num_elements() > 0) {
      return usage_error("output '{}' has no memory", name);
    }
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      const Value* const input = graph.inputs()[j];
      const bool in_place = input == in_place_of && inputs[j].data() == outputs[i].data();
      if (in_place || !overlap(outputs[i], inputs[j])) continue;
      return usage_error(
          "output '{}' overlaps input '{}'; only an output that is declared in place of an input "
          "may lie there, and exactly there",
          name, input->name());
    }
    const auto shares = [&](const Tensor& other) { return overlap(outputs[i], other); };
    if (std::any_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), shares)) {
      return usage_error("output '{}' overlaps another output of the run", name);
    }
  }
  return {};
}

}  // namespace

Expected<std::shared_ptr<const SizedPlan>> Executable::State::plan_run(
    std::span<const Tensor> inputs, bool single_launch) {
  OPWELD_TRY(const Bindings bindings, bind_symbols(graph, inputs));
  OPWELD_CHECK(check_assumptions(graph, bindings));
  return sized_plan(bindings, single_launch);
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
    const std::lock_guard lock(run_mutex);
    const TeamPool::Lease lent = teams->take();
    const auto& [plan, kernels] = versions[sizes.version];
    status = run_plan({graph, plan, kernels, storages[sizes.version], constants}, sizes, inputs,
                      outputs, *workspace, lent.team(), stats, options);
  }
  const std::lock_guard lock(cache_mutex);
  workspaces.push_back(std::move(workspace));
  return status;
}

namespace {

// An observer looks between kernels.
bool in_one_launch(const RunOptions& options) {
  return options.single_launch && !options.observer;
}

}  // namespace

Expected<LaunchAccount> Executable::launches(const Bindings& bindings, bool single_launch) const {
  LaunchAccount account;
  const auto kernels = static_cast<std::int64_t>(plan(bindings).kernels.size());
  if (!single_launch) {
    account.launches = kernels;
    return account;
  }
  OPWELD_TRY(const auto sizes, state_->sized_plan(bindings, true));
  account.launches = kernels == 0 ? 0 : 1;
  account.barriers = sizes->launch->barriers();
  account.stretch_of = sizes->launch->stretch_of;
  return account;
}

Expected<MemoryAccount> Executable::memory(const Bindings& bindings, bool single_launch) const {
  OPWELD_TRY(const auto sizes, state_->sized_plan(bindings, single_launch));
  std::vector<Tensor> held = state_->constants;
  for (const PlanVersion& version : state_->versions) {
    for (const ExecutableKernel& kernel : version.kernels) {
      for (const auto& constant : kernel.constants) held.push_back(constant.value);
    }
  }
  return MemoryAccount{state_->weight_bytes, distinct_bytes(held), sizes->memory.arena_bytes,
                       sizes->scratch_bytes * state_->teams->threads(), sizes->live_bytes};
}

Expected<std::vector<ArenaBlock>> Executable::arena(const Bindings& bindings) const {
  OPWELD_TRY(const auto sizes, state_->sized_plan(bindings, false));
  std::vector<ArenaBlock> blocks;
  const auto& values = state_->storages[sizes->version].arena();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& [value, first, last, in_place_of, readers] = values[i];
    OPWELD_TRY(const std::int64_t bytes, value->type().num_bytes().evaluate(bindings));
    blocks.push_back({value, sizes->memory.offsets[i], bytes, first, last});
  }
  for (std::size_t i = 0; i < sizes->kernels.size(); ++i) {
    const int step = static_cast<int>(i);
    for (const auto& shared : sizes->kernels[i].shared) {
      blocks.push_back({nullptr, shared.offset, shared.bytes, step, step});
    }
  }
  return blocks;
}

Expected<std::vector<Sizes>> Executable::output_sizes(std::span<const Tensor> inputs) {
  OPWELD_TRY(const auto sizes, state_->plan_run(inputs, false));
  return sizes->output_sizes;
}

Expected<Tensor> Executable::State::take_result(std::size_t index, const SizedPlan& sizes) {
  const Graph::Output& output = graph.outputs()[index];
  const DType dtype = output.value->dtype();
  const Sizes& own = sizes.output_sizes[index];
  const std::int64_t bytes = *checked_num_bytes(dtype, own);  // size_plan() has made sure
  const auto block = results.take(static_cast<std::size_t>(bytes));
  if (block == nullptr) {
    return out_of_memory(fmt::format("the elements of output '{}'", output.name), bytes,
                         tensor_text(*output.value, sizes.bindings), sizes.bindings);
  }
  return Tensor::borrow_mutable(dtype, own, block.get(), block);
}

Expected<std::vector<Tensor>> Executable::run(std::span<const Tensor> inputs, RunStats* stats,
                                              const RunOptions& options) {
  OPWELD_TRY(const auto sizes, state_->plan_run(inputs, in_one_launch(options)));
  OPWELD_CHECK(check_inputs(state_->graph, inputs));
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < sizes->output_sizes.size(); ++i) {
    OPWELD_TRY(Tensor output, state_->take_result(i, *sizes));
    outputs.push_back(std::move(output));
  }
  OPWELD_CHECK(state_->execute(*sizes, inputs, outputs, stats, options));
  return outputs;
}

Status Executable::run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                            RunStats* stats, const RunOptions& options) {
  OPWELD_TRY(const auto sizes, state_->plan_run(inputs, in_one_launch(options)));
  OPWELD_CHECK(check_inputs(state_->graph, inputs));
  OPWELD_CHECK(check_outputs(state_->graph, sizes->output_sizes, inputs, outputs));
  return state_->execute(*sizes, inputs, outputs, stats, options);
}

}  // namespace opweld
