// The schedules of a matmul with every prologue and epilogue, alone and in pairs, against the
// reference in f64. A prologue that reduces makes it a chain of a norm and a matmul.
#include <cstring>

#include "tile/contract_model.h"

namespace opweld::testing {
namespace {

void check(const ContractChoice& of) {
  const ContractModel model(of);
  SCOPED_TRACE(model.target() + (model.strict() ? " strict " : " ") + model.text());
  if (!find_target(model.target())) return;
  const KernelKind kind = is_norm(of[kLeft]) ? KernelKind::Chain : KernelKind::Contract;
  const GroupRunner group(model.text(), kind, model.target(), model.strict());
  ASSERT_EQ(group.error(), "");
  for (const Bindings& sizes : model.sizes()) {
    const std::vector<Tensor> inputs = model.random_inputs(sizes);
    const auto expected = evaluate(group.graph(), inputs, {.in_f64 = true, .observer = {}});
    const auto forwards = group.run(inputs);
    const auto backwards = group.run(inputs, GroupRunner::Order::LastTaskFirst);
    ASSERT_TRUE(expected && forwards && backwards);
    for (std::size_t i = 0; i < forwards->size(); ++i) {
      const Tensor& actual = (*forwards)[i];
      // What a chain keeps of a norm is rounded to its dtype, whatever is made of it.
      const bool of_rounded = is_norm(of[kLeft]) && model.is_half();
      expect_close(actual, (*expected)[i],
                   of_rounded ? coarser(actual.dtype(), model.dtype()) : actual.dtype());
      const auto bytes = static_cast<std::size_t>(actual.num_bytes());
      EXPECT_EQ(std::memcmp(actual.data(), (*backwards)[i].data(), bytes), 0);
    }
  }
}

// What these schedules do not take; the planner makes it a kernel of its own.
bool excluded(Level first, Level second) {
  if (contradict(first, second) || rounds_the_greatest(first, second)) return true;
  const auto both = [&](int factor, int other) {
    return first.factor == factor && second.factor == other;
  };
  // A chain has weights.
  if (both(kLeft, kRight)) return is_norm(first.level) && second.level != kConstant;
  // Columns lie side by side in weights that are packed for it, as constants are.
  if (both(kRight, kForm)) return is_of_columns(second.level) && first.level != kConstant;
  // A chain takes reductions where its tasks have whole rows.
  if (both(kLeft, kOfRows)) return is_norm(first.level) && second.level != kNoStatistic;
  // Halves that are rounded at every step add up; tests/compile compares them bit by bit.
  if (both(kDType, kStrict)) return is_half(first.level) && second.level != 0;
  return false;
}

TEST(ContractOptions, EachAlone) {
  for (const ContractChoice& choice : each_alone()) check(choice);
}

TEST(ContractOptions, EachPair) {
  for (const ContractChoice& choice :
       CoveringArray<kContractFactors>(kContractLevels, excluded).choices()) {
    check(choice);
  }
}

}  // namespace
}  // namespace opweld::testing
