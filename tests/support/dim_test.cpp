#include "support/dim.h"

#include <gtest/gtest.h>

namespace opweld {
namespace {

TEST(Dim, ProvesWhatShapesNeed) {
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  const Dim e = Dim::symbol("e", {0, 512, 8});
  EXPECT_EQ(2 * s + s, 3 * s);
  EXPECT_EQ(mod(s * 128, 64), 0);
  EXPECT_EQ(floor_div(s * 128, 64), 2 * s);
  EXPECT_EQ(floor_div(2 * s + 4, 2), s + 2);
  EXPECT_EQ(mod(e, 4), 0);
  EXPECT_EQ(floor_div(e, 8) * 8, e);
  EXPECT_EQ(floor_div(s, 4) * 4 + mod(s, 4), s);
  EXPECT_EQ(floor_div(floor_div(s, 4), 3), floor_div(s, 12));
  EXPECT_EQ(floor_div(s * 8 + mod(t, 4), 8), s);
  EXPECT_EQ(floor_div(s * t * 384, t * 12), 32 * s);
}

TEST(Dim, Prints) {
  const Dim s = Dim::symbol("s");
  const Dim e = Dim::symbol("e", {0, 512, 8});
  EXPECT_EQ((2 * s + 1).to_string(), "2*s + 1");
  EXPECT_EQ(floor_div(s, 4).to_string(), "floor_div(s, 4)");
  EXPECT_EQ(mod(s, 8).to_string(), "mod(s, 8)");
  EXPECT_EQ(mod(e, 16).to_string(), "mod(e, 16)");
  EXPECT_EQ(floor_div(e, 4).to_string(), "floor_div(e, 4)");
  EXPECT_EQ(min(Dim::symbol("b"), Dim::symbol("a")).to_string(), "min(a, b)");
  EXPECT_EQ(fmt::format("{}", s * s - e), "s^2 - e");
}

}  // namespace
}  // namespace opweld
