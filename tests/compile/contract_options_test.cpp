// Models of one matmul with every two prologues and epilogues there are, through the whole
// compiler: what stands behind the matmul is in its kernel, no answer changes with the number of
// threads, and strict is the unfused run bit by bit.
#include <gtest/gtest.h>

#include "compile.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "tile/contract_model.h"

namespace opweld::testing {
namespace {

Executable compiled(const ContractModel& model, FusionLevel level, int threads) {
  CompileOptions options;
  options.level = level;
  options.strict = model.strict();
  options.target = model.target();
  options.threads = threads;
  options.verify_passes = true;
  auto result = compile(parse_graph(model.text()).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

// Kernels that may come before that of the matmul: views are read in place, and constants are
// folded.
std::size_t prologues(const ContractChoice& of) {
  const bool left = of[kLeft] != kPlain && of[kLeft] != kTransposedRows && of[kLeft] != kSlicedRows;
  const bool right = of[kRight] == kScaledInput;
  return (left ? 1 : 0) + (right ? 1 : 0);
}

// All nodes from the matmul on share a kernel.
void expect_one_kernel(const FusionPlan& plan, const ContractChoice& of) {
  EXPECT_LE(plan.kernels.size(), 1 + prologues(of)) << to_text(plan);
  const Kernel& last = plan.kernels.back();
  const bool is_product =
      last.kind == KernelKind::Contract || (is_norm(of[kLeft]) && last.kind == KernelKind::Chain);
  EXPECT_TRUE(is_product) << to_text(plan);
}

void check(const ContractChoice& of) {
  const ContractModel model(of);
  SCOPED_TRACE(model.target() + (model.strict() ? " strict " : " ") + model.text());
  if (!find_target(model.target())) return;
  const Graph graph = parse_graph(model.text()).value();
  Executable alone = compiled(model, model.strict() ? FusionLevel::None : FusionLevel::Auto, 1);
  Executable team = compiled(model, FusionLevel::Auto, 2);
  expect_one_kernel(team.plan(), of);
  for (const Bindings& sizes : model.sizes()) {
    const std::vector<Tensor> inputs = model.random_inputs(sizes);
    const auto expected = evaluate(graph, inputs, {.in_f64 = true, .observer = {}});
    const auto one = alone.run(inputs);
    const auto two = team.run(inputs);
    ASSERT_TRUE(expected && one && two);
    for (std::size_t i = 0; i < one->size(); ++i) {
      EXPECT_TRUE(identical((*one)[i], (*two)[i])) << "output " << i;
      if (model.strict() && model.is_half()) continue;  // rounded at every step
      // A norm is rounded to its dtype, whatever is made of it.
      const bool of_rounded = model.is_half() && is_norm(of[kLeft]);
      const DType own = (*two)[i].dtype();
      const DType dtype = of_rounded ? coarser(own, model.dtype()) : own;
      const Comparison result = compare((*two)[i], (*expected)[i], default_tolerance(dtype));
      EXPECT_TRUE(result.equal) << result.message;
    }
  }
}

// A kernel that reduces rows may take steps out of the matmul's, which then stores what it has
// before them; what reductions do there is in row_statistics_test.
bool excluded(Level first, Level second) {
  const auto reduces = [](const Level& level) {
    return level.factor == kOfRows && level.level != kNoStatistic;
  };
  return contradict(first, second) || reduces(first) || reduces(second);
}

TEST(ContractPlans, EachPair) {
  for (const ContractChoice& choice :
       CoveringArray<kContractFactors>(kContractLevels, excluded).choices()) {
    check(choice);
  }
}

}  // namespace
}  // namespace opweld::testing
