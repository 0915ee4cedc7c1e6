#include "report/usual_sizes.h"

#include <gtest/gtest.h>

#include "ops/builder.h"

namespace opweld {
namespace {

TEST(UsualSizes, OneForABatchAnd128ForTheRest) {
  EXPECT_EQ(usual_size({"batch", {}}), 1);
  EXPECT_EQ(usual_size({"batch_size", {}}), 1);
  EXPECT_EQ(usual_size({"N", {}}), 1);
  EXPECT_EQ(usual_size({"sequence", {}}), 128);
}

// Whatever the range, the size is one that the symbol may have.
TEST(UsualSizes, AreWithinTheRange) {
  for (const std::int64_t min : {0, 1, 3, 100, 127, 129, 200}) {
    for (const std::int64_t width : {20, 21, 150}) {
      for (const std::int64_t divisor : {1, 3, 7, 16, 20}) {
        for (const char* name : {"batch", "sequence"}) {
          const SymbolInfo symbol{name, {min, min + width, divisor}};
          const auto fits = symbol.check(usual_size(symbol));
          EXPECT_TRUE(fits) << symbol.to_string() << ": " << fits.error().message;
        }
      }
    }
  }
}

TEST(UsualSizes, OfAllSymbolsOfAGraph) {
  const auto graph = parse_graph(R"(
    graph g(%x: f32[batch, s], %y: f32[4*t]) where s in [1, 64] { return %x as "x", %y as "y" })");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(usual_sizes(*graph), (Bindings{{"batch", 1}, {"s", 64}, {"t", 128}}));
}

}  // namespace
}  // namespace opweld
