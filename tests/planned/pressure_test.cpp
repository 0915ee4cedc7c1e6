// The rule of pressure by the capacities of hardware that is not here.
#include <gmock/gmock.h>

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

// Of each row the softmax keeps the exponentials on chip; the tanh would be kept as well, since it
// is read twice: two rows of f32.
std::string two_rows(int length) {
  return fmt::format(R"(graph g(%x: f32[n, {}]) {{
    %a = tanh(%x)
    %b = softmax(%a) {{axis = 1}}
    return %b as "b"
  }})",
                     length);
}

std::string edge_on(const Target& target, int length) {
  PlanSettings settings;
  settings.target = target;
  return PlannedGraph(two_rows(length), settings).edge("a", "b");
}

Target with_budget(std::int64_t bytes) {
  Target target = host_target();
  target.on_chip_bytes = bytes;
  return target;
}

TEST(PlannedPressure, WhatFitsAProcessorNeedNotFitAnAccelerator) {
  constexpr int kLength = 24576;  // two rows of 96 KiB
  EXPECT_EQ(edge_on(with_budget(512 << 10), kLength), "fused");
  // Vectors have no registers of their own there, so that a little is missing.
  EXPECT_THAT(edge_on(find_target("ascend-910b").value(), kLength),
              HasSubstr("of 192.0 KiB on chip"));
  EXPECT_EQ(edge_on(find_target("cuda-sm90").value(), kLength), "fused");
}

TEST(PlannedPressure, WhatASmallCacheHasNoRoomForFitsAnAccelerator) {
  constexpr int kLength = 8192;  // two rows of 32 KiB
  EXPECT_THAT(edge_on(with_budget(63 << 10), kLength), HasSubstr("of 63.0 KiB on chip"));
  EXPECT_EQ(edge_on(find_target("ascend-910b").value(), kLength), "fused");
  EXPECT_EQ(edge_on(find_target("cuda-sm90").value(), kLength), "fused");
}

TEST(PlannedPressure, VectorsWithoutRegistersLieInTheBuffer) {
  Pressure pressure;
  pressure.cache_bytes = 1000;
  pressure.vector_registers = 3;
  EXPECT_EQ(pressure.on_chip_bytes(find_target("ascend-910b").value()), Dim(1000 + 3 * 256));
  EXPECT_EQ(pressure.on_chip_bytes(find_target("cuda-sm90").value()), Dim(1000));
}

}  // namespace
}  // namespace opweld::testing
