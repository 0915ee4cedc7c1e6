#include "support/expected.h"

#include <gtest/gtest.h>

namespace opweld {
namespace {

Expected<int> half(int value) {
  if (value % 2 != 0) return usage_error("{} is odd", value);
  return value / 2;
}

Expected<int> quarter(int value) {
  OPWELD_TRY(const int first, half(value));
  OPWELD_TRY(const int second, half(first));
  return second;
}

TEST(Expected, TryHandsOnTheValueOrTheFirstError) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_EQ(quarter(6).error().kind, ErrorKind::Usage);
}

TEST(Expected, ContextIsPutInFront) {
  EXPECT_EQ(quarter(5).error().with_context("node 'a'").message, "node 'a': 5 is odd");
}

}  // namespace
}  // namespace opweld
