#include <cmath>

#include "ops/tables.h"

namespace opweld {
namespace {

Attributes over(Ints axes, bool keepdims = false) {
  return {{"axes", std::move(axes)}, {"keepdims", std::int64_t{keepdims}}};
}

// Over each row of [[1, -2, 3], [0.5, 4, -0.25]].
TEST(Reduce, RowsOfFloats) {
  struct Case {
    const char* op;
    std::vector<double> rows;
  };
  const Case cases[] = {
      {"reduce_sum", {2, 4.25}},
      {"reduce_mean", {2.0 / 3, 4.25 / 3}},
      {"reduce_max", {3, 4}},
      {"reduce_min", {-2, -0.25}},
      {"reduce_prod", {-6, -0.5}},
      {"reduce_sum_square", {14, 16.3125}},
      {"reduce_l1", {6, 4.75}},
      {"reduce_l2", {std::sqrt(14.0), std::sqrt(16.3125)}},
      {"reduce_log_sum", {std::log(2.0), std::log(4.25)}},
      {"reduce_log_sum_exp",
       {std::log(std::exp(1.0) + std::exp(-2.0) + std::exp(3.0)),
        std::log(std::exp(0.5) + std::exp(4.0) + std::exp(-0.25))}},
  };
  for (const Case& test : cases) {
    for (const DType dtype : kFloatDTypes) {
      SCOPED_TRACE(test.op + std::string(" ") + std::string(to_string(dtype)));
      const Tensor x = make_tensor(dtype, {2, 3}, {1, -2, 3, 0.5, 4, -0.25});
      const auto expected = rounded(test.rows, dtype);
      for (const Ints& axes : {Ints{1}, Ints{-1}}) {
        const auto flat = run_op(test.op, {x}, over(axes));
        expect_close((*flat)[0], dtype, {2}, expected);
        const auto kept = run_op(test.op, {x}, over(axes, true));
        expect_close((*kept)[0], dtype, {2, 1}, expected);
      }
    }
  }
}

TEST(Reduce, RowsOfIntegers) {
  struct Case {
    const char* op;
    std::vector<double> rows;
  };
  const Case cases[] = {
      {"reduce_sum", {9, 15}}, {"reduce_mean", {3, 5}},   {"reduce_max", {4, 8}},
      {"reduce_min", {2, 3}},  {"reduce_prod", {24, 96}}, {"reduce_sum_square", {29, 89}},
      {"reduce_l1", {9, 15}},
  };
  for (const Case& test : cases) {
    for (const DType dtype : kIntegerDTypes) {
      SCOPED_TRACE(test.op + std::string(" ") + std::string(to_string(dtype)));
      const Tensor x = make_tensor(dtype, {2, 3}, {2, 4, 3, 8, 4, 3});
      expect_result(run_op(test.op, {x}, over({1})), dtype, {2}, test.rows);
    }
  }
}

TEST(Reduce, IntegersWrapAndMeansTruncate) {
  const Tensor bytes = make_tensor(DType::I8, {3}, {100, 100, -7});
  expect_result(run_op("reduce_sum", {bytes}, {}), DType::I8, {1}, {-63});
  expect_result(run_op("reduce_prod", {bytes}, {}), DType::I8, {1}, {-112});  // -70000 mod 256
  expect_result(run_op("reduce_l1", {make_tensor(DType::I8, {2}, {-128, 1})}, {}), DType::I8, {1},
                {-127});
  expect_result(run_op("reduce_mean", {ints({2}, {-3, -4})}, {}), DType::I64, {1}, {-3});
  expect_result(run_op("reduce_max", {ints({3}, {-5, -3, -4})}, {}), DType::I64, {1}, {-3});
}

TEST(Reduce, AnySetOfAxes) {
  const Tensor x = ints({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto sum = [&](const Attributes& attributes) {
    return run_op("reduce_sum", {x}, attributes);
  };
  expect_result(sum(over({0})), DType::I64, {3, 2}, {8, 10, 12, 14, 16, 18});
  expect_result(sum(over({1})), DType::I64, {2, 2}, {9, 12, 27, 30});
  expect_result(sum(over({2})), DType::I64, {2, 3}, {3, 7, 11, 15, 19, 23});
  expect_result(sum(over({0, 2})), DType::I64, {3}, {18, 26, 34});
  expect_result(sum(over({-1, 0}, true)), DType::I64, {1, 3, 1}, {18, 26, 34});
  expect_result(sum(over({2, 0, 1})), DType::I64, {}, {78});
  expect_result(sum({}), DType::I64, {1, 1, 1}, {78});
  expect_result(sum({{"keepdims", std::int64_t{0}}}), DType::I64, {}, {78});
  // Over no axis every element is a reduction of its own.
  expect_result(sum(over({})), DType::I64, {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_result(run_op("reduce_sum_square", {ints({3}, {1, -2, 3})}, over({})), DType::I64, {3},
                {1, 4, 9});
}

TEST(Reduce, Scalars) {
  expect_result(run_op("reduce_sum", {floats({}, {3})}, {}), DType::F32, {}, {3});
  expect_result(run_op("reduce_mean", {floats({}, {3})}, over({})), DType::F32, {}, {3});
  expect_error(run_op("reduce_sum", {floats({}, {3})}, over({0})), "a scalar has no axes");
}

TEST(Reduce, Nan) {
  const Tensor x = floats({3, 3}, {kNaN, 1, 2, 1, kNaN, 2, 1, 2, kNaN});
  for (const char* op :
       {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1",
        "reduce_l2", "reduce_sum_square", "reduce_log_sum", "reduce_log_sum_exp"}) {
    SCOPED_TRACE(op);
    expect_result(run_op(op, {x}, over({1})), DType::F32, {3}, {kNaN, kNaN, kNaN});
  }
}

TEST(Reduce, TheGreatestNumberPassesNanOver) {
  const Tensor x = floats(
      {5, 3}, {kNaN, 1, 2, 3, kNaN, 2, -kInf, kNaN, -1, kNaN, kNaN, kNaN, kInf, kNaN, -kInf});
  expect_result(run_op("reduce_max_number", {x}, over({1})), DType::F32, {5},
                {2, 3, -1, -kInf, kInf});
}

TEST(Reduce, Infinities) {
  const Tensor x = floats({4, 2}, {-kInf, 1, kInf, 1, -kInf, kInf, -kInf, -kInf});
  expect_result(run_op("reduce_sum", {x}, over({1})), DType::F32, {4}, {-kInf, kInf, kNaN, -kInf});
  expect_result(run_op("reduce_max", {x}, over({1})), DType::F32, {4}, {1, kInf, kInf, -kInf});
  expect_result(run_op("reduce_min", {x}, over({1})), DType::F32, {4}, {-kInf, 1, -kInf, -kInf});
  expect_result(run_op("reduce_log_sum_exp", {x}, over({1})), DType::F32, {4},
                {1, kInf, kInf, -kInf});
  expect_result(run_op("reduce_log_sum_exp", {floats({2}, {1000, 1000})}, over({0})), DType::F32,
                {}, rounded({1000 + std::log(2.0)}, DType::F32));
}

TEST(Reduce, OverNoElements) {
  const Tensor x = floats({2, 0, 3}, {});
  struct Case {
    const char* op;
    double neutral;
  };
  const Case cases[] = {
      {"reduce_sum", 0},
      {"reduce_mean", kNaN},
      {"reduce_max", -kInf},
      {"reduce_min", kInf},
      {"reduce_prod", 1},
      {"reduce_sum_square", 0},
      {"reduce_l1", 0},
      {"reduce_l2", 0},
      {"reduce_log_sum", -kInf},
      {"reduce_log_sum_exp", -kInf},
      {"reduce_max_number", -kInf},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.op);
    expect_result(run_op(test.op, {x}, over({1})), DType::F32, {2, 3},
                  std::vector<double>(6, test.neutral));
    expect_result(run_op(test.op, {x}, over({})), DType::F32, {2, 0, 3}, {});
    expect_result(run_op(test.op, {x}, over({0})), DType::F32, {0, 3}, {});
    expect_result(run_op(test.op, {x}, over({0, 1, 2}, true)), DType::F32, {1, 1, 1},
                  {test.neutral});
  }
}

// The variance of nothing, as the mean of the squared distances from the mean.
TEST(Reduce, MeanAndVarianceOfNothingAreNan) {
  Graph graph;
  Builder builder(graph);
  Value* x = graph.add_input("x", {DType::F32, {Dim::symbol("n")}});
  Value* mean = builder.op("reduce_mean", {x}, over({0}));
  Value* distance = builder.binary("sub", x, mean);
  Value* variance =
      builder.op("reduce_mean", {builder.binary("mul", distance, distance)}, over({0}));
  graph.add_output("mean", mean);
  graph.add_output("variance", variance);
  const auto results = evaluate(graph, std::vector<Tensor>{floats({0}, {})});
  ASSERT_TRUE(results.has_value()) << results.error().message;
  expect_tensor((*results)[0], DType::F32, {}, {kNaN});
  expect_tensor((*results)[1], DType::F32, {}, {kNaN});
}

TEST(Reduce, ExtremesOfNoIntegers) {
  struct Case {
    DType dtype;
    double least, greatest;
  };
  const Case cases[] = {{DType::U8, 0, 255},
                        {DType::I8, -128, 127},
                        {DType::I16, -32768, 32767},
                        {DType::I32, -0x1p31, 0x1p31 - 1},
                        {DType::I64, -0x1p63, 0x1p63}};  // as doubles
  for (const Case& test : cases) {
    const Tensor x = zeros(test.dtype, {0});
    expect_result(run_op("reduce_max", {x}, {}), test.dtype, {1}, {test.least});
    expect_result(run_op("reduce_min", {x}, {}), test.dtype, {1}, {test.greatest});
    expect_result(run_op("reduce_mean", {x}, {}), test.dtype, {1}, {0});
  }
}

TEST(Reduce, Bools) {
  const Tensor x = make_tensor(DType::Bool, {3, 2}, {0, 0, 0, 1, 1, 1});
  expect_result(run_op("reduce_any", {x}, over({1})), DType::Bool, {3}, {0, 1, 1});
  expect_result(run_op("reduce_all", {x}, over({1})), DType::Bool, {3}, {0, 0, 1});
  const Tensor none = zeros(DType::Bool, {0});
  expect_result(run_op("reduce_any", {none}, {}), DType::Bool, {1}, {0});
  expect_result(run_op("reduce_all", {none}, {}), DType::Bool, {1}, {1});
  expect_error(run_op("reduce_any", {floats({1}, {1})}, {}), "operand 'x' cannot be f32");
}

// 4096 halves of 8 sum to 32768, and their squares far beyond what a half can hold.
TEST(Reduce, HalvesGatherInMore) {
  const Tensor x = make_tensor(DType::F16, {4096}, std::vector<double>(4096, 8.0));
  expect_result(run_op("reduce_sum", {x}, {}), DType::F16, {1}, {32768});
  expect_result(run_op("reduce_mean", {x}, {}), DType::F16, {1}, {8});
  expect_result(run_op("reduce_l2", {x}, {}), DType::F16, {1}, {512});
  expect_result(run_op("reduce_sum_square", {x}, {}), DType::F16, {1}, {kInf});
}

TEST(Reduce, Refuses) {
  const Tensor x = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  expect_error(run_op("reduce_sum", {x}, over({2})), "axis 2 is out of range for rank 2");
  expect_error(run_op("reduce_sum", {x}, over({-3})), "axis -3 is out of range");
  expect_error(run_op("reduce_sum", {x}, over({1, -1})), "axis 1 is named twice");
  expect_error(run_op("reduce_l2", {ints({1}, {1})}, {}), "operand 'x' cannot be i64");
}

TEST(Reduce, SymbolicShapes) {
  const Dim s = Dim::symbol("s");
  Graph graph;
  Builder builder(graph);
  Value* x = graph.add_input("x", {DType::F32, {2, s, 4}});
  EXPECT_EQ(builder.op("reduce_max", {x}, over({1}))->shape(), (Shape{2, 4}));
  EXPECT_EQ(builder.op("reduce_max", {x}, over({0, 2}, true))->shape(), (Shape{1, s, 1}));
}

TEST(Reduce, OfSizes) {
  const Dim s = Dim::symbol("s");
  Graph graph;
  Builder builder(graph);
  Value* sizes = graph.add_input("sizes", {DType::I64, {3}});
  sizes->set_contents(Shape{s, 3, 4});
  const auto reduced = [&](const char* op) {
    return *builder.op(op, {sizes}, over({0}))->contents();
  };
  EXPECT_EQ(reduced("reduce_prod"), (std::vector<Dim>{12 * s}));
  EXPECT_EQ(reduced("reduce_sum"), (std::vector<Dim>{s + 7}));
  EXPECT_EQ(reduced("reduce_max"), (std::vector<Dim>{max(s, 4)}));
  EXPECT_EQ(reduced("reduce_min"), (std::vector<Dim>{min(s, 3)}));
  EXPECT_EQ(*builder.op("reduce_prod", {sizes}, over({}))->contents(), (std::vector<Dim>{s, 3, 4}));
}

}  // namespace
}  // namespace opweld
