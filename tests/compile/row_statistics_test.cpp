// Statistics of a matmul's rows through the whole compiler: whatever runs them, and however often
// and from how many threads, they are the same bit by bit.
#include <gtest/gtest.h>

#include <thread>

#include "ops/reference.h"
#include "runtime/compare.h"
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

// Two projections with a residual each; of the first, what a norm wants of it, of the second, which
// of its columns is the greatest.
std::string decoder(const std::string& dtype) {
  return fmt::format(R"(graph g(%x: {0}[s, 96], %r: {0}[s, 700]) {{
    %v = constant {{value = {0}[96, 700] random 1}}
    %w = constant {{value = {0}[96, 1500] random 2}}
    %epsilon = constant {{value = {0}[] {{0.25}}}}
    %part = constant {{value = {0}[] {{0.0009765625}}}}
    %p = matmul(%x, %v)
    %h = add(%p, %r)
    %q = reduce_sum_square(%h) {{axes = [1], keepdims = 1}}
    %m = mul(%q, %part)
    %a = add(%m, %epsilon)
    %i = rsqrt(%a)
    %l = matmul(%x, %w)
    %t = argmax(%l) {{axis = 1, keepdims = 1, select_last = 0}}
    %u = reduce_max(%l) {{axes = [1], keepdims = 1}}
    %z = reduce_mean(%l) {{axes = [1], keepdims = 1}}
    return %h as "h", %i as "i", %t as "t", %u as "u", %z as "z"
  }})",
                     dtype);
}

Executable compiled_with(const std::string& text, CompileOptions options) {
  options.verify_passes = true;
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

constexpr std::int64_t kFewRows[] = {0, 1, 2, 5, 16, 33};

TEST(RowStatisticsRuns, AreTwoKernels) {
  const Executable model = compiled(decoder("f32"));
  for (const Kernel& kernel : model.plan().kernels) {
    EXPECT_EQ(kernel.kind, KernelKind::Contract) << to_text(model.plan());
  }
  EXPECT_EQ(model.plan().kernels.size(), 2U) << to_text(model.plan());
}

TEST(RowStatisticsRuns, AreRight) {
  for (const std::string dtype : {"f32", "f64", "f16", "bf16"}) {
    const std::string text = decoder(dtype);
    const Graph graph = parse_graph(text).value();
    for (const char* target : {"host", "host-avx512", "host-avx2"}) {
      if (!find_target(target)) continue;
      CompileOptions options;
      options.target = target;
      options.threads = 2;
      Executable model = compiled_with(text, options);
      for (const std::int64_t rows : kFewRows) {
        SCOPED_TRACE(fmt::format("{} rows of {} on {}", rows, dtype, target));
        const auto inputs = random_inputs(text, {{"s", rows}});
        const auto actual = model.run(inputs).value();
        const auto expected = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
        for (const std::size_t i : {0, 1, 3, 4}) {
          const Comparison result =
              compare(actual[i], expected[i], default_tolerance(actual[i].dtype()));
          EXPECT_TRUE(result.equal) << result.message;
        }
      }
    }
  }
}

TEST(RowStatisticsRuns, DoNotDependOnThreads) {
  const std::string text = decoder("f32");
  Executable one = compiled(text, 1);
  for (const int threads : {2, 3, 8}) {
    Executable other = compiled(text, threads);
    EXPECT_EQ(to_text(other.plan()), to_text(one.plan()));
    for (const std::int64_t rows : kFewRows) {
      const auto inputs = random_inputs(text, {{"s", rows}});
      const auto expected = one.run(inputs).value();
      for (int i = 0; i < 10; ++i) expect_identical(other.run(inputs).value(), expected);
    }
  }
}

TEST(RowStatisticsRuns, AreTheSameFromSeveralCallersAtOnceAndInOneLaunch) {
  const std::string text = decoder("f32");
  Executable model = compiled(text, 2);
  const auto call = [&](std::int64_t rows, bool single_launch) {
    const auto inputs = random_inputs(text, {{"s", rows}});
    const auto first = model.run(inputs).value();
    RunOptions options;
    options.single_launch = single_launch;
    for (int i = 0; i < 30; ++i)
      expect_identical(model.run(inputs, nullptr, options).value(), first);
  };
  std::thread one(call, 1, false);
  std::thread same(call, 1, true);
  std::thread more(call, 17, false);
  call(3, true);
  one.join();
  same.join();
  more.join();
}

TEST(RowStatisticsRuns, StrictIsTheUnfusedRunBitByBit) {
  for (const std::string dtype : {"f32", "f64", "f16", "bf16"}) {
    for (const char* target : {"host", "host-avx2"}) {
      SCOPED_TRACE(dtype + std::string(" on ") + target);
      CompileOptions options;
      options.target = target;
      options.threads = 2;
      options.strict = true;
      Executable fused = compiled_with(decoder(dtype), options);
      EXPECT_EQ(fused.plan().kernels.size(), 2U) << to_text(fused.plan());
      options.level = FusionLevel::None;
      Executable unfused = compiled_with(decoder(dtype), options);
      for (const std::int64_t rows : kFewRows) {
        const auto inputs = random_inputs(decoder(dtype), {{"s", rows}});
        expect_identical(fused.run(inputs).value(), unfused.run(inputs).value());
      }
    }
  }
}

}  // namespace
}  // namespace opweld::testing
