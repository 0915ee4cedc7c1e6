// One compiled model at many sizes, threads, callers, and with every kind of output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "ops/reference.h"
#include "runtime/compare.h"
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void expect_right(Executable& model, const std::string& text, const Bindings& sizes) {
  const std::vector<Tensor> inputs = random_inputs(text, sizes);
  const auto expected =
      evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
  const auto actual = model.run(inputs);
  ASSERT_TRUE(actual) << actual.error().message;
  ASSERT_EQ(actual->size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Comparison result =
        compare_strictly((*actual)[i], expected[i], default_tolerance((*actual)[i].dtype()));
    EXPECT_TRUE(result.equal) << "output " << i << ": " << result.message;
  }
}

// A matmul with its epilogue, a norm, a softmax, a reduction over rows, a transpose.
const std::string kModel = R"(graph g(%x: f32[b, s, 32], %g: f32[32]) {
  %w = constant {value = f32[32, 24] random 1}
  %n = layer_norm(%x, %g) {axis = -1, epsilon = 0.01}
  %m = matmul(%n, %w)
  %t = tanh(%m)
  %p = softmax(%t) {axis = -1}
  %c = reduce_mean(%p) {axes = [0], keepdims = 1}
  %d = sub(%p, %c)
  %y = transpose(%d) {permutation = [0, 2, 1]}
  return %y as "y", %c as "c"
})";

TEST(Run, OneCompileServesEverySize) {
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
    Executable model = compiled(kModel, 2, level);
    // More sizes than are remembered, and back to the first.
    for (const std::int64_t s : {1, 3, 7, 8, 15, 16, 17, 31, 33, 640, 1}) {
      expect_right(model, kModel, {{"b", 1}, {"s", s}});
      expect_right(model, kModel, {{"b", 3}, {"s", s}});
    }
  }
}

// Unfused, so that results take the place of operands that nobody reads any more.
TEST(Run, AnObserverSeesWhatAKernelReadThoughItWroteOverIt) {
  const std::string text = R"(graph g(%x: f32[s]) {
    %a = tanh(%x)
    %b = exp(%a)
    %c = neg(%b)
    return %c as "c"
  })";
  Executable model = compiled(text, 1, FusionLevel::None);
  const std::vector<Tensor> inputs = random_inputs(text, {{"s", 37}});
  std::vector<std::string> seen;
  RunOptions options;
  options.observer = [&](const Kernel& kernel, std::span<const Tensor> read,
                         std::span<const Tensor> written) -> Status {
    seen.push_back(kernel.label);
    const auto expected = evaluate(extract_group(kernel), read).value();
    EXPECT_TRUE(compare_strictly(written[0], expected[0], default_tolerance(DType::F32)).equal);
    return {};
  };
  ASSERT_TRUE(model.run(inputs, nullptr, options));
  EXPECT_EQ(seen, (std::vector<std::string>{"tanh", "exp", "neg"}));

  options.observer = [](const auto&...) -> Status { return fail("enough"); };
  const auto stopped = model.run(inputs, nullptr, options);
  ASSERT_FALSE(stopped);
  EXPECT_THAT(stopped.error().message, HasSubstr("enough"));
}

TEST(Run, EmptyTensorsGiveEmptyResults) {
  Executable model = compiled(kModel);
  expect_right(model, kModel, {{"b", 2}, {"s", 0}});
  const auto outputs = model.run(random_inputs(kModel, {{"b", 0}, {"s", 5}}));
  ASSERT_TRUE(outputs) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].sizes(), (Sizes{0, 24, 5}));
  // The mean of nothing.
  EXPECT_EQ((*outputs)[1].sizes(), (Sizes{1, 5, 24}));
  for (std::int64_t i = 0; i < 5 * 24; ++i) EXPECT_TRUE(std::isnan((*outputs)[1].get_double(i)));
}

TEST(Run, WrongCountsRanksAndSizesAreUsageErrors) {
  Executable model = compiled(kModel);
  const std::vector<Tensor> right = random_inputs(kModel, {{"b", 2}, {"s", 3}});
  const auto message = [&](const std::vector<Tensor>& inputs) {
    const auto outputs = model.run(inputs);
    EXPECT_FALSE(outputs);
    if (outputs) return std::string();
    EXPECT_EQ(outputs.error().kind, ErrorKind::Usage);
    return outputs.error().message;
  };
  const auto zeros = [](DType dtype, const Sizes& sizes) {
    return Tensor::allocate(dtype, sizes).value();
  };
  EXPECT_THAT(message({right[0]}), AllOf(HasSubstr("2"), HasSubstr("1")));
  EXPECT_NE(message({right[0], right[1], right[1]}), "");
  EXPECT_NE(message({}), "");
  EXPECT_THAT(message({zeros(DType::F32, {2, 32}), right[1]}), HasSubstr("'x'"));
  EXPECT_THAT(message({zeros(DType::F32, {2, 3, 31}), right[1]}),
              AllOf(HasSubstr("'x'"), HasSubstr("32"), HasSubstr("31")));
  EXPECT_THAT(message({right[0], zeros(DType::F32, {33})}),
              AllOf(HasSubstr("'g'"), HasSubstr("32"), HasSubstr("33")));
  EXPECT_THAT(message({zeros(DType::F64, {2, 3, 32}), right[1]}),
              AllOf(HasSubstr("'x'"), HasSubstr("f32"), HasSubstr("f64")));
  EXPECT_TRUE(model.run(right)) << "none of that did it harm";
}

TEST(Run, ResultsDoNotDependOnTheNumberOfThreads) {
  const std::vector<Tensor> inputs = random_inputs(kModel, {{"b", 5}, {"s", 67}});
  Executable one = compiled(kModel, 1);
  const auto expected = one.run(inputs).value();
  for (const int threads : {2, 5}) {
    Executable several = compiled(kModel, threads);
    EXPECT_EQ(several.threads(), threads);
    for (int repeat = 0; repeat < 5; ++repeat) {
      expect_identical(several.run(inputs).value(), expected);
    }
  }
}

TEST(Run, SeveralCallersRunOneModelAtOnce) {
  Executable model = compiled(kModel);
  struct Caller {
    std::vector<Tensor> inputs;
    std::vector<Tensor> expected;
    int wrong = 0;
  };
  std::vector<Caller> callers;
  for (const std::int64_t s : {5, 31, 64}) {
    Caller caller;
    caller.inputs = random_inputs(kModel, {{"b", 2}, {"s", s}});
    caller.expected = model.run(caller.inputs).value();
    callers.push_back(std::move(caller));
  }
  std::vector<std::thread> threads;
  for (Caller& caller : callers) {
    threads.emplace_back([&model, &caller]() {
      for (int repeat = 0; repeat < 50; ++repeat) {
        const auto outputs = model.run(caller.inputs);
        for (std::size_t i = 0; i < caller.expected.size(); ++i) {
          const bool same =
              outputs && std::memcmp((*outputs)[i].data(), caller.expected[i].data(),
                                     static_cast<std::size_t>(caller.expected[i].num_bytes())) == 0;
          caller.wrong += same ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Caller& caller : callers) EXPECT_EQ(caller.wrong, 0);
}

TEST(Run, EveryOutputIsTheCallersOwn) {
  const std::string text = R"(graph g(%x: f32[n], %z: f32[n]) {
    %c = constant {value = f32[3] {1.0, 2.0, 3.0}}
    %a = exp(%x)
    %r = reshape(%a) {shape = <n, 1>}
    %q = reshape(%x) {shape = <1, n>}
    %b = neg(%a)
    return %b as "b", %a as "a", %c as "c", %x as "x", %a as "again", %r as "r", %q as "q"
  })";
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
    Executable model = compiled(text, 2, level);
    for (const std::int64_t n : kLengths) expect_right(model, text, {{"n", n}});
    const std::vector<Tensor> inputs = random_inputs(text, {{"n", 9}});
    auto outputs = model.run(inputs).value();
    std::vector<const std::byte*> places;
    for (const Tensor& tensor : outputs) places.push_back(tensor.data());
    for (const Tensor& tensor : inputs) places.push_back(tensor.data());
    std::sort(places.begin(), places.end());
    EXPECT_EQ(std::unique(places.begin(), places.end()), places.end()) << "two share their memory";
    // What a caller does to its results, constants above all, no later run sees.
    for (Tensor& tensor : outputs) {
      for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.set_double(i, -77);
    }
    expect_right(model, text, {{"n", 9}});
  }
}

// The memory of results goes round: into the next run once it is let go, never before.
TEST(Run, ResultsThatAreHeldStayAsTheyAre) {
  std::vector<Tensor> held;
  std::vector<Tensor> expected;
  {
    Executable model = compiled(kModel);
    const std::vector<Tensor> inputs = random_inputs(kModel, {{"b", 2}, {"s", 17}});
    held = model.run(inputs).value();
    for (const Tensor& tensor : held) expected.push_back(tensor.clone().value());
    const std::byte* place = nullptr;
    for (int round = 0; round < 3; ++round) {
      expect_right(model, kModel, {{"b", 2}, {"s", 17}});
      expect_right(model, kModel, {{"b", 2}, {"s", 15}});
      const auto again = model.run(inputs).value();
      expect_identical(again, expected);
      EXPECT_NE(again[0].data(), held[0].data());
      if (round > 0) {
        EXPECT_EQ(again[0].data(), place) << "fresh memory in round " << round;
      }
      place = again[0].data();
    }
    expect_identical(held, expected);
  }
  // They outlive the model.
  expect_identical(held, expected);
}

TEST(Run, AnIndexOutOfRangeNamesTheNodeAndHarmsNothing) {
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
    Executable model = compiled(R"(graph g(%x: f32[n, 8], %i: i64[m]) {
      %a = gather(%x, %i) {axis = 0} @"/embed/Gather"
      %y = tanh(%a)
      return %y as "y"
    })",
                                2, level);
    Tensor table = Tensor::allocate(DType::F32, {5, 8}).value();
    for (std::int64_t i = 0; i < 40; ++i) table.set_double(i, static_cast<double>(i) / 40);
    Tensor ids = Tensor::allocate(DType::I64, {3}).value();
    const auto run_with = [&](std::int64_t id) {
      ids.set_int(1, id);
      return model.run(std::vector{table, ids});
    };
    for (const std::int64_t id : {std::int64_t{5}, std::int64_t{-6}, std::int64_t{1} << 62}) {
      const auto outputs = run_with(id);
      ASSERT_FALSE(outputs);
      EXPECT_THAT(outputs.error().message, AllOf(HasSubstr("/embed/Gather"), HasSubstr("range")));
    }
    for (const std::int64_t id : {4, -1}) {
      const auto outputs = run_with(id);
      ASSERT_TRUE(outputs) << outputs.error().message;
      EXPECT_NEAR((*outputs)[0].get_double(8), std::tanh(32.0 / 40), 1e-6);
    }
  }
}

// Packing pads 8 columns to whole panels; of two uses of one weight there is one copy.
TEST(Run, TheModelTellsWhatItHolds) {
  Executable model = compiled(R"(graph g(%x: f32[n, 8]) {
    %w = constant {value = f32[8, 8] random 1}
    %a = matmul(%x, %w)
    %b = softmax(%a) {axis = -1}
    %c = matmul(%b, %w)
    %y = softmax(%c) {axis = -1}
    return %y as "y"
  })",
                              2, FusionLevel::None);
  ASSERT_EQ(model.kernels().size(), 4U);
  const MemoryAccount memory = model.memory({{"n", 10}}, false).value();
  EXPECT_EQ(memory.weight_bytes, 4 * 8 * 8);
  const std::int64_t width = model.kernels()[0].program->params[1].packed_columns;
  ASSERT_GT(width, 0);
  EXPECT_EQ(memory.held_weight_bytes, 4 * 8 * ((8 + width - 1) / width * width));
  // Two of a, b, c at a time.
  EXPECT_EQ(memory.live_bytes, 2 * 4 * 10 * 8);
  EXPECT_EQ(memory.arena_bytes, memory.live_bytes);
  EXPECT_GT(memory.scratch_bytes, 0);
  RunStats stats;
  ASSERT_TRUE(model.run(std::vector{Tensor::allocate(DType::F32, {10, 8}).value()}, &stats));
  EXPECT_EQ(stats.arena_bytes, memory.arena_bytes);
}

TEST(Run, StatsCountWhatCrossesTheKernels) {
  Executable model = compiled(R"(graph g(%x: f32[n, 16]) {
    %w = constant {value = f32[16, 200] random 1}
    %m = matmul(%x, %w)
    %y = softmax(%m) {axis = -1}
    return %y as "y"
  })");
  RunStats stats;
  ASSERT_TRUE(model.run(std::vector{Tensor::allocate(DType::F32, {10, 16}).value()}, &stats));
  EXPECT_EQ(stats.kernels, 2);
  EXPECT_EQ(stats.bytes_read, 4 * (10 * 16 + 16 * 200 + 10 * 200));
  EXPECT_EQ(stats.bytes_written, 4 * (10 * 200 + 10 * 200));
  EXPECT_EQ(stats.arena_bytes, 4 * 10 * 200);
}

}  // namespace
}  // namespace opweld::testing
