// Chains over f16 keep as many rows as there is room for where these are multiplied, as f32.
#include <gtest/gtest.h>

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

// Of 2048 columns f16 rows take half of what f32 ones do between the stages, and as much inside.
// `behind` goes on from %y to the result.
std::string chain_of(const std::string& type, const std::string& behind = {},
                     const std::string& result = "%y") {
  return "graph g(%x: " + type + "[4096, 2048], %r: " + type +
         "[4096, 2048]) {\n  %v = constant {value = " + type +
         "[2048, 2048] random 1}\n  %w = constant {value = " + type +
         "[2048, 1408] random 2}\n  %g = constant {value = " + type + R"([2048] random 3}
    %a = matmul(%x, %v)
    %h = add(%a, %r)
    %n = rms_norm(%h, %g) {axis = -1, epsilon = 1e-06}
    %d = matmul(%n, %w)
    %y = silu(%d)
    )" + behind +
         R"(
    return %h as "h", )" +
         result + R"( as "y"
  })";
}

PlanSettings two_cores() {
  PlanSettings settings;
  settings.target.cores = 2;
  settings.target.l2_bytes = 2 << 20;
  settings.target.on_chip_bytes = 1 << 20;
  settings.target.outer_bytes = 4 << 20;
  return settings;
}

TEST(HalfChain, AsksForNoMoreThanThereIsOnChip) {
  EXPECT_EQ(PlannedGraph(chain_of("f16"), two_cores()).text(),
            "0 chain: matmul + add + rms_norm + matmul + silu\n");
}

// The blocks that matmuls pack and their partial sums share the place for them.
TEST(HalfChain, StagesNeedTheirBlocksOneAfterTheOther) {
  const std::string down = R"(%down = constant {value = f16[1408, 2048] random 4}
    %e = matmul(%y, %down)
    %z = add(%e, %h))";
  EXPECT_EQ(PlannedGraph(chain_of("f16", down, "%z"), two_cores()).text(),
            "0 chain: matmul + add + rms_norm + matmul + silu + matmul + add\n");
}

}  // namespace
}  // namespace opweld::testing
