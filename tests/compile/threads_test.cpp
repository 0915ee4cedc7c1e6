// The number of threads decides how large blocks are, and nothing else: neither what shares a
// kernel nor a bit of any result.
#include <gtest/gtest.h>

#include "compile.h"
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

struct Planned {
  std::string plan, programs;
  std::vector<Tensor> outputs;
};

Planned planned(const std::string& text, const std::vector<Tensor>& inputs, int threads) {
  CompileOptions options;
  options.threads = threads;
  options.attention_chains = true;
  Planned planned;
  options.dump_after = "tile";
  options.dump = [&](std::string_view, const std::string& dumped) { planned.programs += dumped; };
  Compiled compiled = compile(parse_graph(text).value(), options).value();
  planned.plan = to_text(compiled.executable.plan());
  planned.outputs = compiled.executable.run(inputs).value();
  return planned;
}

// A norm and a projection, a feed-forward, and an attention that goes on into its projection, rows
// for two threads each.
const char* const kModels[] = {
    R"(graph g(%x: f32[40, 96]) {
      %w = constant {value = f32[96, 2048] random 1}
      %a = rms_norm(%x) {axis = -1, epsilon = 1e-05}
      %y = matmul(%a, %w)
      return %y as "y" })",
    R"(graph g(%x: f32[1600, 64]) {
      %v = constant {value = f32[64, 256] random 1}
      %w = constant {value = f32[256, 64] random 2}
      %h = matmul(%x, %v)
      %a = gelu(%h)
      %y = matmul(%a, %w)
      return %y as "y" })",
    R"(graph g(%x: bf16[1600, 64]) {
      %v = constant {value = bf16[64, 2048] random 1}
      %y = matmul(%x, %v)
      return %y as "y" })",
    R"(graph g(%x: f32[300, 64]) {
      %v = constant {value = f32[64, 4096] random 1}
      %y = matmul(%x, %v)
      return %y as "y" })",
    R"(graph g(%q: f32[1, 2, 800, 8], %k: f32[1, 2, 800, 8], %v: f32[1, 2, 800, 8]) {
      %w = constant {value = f32[16, 24] random 1}
      %a = attention(%q, %k, %v) {scale = 0.3, causal = "top_left"}
      %t = transpose(%a) {permutation = [0, 2, 1, 3]}
      %r = reshape(%t) {shape = <1, 800, 16>}
      %y = matmul(%r, %w)
      return %y as "y" })",
};

TEST(Threads, DecideHowLargeBlocksAreAndNothingElse) {
  bool blocks_differ = false;
  for (const std::string text : kModels) {
    SCOPED_TRACE(text);
    const std::vector<Tensor> inputs = random_inputs(text, {});
    const Planned one = planned(text, inputs, 1);
    for (const int threads : {2, 3, 8}) {
      const Planned other = planned(text, inputs, threads);
      EXPECT_EQ(other.plan, one.plan);
      expect_identical(other.outputs, one.outputs);
      blocks_differ |= other.programs != one.programs;
    }
  }
  EXPECT_EQ(blocks_differ, host_target().cores > 1);
}

}  // namespace
}  // namespace opweld::testing
