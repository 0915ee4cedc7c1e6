// Bytes counted as numbers are those that the expressions come to.
#include "fusion/boundary.h"
#include "fusion/planning.h"
#include "fusion/random_model.h"

namespace opweld::testing {
namespace {

void expect_counted_alike(const Kernel& kernel, const Bindings& sizes) {
  const auto bytes = boundary_bytes(kernel, sizes);
  ASSERT_TRUE(bytes) << bytes.error().message;
  const auto value = [&](const Dim& dim) {
    return static_cast<double>(dim.evaluate(sizes).value());
  };
  EXPECT_EQ(bytes->read, value(FusionPlan::bytes_read(kernel))) << kernel.label;
  EXPECT_EQ(bytes->written, value(FusionPlan::bytes_written(kernel))) << kernel.label;
  Dim constants = 0;
  for (const Value* constant : kernel.constants) constants += constant->type().num_bytes();
  EXPECT_EQ(bytes->constants, value(constants)) << kernel.label;
}

TEST(BoundaryBytes, AreWhatTheExpressionsComeTo) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
      PlanSettings settings;
      settings.level = level;
      settings.search = false;
      const PlannedGraph planned(RandomModel(seed).make(), settings);
      for (const Kernel& kernel : planned.plan().kernels) {
        for (const Bindings& sizes :
             {Bindings{{"m", 48}, {"n", 160}}, Bindings{{"m", 1}, {"n", 1}}}) {
          expect_counted_alike(kernel, sizes);
        }
      }
    }
  }
}

Kernel only_kernel(const PlannedGraph& planned) {
  EXPECT_EQ(planned.plan().kernels.size(), 1);
  return planned.plan().kernels.front();
}

TEST(BoundaryBytes, OfNothingAreNone) {
  const PlannedGraph planned(R"(graph g(%x: f32[n, 0, 4611686018427387904]) {
    %y = exp(%x)
    return %y as "y"
  })");
  const auto bytes = boundary_bytes(only_kernel(planned), {{"n", 7}});
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(bytes->read + bytes->written, 0);
}

TEST(BoundaryBytes, SayWhatIsWrong) {
  const PlannedGraph planned(R"(graph g(%x: f32[n, m, 1048576]) {
    %y = exp(%x)
    return %y as "y"
  })");
  const Kernel kernel = only_kernel(planned);
  const auto unknown = boundary_bytes(kernel, {{"n", 7}});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("the size m is not known"), std::string::npos);
  constexpr std::int64_t kLarge = std::int64_t{1} << 32;
  const auto too_large = boundary_bytes(kernel, {{"n", kLarge}, {"m", kLarge}});
  ASSERT_FALSE(too_large);
  EXPECT_NE(too_large.error().message.find("too large"), std::string::npos);
}

}  // namespace
}  // namespace opweld::testing
