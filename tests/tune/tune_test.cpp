// Tuning from end to end: what is measured is kept and used, and changes no result.
#include "tune.h"

#include <gmock/gmock.h>

#include <cstring>

#include "ops/builder.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "runtime/example_inputs.h"
#include "temporary_folder.h"
#include "tune/kernel_trial.h"

namespace opweld::testing {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Three layers of a feed-forward net over rows that are merged before, so that no input of a kernel
// in the middle says what s is by itself; then attention. Where rows are few, two kernels each of
// two classes and one each of two; where they are many, one chain; and attention in either case.
constexpr const char* kModel = R"(graph g(%x: f32[b, s, 24]) {
  %w1 = constant {value = f32[24, 90] random 1}
  %w2 = constant {value = f32[90, 24] random 2}
  %w3 = constant {value = f32[24, 90] random 3}
  %w4 = constant {value = f32[90, 24] random 4}
  %w5 = constant {value = f32[24, 90] random 5}
  %w6 = constant {value = f32[90, 24] random 6}
  %f = reshape(%x) {shape = <b*s, 24>}
  %a = matmul(%f, %w1)
  %c = gelu(%a)
  %d = matmul(%c, %w2)
  %e = matmul(%d, %w3)
  %g = gelu(%e)
  %h = matmul(%g, %w4)
  %j = matmul(%h, %w5)
  %k = gelu(%j)
  %l = matmul(%k, %w6)
  %i = reshape(%l) {shape = <b, s, 3, 8>}
  %q = transpose(%i) {permutation = [0, 2, 1, 3]}
  %y = attention(%q, %q, %q) {scale = 0.0001, causal = "bottom_right"}
  return %y as "y"
})";

constexpr int kClasses = 6;
constexpr std::size_t kClassesOfFewRows = 5;

Graph model() {
  return parse_graph(kModel).value();
}

std::vector<Tensor> inputs_of(std::int64_t length) {
  return example_inputs(model(), {{"b", 1}, {"s", length}}, 1).value();
}

Compiled compiled(const Tuning& tuning, bool strict = false, int threads = 2) {
  CompileOptions options;
  options.threads = threads;
  options.strict = strict;
  options.tuning = std::make_shared<const Tuning>(tuning);
  auto result = compile(model(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*result);
}

std::string program_of(const Compiled& compiled, const TunableKernel& tunable) {
  const auto index = static_cast<std::size_t>(tunable.kernel);
  return to_text(*compiled.executable.versions()[tunable.version].kernels[index].program);
}

// Of all versions.
std::vector<std::string> log_of(const Compiled& compiled) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < compiled.executable.versions().size(); ++i) {
    for (std::string& line : compiled.tuning_log(i)) lines.push_back(std::move(line));
  }
  return lines;
}

// A choice for every class, the `index`-th of those that it offers.
Tuning forced(std::size_t index) {
  Tuning tuning;
  for (const TunableKernel& tunable : compiled({}).tunable) {
    const auto& offered = tunable.choices.candidates;
    tuning[tunable.name] = {offered[index % offered.size()], 0.25, "s = 9"};
  }
  return tuning;
}

TEST(Tune, KernelsOfOneClassHaveOneName) {
  const Compiled plain = compiled({});
  std::map<std::string, int> kernels;
  for (const TunableKernel& tunable : plain.tunable) ++kernels[tunable.name];
  ASSERT_THAT(kernels, SizeIs(kClasses));
  EXPECT_EQ(kernels["contract matmul + gelu: f32 * x 24 . f32 24 x 96; 2 threads"], 2);
  EXPECT_THAT(log_of(plain), IsEmpty());
}

TEST(Tune, ClassesDifferByThreadsAndNumericsButAttentionByNeither) {
  const auto names = [](const Compiled& compiled) {
    std::vector<std::string> all;
    for (const TunableKernel& tunable : compiled.tunable) all.push_back(tunable.name);
    return all;
  };
  const auto two = names(compiled({}));
  const auto one = names(compiled({}, false, 1));
  ASSERT_EQ(two.size(), one.size());
  EXPECT_NE(two.front(), one.front());
  // Results must not depend on the number of threads, nor may the choice where they depend on it.
  EXPECT_THAT(two.back(), HasSubstr("attention"));
  EXPECT_EQ(two.back(), one.back());
  EXPECT_THAT(names(compiled({}, true)), Each(Not(HasSubstr("attention"))));
}

TEST(Tune, AChoiceReachesItsKernelsAndIsTold) {
  const Compiled plain = compiled({});
  const Compiled tuned = compiled(forced(0));
  ASSERT_EQ(plain.tunable.size(), tuned.tunable.size());
  for (std::size_t i = 0; i < plain.tunable.size(); ++i) {
    EXPECT_NE(program_of(plain, plain.tunable[i]), program_of(tuned, tuned.tunable[i]));
  }
  EXPECT_THAT(log_of(tuned), SizeIs(tuned.tunable.size()));
  EXPECT_THAT(log_of(tuned), Each(HasSubstr("25.0 % faster than the default at s = 9")));
  EXPECT_THAT(log_of(tuned),
              Contains(::testing::AllOf(HasSubstr("matmul + gelu"), HasSubstr("register tile"))));
}

TEST(Tune, EveryChoiceGivesTheReferencesResults) {
  for (std::size_t index = 0; index < tile::kMostCandidates; ++index) {
    Compiled tuned = compiled(forced(index));
    for (const std::int64_t length : {0, 1, 7, 33, 130, 97 * host_target().cores}) {
      const auto inputs = inputs_of(length);
      const auto expected = evaluate(model(), inputs, {.in_f64 = true, .observer = {}});
      const auto actual = tuned.executable.run(inputs);
      ASSERT_TRUE(expected && actual);
      const Comparison comparison =
          compare(actual->front(), expected->front(), default_tolerance(DType::F32));
      EXPECT_TRUE(comparison.equal) << index << ", length " << length << comparison.message;
    }
  }
}

TEST(Tune, WhatAKernelDoesNotOfferIsNotUsed) {
  const Compiled plain = compiled({});
  Tuning tuning;
  for (const TunableKernel& tunable : plain.tunable) {
    tuning[tunable.name] = {{.rows = 1 << 20, .queries = 7}, 0.5, ""};
  }
  const Compiled tuned = compiled(tuning);
  for (std::size_t i = 0; i < plain.tunable.size(); ++i) {
    EXPECT_EQ(program_of(plain, plain.tunable[i]), program_of(tuned, tuned.tunable[i]));
  }
  EXPECT_THAT(log_of(tuned), IsEmpty());
}

struct Tuned {
  Tuning tuning;
  std::vector<std::string> lines;
};

Tuned tuned(const std::string& folder, double seconds, std::int64_t length, Tuning known = {}) {
  Tuned result;
  CompileOptions options;
  options.threads = 2;
  options.tuning = std::make_shared<const Tuning>(std::move(known));
  TuneOptions tuning;
  tuning.seconds = seconds;
  tuning.folder = folder;
  tuning.progress = [&](const std::string& line) { result.lines.push_back(line); };
  auto found = tune(model(), options, inputs_of(length), tuning);
  EXPECT_TRUE(found) << found.error().message;
  if (found) result.tuning = std::move(*found);
  return result;
}

TEST(Tune, WhatIsMeasuredIsKeptAndNotMeasuredAgainAtTheSameSizes) {
  constexpr double kLongEnough = 3600;
  const TemporaryFolder folder;
  const Tuned first = tuned(folder.path(), kLongEnough, 6);
  EXPECT_THAT(first.tuning, SizeIs(kClassesOfFewRows));
  EXPECT_THAT(first.lines, SizeIs(kClassesOfFewRows));
  EXPECT_THAT(first.lines,
              Each(::testing::AllOf(HasSubstr(" of 5, "), Not(HasSubstr("left out")))));
  for (const auto& [name, choice] : first.tuning) {
    EXPECT_EQ(choice.sizes, "b = 1, s = 6");
    EXPECT_GE(choice.gain, 0);
    // Whether anything is faster is for the machine to say; nothing else is chosen.
    EXPECT_EQ(choice.blocking.is_default(), choice.gain == 0);
  }
  const std::string machine = machine_key(find_target("host").value());
  EXPECT_EQ(load_tuning(folder.path(), machine), first.tuning);

  const Tuned again = tuned(folder.path(), kLongEnough, 6, first.tuning);
  EXPECT_EQ(again.tuning, first.tuning);
  EXPECT_THAT(again.lines, Each(HasSubstr("as measured before")));

  // At other sizes they would be, had they the time.
  const Tuned longer = tuned(folder.path(), 0, 7, first.tuning);
  EXPECT_THAT(longer.lines, Each(HasSubstr("time is up")));
  EXPECT_EQ(load_tuning(folder.path(), machine), first.tuning);
}

TEST(Tune, WithoutTimeNothingIsDecided) {
  const TemporaryFolder folder;
  const Tuned hurried = tuned(folder.path(), 0, 6);
  EXPECT_THAT(hurried.tuning, IsEmpty());
  EXPECT_THAT(hurried.lines, SizeIs(kClassesOfFewRows));
  EXPECT_THAT(hurried.lines, Each(HasSubstr("time is up")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Tune, AModelThatCannotRunIsAnError) {
  Graph graph = parse_graph(R"(graph g(%i: i64[n], %x: f32[4, 8]) {
    %w = constant {value = f32[8, 8] random 1}
    %m = matmul(%x, %w)
    %y = gather(%m, %i) {axis = 0}
    return %y as "y"
  })")
                    .value();
  Tensor beyond = Tensor::allocate(DType::I64, {1}).value();
  beyond.set_int(0, 4);
  std::vector<Tensor> inputs = example_inputs(graph, {{"n", 1}}, 1).value();
  inputs[0] = beyond;
  EXPECT_FALSE(tune(graph, {}, inputs, {}));
}

// The trial's kernels compute what the model's do, each with its own weights.
TEST(KernelTrial, RunsTheModelsKernelsOnWhatTheFirstOneRead) {
  CompileOptions options;
  options.threads = 1;
  options.keep_constants = true;
  Compiled plain = compile(model(), options).value();
  const Bindings sizes = {{"b", 1}, {"s", 5}};
  KernelTrial::Subject subject;
  subject.sizes = sizes;
  subject.symbols = plain.executable.graph().symbols();
  for (const Kernel& kernel : plain.executable.plan().kernels) {
    if (kernel.label == "matmul + gelu") subject.kernels.push_back(&kernel);
  }
  ASSERT_THAT(subject.kernels, SizeIs(2));
  std::vector<Tensor> first_output;
  RunOptions observing;
  observing.observer = [&](const Kernel& kernel, std::span<const Tensor> read,
                           std::span<const Tensor> written) -> Status {
    if (&kernel != subject.kernels.front()) return {};
    subject.inputs.assign(read.begin(), read.end());
    for (const Tensor& tensor : written) first_output.push_back(tensor.clone().value());
    return {};
  };
  ASSERT_TRUE(plain.executable.run(inputs_of(5), nullptr, observing));
  const Target target = find_target("host").value();
  auto trial = KernelTrial::create(subject, {&target}, 1);
  ASSERT_TRUE(trial) << trial.error().message;
  const auto seconds = trial->run();
  ASSERT_TRUE(seconds);
  EXPECT_GT(*seconds, 0);
  ASSERT_THAT(trial->outputs(), SizeIs(2));
  const auto bytes = static_cast<std::size_t>(first_output[0].num_bytes());
  EXPECT_EQ(std::memcmp(trial->outputs()[0].data(), first_output[0].data(), bytes), 0);
  const Graph second = extract_group(*subject.kernels[1]);
  const auto expected = evaluate(second, subject.inputs, sizes, {.in_f64 = true, .observer = {}});
  ASSERT_TRUE(expected);
  EXPECT_TRUE(
      compare_strictly(trial->outputs()[1], expected->front(), default_tolerance(DType::F32))
          .equal);

  auto other = KernelTrial::create(subject, {&target}, 1);
  ASSERT_TRUE(other);
  const auto ratio = race(*trial, *other, {3, now() + 3600});
  ASSERT_TRUE(ratio && *ratio);
  EXPECT_GT(**ratio, 0);
  const auto too_late = race(*trial, *other, {3, now() - 1});
  ASSERT_TRUE(too_late);
  EXPECT_FALSE(*too_late);
}

TEST(ExampleInputs, FitWhatTheyAreFor) {
  const Graph graph = parse_graph(R"(graph g(%ids: i64[b, s], %some_mask: i64[b, s], %x: f32[s]) {
    %t = constant {value = f32[3, 4] random 1}
    %r = reshape(%ids) {shape = <b*s>}
    %g = gather(%t, %r) {axis = 0}
    return %g as "g", %some_mask as "m", %x as "z"
  })")
                          .value();
  const auto inputs = example_inputs(graph, {{"b", 2}, {"s", 50}}, 1);
  ASSERT_TRUE(inputs);
  bool past_two = false;
  for (std::int64_t i = 0; i < 100; ++i) {
    EXPECT_GE((*inputs)[0].get_int(i), 0);
    EXPECT_LT((*inputs)[0].get_int(i), 3);
    past_two = past_two || (*inputs)[0].get_int(i) == 2;
    EXPECT_EQ((*inputs)[1].get_int(i), 1);
  }
  EXPECT_TRUE(past_two);
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_LE(std::abs((*inputs)[2].get_double(i)), 1);
}

}  // namespace
}  // namespace opweld::testing
