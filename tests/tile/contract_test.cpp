#include "tile/gate_pair.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

TEST(ContractSchedule, PackedWeightsWithBiasActivationAndResidual) {
  const GroupRunner group(R"(graph g(%x: f32[b, s, 20], %r: f32[b, s, 40]) {
    %w = constant {value = f32[20, 40] random 1}
    %c = constant {value = f32[40] random 2}
    %m = matmul(%x, %w)
    %d = add(%m, %c)
    %a = sigmoid(%d)
    %y = add(%a, %r)
    return %y as "y"
  })",
                          KernelKind::Contract);
  for (const std::int64_t s : kLengths) group.check({{"b", 2}, {"s", s}});
}

TEST(ContractSchedule, EveryRowCountAndColumnTail) {
  for (const int columns : {1, 7, 16, 24, 33, 48, 100}) {
    const GroupRunner group(fmt::format(R"(graph g(%x: f32[m, 9]) {{
      %w = constant {{value = f32[9, {}] random 3}}
      %y = matmul(%x, %w)
      return %y as "y"
    }})",
                                        columns),
                            KernelKind::Contract);
    for (std::int64_t m = 0; m <= 13; ++m) group.check({{"m", m}});
    group.check({{"m", 400}});
  }
}

TEST(ContractSchedule, WeightsOfOneElement) {
  for (const char* target : {"host", "host-avx2"}) {
    const GroupRunner group(R"(graph g(%x: f32[m, 1]) {
      %w = constant {value = f32[1, 1] random 3}
      %y = matmul(%x, %w)
      return %y as "y"
    })",
                            KernelKind::Contract, target);
    for (const std::int64_t m : {0, 1, 7, 33}) group.check({{"m", m}});
  }
}

TEST(ContractSchedule, LongDepthsGoThroughBlocks) {
  const GroupRunner group(R"(graph g(%x: f32[m, 2000]) {
    %w = constant {value = f32[2000, 30] random 4}
    %y = matmul(%x, %w)
    return %y as "y"
  })",
                          KernelKind::Contract);
  for (const std::int64_t m : {1, 5, 64}) group.check({{"m", m}});
}

TEST(ContractSchedule, BatchesWithOperandsOfBothKinds) {
  const GroupRunner group(R"(graph g(%a: f32[b, h, s, k], %c: f32[b, 1, k, t]) {
    %y = matmul(%a, %c)
    return %y as "y"
  })",
                          KernelKind::Contract);
  for (const std::int64_t t : {0, 1, 7, 16, 17, 33, 100}) {
    group.check({{"b", 2}, {"h", 3}, {"s", 5}, {"k", 11}, {"t", t}});
  }
  group.check({{"b", 2}, {"h", 3}, {"s", 5}, {"k", 0}, {"t", 4}});
}

TEST(ContractSchedule, TransposedAndSplitOperandsAreReadInPlace) {
  const GroupRunner group(R"(graph g(%a: f32[b, s, 12], %c: f32[b, t, 12]) {
    %p = reshape(%a) {shape = <b, s, 3, 4>}
    %q = transpose(%p) {permutation = [0, 2, 1, 3]}
    %u = reshape(%c) {shape = <b, t, 3, 4>}
    %v = transpose(%u) {permutation = [0, 2, 3, 1]}
    %y = matmul(%q, %v)
    return %y as "y"
  })",
                          KernelKind::Contract);
  for (const std::int64_t t : {1, 8, 17, 33}) group.check({{"b", 2}, {"s", 7}, {"t", t}});
}

TEST(ContractSchedule, GatePairsShareARegisterTile) {
  for (const char* target : {"host", "host-avx2"}) {
    for (const int columns : {1, 7, 16, 24, 33, 48, 100}) {
      const GroupRunner group(gate_pair("f32", 9, columns), KernelKind::Contract, target);
      for (std::int64_t s = 0; s <= 13; ++s) group.check({{"b", 2}, {"s", s}});
      group.check({{"b", 2}, {"s", 300}});
    }
  }
}

TEST(ContractSchedule, GatePairsOfLongDepth) {
  const GroupRunner group(R"(graph g(%x: f32[m, 2000]) {
    %w = constant {value = f32[2000, 60] random 4}
    %p = matmul(%x, %w)
    %g = slice(%p) {starts = <0, 0>, sizes = <m, 30>, steps = [1, 1]}
    %u = slice(%p) {starts = <0, 30>, sizes = <m, 30>, steps = [1, 1]}
    %a = sigmoid(%g)
    %y = mul(%a, %u)
    return %y as "y", %g as "g"
  })",
                          KernelKind::Contract);
  for (const std::int64_t m : {1, 5, 64}) group.check({{"m", m}});
}

TEST(ContractSchedule, SlicesThatAreNotTheHalvesOfColumnsAreRefused) {
  const auto error = [](std::string_view slices, std::string_view results = "%y as \"y\"") {
    return GroupRunner(fmt::format(R"(graph g(%x: f32[m, 4]) {{
      %w = constant {{value = f32[4, 12] random 4}}
      %p = matmul(%x, %w)
      {}
      return {}
    }})",
                                   slices, results),
                       KernelKind::Contract)
        .error();
  };
  const auto of = [](int start, int size, int step) {
    return fmt::format("slice(%p) {{starts = <0, {}>, sizes = <m, {}>, steps = [1, {}]}}", start,
                       size, step);
  };
  const std::string product = "\n %y = mul(%g, %u)";
  EXPECT_EQ(error("%g = " + of(0, 6, 1) + "\n %u = " + of(6, 6, 1) + product), "");
  EXPECT_NE(error("%g = " + of(0, 6, 1) + "\n %u = " + of(5, 6, 1) + product), "");
  EXPECT_NE(error("%g = " + of(0, 6, 2) + "\n %u = " + of(1, 6, 2) + product), "");
  EXPECT_NE(error("%g = " + of(0, 4, 1) + "\n %u = " + of(4, 4, 1) + product), "");
  // The whole product is wanted as well.
  EXPECT_NE(
      error("%g = " + of(0, 6, 1) + "\n %u = " + of(6, 6, 1) + product, "%y as \"y\", %p as \"p\""),
      "");
}

TEST(ContractSchedule, HalvesAndDoubles) {
  for (const std::string dtype : {"f16", "bf16", "f64"}) {
    const GroupRunner group("graph g(%x: " + dtype + "[m, 20]) { %w = constant {value = " + dtype +
                                "[20, 24] random 1}\n %y = matmul(%x, %w)\n return %y as \"y\" }",
                            KernelKind::Contract);
    for (const std::int64_t m : {1, 7, 16, 33}) group.check({{"m", m}});
  }
}

TEST(ContractSchedule, ASmallThirdOperandBroadcasts) {
  const GroupRunner group(R"(graph g(%a: f32[3, 3], %b: f32[3, 1], %c: f32[1, 4]) {
    %m = matmul(%a, %b)
    %y = add(%m, %c)
    return %y as "y"
  })",
                          KernelKind::Contract);
  EXPECT_NE(group.error(), "");  // the sum is wider than the product: not an epilogue
}

}  // namespace
}  // namespace opweld::testing
