#include "ops/run_op.h"

namespace opweld {
namespace {

Attributes among(const Dim& groups) {
  return {{"groups", Shape{groups}}};
}

TEST(SortByGroup, RowsStandGroupAfterGroupInTheirOrder) {
  for (const DType dtype : {DType::I64, DType::I32}) {
    const auto results = run_op("sort_by_group", {ints({6}, {2, 0, 3, 0, 2, 2}, dtype)}, among(5));
    ASSERT_TRUE(results) << results.error().message;
    ASSERT_EQ(results->size(), 3U);
    expect_tensor((*results)[0], DType::I64, {6}, {1, 3, 0, 4, 5, 2});
    expect_tensor((*results)[1], DType::I64, {6}, {2, 0, 5, 1, 3, 4});
    expect_tensor((*results)[2], DType::I64, {5}, {2, 0, 3, 1, 0});
  }
}

TEST(SortByGroup, NoRowsAndNoGroups) {
  const auto none = run_op("sort_by_group", {ints({0}, {})}, among(3));
  ASSERT_TRUE(none) << none.error().message;
  expect_tensor((*none)[0], DType::I64, {0}, {});
  expect_tensor((*none)[2], DType::I64, {3}, {0, 0, 0});
  const auto empty = run_op("sort_by_group", {ints({0}, {})}, among(0));
  ASSERT_TRUE(empty) << empty.error().message;
  expect_tensor((*empty)[2], DType::I64, {0}, {});
}

TEST(SortByGroup, EveryRowIsOfAGroup) {
  expect_error(run_op("sort_by_group", {ints({3}, {0, 4, 1})}, among(4)),
               "a row is of a group that there is not (row 1, group 4, groups 4)");
  expect_error(run_op("sort_by_group", {ints({3}, {0, 1, -1})}, among(4)),
               "a row is of a group that there is not (row 2, group -1, groups 4)");
}

TEST(SortByGroup, WrongUseIsAnError) {
  expect_error(run_op("sort_by_group", {ints({1, 3}, {0, 1, 1})}, among(4)), "rank");
  expect_error(run_op("sort_by_group", {floats({3}, {0, 1, 1})}, among(4)), "f32");
  expect_error(run_op("sort_by_group", {ints({3}, {0, 1, 1})}, among(-1)), "negative");
}

}  // namespace
}  // namespace opweld
