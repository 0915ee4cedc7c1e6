// Decoding with caches that grow by a concat: each step gives out what the next one takes.
#include <gmock/gmock.h>

#include "ops/reference.h"
#include "runtime/compare.h"
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

// One layer's attention, 4 heads on 2.
std::string layer(const std::string& dtype) {
  const auto projection = [&](const std::string& name, int heads, int seed) {
    return fmt::format(R"(%w{0} = constant {{value = {1}[64, {2}] random {3}}}
      %{0}m = matmul(%h, %w{0})
      %{0}r = reshape(%{0}m) {{shape = <b, s, {4}, 16>}}
      %{0} = transpose(%{0}r) {{permutation = [0, 2, 1, 3]}}
)",
                       name, dtype, heads * 16, seed, heads);
  };
  return fmt::format(
             "graph layer(%x: {0}[b, s, 64], %pk: {0}[b, 2, p, 16], %pv: {0}[b, 2, p, 16]) {{\n"
             "%f = constant {{value = {0}[] {{0.125}}}}\n%h = mul(%x, %f)\n",
             dtype) +
         projection("q", 4, 1) + projection("k", 2, 2) + projection("v", 2, 3) +
         R"(%keys = concat(%pk, %k) {axis = 2}
      %values = concat(%pv, %v) {axis = 2}
      %a = attention(%q, %keys, %values) {scale = 0.125, causal = "bottom_right"}
      %t = transpose(%a) {permutation = [0, 2, 1, 3]}
      %r = reshape(%t) {shape = <b, s, 64>}
      %y = add(%r, %x)
      return %y as "y", %keys as "present_k", %values as "present_v" })";
}

void expect_agree(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const Comparison result = compare(actual[i], expected[i], default_tolerance(actual[i].dtype()));
    EXPECT_TRUE(result.equal) << "output " << i << ": " << result.message;
  }
}

TEST(JoinedRows, CountTheBytesThatPlansSay) {
  Executable model = compiled(layer("f32"));
  EXPECT_THAT(to_text(model.plan()), HasSubstr("attention: concat + concat + attention"));
  for (const bool single_launch : {false, true}) {
    const Bindings sizes{{"b", 2}, {"s", 1}, {"p", 300}};
    RunStats stats;
    RunOptions options;
    options.single_launch = single_launch;
    ASSERT_TRUE(model.run(random_inputs(layer("f32"), sizes), &stats, options));
    const FusionPlan& plan = model.plan(sizes);
    std::int64_t read = 0;
    std::int64_t written = 0;
    for (const Kernel& kernel : plan.kernels) {
      read += FusionPlan::bytes_read(kernel).evaluate(sizes).value();
      written += FusionPlan::bytes_written(kernel).evaluate(sizes).value();
    }
    EXPECT_EQ(stats.kernels, static_cast<std::int64_t>(plan.kernels.size()));
    EXPECT_EQ(stats.bytes_read, read);
    EXPECT_EQ(stats.bytes_written, written);
  }
}

// A prompt, one token, several, none, and many again.
TEST(JoinedRows, StepByStep) {
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    const std::string text = layer(dtype);
    const Graph graph = parse_graph(text).value();
    for (const int threads : {1, 2}) {
      Executable model = compiled(text, threads);
      Executable unfused = compiled(text, threads, FusionLevel::None);
      std::vector<Tensor> cache = random_inputs(text, {{"b", 2}, {"s", 1}, {"p", 0}});
      for (const std::int64_t rows : {140, 1, 1, 13, 0, 129, 1}) {
        SCOPED_TRACE(fmt::format("{}, {} threads, {} rows", dtype, threads, rows));
        const std::int64_t past = cache[1].sizes()[2];
        std::vector<Tensor> inputs = random_inputs(text, {{"b", 2}, {"s", rows}, {"p", past}});
        inputs[1] = cache[1];
        inputs[2] = cache[2];
        const auto expected = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
        const auto outputs = model.run(inputs).value();
        expect_agree(outputs, expected);
        expect_agree(unfused.run(inputs).value(), expected);
        RunOptions together;
        together.single_launch = true;
        expect_identical(model.run(inputs, nullptr, together).value(), outputs);
        cache = {inputs[0], outputs[1], outputs[2]};
      }
    }
  }
}

}  // namespace
}  // namespace opweld::testing
