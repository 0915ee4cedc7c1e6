#include <limits>

#include "ops/row_groups.h"
#include "ops/tables.h"

namespace opweld {
namespace {

const Attributes kCumulative = {{"cumulative", std::int64_t{1}}};

// Three matrices [2, 2]: the identity, the exchange of columns, ten times the first column.
Tensor matrices(DType dtype = DType::F32) {
  return make_tensor(dtype, {3, 2, 2}, {1, 0, 0, 1, 0, 1, 1, 0, 10, 0, 0, 0});
}

Tensor counted_rows(std::int64_t rows, DType dtype = DType::F32) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < 2 * rows; ++i) values.push_back(static_cast<double>(i + 1));
  return make_tensor(dtype, {rows, 2}, values);
}

TEST(GroupedMatmul, EveryNumber) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::Bool) continue;
    const Tensor x = counted_rows(4, dtype);
    const Tensor w = matrices(dtype);
    for (const DType index : {DType::I64, DType::I32}) {
      expect_result(run_op("grouped_matmul", {x, w, ints({3}, {1, 2, 1}, index)}, {}), dtype,
                    {4, 2}, {1, 2, 4, 3, 6, 5, 70, 0});
      expect_result(run_op("grouped_matmul", {x, w, ints({3}, {1, 3, 4}, index)}, kCumulative),
                    dtype, {4, 2}, {1, 2, 4, 3, 6, 5, 70, 0});
    }
  }
}

TEST(GroupedMatmul, IntegersWrap) {
  const Tensor x = make_tensor(DType::I8, {1, 1}, {100});
  const Tensor w = make_tensor(DType::I8, {1, 1, 1}, {3});
  const Tensor bias = make_tensor(DType::I8, {1, 1}, {100});
  expect_result(run_op("grouped_matmul", {x, w, ints({1}, {1}), bias}, {}), DType::I8, {1, 1},
                {-112});  // 400 mod 256, less 256
}

TEST(GroupedMatmul, EmptyGroupsAnywhere) {
  const Tensor x = counted_rows(2);
  const Tensor w = matrices();
  const auto run = [&](const std::vector<double>& counts) {
    return run_op("grouped_matmul", {x, w, ints({3}, counts)}, {});
  };
  expect_result(run({0, 2, 0}), DType::F32, {2, 2}, {2, 1, 4, 3});
  expect_result(run({2, 0, 0}), DType::F32, {2, 2}, {1, 2, 3, 4});
  expect_result(run({0, 0, 2}), DType::F32, {2, 2}, {10, 0, 30, 0});
  expect_result(run({1, 0, 1}), DType::F32, {2, 2}, {1, 2, 30, 0});
}

TEST(GroupedMatmul, EmptySizes) {
  const auto run = [](Sizes x, Sizes w, const Tensor& counts) {
    return run_op("grouped_matmul",
                  {zeros(DType::F32, std::move(x)), zeros(DType::F32, std::move(w)), counts}, {});
  };
  expect_result(run({2, 0}, {2, 0, 3}, ints({2}, {1, 1})), DType::F32, {2, 3}, {0, 0, 0, 0, 0, 0});
  expect_result(run({0, 4}, {2, 4, 3}, ints({2}, {0, 0})), DType::F32, {0, 3}, {});
  expect_result(run({2, 4}, {2, 4, 0}, ints({2}, {2, 0})), DType::F32, {2, 0}, {});
  expect_result(run({0, 4}, {0, 4, 3}, ints({0}, {})), DType::F32, {0, 3}, {});
  // A bias is all that there is without a depth.
  const Tensor bias = floats({2, 1}, {5, 7});
  expect_result(
      run_op("grouped_matmul",
             {zeros(DType::F32, {3, 0}), zeros(DType::F32, {2, 0, 1}), ints({2}, {1, 2}), bias},
             {}),
      DType::F32, {3, 1}, {5, 7, 7});
}

TEST(GroupedMatmul, BiasOfTheRowsGroupIsRoundedWithTheProduct) {
  const Tensor bias = floats({3, 2}, {100, 200, 300, 400, 500, 600});
  expect_result(
      run_op("grouped_matmul", {counted_rows(4), matrices(), ints({3}, {2, 0, 2}), bias}, {}),
      DType::F32, {4, 2}, {101, 202, 103, 204, 550, 600, 570, 600});
  // 2048 + 1 is no f16; with the bias it is.
  const Tensor x = make_tensor(DType::F16, {1, 2}, {2048, 1});
  const Tensor w = make_tensor(DType::F16, {1, 2, 1}, {1, 1});
  const Tensor one = make_tensor(DType::F16, {1, 1}, {1});
  expect_result(run_op("grouped_matmul", {x, w, ints({1}, {1}), one}, {}), DType::F16, {1, 1},
                {2050});
}

TEST(GroupedMatmul, NanAndInfinityStayInTheirGroup) {
  const Tensor w = floats({2, 1, 2}, {kInf, kNaN, 2, 3});
  expect_result(run_op("grouped_matmul", {floats({3, 1}, {1, 1, kNaN}), w, ints({2}, {1, 2})}, {}),
                DType::F32, {3, 2}, {kInf, kNaN, 2, 3, kNaN, kNaN});
}

// y_i = x_i w_i + b_i over lists, by plain loops, against concat, stacked weights and slices.
TEST(GroupedMatmul, ListsAreConcatAndStackedWeights) {
  std::mt19937 generator(1);
  const auto random = [&](Sizes sizes) { return small_integers(generator, std::move(sizes)); };
  constexpr std::int64_t kDepth = 5;
  constexpr std::int64_t kColumns = 3;
  Graph graph;
  Builder build(graph);
  std::vector<Tensor> inputs;
  std::vector<Value*> xs;
  std::vector<Value*> ws;
  std::vector<Value*> bs;
  const std::vector<Dim> rows = {Dim::symbol("p"), Dim::symbol("q"), Dim::symbol("r")};
  const std::int64_t lengths[] = {4, 0, 3};
  const auto add = [&](std::vector<Value*>& list, const Shape& shape, Sizes sizes) {
    list.push_back(graph.add_input("x" + std::to_string(inputs.size()), {DType::F32, shape}));
    inputs.push_back(random(std::move(sizes)));
  };
  for (std::size_t i = 0; i < 3; ++i) {
    add(xs, {rows[i], kDepth}, {lengths[i], kDepth});
    add(ws, {1, kDepth, kColumns}, {1, kDepth, kColumns});
    add(bs, {1, kColumns}, {1, kColumns});
  }
  const Attributes first_axis = {{"axis", std::int64_t{0}}};
  Value* counts = build.op("sizes", {}, {{"values", Shape(rows)}});
  Value* y = build.op("grouped_matmul",
                      {build.op("concat", xs, first_axis), build.op("concat", ws, first_axis),
                       counts, build.op("concat", bs, first_axis)});
  Dim start = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    graph.add_output("y" + std::to_string(i), build.op("slice", {y},
                                                       {{"starts", Shape{start, 0}},
                                                        {"sizes", Shape{rows[i], kColumns}},
                                                        {"steps", Ints{1, 1}}}));
    start += rows[i];
  }
  const auto results = evaluate(graph, inputs);
  ASSERT_TRUE(results) << results.error().message;
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor& x = inputs[3 * i];
    const Tensor& w = inputs[3 * i + 1];
    const Tensor& b = inputs[3 * i + 2];
    std::vector<double> expected;
    for (std::int64_t m = 0; m < lengths[i]; ++m) {
      for (std::int64_t n = 0; n < kColumns; ++n) {
        double sum = b.get_double(n);
        for (std::int64_t k = 0; k < kDepth; ++k) {
          sum += x.get_double(m * kDepth + k) * w.get_double(k * kColumns + n);
        }
        expected.push_back(sum);
      }
    }
    expect_tensor((*results)[i], DType::F32, {lengths[i], kColumns}, expected);
  }
}

TEST(GroupedMatmul, SymbolicSizes) {
  const Dim t = Dim::symbol("t");
  const Dim e = Dim::symbol("e");
  Graph graph;
  Builder build(graph);
  Value* x = graph.add_input("x", {DType::BF16, {t, 64}});
  Value* w = graph.add_input("w", {DType::BF16, {8, 64, 32}});
  Value* counts = graph.add_input("counts", {DType::I64, {e}});
  const Value* y = build.op("grouped_matmul", {x, w, counts});
  EXPECT_EQ(y->type(), (TensorType{DType::BF16, {t, 32}}));
  ASSERT_EQ(graph.assumptions().size(), 1U);  // e is 8
}

TEST(GroupedMatmul, RefusesShapes) {
  const Tensor x = counted_rows(4);
  const Tensor w = matrices();
  const Tensor counts = ints({3}, {4, 0, 0});
  expect_error(run_op("grouped_matmul", {zeros(DType::F32, {1, 4, 2}), w, counts}, {}),
               "must have rank 2");
  expect_error(run_op("grouped_matmul", {x, zeros(DType::F32, {2, 2}), counts}, {}),
               "must have rank 3");
  expect_error(run_op("grouped_matmul", {x, zeros(DType::F32, {3, 3, 2}), counts}, {}),
               "the columns of 'x' and the rows of 'w' must have the same size");
  expect_error(run_op("grouped_matmul", {x, w, ints({2}, {4, 0})}, {}),
               "the groups of 'w' and 'counts' must have the same size, but have 3 and 2");
  expect_error(run_op("grouped_matmul", {x, w, counts, zeros(DType::F32, {2, 2})}, {}),
               "the groups of 'w' and 'bias' must have the same size");
  expect_error(run_op("grouped_matmul", {x, w, counts, zeros(DType::F32, {3, 1})}, {}),
               "the columns of 'w' and 'bias' must have the same size");
  expect_error(run_op("grouped_matmul", {x, w, floats({3}, {4, 0, 0})}, {}), "counts");
  expect_error(run_op("grouped_matmul", {x, matrices(DType::F64), counts}, {}), "same dtype");
  expect_error(run_op("grouped_matmul", {x, w, counts}, {{"cumulative", std::int64_t{2}}}),
               "'cumulative' must be 0 or 1, not 2");
}

// The numbers that are wrong are in the message, with the operator before them.
TEST(GroupedMatmul, RefusesBoundsThatDoNotShareOutTheRows) {
  const auto run = [](const std::vector<double>& counts, const Attributes& attributes) {
    return run_op("grouped_matmul", {counted_rows(4), matrices(), ints({3}, counts)}, attributes);
  };
  expect_error(run({1, 1, 1}, {}),
               "grouped_matmul: the groups have fewer rows than 'x' (groups 3, 'x' 4)");
  expect_error(run({1, 2, 2}, {}),
               "the groups have more rows than 'x' (group 2, start 3, rows 2, 'x' 4)");
  expect_error(run({5, 0, -1}, {}),
               "the groups have more rows than 'x' (group 0, start 0, rows 5, 'x' 4)");
  expect_error(run({3, -1, 2}, {}), "a group has a negative number of rows (group 1, rows -1)");
  expect_error(run({1, 2, 3}, kCumulative),
               "the groups have fewer rows than 'x' (groups 3, 'x' 4)");
  expect_error(run({1, 5, 5}, kCumulative),
               "the groups have more rows than 'x' (group 1, start 1, end 5, 'x' 4)");
  expect_error(run({3, 2, 4}, kCumulative),
               "a group ends before it starts (group 1, start 3, end 2)");
  expect_error(run({-1, 2, 4}, kCumulative),
               "a group ends before it starts (group 0, start 0, end -1)");
}

TEST(GroupedMatmul, SumsThatOverflowAreTooManyRows) {
  Tensor counts = ints({3}, {1, 0, 3});
  counts.set_int(1, std::numeric_limits<std::int64_t>::max());
  for (const bool cumulative : {false, true}) {
    const auto starts = group_starts(counts, cumulative, 4);
    ASSERT_FALSE(starts);
    EXPECT_THAT(starts.error().message,
                testing::HasSubstr("the groups have more rows than 'x' (group 1, start 1"));
    EXPECT_THAT(starts.error().message, testing::HasSubstr("9223372036854775807, 'x' 4)"));
  }
}

}  // namespace
}  // namespace opweld
