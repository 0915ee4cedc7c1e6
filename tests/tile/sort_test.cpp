#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

std::string sorting(const std::string& dtype, std::int64_t groups) {
  return fmt::format(R"(graph g(%g: {}[r]) {{
    %order, %place, %counts = sort_by_group(%g) {{groups = <{}>}} @"sort"
    return %order as "order", %place as "place", %counts as "counts"
  }})",
                     dtype, groups);
}

Tensor groups_of(DType dtype, const std::vector<std::int64_t>& groups) {
  Tensor tensor = Tensor::allocate(dtype, {std::ssize(groups)}).value();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    tensor.set_int(static_cast<std::int64_t>(i), groups[i]);
  }
  return tensor;
}

void expect_sorted(const GroupRunner& group, const std::vector<std::int64_t>& groups, DType dtype,
                   std::int64_t count) {
  ASSERT_EQ(group.error(), "");
  const auto results = group.run({groups_of(dtype, groups)});
  ASSERT_TRUE(results) << results.error().message;
  std::vector<std::int64_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return groups[static_cast<std::size_t>(a)] < groups[static_cast<std::size_t>(b)];
  });
  for (std::size_t at = 0; at < order.size(); ++at) {
    ASSERT_EQ((*results)[0].get_int(static_cast<std::int64_t>(at)), order[at]);
    ASSERT_EQ((*results)[1].get_int(order[at]), static_cast<std::int64_t>(at));
  }
  for (std::int64_t each = 0; each < count; ++each) {
    ASSERT_EQ((*results)[2].get_int(each), std::ranges::count(groups, each));
  }
}

TEST(SortSchedule, EveryNumberOfRowsAndOfGroups) {
  std::mt19937 random(1);
  for (const DType dtype : {DType::I64, DType::I32}) {
    for (const std::int64_t count : {1, 2, 7, 8, 64, 129}) {
      const GroupRunner group(sorting(std::string(to_string(dtype)), count), KernelKind::Reduce);
      for (const std::int64_t length : {0, 1, 2, 3, 7, 16, 17, 97, 640, 4099}) {
        std::vector<std::int64_t> groups;
        for (std::int64_t i = 0; i < length; ++i) {
          groups.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(count)));
        }
        expect_sorted(group, groups, dtype, count);
        // All of one: the last, and the first.
        std::ranges::fill(groups, count - 1);
        expect_sorted(group, groups, dtype, count);
        std::ranges::fill(groups, 0);
        expect_sorted(group, groups, dtype, count);
      }
    }
  }
}

TEST(SortSchedule, NoGroupsHaveNoRows) {
  const GroupRunner group(sorting("i64", 0), KernelKind::Reduce);
  expect_sorted(group, {}, DType::I64, 0);
  EXPECT_FALSE(group.run({groups_of(DType::I64, {0})}));
}

TEST(SortSchedule, ARowOfNoGroupFailsTheRun) {
  const GroupRunner group(sorting("i64", 4), KernelKind::Reduce);
  for (const std::int64_t wrong :
       {std::int64_t{4}, std::int64_t{-1}, std::int64_t{1} << 40,
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    const auto result = group.run({groups_of(DType::I64, {0, 3, wrong, 1})});
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message,
                HasSubstr(fmt::format("sort_by_group 'sort': a row is of a group that there is "
                                      "not (row 2, group {}, groups 4)",
                                      wrong)));
  }
}

TEST(SortSchedule, WhatIsWantedOfIt) {
  const GroupRunner counts(R"(graph g(%x: i64[a, b]) {
    %g = reshape(%x) {shape = <a*b>}
    %order, %place, %counts = sort_by_group(%g) {groups = <6>}
    return %counts as "counts"
  })",
                           KernelKind::Reduce);
  const GroupRunner places(R"(graph g(%g: i64[2*a]) {
    %order, %place, %counts = sort_by_group(%g) {groups = <6>}
    %p = reshape(%place) {shape = <a, 2>}
    return %p as "p", %order as "o"
  })",
                           KernelKind::Reduce);
  for (const std::int64_t a : {0, 1, 13}) {
    counts.check({{"a", a}, {"b", 3}});
    places.check({{"a", a}});
  }
}

TEST(SortSchedule, RefusesWhatGoesOnFromThere) {
  const GroupRunner group(R"(graph g(%g: i64[r]) {
    %order, %place, %counts = sort_by_group(%g) {groups = <6>}
    %two = constant {value = i64[] {2}}
    %y = mul(%order, %two)
    return %y as "y"
  })",
                          KernelKind::Reduce);
  EXPECT_EQ(group.error(), "an output is not what sorting makes");
}

}  // namespace
}  // namespace opweld::testing
