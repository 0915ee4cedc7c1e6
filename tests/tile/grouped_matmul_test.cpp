// Schedule `contract` on grouped_matmul, against the reference in f64.
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <random>

#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

Tensor bounds(const Sizes& values) {
  Tensor tensor = Tensor::allocate(DType::I64, {static_cast<std::int64_t>(values.size())}).value();
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor.set_int(static_cast<std::int64_t>(i), values[i]);
  }
  return tensor;
}

// What each group gets of `rows` rows: everything to the first, to the last, to one in the middle,
// even shares, ragged shares with holes.
std::vector<Sizes> splits(std::int64_t rows, std::int64_t groups) {
  std::vector<Sizes> result;
  if (groups == 0) return {Sizes{}};
  const Sizes none(static_cast<std::size_t>(groups), 0);
  for (const std::int64_t all : {std::int64_t{0}, groups / 2, groups - 1}) {
    result.push_back(none);
    result.back()[static_cast<std::size_t>(all)] = rows;
  }
  result.push_back(none);
  for (std::int64_t row = 0; row < rows; ++row) {
    ++result.back()[static_cast<std::size_t>(row % groups)];
  }
  std::mt19937 random(7);
  result.push_back(none);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto group = static_cast<std::size_t>(random() % static_cast<unsigned>(groups));
    ++result.back()[group / 2 * 2];
  }
  return result;
}

std::string product(const std::string& dtype, std::int64_t depth, std::int64_t columns,
                    std::int64_t groups) {
  return fmt::format(R"(graph g(%x: {0}[t, {1}], %c: i64[{3}]) {{
    %w = constant {{value = {0}[{3}, {1}, {2}] random 1}}
    %y = grouped_matmul(%x, %w, %c)
    return %y as "y"
  }})",
                     dtype, depth, columns, groups);
}

// x and counts, and what else the group reads at random.
std::vector<Tensor> inputs_of(const GroupRunner& group, std::int64_t rows, const Sizes& counts) {
  std::vector<Tensor> inputs = group.random_inputs({{"t", rows}});
  inputs[1] = bounds(counts);
  return inputs;
}

void check_splits(const GroupRunner& group, std::int64_t rows, std::int64_t groups) {
  ASSERT_EQ(group.error(), "");
  for (const Sizes& counts : splits(rows, groups)) {
    SCOPED_TRACE(fmt::format("{} rows, counts {}", rows, fmt::join(counts, " ")));
    group.check(inputs_of(group, rows, counts));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(GroupedMatmulSchedule, EverySize) {
  for (const char* target : {"host", "host-avx2"}) {
    for (const std::int64_t groups : {1, 5}) {
      for (const std::int64_t columns : {1, 33, 100}) {
        for (const std::int64_t depth : {0, 1, 13}) {
          const GroupRunner group(product("f32", depth, columns, groups), KernelKind::Contract,
                                  target);
          for (const std::int64_t rows : {0, 1, 2, 7, 31, 211}) check_splits(group, rows, groups);
        }
      }
    }
  }
}

TEST(GroupedMatmulSchedule, LongDepthsGoThroughBlocks) {
  for (const char* dtype : {"f32", "bf16"}) {
    const GroupRunner group(product(dtype, 2000, 30, 3), KernelKind::Contract);
    for (const std::int64_t rows : {0, 1, 5, 64}) check_splits(group, rows, 3);
  }
}

TEST(GroupedMatmulSchedule, HalvesAndDoubles) {
  for (const char* target : {"host", "host-avx2"}) {
    for (const char* dtype : {"f16", "bf16", "f64"}) {
      const GroupRunner group(product(dtype, 20, 33, 4), KernelKind::Contract, target);
      for (const std::int64_t rows : {0, 1, 7, 16, 33, 230}) check_splits(group, rows, 4);
    }
  }
}

// Groups across the blocks of rows: each task computes its own rows and no others.
TEST(GroupedMatmulSchedule, TasksInAnyOrder) {
  for (const char* dtype : {"f32", "bf16"}) {
    const GroupRunner group(product(dtype, 20, 33, 4), KernelKind::Contract);
    for (const Sizes& counts : splits(700, 4)) {
      const std::vector<Tensor> inputs = inputs_of(group, 700, counts);
      const Tensor forwards = group.run(inputs).value()[0];
      EXPECT_TRUE(
          identical(group.run(inputs, GroupRunner::Order::LastTaskFirst).value()[0], forwards))
          << dtype << " " << fmt::format("{}", fmt::join(counts, " "));
    }
  }
}

// No groups have no rows to multiply.
TEST(GroupedMatmulSchedule, NoGroupsAndNoColumns) {
  const GroupRunner nothing(product("f32", 3, 4, 0), KernelKind::Contract);
  check_splits(nothing, 0, 0);
  const GroupRunner narrow(product("f32", 3, 0, 2), KernelKind::Contract);
  for (const std::int64_t rows : {0, 1, 9}) check_splits(narrow, rows, 2);
}

TEST(GroupedMatmulSchedule, WeightsThatAreInputs) {
  const GroupRunner group(R"(graph g(%x: f32[t, k], %c: i64[e], %w: f32[e, k, n], %b: f32[e, n]) {
    %y = grouped_matmul(%x, %w, %c, %b)
    return %y as "y"
  })",
                          KernelKind::Contract);
  for (const std::int64_t groups : {0, 1, 3}) {
    for (const std::int64_t columns : {0, 1, 17, 64}) {
      for (const std::int64_t rows : {0, 1, 7, 210}) {
        if (groups == 0 && rows > 0) continue;
        for (const Sizes& counts : splits(rows, groups)) {
          std::vector<Tensor> inputs =
              group.random_inputs({{"t", rows}, {"k", 11}, {"e", groups}, {"n", columns}});
          inputs[1] = bounds(counts);
          group.check(inputs);
        }
      }
    }
  }
}

TEST(GroupedMatmulSchedule, CumulativeBoundsOfEitherWidthAndThroughAView) {
  const GroupRunner group(R"(graph g(%x: f32[t, 9], %c: i32[1, 3]) {
    %w = constant {value = f32[3, 9, 20] random 1}
    %v = reshape(%c) {shape = <3>}
    %y = grouped_matmul(%x, %w, %v) {cumulative = 1}
    return %y as "y"
  })",
                          KernelKind::Contract);
  for (const Sizes& ends : {Sizes{2, 2, 7}, Sizes{0, 0, 7}, Sizes{7, 7, 7}, Sizes{1, 6, 7}}) {
    std::vector<Tensor> inputs = group.random_inputs({{"t", 7}});
    for (std::int64_t i = 0; i < 3; ++i) {
      inputs[1].set_int(i, ends[static_cast<std::size_t>(i)]);
    }
    group.check(inputs);
  }
}

constexpr std::string_view kBias = R"(graph g(%x: {0}[t, 13], %c: i64[4], %r: {0}[t, {1}]) {{
  %w = constant {{value = {0}[4, 13, {2}] random 1}}
  %b = constant {{value = {0}[4, {2}] random 2}}
  %m = grouped_matmul(%x, %w, %c, %b)
  {3}
  return %y as "y"
}})";

// Each row takes the bias of its group, in full vectors and in tails.
TEST(GroupedMatmulSchedule, BiasThenActivationThenResidual) {
  for (const char* target : {"host", "host-avx2"}) {
    for (const char* dtype : {"f32", "f16", "bf16"}) {
      for (const int columns : {1, 33, 100}) {
        const GroupRunner group(fmt::format(fmt::runtime(kBias), dtype, columns, columns,
                                            "%a = sigmoid(%m)\n%y = add(%a, %r)"),
                                KernelKind::Contract, target);
        for (const std::int64_t rows : {0, 1, 7, 31, 211}) check_splits(group, rows, 4);
      }
    }
  }
}

TEST(GroupedMatmulSchedule, GatePairsShareARegisterTile) {
  for (const char* target : {"host", "host-avx2"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      for (const int columns : {1, 24, 33}) {
        const std::string gate = fmt::format(R"(
          %u = slice(%m) {{starts = <0, {0}>, sizes = <t, {0}>, steps = [1, 1]}}
          %g = slice(%m) {{starts = <0, 0>, sizes = <t, {0}>, steps = [1, 1]}}
          %a = sigmoid(%g)
          %p = mul(%u, %a)
          %y = add(%p, %r))",
                                             columns);
        const GroupRunner group(fmt::format(fmt::runtime(kBias), dtype, columns, 2 * columns, gate),
                                KernelKind::Contract, target);
        for (const std::int64_t rows : {0, 1, 7, 211}) check_splits(group, rows, 4);
      }
    }
  }
}

// A row, and a matrix, of NaN and infinities: they reach what is computed of them and no more.
TEST(GroupedMatmulSchedule, NanAndInfinityStayInTheirGroup) {
  const GroupRunner group(R"(graph g(%x: f32[t, 2], %c: i64[3], %w: f32[3, 2, 20]) {
    %y = grouped_matmul(%x, %w, %c)
    return %y as "y"
  })",
                          KernelKind::Contract);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<Tensor> inputs = inputs_of(group, 25, {7, 11, 7});
  for (std::int64_t i = 0; i < 40; ++i) {
    inputs[2].set_double(40 + i, i % 3 == 0 ? kInf : std::nan(""));
  }
  inputs[0].set_double(0, std::nan(""));
  inputs[0].set_double(48, -kInf);
  group.check(inputs);
  const auto result = group.run(inputs).value()[0];
  for (std::int64_t row = 0; row < 25; ++row) {
    const bool touched = row == 0 || row == 24 || (row >= 7 && row < 18);
    for (std::int64_t n = 0; n < 20; ++n) {
      EXPECT_NE(std::isfinite(result.get_double(row * 20 + n)), touched) << row << ", " << n;
    }
  }
}

// Generated code says of bounds what the reference says.
TEST(GroupedMatmulSchedule, BoundsThatDoNotShareOutTheRowsAreAnError) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const Sizes wrong[] = {
      {0, 0, 0},          {1, 2, 1},     {2, 2, 2},     {6, 0, -1},     {-1, 3, 3},
      {5, 1, -1},         {9, 0, 0},     {0, 0, 9},     {3, 2, 5},      {1, 2, 4},
      {2, 9, 5},          {kMost, 0, 5}, {5, kMost, 5}, {kLeast, 0, 5}, {kMost, kMost, kMost},
      {0, kLeast, kLeast}};
  for (const int cumulative : {0, 1}) {
    const GroupRunner group(fmt::format(R"(graph g(%x: f32[t, 3], %c: i64[3]) {{
      %w = constant {{value = f32[3, 3, 5] random 1}}
      %y = grouped_matmul(%x, %w, %c) {{cumulative = {}}} @ "experts"
      return %y as "y"
    }})",
                                        cumulative),
                            KernelKind::Contract);
    for (const std::int64_t rows : {0, 5}) {
      for (const Sizes& counts : wrong) {
        if (rows == 0 && counts == Sizes{0, 0, 0}) continue;  // right
        const std::vector<Tensor> inputs = inputs_of(group, rows, counts);
        const auto reference = evaluate(group.graph(), inputs);
        ASSERT_FALSE(reference) << fmt::format("{}", fmt::join(counts, " "));
        const auto actual = group.run(inputs);
        ASSERT_FALSE(actual) << fmt::format("{}", fmt::join(counts, " "));
        EXPECT_EQ(actual.error().message, reference.error().message);
        EXPECT_NE(actual.error().message.find("experts"), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace opweld::testing
