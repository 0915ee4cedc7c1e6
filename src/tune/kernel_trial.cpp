#include "tune/kernel_trial.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "codegen/cpu/kernel.h"
#include "tile/executable_kernel.h"

namespace opweld {

namespace {

// A graph in which groups that read the same inputs stand side by side, a kernel each.
class SideBySide {
 public:
  // Inputs of no other use give the symbols their values, which the kernels' own inputs may not do:
  // theirs can be sums and products of symbols.
  explicit SideBySide(std::span<const Dim> symbols) {
    for (const Dim& symbol : symbols) {
      graph.add_input("size " + symbol.to_string(), {DType::Bool, {symbol}});
    }
  }

  void add(const Graph& group, const Kernel& original) {
    Kernel kernel;
    kernel.id = static_cast<int>(plan.kernels.size());
    kernel.name = original.name;
    kernel.kind = original.kind;
    kernel.label = original.label;
    std::map<const Value*, Value*> copies;
    for (std::size_t i = 0; i < group.inputs().size(); ++i) {
      if (i == inputs_.size()) inputs_.push_back(graph.add_input("", group.inputs()[i]->type()));
      copies[group.inputs()[i]] = inputs_[i];
    }
    kernel.inputs = inputs_;
    for (const auto& node : group.nodes()) {
      Node* const copy = copy_of(*node, copies);
      if (node->op() == "constant") {
        kernel.constants.push_back(copy->result());
      } else {
        kernel.nodes.push_back(copy);
      }
    }
    for (const auto& output : group.outputs()) {
      Value* const value = copies.at(output.value);
      kernel.outputs.push_back(value);
      graph.add_output(fmt::format("y{}", graph.outputs().size()), value);
    }
    plan.kernels.push_back(std::move(kernel));
  }

  Graph graph;
  FusionPlan plan;

 private:
  Node* copy_of(const Node& node, std::map<const Value*, Value*>& copies) {
    std::vector<Value*> operands;
    for (const Value* operand : node.operands()) {
      operands.push_back(operand == nullptr ? nullptr : copies.at(operand));
    }
    std::vector<TensorType> types;
    for (int i = 0; i < node.num_results(); ++i) types.push_back(node.result(i)->type());
    Node* const copy = graph.add_node(node.op(), std::move(operands), node.attributes(),
                                      std::move(types), node.source());
    for (int i = 0; i < node.num_results(); ++i) {
      copies[node.result(i)] = copy->result(i);
      copy->result(i)->set_contents(node.result(i)->contents());
    }
    return copy;
  }

  std::vector<Value*> inputs_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A turn of one side: a first run brings its threads and its data back, the others count.
Expected<double> turn(KernelTrial& trial) {
  constexpr double kLeastSeconds = 1e-3;
  constexpr std::size_t kLeastRuns = 3;
  constexpr std::size_t kMostRuns = 50;
  OPWELD_CHECK(trial.run());
  const double start = now();
  std::vector<double> times;
  while (times.size() < kLeastRuns || (times.size() < kMostRuns && now() - start < kLeastSeconds)) {
    OPWELD_TRY(const double seconds, trial.run());
    times.push_back(seconds);
  }
  return median(std::move(times));
}

}  // namespace

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

Expected<KernelTrial> KernelTrial::create(const Subject& subject, const tile::LowerOptions& options,
                                          int threads) {
  SideBySide model(subject.symbols);
  std::vector<ExecutableKernel> kernels;
  for (const Kernel* kernel : subject.kernels) {
    const Graph group = extract_group(*kernel);
    OPWELD_TRY(tile::LoweredKernel lowered,
               tile::lower(group, kernel->kind, options, std::string(to_string(kernel->kind))));
    model.add(group, *kernel);
    kernels.push_back(tile::executable_kernel(std::move(lowered)));
  }
  OPWELD_TRY(cpu::KernelCompiler compiler, cpu::KernelCompiler::create(*options.target, {}));
  std::vector<const tile::TileProgram*> programs;
  programs.reserve(kernels.size());
  for (const ExecutableKernel& kernel : kernels) programs.push_back(kernel.program.get());
  OPWELD_TRY(const auto codes, compiler.compile(programs));
  for (std::size_t i = 0; i < kernels.size(); ++i) kernels[i].code = codes[i];
  std::vector<PlanVersion> version;
  version.push_back({std::move(model.plan), std::move(kernels)});
  OPWELD_TRY(Executable executable,
             Executable::create(std::move(model.graph), std::move(version), threads));
  KernelTrial trial(std::move(executable));
  OPWELD_CHECK(trial.allocate(subject));
  return trial;
}

Status KernelTrial::allocate(const Subject& subject) {
  for (const Dim& symbol : subject.symbols) {
    OPWELD_TRY(const std::int64_t size, symbol.evaluate(subject.sizes));
    OPWELD_TRY(Tensor tensor, Tensor::allocate(DType::Bool, {size}));
    inputs_.push_back(std::move(tensor));
  }
  inputs_.insert(inputs_.end(), subject.inputs.begin(), subject.inputs.end());
  OPWELD_TRY(std::vector<Sizes> sizes, executable_.output_sizes(inputs_));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const DType dtype = executable_.graph().outputs()[i].value->dtype();
    OPWELD_TRY(Tensor output, Tensor::allocate(dtype, std::move(sizes[i])));
    outputs_.push_back(std::move(output));
  }
  return {};
}

Expected<double> KernelTrial::run() {
  const double start = now();
  OPWELD_CHECK(executable_.run_into(inputs_, outputs_));
  return (now() - start) / static_cast<double>(executable_.kernels().size());
}

std::string KernelTrial::program() const {
  return to_text(*executable_.kernels().front().program);
}

Expected<std::optional<double>> race(KernelTrial& usual, KernelTrial& other, const Race& race) {
  constexpr std::size_t kEnough = 3;  // turns after which one that is slower is given up
  constexpr double kBeyondDoubt = 1.05;
  std::vector<double> ratios;
  for (int i = 0; i < race.turns; ++i) {
    if (now() > race.deadline) return std::nullopt;
    // Who comes first changes from turn to turn.
    const bool usual_first = i % 2 == 0;
    OPWELD_TRY(const double first, turn(usual_first ? usual : other));
    OPWELD_TRY(const double second, turn(usual_first ? other : usual));
    ratios.push_back(usual_first ? second / first : first / second);
    if (ratios.size() == kEnough && median(ratios) > kBeyondDoubt) break;
  }
  return median(std::move(ratios));
}

}  // namespace opweld
