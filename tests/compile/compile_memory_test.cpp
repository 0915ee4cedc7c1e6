// How much memory compiling takes beside the weights that it is given.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "compile.h"
#include "ops/builder.h"
#include "support/memory_block.h"

namespace opweld {
namespace {

constexpr std::int64_t kWidth = 512;
constexpr std::int64_t kMatrixBytes = kWidth * kWidth * 4;
constexpr int kMatricesOfLayer = 4;

// A line of what Linux tells about this process, in bytes.
std::int64_t process_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

// From now on VmHWM is the most that is resident at once.
void forget_peak() {
  std::ofstream refs("/proc/self/clear_refs");
  refs << "5" << std::flush;
  ASSERT_TRUE(refs.good());
}

// Layers of three projections of one input, which become one product, and one behind them. Weights
// are [outputs, inputs], as PyTorch has them, and lie in memory of their owner.
class Layers {
 public:
  explicit Layers(int layers)
      : layers_(layers),
        bytes_(layers * kMatricesOfLayer * kMatrixBytes),
        block_(allocate_block(static_cast<std::size_t>(bytes_))) {
    auto* const elements = reinterpret_cast<float*>(block_.get());
    for (std::int64_t i = 0; i < bytes_ / 4; ++i) {
      elements[i] = static_cast<float>(i % 1021 - 510) * 1e-4F;
    }
  }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

  [[nodiscard]] Graph graph() const {
    Graph graph("layers");
    Value* x = graph.add_input("x", {DType::F32, {Dim(8), Dim(kWidth)}});
    Builder build(graph);
    std::int64_t at = 0;
    const auto projected = [&](Value* rows) {
      Value* const weights =
          build.constant(Tensor::borrow(DType::F32, {kWidth, kWidth}, block_.get() + at, block_));
      at += kMatrixBytes;
      return build.binary("matmul", rows, build.transpose(weights, {1, 0}));
    };
    for (int layer = 0; layer < layers_; ++layer) {
      Value* const gate = projected(x);
      Value* const up = projected(x);
      Value* const value = projected(x);
      Value* const gated = build.binary("mul", build.op("silu", {gate}), up);
      x = build.binary("add", x, projected(build.binary("mul", gated, value)));
    }
    EXPECT_TRUE(build.status());
    graph.add_output("y", x);
    return graph;
  }

 private:
  int layers_;
  std::int64_t bytes_;
  std::shared_ptr<std::byte> block_;
};

Compiled compiled(const Layers& model) {
  CompileOptions options;
  options.threads = 2;
  auto result = compile(model.graph(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*result);
}

// Transposed and joined ones are let go one by one as the packed ones come.
TEST(CompileMemory, HoldsNoMoreOfTheWeightsThanThePackedOnes) {
  compiled(Layers(1));  // what LLVM takes, which is the same for more layers
  const Layers model(32);
  const std::int64_t before = process_bytes("VmRSS");
  ASSERT_NO_FATAL_FAILURE(forget_peak());
  const Compiled whole = compiled(model);
  const std::int64_t peak = process_bytes("VmHWM") - before;
  const std::int64_t held = process_bytes("VmRSS") - before;
  EXPECT_GT(held, model.bytes() * 9 / 10) << "weights are packed";
  EXPECT_LT(peak, model.bytes() * 14 / 10) << "of " << model.bytes() << " bytes";
}

}  // namespace
}  // namespace opweld
