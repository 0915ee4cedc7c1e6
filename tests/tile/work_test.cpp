// Work is counted from programs that schedules make; what it must come to is known from the graph.
#include "tile/work.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "ops/builder.h"
#include "target/target.h"
#include "tile/lower.h"

namespace opweld::tile {
namespace {

// Eight lanes of f32, and room for any block.
Target narrow_target() {
  Target target;
  target.vector_bits = 256;
  target.vector_registers = 16;
  return target;
}

Expected<Work> work_of(const std::string& text, KernelKind kind, const Bindings& sizes = {}) {
  const Target target = narrow_target();
  OPWELD_TRY(const Graph graph, parse_graph(text));
  OPWELD_TRY(const LoweredKernel kernel, lower(graph, kind, {&target, false}, "kernel"));
  return count_work(kernel.program, target, sizes);
}

// Fails the test where there is none.
Work known_work_of(const std::string& text, KernelKind kind, const Bindings& sizes = {}) {
  const auto work = work_of(text, kind, sizes);
  EXPECT_TRUE(work) << work.error().message;
  return work.value_or(Work{});
}

TEST(Work, OfAMatmulIsItsProducts) {
  for (const std::int64_t rows : {1, 5, 16, 64, 200}) {
    const Work work = known_work_of(R"(graph g(%x: f32[s, 48]) {
      %w = constant {value = f32[48, 96] random 1}
      %y = matmul(%x, %w)
      return %y as "y"
    })",
                                    KernelKind::Contract, {{"s", rows}});
    const double products = static_cast<double>(rows) * 48 * 96;
    // Tiles are whole; rows of a last tile that are not there may be counted.
    EXPECT_GE(work.vector_multiply_adds, products * 0.999) << rows;
    EXPECT_LE(work.vector_multiply_adds, products * 1.35) << rows;
    EXPECT_EQ(work.matrix_multiply_adds, 0);
  }
}

TEST(Work, OfAPointwiseKernelIsAnInstructionAVectorAndItsBytes) {
  const Work work = known_work_of(R"(graph g(%x: f32[4096], %r: f32[4096]) {
    %a = add(%x, %r)
    %y = mul(%a, %x)
    return %y as "y"
  })",
                                  KernelKind::Map);
  // Two loads, an addition, a multiplication and a store for each eight elements.
  EXPECT_DOUBLE_EQ(work.instructions, 4096 / 8 * 5);
  EXPECT_DOUBLE_EQ(work.streamed_bytes, 3 * 4096 * 4);
}

TEST(Work, OfHalfTypesIsHalfTheBytes) {
  const auto bytes = [](const std::string& type) {
    return known_work_of("graph g(%x: " + type + "[4096]) {\n %y = abs(%x)\n return %y as \"y\"\n}",
                         KernelKind::Map)
        .streamed_bytes;
  };
  EXPECT_DOUBLE_EQ(bytes("f32"), 2 * bytes("f16"));
}

TEST(Work, GrowsWithSizesThatAreKnownAtRunTimeOnly) {
  const std::string text = R"(graph g(%x: f32[s, 64]) {
    %e = exp(%x)
    %t = reduce_sum(%e) {axes = [1], keepdims = 1}
    %y = div(%e, %t)
    return %y as "y"
  })";
  const Work few = known_work_of(text, KernelKind::Row, {{"s", 100}});
  const Work many = known_work_of(text, KernelKind::Row, {{"s", 1000}});
  EXPECT_DOUBLE_EQ(many.instructions, 10 * few.instructions);
  EXPECT_DOUBLE_EQ(many.streamed_bytes, 10 * few.streamed_bytes);
  EXPECT_FALSE(work_of(text, KernelKind::Row)) << "s has no value";
}

TEST(Work, OfMaskedBlocksIsNone) {
  const auto products = [](const std::string& attributes) {
    return known_work_of(
               "graph g(%q: f32[1, 2, 2048, 64], %k: f32[1, 2, 2048, 64], "
               "%v: f32[1, 2, 2048, 64]) {\n"
               "  %y = attention(%q, %k, %v) {" +
                   attributes + "}\n  return %y as \"y\"\n}",
               KernelKind::Attention)
        .vector_multiply_adds;
  };
  const double all = products("scale = 0.125, causal = \"none\"");
  const double causal = products("scale = 0.125, causal = \"top_left\"");
  EXPECT_NEAR(all, 2.0 * 2 * 2048 * 2048 * 64, all * 0.1);
  EXPECT_LT(causal, 0.65 * all);
  EXPECT_GT(causal, 0.45 * all);
}

// The rows of a block are combined once, whatever the number of tasks that share its columns.
TEST(Work, OfTheLastTaskToArriveIsDoneByOne) {
  const auto work = [](const std::string& body) {
    return known_work_of(
        "graph g(%x: f32[1, 8]) {\n"
        "%w = constant {value = f32[8, 16384] random 1}\n%p = matmul(%x, %w)\n" +
            body + "}",
        KernelKind::Contract);
  };
  const Work without = work("return %p as \"p\"\n");
  const Work with = work("%s = reduce_sum(%p) {axes = [1]}\nreturn %p as \"p\", %s as \"s\"\n");
  EXPECT_EQ(with.tasks, without.tasks);
  EXPECT_GT(with.tasks, 1);
  // For each eight columns they go through memory, a step of a sum, three of eight lanes, and a
  // store; then, of one sum for each eight, a load and a step.
  const double vectors = 16384.0 / 8;
  const double expected = vectors * (4 + 3 * 2) + vectors / 8 * 2 + with.tasks;
  EXPECT_NEAR(with.instructions - without.instructions, expected, expected * 0.01);
}

// Norms of rows are made by each thread, whatever the number of tasks that share the columns.
TEST(Work, OfWhatIsKeptIsDoneByEveryThread) {
  const std::string norm =
      "graph g(%x: f32[64, 512]) {\n%n = layer_norm(%x) {axis = -1, epsilon = 1e-05}\n";
  const Work alone = known_work_of(norm + "return %n as \"n\"\n}", KernelKind::Row);
  for (const int columns : {1024, 8192}) {
    const std::string weights =
        fmt::format("%w = constant {{value = f32[512, {}] random 1}}\n", columns);
    const Work matmul = known_work_of(
        "graph g(%x: f32[64, 512]) {\n" + weights + "%y = matmul(%x, %w)\nreturn %y as \"y\"\n}",
        KernelKind::Contract);
    const Work chain = known_work_of(norm + weights + "%y = matmul(%n, %w)\nreturn %y as \"y\"\n}",
                                     KernelKind::Chain);
    EXPECT_GT(chain.tasks, 2 * narrow_target().cores);
    const double expected = narrow_target().cores * alone.instructions;
    EXPECT_NEAR(chain.instructions - matmul.instructions, expected, expected * 0.05) << columns;
  }
}

// Rows stand group after group, so a block of them mostly meets one matrix: all its rows are
// multiplied, and the matrix is read once, however many tiles of rows it meets.
TEST(Work, OfGroupsIsThatOfTheirRows) {
  for (const int groups : {1, 8}) {
    for (const std::int64_t rows : {4, 64, 1320}) {
      const Work work = known_work_of(fmt::format(R"(graph g(%x: f32[s, 48], %c: i64[{0}]) {{
        %w = constant {{value = f32[{0}, 48, 64] random 1}}
        %y = grouped_matmul(%x, %w, %c)
        return %y as "y"
      }})",
                                                  groups),
                                      KernelKind::Contract, {{"s", rows}});
      const double products = static_cast<double>(rows) * 48 * 64;
      EXPECT_GE(work.vector_multiply_adds, products * 0.999) << rows;
      EXPECT_LE(work.vector_multiply_adds, products * 1.35) << rows;
      constexpr double kMatrixBytes = 48 * 64 * 4;
      const double blocks = work.streamed_weight_bytes / kMatrixBytes;
      EXPECT_GE(blocks, 1) << rows;
      EXPECT_LE(blocks, static_cast<double>(rows) / 100 + 2) << rows;  // a last tile reads it again
    }
  }
}

TEST(Work, StreamsWhatIsReadByEachTask) {
  const Work work = known_work_of(R"(graph g(%x: f32[4096, 256]) {
    %w = constant {value = f32[256, 512] random 1}
    %y = matmul(%x, %w)
    return %y as "y"
  })",
                                  KernelKind::Contract);
  const double boundary = 4.0 * (4096 * 256 + 256 * 512 + 4096 * 512);
  EXPECT_GT(work.streamed_bytes, boundary) << "weights are read by more than one task";
}

}  // namespace
}  // namespace opweld::tile
