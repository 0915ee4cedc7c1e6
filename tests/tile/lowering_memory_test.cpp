// What is remembered of other groups, and what drafts leave out, changes nothing of a kernel.
#include "tile/lowering_memory.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "ops/builder.h"
#include "target/target.h"
#include "tile/estimate.h"
#include "tile/lower.h"

namespace opweld::tile {
namespace {

struct Sample {
  KernelKind kind;
  std::string text;
};

// A norm and the product behind it, whose columns tasks share out.
std::string norm_and_product(std::int64_t columns) {
  return fmt::format(R"(graph g(%x: f32[b, s, 64]) {{
    %gamma = constant {{value = f32[64] random 1}}
    %w = constant {{value = f32[64, {0}] random 2}}
    %n = rms_norm(%x, %gamma) {{axis = -1, epsilon = 1e-06}}
    %y = matmul(%n, %w)
    return %n as "n", %y as "y"
  }})",
                     columns);
}

std::vector<Sample> samples() {
  const std::string feed_forward = R"(graph g(%x: f32[s, 64]) {
    %gamma = constant {value = f32[64] random 1}
    %wu = constant {value = f32[64, 96] random 2}
    %wd = constant {value = f32[96, 64] random 3}
    %n = layer_norm(%x, %gamma) {axis = -1}
    %u = matmul(%n, %wu)
    %a = gelu(%u)
    %d = matmul(%a, %wd)
    %y = add(%d, %x)
    return %y as "y"
  })";
  const std::string product = R"(graph g(%x: f32[s, 64], %r: f32[s, 96]) {
    %w = constant {value = f32[64, 96] random 1}
    %m = matmul(%x, %w)
    %y = add(%m, %r)
    %q = reduce_sum_square(%y) {axes = [1], keepdims = 1}
    return %y as "y", %q as "q"
  })";
  const std::string rows = R"(graph g(%x: f16[s, 80], %w: f32[80]) {
    %t = tanh(%x)
    %a = softmax(%t)
    %b = softmax(%a)
    return %a as "a", %b as "b"
  })";
  const std::string views = R"(graph g(%x: f32[s, 4, 16], %r: f32[s, 64]) {
    %t = reshape(%x) {shape = <s, 64>}
    %c = concat(%t, %r) {axis = 1}
    %y = silu(%c)
    return %y as "y"
  })";
  const std::string heads = R"(graph g(%q: f32[1, 4, s, 16], %k: f32[1, 2, s, 16],
                                      %v: f32[1, 2, s, 16]) {
    %y = attention(%q, %k, %v) {causal = "top_left", scale = 0.25}
    return %y as "y"
  })";
  return {{KernelKind::Chain, norm_and_product(96)},
          {KernelKind::Chain, norm_and_product(200)},
          {KernelKind::Chain, feed_forward},
          {KernelKind::Contract, product},
          {KernelKind::Row, rows},
          {KernelKind::Map, views},
          {KernelKind::Attention, heads}};
}

class LoweringMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : {"host-avx2", "host-avx512"}) {
      const auto target = find_target(name);
      ASSERT_TRUE(target) << target.error().message;
      targets_.push_back(*target);
    }
  }

  static LoweredKernel lowered(const Sample& sample, const LowerOptions& options) {
    const auto graph = parse_graph(sample.text);
    EXPECT_TRUE(graph) << graph.error().message;
    if (!graph) return {};
    auto kernel = lower(*graph, sample.kind, options, "k");
    EXPECT_TRUE(kernel) << kernel.error().message;
    return kernel ? std::move(*kernel) : LoweredKernel();
  }

  std::vector<Target> targets_;
};

TEST_F(LoweringMemoryTest, ProgramsAreThoseThatAreMadeAnew) {
  for (const Target& target : targets_) {
    LoweringMemory memory;
    for (const char* const when : {"first", "again"}) {
      for (const Sample& sample : samples()) {
        SCOPED_TRACE(fmt::format("{} {}\n{}", target.name, when, sample.text));
        LowerOptions options = {&target};
        const LoweredKernel anew = lowered(sample, options);
        options.memory = &memory;
        const LoweredKernel remembered = lowered(sample, options);
        EXPECT_EQ(to_text(remembered.program), to_text(anew.program));
        EXPECT_EQ(remembered.rows_per_task, anew.rows_per_task);
      }
    }
  }
}

TEST_F(LoweringMemoryTest, DraftsAreEstimatedAsKernelsAre) {
  for (const Target& target : targets_) {
    for (const Sample& sample : samples()) {
      SCOPED_TRACE(fmt::format("{}\n{}", target.name, sample.text));
      LowerOptions options = {&target};
      const KernelEstimate whole = estimate(lowered(sample, options), target);
      options.draft = true;
      const KernelEstimate draft = estimate(lowered(sample, options), target);
      EXPECT_EQ(draft.pressure.cache_bytes, whole.pressure.cache_bytes);
      EXPECT_EQ(draft.pressure.outer_bytes, whole.pressure.outer_bytes);
      EXPECT_EQ(draft.pressure.vector_registers, whole.pressure.vector_registers);
      EXPECT_EQ(draft.pressure.tasks, whole.pressure.tasks);
      EXPECT_EQ(draft.pressure.rows_per_task, whole.pressure.rows_per_task);
      for (const std::int64_t rows : {1, 128, 5000}) {
        const Bindings sizes = {{"b", 2}, {"s", rows}};
        const auto expected = whole.work(sizes);
        const auto counted = draft.work(sizes);
        ASSERT_TRUE(expected && counted);
        EXPECT_EQ(counted->vector_multiply_adds, expected->vector_multiply_adds);
        EXPECT_EQ(counted->instructions, expected->instructions);
        EXPECT_EQ(counted->streamed_bytes, expected->streamed_bytes);
        EXPECT_EQ(counted->tasks, expected->tasks);
      }
    }
  }
}

// Blocks of rows that are known must be those that the symbols come to.
TEST(ChainShares, OfSymbolsComeToThoseOfNumbers) {
  const Dim s = Dim::symbol("s");
  ChainShares shares;
  for (const std::int64_t cores : {1, 2, 16}) {
    const ChainSizes sizes{s, cores, 48, 6};
    for (const std::int64_t rows : {1, 5, 6, 48, 49, 96, 97, 1000}) {
      const Bindings bindings = {{"s", rows}};
      ChainSizes known = sizes;
      known.rows = rows;
      const RowBlocks blocks = shares.row_blocks(sizes);
      const RowBlocks numbers = shares.row_blocks(known);
      EXPECT_EQ(blocks.rows.evaluate(bindings).value(), numbers.rows.constant());
      EXPECT_EQ(blocks.count.evaluate(bindings).value(), numbers.count.constant());
      // All is covered, by blocks of whole tiles.
      EXPECT_GE(*numbers.rows.constant() * *numbers.count.constant(), rows);
      EXPECT_LE(*numbers.rows.constant(), 48);
      EXPECT_EQ(*numbers.rows.constant() % 6, 0);
      const RowShares row_shares = shares.row_shares(sizes);
      const std::int64_t share = row_shares.rows_per_task.evaluate(bindings).value();
      const std::int64_t tasks = row_shares.tasks.evaluate(bindings).value();
      EXPECT_GE(share * tasks, rows);
      EXPECT_LT(share * (tasks - 1), rows);
    }
  }
}

}  // namespace
}  // namespace opweld::tile
