// Plans for hardware that is not here: made and counted like any other, and never compiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile.h"
#include "graph/text.h"
#include "ops/builder.h"
#include "report/prediction.h"
#include "target/planned.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

// A feed-forward of f16 or f32 over as many rows, between a norm and a residual.
std::string feed_forward(const std::string& type) {
  return "graph g(%x: " + type + "[2048, 256]) {\n  %v = constant {value = " + type +
         "[256, 704] random 1}\n  %w = constant {value = " + type +
         R"([704, 256] random 2}
    %g = constant {value = )" +
         type + R"([256] random 3}
    %n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-06}
    %a = matmul(%n, %v)
    %c = silu(%a)
    %d = matmul(%c, %w)
    %y = add(%d, %x)
    return %y as "y"
  })";
}

CompileOptions options_for(const std::string& target, FusionLevel level) {
  CompileOptions options;
  options.target = target;
  options.level = level;
  options.verify_passes = true;
  return options;
}

Planned planned_as(const std::string& text, const std::string& target,
                   FusionLevel level = FusionLevel::Auto) {
  auto planned = plan_graph(parse_graph(text).value(), options_for(target, level));
  EXPECT_TRUE(planned) << planned.error().message;
  return std::move(*planned);
}

TEST(PlannedTarget, EveryKernelHasAProgramAndNoCode) {
  for (const Target& target : planned_targets()) {
    for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
      const Planned planned = planned_as(feed_forward("f16"), target.name, level);
      EXPECT_EQ(planned.threads, target.cores);
      ASSERT_EQ(planned.versions.size(), 1U) << "all sizes are known";
      const PlanVersion& version = planned.versions.front();
      EXPECT_EQ(check_plan(planned.graph, version.plan), "");
      ASSERT_EQ(version.kernels.size(), version.plan.kernels.size());
      for (const ExecutableKernel& kernel : version.kernels) {
        EXPECT_EQ(kernel.code, nullptr);
        EXPECT_NE(kernel.program, nullptr);
      }
      for (const PassTime& time : planned.times) EXPECT_NE(time.pass, "codegen");
    }
  }
}

// The norm, the product with its activation, the product with the residual; fewer where the chip
// has room for more.
TEST(PlannedTarget, FusesWhatAllHaveRoomFor) {
  for (const Target& target : planned_targets()) {
    const auto kernels = [&](FusionLevel level) {
      const Planned planned = planned_as(feed_forward("f16"), target.name, level);
      return planned.versions.front().plan.kernels.size();
    };
    EXPECT_EQ(kernels(FusionLevel::None), 5U) << target.name;
    EXPECT_LE(kernels(FusionLevel::Auto), 3U) << target.name;
  }
}

TEST(PlannedTarget, IsNeverCompiled) {
  for (const Target& target : planned_targets()) {
    auto compiled = compile(parse_graph(feed_forward("f32")).value(),
                            options_for(target.name, FusionLevel::Auto));
    ASSERT_FALSE(compiled);
    EXPECT_EQ(compiled.error().kind, ErrorKind::Usage);
    EXPECT_THAT(compiled.error().message, HasSubstr("hardware that is not here"));
  }
}

// By hand: 2048 rows through 256 x 704 and 704 x 256 are 2 * 2 * 2048 * 256 * 704 operations.
TEST(PlannedTarget, ProductsOfHalvesRunOnItsMatrixUnit) {
  constexpr double kMultiplyAdds = 2.0 * 2048 * 256 * 704;
  const auto products = [kMultiplyAdds](const std::string& type, const Target& target) {
    const Planned planned = planned_as(feed_forward(type), target.name, FusionLevel::None);
    const auto predicted =
        predict_kernels(planned.versions.front(), target, {}, planned.threads).value();
    double seconds = 0;
    double multiply_adds = 0;
    for (const auto& each : predicted) {
      if (each->work.vector_multiply_adds == 0) continue;
      seconds += each->cost.compute_seconds;
      multiply_adds += each->work.vector_multiply_adds;
    }
    EXPECT_GE(multiply_adds, kMultiplyAdds);
    EXPECT_LT(multiply_adds, 1.15 * kMultiplyAdds) << "tiles at the edges are whole";
    return seconds;
  };
  for (const Target& target : planned_targets()) {
    // No faster than the whole chip at its peak, and much faster than its vector units.
    EXPECT_GE(products("f16", target), 2 * kMultiplyAdds / (target.matrix_flops * target.cores));
    EXPECT_LT(4 * products("f16", target), products("f32", target)) << target.name;
  }
}

}  // namespace
}  // namespace opweld::testing
