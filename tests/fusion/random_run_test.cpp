// Random graphs compiled and run: fused as unfused as the definitions, strictly to the bit, and in
// one launch to the bit.
#include <array>
#include <cstring>

#include "compile.h"
#include "fusion/random_model.h"
#include "graph/text.h"
#include "ops/reference.h"
#include "runtime/compare.h"

namespace opweld::testing {
namespace {

// A part of the seeds for each test, so that tests run beside each other.
constexpr unsigned kPerShard = 6;

std::vector<Tensor> inputs_of(const Graph& graph, const Bindings& sizes, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> element(-RandomModel::kInputBound,
                                                 RandomModel::kInputBound);
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    Tensor tensor =
        Tensor::allocate(input->dtype(), evaluate(input->shape(), sizes).value()).value();
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.set_double(i, element(random));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

Executable compiled(unsigned seed, FusionLevel level, bool strict) {
  CompileOptions options;
  options.level = level;
  options.strict = strict;
  options.threads = 2;
  options.verify_passes = true;
  options.attention_chains = true;
  auto result = compile(RandomModel(seed).make(), options);
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result->executable);
}

void expect_equal(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected,
                  std::string_view what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const Comparison result = compare(actual[i], expected[i], default_tolerance(actual[i].dtype()));
    EXPECT_TRUE(result.equal) << what << ", output " << i << ": " << result.message;
  }
}

void expect_identical(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].sizes(), expected[i].sizes());
    EXPECT_EQ(std::memcmp(actual[i].data(), expected[i].data(),
                          static_cast<std::size_t>(actual[i].num_bytes())),
              0)
        << "output " << i << ": " << compare_strictly(actual[i], expected[i], {}).message;
  }
}

// Of random graphs, since what may run beside what, and whose memory is whose, depends on all of a
// graph. More than once, since what goes wrong there may go well by chance.
void expect_the_same_in_one_launch(Executable& model, const std::vector<Tensor>& inputs,
                                   const std::vector<Tensor>& apart) {
  RunOptions options;
  options.single_launch = true;
  for (int round = 0; round < 5; ++round) {
    const auto together = model.run(inputs, nullptr, options);
    ASSERT_TRUE(together) << together.error().message;
    expect_identical(*together, apart);
  }
}

const std::array<Bindings, 3> kSizes = {Bindings{{"m", 17}, {"n", 33}},
                                        Bindings{{"m", 1}, {"n", 1}}, Bindings{{"m", 8}, {"n", 5}}};

class RandomRuns : public ::testing::TestWithParam<unsigned> {};

TEST_P(RandomRuns, AgreeWithTheDefinitions) {
  for (unsigned seed = 1000 + GetParam() * kPerShard; seed < 1000 + (GetParam() + 1) * kPerShard;
       ++seed) {
    const Graph graph = RandomModel(seed).make();
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, to_text(graph)));
    Executable fused = compiled(seed, FusionLevel::Auto, false);
    Executable unfused = compiled(seed, FusionLevel::None, false);
    for (const Bindings& sizes : kSizes) {
      const std::vector<Tensor> inputs = inputs_of(graph, sizes, seed);
      const auto expected = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
      const auto apart = unfused.run(inputs);
      const auto together = fused.run(inputs);
      ASSERT_TRUE(apart) << apart.error().message;
      ASSERT_TRUE(together) << together.error().message;
      expect_equal(*apart, expected, "unfused");
      expect_equal(*together, expected, "fused");
      expect_the_same_in_one_launch(unfused, inputs, *apart);
      expect_the_same_in_one_launch(fused, inputs, *together);
    }
  }
}

TEST_P(RandomRuns, AreBitIdenticalWhenStrict) {
  for (unsigned seed = 2000 + GetParam() * kPerShard; seed < 2000 + (GetParam() + 1) * kPerShard;
       ++seed) {
    const Graph graph = RandomModel(seed).make();
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, to_text(graph)));
    Executable fused = compiled(seed, FusionLevel::Auto, true);
    Executable unfused = compiled(seed, FusionLevel::None, true);
    for (const Bindings& sizes : kSizes) {
      const std::vector<Tensor> inputs = inputs_of(graph, sizes, seed);
      const auto apart = unfused.run(inputs);
      const auto together = fused.run(inputs);
      ASSERT_TRUE(apart) << apart.error().message;
      ASSERT_TRUE(together) << together.error().message;
      expect_identical(*together, *apart);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomRuns, ::testing::Range(0U, 4U));

}  // namespace
}  // namespace opweld::testing
