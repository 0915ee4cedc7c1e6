// Reductions of a matmul's rows that go into the matmul's kernel, and those that do not.
#include "fusion/statistics.h"

#include <gmock/gmock.h>

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

// A projection with its residual, and the statistic that the norm behind it wants.
std::string projection(const std::string& rows) {
  return "graph g(%x: f32[" + rows + ", 256], %r: f32[" + rows + R"(, 512]) {
    %w = constant {value = f32[256, 512] random 1}
    %epsilon = constant {value = f32[] {1e-05}}
    %p = matmul(%x, %w)
    %h = add(%p, %r)
    %q = reduce_sum_square(%h) {axes = [1], keepdims = 1}
    %a = add(%q, %epsilon)
    %i = rsqrt(%a)
    return %h as "h", %i as "i"
  })";
}

constexpr const char* kOneKernel = "0 contract: matmul + add + reduce_sum_square + add + rsqrt\n";

TEST(Statistics, OfFewRowsAndOfAnyNumberGoIntoTheMatmul) {
  EXPECT_EQ(PlannedGraph(projection("1")).text(), kOneKernel);
  EXPECT_EQ(PlannedGraph(projection("5")).text(), kOneKernel);
  const PlannedGraph any(projection("s"));
  EXPECT_EQ(any.text(), kOneKernel);
  EXPECT_EQ(any.plan().search.statistics, 1);
  EXPECT_GT(any.plan().more_from_rows, 0) << "many rows are a chain";
  EXPECT_EQ(any.edge("h", "q"), "fused");
}

TEST(Statistics, SeveralOfThemDoSoTogether) {
  for (const std::string rows : {"1", "s"}) {
    const PlannedGraph planned("graph g(%x: f32[" + rows + R"(, 64]) {
      %w = constant {value = f32[64, 512] random 1}
      %p = matmul(%x, %w)
      %m = reduce_max(%p) {axes = [1], keepdims = 1}
      %i = argmax(%p) {axis = 1, keepdims = 1, select_last = 0}
      return %m as "m", %i as "i"
    })");
    EXPECT_EQ(planned.text(), "0 contract: matmul + reduce_max + argmax\n");
  }
}

// Of 128 rows, as an unknown number is taken for, what tasks do besides counts; beside a deep
// product it does not.
TEST(Statistics, OfManyRowsAreWorthwhileBesideADeepProduct) {
  const auto kernels = [](int depth) {
    // No chain, since no constant: nor is there another plan for more rows.
    return PlannedGraph(fmt::format(R"(graph g(%x: f32[s, {0}], %w: f32[{0}, 512]) {{
      %p = matmul(%x, %w)
      %q = reduce_sum_square(%p) {{axes = [1], keepdims = 1}}
      return %p as "p", %q as "q"
    }})",
                                    depth))
        .plan()
        .kernels.size();
  };
  EXPECT_EQ(kernels(32), 2U);
  EXPECT_EQ(kernels(4096), 1U);
}

// The second kernel has to read whole rows in any case, and the statistics would be bytes more.
TEST(Statistics, OfAWholeNormStayWithIt) {
  const PlannedGraph norm(R"(graph g(%x: f32[s, 64]) {
    %w = constant {value = f32[64, 512] random 1}
    %g = constant {value = f32[512] random 2}
    %p = matmul(%x, %w)
    %y = rms_norm(%p, %g) {axis = -1, epsilon = 1e-05}
    return %y as "y"
  })");
  EXPECT_EQ(norm.text(), "0 contract: matmul\n1 row: rms_norm\n");
  EXPECT_EQ(norm.plan().search.statistics, 0);
}

// A norm in primitives goes into the matmul behind it, which it could not without its statistics.
TEST(Statistics, OfANormBetweenMatmulsStayWithTheSecond) {
  const PlannedGraph planned(R"(graph g(%x: f32[s, 64]) {
    %v = constant {value = f32[64, 128] random 1}
    %w = constant {value = f32[128, 512] random 2}
    %epsilon = constant {value = f32[] {1e-05}}
    %p = matmul(%x, %v)
    %q = mul(%p, %p)
    %m = reduce_mean(%q) {axes = [1], keepdims = 1}
    %a = add(%m, %epsilon)
    %i = rsqrt(%a)
    %n = mul(%p, %i)
    %y = matmul(%n, %w)
    return %y as "y"
  })");
  EXPECT_EQ(planned.plan().kernels.size(), 2U) << planned.text();
  EXPECT_EQ(planned.plan().kernels.back().kind, KernelKind::Chain) << planned.text();
}

TEST(Statistics, StayApartWhereTheUserSaysSo) {
  PlanSettings settings;
  settings.without = {KernelKind::Contract};
  EXPECT_EQ(PlannedGraph(projection("1"), settings).plan().search.statistics, 0);
}

TEST(Statistics, GoByTheClassicRulesWhereNothingElseReadsTheProduct) {
  PlanSettings linear;
  linear.rules = RuleSet::Linear;
  const PlannedGraph forked(projection("1"), linear);
  EXPECT_EQ(forked.plan().search.statistics, 0);
  EXPECT_EQ(PlannedGraph(R"(graph g(%x: f32[1, 64]) {
    %w = constant {value = f32[64, 512] random 1}
    %p = matmul(%x, %w)
    %m = reduce_max(%p) {axes = [1], keepdims = 0}
    return %m as "m"
  })",
                         linear)
                .text(),
            "0 contract: matmul + reduce_max\n");
}

}  // namespace
}  // namespace opweld::testing
