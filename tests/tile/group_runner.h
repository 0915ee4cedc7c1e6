// Runs a group written as text through one schedule and the code generator, and compares it with
// the reference evaluation in f64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codegen/cpu/kernel.h"
#include "ops/builder.h"
#include "ops/reference.h"
#include "runtime/pack.h"
#include "target/target.h"
#include "tile/executable_kernel.h"
#include "tile/lower.h"

namespace opweld::testing {

// Uniform in [-2, 2) for floats, [0, 5) for integers, fair for bool; the same for the same seed.
inline Tensor random_tensor(const TensorType& type, const Sizes& sizes, unsigned seed) {
  Tensor tensor = Tensor::allocate(type.dtype, sizes).value();
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(-2, 2);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (is_float(type.dtype)) {
      tensor.set_double(i, real(random));
    } else {
      tensor.set_int(i, static_cast<std::int64_t>(random() % (type.dtype == DType::Bool ? 2 : 5)));
    }
  }
  return tensor;
}

// The project's tolerances: relative and absolute error by dtype; integers and bool exactly.
inline void expect_close(const Tensor& actual, const Tensor& expected, DType dtype) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  double relative = 0x1p-10;
  double absolute = 0x1p-16;
  if (dtype == DType::F16) relative = 0x1p-9;
  if (dtype == DType::BF16) relative = 0x1p-6;
  if (dtype == DType::F16 || dtype == DType::BF16) absolute = relative;
  for (std::int64_t i = 0; i < actual.num_elements(); ++i) {
    if (!is_float(dtype)) {
      ASSERT_EQ(actual.get_int(i), expected.get_int(i)) << "at " << i;
      continue;
    }
    const double a = actual.get_double(i);
    const double e = expected.get_double(i);
    if (std::isnan(e)) {
      ASSERT_TRUE(std::isnan(a)) << "at " << i << ": " << a << " instead of NaN";
    } else if (std::isinf(e)) {
      ASSERT_EQ(a, e) << "at " << i;
    } else {
      ASSERT_LE(std::abs(a - e), absolute + relative * std::abs(e))
          << "at " << i << ": " << a << " instead of " << e;
    }
  }
}

class GroupRunner {
 public:
  GroupRunner(const std::string& text, KernelKind kind, const std::string& target = "host",
              bool strict = false, const tile::Blocking& blocking = {})
      : GroupRunner(parse_graph(text), kind, target, strict, blocking) {}

  GroupRunner(Expected<Graph> graph, KernelKind kind, const std::string& target = "host",
              bool strict = false, const tile::Blocking& blocking = {})
      : GroupRunner(std::move(graph), kind, find_target(target), strict, blocking) {}

  // For a target that there need not be, of instructions that there are.
  GroupRunner(Expected<Graph> graph, KernelKind kind, const Expected<Target>& target,
              bool strict = false, const tile::Blocking& blocking = {}) {
    if (!graph) {
      ADD_FAILURE() << graph.error().message;
      return;
    }
    graph_ = std::make_unique<Graph>(std::move(*graph));
    if (!target) {
      ADD_FAILURE() << target.error().message;
      return;
    }
    target_ = *target;
    auto lowered = tile::lower(*graph_, kind, {&target_, strict, blocking}, "group");
    if (!lowered) {
      error_ = lowered.error().message;
      return;
    }
    lowered_ = std::make_unique<tile::LoweredKernel>(std::move(*lowered));
    for (auto& constant : lowered_->constants) {
      const PackedForm form =
          tile::packed_form(lowered_->program.params[static_cast<std::size_t>(constant.param)]);
      if (form.columns == 0) continue;
      Tensor packed =
          Tensor::allocate(constant.value.dtype(), packed_sizes(constant.value.sizes(), form))
              .value();
      pack_panels(constant.value, form, packed);
      constant.value = std::move(packed);
    }
    auto compiler = cpu::KernelCompiler::create(target_, {});
    EXPECT_TRUE(compiler) << compiler.error().message;
    const tile::TileProgram* program = &lowered_->program;
    auto compiled = compiler->compile({&program, 1});
    if (!compiled) {
      ADD_FAILURE() << compiled.error().message << "\n" << to_text(*program);
      return;
    }
    kernel_ = compiled->front();
  }

  // Why the schedule refused the group; empty when it did not.
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] const tile::BlockingChoices& choices() const { return lowered_->choices; }
  [[nodiscard]] std::string program_text() const { return to_text(lowered_->program); }

  [[nodiscard]] const tile::TileProgram& program() const { return lowered_->program; }

  [[nodiscard]] std::vector<Tensor> random_inputs(const Bindings& bindings,
                                                  unsigned seed = 1) const {
    std::vector<Tensor> inputs;
    for (const Value* input : graph_->inputs()) {
      inputs.push_back(
          random_tensor(input->type(), evaluate(input->shape(), bindings).value(), seed++));
    }
    return inputs;
  }

  enum class Order : std::uint8_t { FirstTaskFirst, LastTaskFirst };

  Expected<std::vector<Tensor>> run(const std::vector<Tensor>& inputs,
                                    Order order = Order::FirstTaskFirst) const {
    const Bindings bindings = bind_symbols(*graph_, inputs).value();
    std::vector<Tensor> outputs;
    std::vector<void*> params;
    for (const Tensor& input : inputs) params.push_back(const_cast<std::byte*>(input.data()));
    for (const auto& constant : lowered_->constants) {
      params.push_back(const_cast<std::byte*>(constant.value.data()));
    }
    for (const auto& output : graph_->outputs()) {
      outputs.push_back(
          Tensor::allocate(output.value->dtype(), evaluate(output.value->shape(), bindings).value())
              .value());
      // So that what an earlier run left there cannot stand for a store that is missing.
      const auto bytes = static_cast<std::size_t>(outputs.back().num_bytes());
      if (bytes > 0) std::memset(outputs.back().mutable_data(), 0xff, bytes);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) start_as_cache(inputs, i, outputs[i]);
    for (Tensor& output : outputs) params.push_back(output.mutable_data());
    std::vector<std::int64_t> symbols;
    for (const Dim& symbol : lowered_->program.symbols) {
      symbols.push_back(symbol.evaluate(bindings).value());
    }
    std::vector<Tensor> shared;  // what it holds at first does not matter, but for counters
    for (const auto& block : kernel_->shared) {
      const std::int64_t bytes = block.bytes.evaluate(symbols).value();
      shared.push_back(Tensor::allocate(DType::U8, {bytes}).value());
      if (bytes > 0) {
        std::memset(shared.back().mutable_data(), block.zeroed ? 0 : 0xff,
                    static_cast<std::size_t>(bytes));
      }
      params.push_back(shared.back().mutable_data());
    }
    const std::int64_t tasks = kernel_->num_tasks.evaluate(symbols).value();
    const auto scratch = static_cast<std::size_t>(kernel_->scratch_bytes.evaluate(symbols).value());
    const std::unique_ptr<void, void (*)(void*)> memory(
        std::aligned_alloc(64, (scratch + 127) / 64 * 64), std::free);
    // What it holds at first does not matter, but for the key of what is kept.
    std::memset(memory.get(), 0xff, scratch);
    std::memset(memory.get(), 0, sizeof(std::int64_t));
    const auto run_tasks = [&](std::int64_t begin, std::int64_t end) {
      return kernel_->function(params.data(), symbols.data(), begin, end,
                               static_cast<std::byte*>(memory.get()));
    };
    std::int32_t code = 0;
    if (order == Order::FirstTaskFirst) {
      code = run_tasks(0, tasks);
    } else {
      for (std::int64_t task = tasks; task-- > 0 && code == 0;) code = run_tasks(task, task + 1);
    }
    if (code != 0) {
      return fail("{}", kernel_->failure(code, static_cast<std::byte*>(memory.get())));
    }
    return outputs;
  }

  // Random inputs of these sizes: kernel against reference in f64.
  void check(const Bindings& bindings, unsigned seed = 1) const {
    ASSERT_EQ(error_, "");
    ASSERT_NE(kernel_, nullptr);
    const std::vector<Tensor> inputs = random_inputs(bindings, seed);
    check(inputs);
  }

  void check(const std::vector<Tensor>& inputs) const {
    const auto expected = evaluate(*graph_, inputs, {.in_f64 = true, .observer = {}});
    ASSERT_TRUE(expected) << expected.error().message;
    const auto actual = run(inputs);
    ASSERT_TRUE(actual) << actual.error().message;
    for (std::size_t i = 0; i < actual->size(); ++i) {
      expect_close((*actual)[i], (*expected)[i], graph_->outputs()[i].value->dtype());
    }
  }

 private:
  // A kernel that scatters into a cache finds there what the cache held.
  void start_as_cache(const std::vector<Tensor>& inputs, std::size_t index, Tensor& output) const {
    const Node* const producer = graph_->outputs()[index].value->producer();
    if (producer == nullptr || producer->op() != "tensor_scatter") return;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (graph_->inputs()[i] != producer->operand(0) || output.num_bytes() == 0) continue;
      std::memcpy(output.mutable_data(), inputs[i].data(),
                  static_cast<std::size_t>(output.num_bytes()));
    }
  }

  std::unique_ptr<Graph> graph_;
  Target target_;
  std::string error_;
  std::unique_ptr<tile::LoweredKernel> lowered_;
  std::shared_ptr<const CompiledKernel> kernel_;
};

// Vector multiples and their neighbours.
inline constexpr std::int64_t kLengths[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 640};

}  // namespace opweld::testing
