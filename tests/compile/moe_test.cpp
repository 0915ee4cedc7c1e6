// A mixture of experts as in Mixtral (Jiang et al. 2024): softmax router, top two renormalised,
// rows sorted by expert, a gated feed-forward of grouped matmuls, a weighted sum in token order.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compile.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kWidth = 24;   // of a token
constexpr std::int64_t kHidden = 20;  // of an expert
constexpr std::int64_t kExperts = 6;
constexpr std::int64_t kChosen = 2;

// How rows are sorted. By calls: stable sorting is top_k of everything, least first, which takes
// equals in order; the indices that sort the order are its inverse.
enum class Sorting : std::uint8_t { Calls, OneOperator };

constexpr Sorting kSortings[] = {Sorting::Calls, Sorting::OneOperator};

std::string order_by_calls() {
  return fmt::format(R"(
    %sorted, %order = top_k(%flat) {{axis = 0, k = <{0}*t>, largest = 0}}
    %least, %place = top_k(%order) {{axis = 0, k = <{0}*t>, largest = 0}}
    %column = reshape(%flat) {{shape = <{0}*t, 1>}}
    %each = iota {{shape = <{1}>, axis = 0, dtype = i64}}
    %is = eq(%column, %each)
    %ones = cast(%is) {{to = i64}}
    %counts = reduce_sum(%ones) {{axes = [0], keepdims = 0}})",
                     kChosen, kExperts);
}

std::string block(Sorting sorting) {
  const std::string order =
      sorting == Sorting::Calls
          ? order_by_calls()
          : fmt::format("%order, %place, %counts = sort_by_group(%flat) {{groups = <{}>}}",
                        kExperts);
  return fmt::format(R"(graph moe(%x: f32[t, {0}], %router: f32[{0}, {2}]) {{
    %up = constant {{value = f32[{2}, {0}, {4}] random 5}}
    %down = constant {{value = f32[{2}, {1}, {0}] random 6}}
    %logits = matmul(%x, %router)
    %p = softmax(%logits) {{axis = -1}}
    %best, %experts = top_k(%p) {{axis = 1, k = <{3}>}}
    %total = reduce_sum(%best) {{axes = [1], keepdims = 1}}
    %weights = div(%best, %total)

    %flat = reshape(%experts) {{shape = <{3}*t>}}
    {5}
    %chosen = constant {{value = i64[] {{{3}}}}}
    %token = div(%order, %chosen)
    %rows = gather(%x, %token) {{axis = 0}}

    %both = grouped_matmul(%rows, %up, %counts) @"experts.up"
    %g = slice(%both) {{starts = <0, 0>, sizes = <{3}*t, {1}>, steps = [1, 1]}}
    %u = slice(%both) {{starts = <0, {1}>, sizes = <{3}*t, {1}>, steps = [1, 1]}}
    %a = silu(%g)
    %h = mul(%a, %u)
    %out = grouped_matmul(%h, %down, %counts) @"experts.down"

    %back = gather(%out, %place) {{axis = 0}}
    %apart = reshape(%back) {{shape = <t, {3}, {0}>}}
    %w = reshape(%weights) {{shape = <t, {3}, 1>}}
    %weighted = mul(%apart, %w)
    %y = reduce_sum(%weighted) {{axes = [1], keepdims = 0}}
    return %y as "y", %counts as "counts"
  }})",
                     kWidth, kHidden, kExperts, kChosen, 2 * kHidden, order);
}

std::vector<Tensor> inputs_of(std::int64_t tokens) {
  const Graph graph = parse_graph(block(Sorting::OneOperator)).value();
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    inputs.push_back(random_tensor(input->type(),
                                   evaluate(input->shape(), Bindings{{"t", tokens}}).value(),
                                   static_cast<unsigned>(inputs.size()) + 1));
  }
  return inputs;
}

// The weights of the experts: up, then down.
std::vector<Tensor> weights() {
  std::vector<Tensor> tensors;
  const Graph graph = parse_graph(block(Sorting::OneOperator)).value();
  for (const auto& node : graph.nodes()) {
    if (node->op() != "constant" || node->result()->rank() != 3) continue;
    tensors.push_back(node->attributes().tensor("value"));
  }
  return tensors;
}

struct Mixture {
  std::vector<double> y;
  std::vector<std::int64_t> counts;
};

// Token by token, in f64, by the definition.
Mixture mixture_by_loops(const std::vector<Tensor>& inputs) {
  const Tensor& x = inputs[0];
  const Tensor& router = inputs[1];
  const std::vector<Tensor> experts = weights();
  const Tensor& up = experts[0];
  const Tensor& down = experts[1];
  Mixture result;
  result.counts.resize(kExperts);
  for (std::int64_t t = 0; t < x.sizes()[0]; ++t) {
    const auto token = [&x, t](std::int64_t k) { return x.get_double(t * kWidth + k); };
    std::vector<double> scores(kExperts);
    for (std::int64_t e = 0; e < kExperts; ++e) {
      double logit = 0;
      for (std::int64_t k = 0; k < kWidth; ++k) {
        logit += token(k) * router.get_double(k * kExperts + e);
      }
      scores[static_cast<std::size_t>(e)] = std::exp(logit);
    }
    std::vector<std::size_t> ranking(kExperts);
    std::iota(ranking.begin(), ranking.end(), 0);
    std::stable_sort(ranking.begin(), ranking.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    double total = 0;
    for (std::int64_t i = 0; i < kChosen; ++i)
      total += scores[ranking[static_cast<std::size_t>(i)]];
    std::vector<double> sum(kWidth, 0.0);
    for (std::int64_t i = 0; i < kChosen; ++i) {
      const std::size_t expert = ranking[static_cast<std::size_t>(i)];
      const auto e = static_cast<std::int64_t>(expert);
      ++result.counts[expert];
      std::vector<double> hidden;
      for (std::int64_t j = 0; j < kHidden; ++j) {
        double gate = 0;
        double value = 0;
        for (std::int64_t k = 0; k < kWidth; ++k) {
          const std::int64_t row = (e * kWidth + k) * 2 * kHidden;
          gate += token(k) * up.get_double(row + j);
          value += token(k) * up.get_double(row + kHidden + j);
        }
        hidden.push_back(gate / (1 + std::exp(-gate)) * value);
      }
      for (std::int64_t n = 0; n < kWidth; ++n) {
        double product = 0;
        for (std::int64_t j = 0; j < kHidden; ++j) {
          product +=
              hidden[static_cast<std::size_t>(j)] * down.get_double((e * kHidden + j) * kWidth + n);
        }
        sum[static_cast<std::size_t>(n)] += scores[expert] / total * product;
      }
    }
    result.y.insert(result.y.end(), sum.begin(), sum.end());
  }
  return result;
}

Executable compiled(Sorting sorting, FusionLevel level, bool strict, int threads) {
  CompileOptions options;
  options.level = level;
  options.strict = strict;
  options.threads = threads;
  options.verify_passes = true;
  auto result = compile(parse_graph(block(sorting)).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

void expect_mixture(Sorting sorting, FusionLevel level) {
  Executable executable = compiled(sorting, level, false, 2);
  for (const std::int64_t tokens : {0, 1, 2, 7, 33, 130, 1031}) {
    const std::vector<Tensor> inputs = inputs_of(tokens);
    const auto results = executable.run(inputs);
    ASSERT_TRUE(results) << results.error().message;
    const Mixture mixture = mixture_by_loops(inputs);
    for (std::size_t e = 0; e < mixture.counts.size(); ++e) {
      ASSERT_EQ((*results)[1].get_int(static_cast<std::int64_t>(e)), mixture.counts[e]);
    }
    Tensor expected = Tensor::allocate(DType::F64, {tokens, kWidth}).value();
    for (std::size_t i = 0; i < mixture.y.size(); ++i) {
      expected.set_double(static_cast<std::int64_t>(i), mixture.y[i]);
    }
    const Comparison same =
        compare_strictly((*results)[0], expected, default_tolerance(DType::F32));
    EXPECT_TRUE(same.equal) << tokens << " tokens: " << same.message;
  }
}

TEST(MixtureOfExperts, IsWhatALoopOverTokensGives) {
  for (const Sorting sorting : kSortings) {
    for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
      expect_mixture(sorting, level);
    }
  }
}

TEST(MixtureOfExperts, DoesNotDependOnFusionInStrictNorOnThreads) {
  for (const Sorting sorting : kSortings) {
    Executable unfused = compiled(sorting, FusionLevel::None, true, 2);
    Executable one = compiled(sorting, FusionLevel::Auto, true, 1);
    Executable three = compiled(sorting, FusionLevel::Auto, true, 3);
    for (const std::int64_t tokens : {1, 33, 130, 1031}) {
      const std::vector<Tensor> inputs = inputs_of(tokens);
      const Tensor expected = unfused.run(inputs).value()[0];
      EXPECT_TRUE(identical(one.run(inputs).value()[0], expected));
      EXPECT_TRUE(identical(three.run(inputs).value()[0], expected));
    }
  }
}

// Calls among kernels whose work hangs on what the calls found, all handed over at once.
void expect_one_launch(Sorting sorting, FusionLevel level) {
  Executable executable = compiled(sorting, level, false, 3);
  RunOptions options;
  options.single_launch = true;
  for (const std::int64_t tokens : {0, 1, 7, 130, 1031}) {
    const std::vector<Tensor> inputs = inputs_of(tokens);
    const auto apart = executable.run(inputs).value();
    for (int round = 0; round < 10; ++round) {
      RunStats stats;
      const auto together = executable.run(inputs, &stats, options).value();
      EXPECT_EQ(stats.launches, 1);
      for (std::size_t i = 0; i < apart.size(); ++i) {
        EXPECT_TRUE(identical(together[i], apart[i])) << tokens << " tokens, output " << i;
      }
    }
  }
}

TEST(MixtureOfExperts, RunsInASingleLaunch) {
  for (const Sorting sorting : kSortings) {
    for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
      expect_one_launch(sorting, level);
    }
  }
}

// The router's product by an input, its choice, and the two stages of the experts: the first with
// the sort, the look-up of their rows and the gate, the second with the sum. Nothing is called.
TEST(MixtureOfExperts, IsAFewKernels) {
  const Executable executable = compiled(Sorting::OneOperator, FusionLevel::Auto, false, 1);
  const std::string few = to_text(executable.plan({{"t", 1}}));
  EXPECT_THAT(few, HasSubstr("contract: sort_by_group + div + gather + grouped_matmul + slice + "
                             "slice + silu + mul\n"))
      << few;
  EXPECT_THAT(few, HasSubstr("contract: grouped_matmul + gather + reshape + mul + reduce_sum\n"))
      << few;
  EXPECT_THAT(few, Not(HasSubstr("extern"))) << few;
  EXPECT_EQ(executable.plan({{"t", 1}}).kernels.size(), 4U) << few;
}

// With rows enough for an expert's weights the stages are one.
TEST(MixtureOfExperts, OfManyTokensIsOneKernelBehindItsRouter) {
  const Executable executable = compiled(Sorting::OneOperator, FusionLevel::Auto, false, 1);
  const Bindings many = {{"t", 10000}};
  const std::string text = to_text(executable.plan(many));
  EXPECT_THAT(text, HasSubstr("chain: sort_by_group + div + gather + grouped_matmul + slice + "
                              "slice + silu + mul + grouped_matmul + gather + reshape + mul + "
                              "reduce_sum\n"))
      << text;
  EXPECT_EQ(executable.plan(many).kernels.size(), 3U) << text;
}

}  // namespace
}  // namespace opweld::testing
