#include <cmath>

#include "ops/tables.h"

namespace opweld {
namespace {

TEST(Arithmetic, Floats) {
  const std::vector<double> a = {1, -2.5, 0.5, 7, 100, -3};
  const std::vector<double> b = {2, 0.5, -4, 3, 0.25, -2};
  const VectorCase cases[] = {
      {"add", {a, b}, {3, -2, -3.5, 10, 100.25, -5}},
      {"sub", {a, b}, {-1, -3, 4.5, 4, 99.75, -1}},
      {"mul", {a, b}, {2, -1.25, -2, 21, 25, 6}},
      {"div", {a, b}, {0.5, -5, -0.125, 7.0 / 3, 400, 1.5}},
      {"mod", {a, b}, {1, 0, -3.5, 1, 0, -1}},
      {"fmod", {a, b}, {1, 0, 0.5, 1, 0, -1}},
      {"pow",
       {{1, 2, 4, 9, 0.5, -3}, {5, 0.5, -1.5, 0.5, -2, 3}},
       {1, std::sqrt(2.0), 0.125, 3, 4, -27}},
      {"min", {a, b}, {1, -2.5, -4, 3, 0.25, -3}},
      {"max", {a, b}, {2, 0.5, 0.5, 7, 100, -2}},
      {"neg", {a}, {-1, 2.5, -0.5, -7, -100, 3}},
      {"abs", {a}, {1, 2.5, 0.5, 7, 100, 3}},
      {"sign", {a}, {1, -1, 1, 1, 1, -1}},
      {"reciprocal", {b}, {0.5, 2, -0.25, 1.0 / 3, 4, -0.5}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

TEST(Arithmetic, FloatsAtTheEdges) {
  const VectorCase cases[] = {
      {"add", {{kInf, kInf, kNaN}, {1, -kInf, 1}}, {kInf, kNaN, kNaN}},
      {"mul", {{kInf, kInf, kNaN}, {-2, 0, 0}}, {-kInf, kNaN, kNaN}},
      {"div", {{1, -1, 0, kInf, 1}, {0, 0, 0, kInf, kInf}}, {kInf, -kInf, kNaN, kNaN, 0}},
      {"min", {{kNaN, 1, kNaN, -kInf}, {1, kNaN, kNaN, kInf}}, {kNaN, kNaN, kNaN, -kInf}},
      {"max", {{kNaN, 1, kNaN, -kInf}, {1, kNaN, kNaN, kInf}}, {kNaN, kNaN, kNaN, kInf}},
      // as numpy.mod and C fmod
      {"mod",
       {{1, -1, 1, kInf, 5, kNaN}, {0, kInf, -kInf, 2, kNaN, 2}},
       {kNaN, kInf, -kInf, kNaN, kNaN, kNaN}},
      {"fmod",
       {{1, -1, 1, kInf, 5, kNaN}, {0, kInf, -kInf, 2, kNaN, 2}},
       {kNaN, -1, 1, kNaN, kNaN, kNaN}},
      // as C pow
      {"pow",
       {{-8, 0, kNaN, 2, 0, 1, -1}, {0.5, 0, 0, -kInf, -1, kNaN, kInf}},
       {kNaN, 1, 1, 0, kInf, 1, 1}},
      {"sign", {{0, -0.0, kNaN, kInf, -kInf}}, {0, 0, kNaN, 1, -1}},
      {"abs", {{-kInf, kNaN}}, {kInf, kNaN}},
      {"reciprocal", {{0, -0.0, kInf, kNaN}}, {kInf, -kInf, 0, kNaN}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

TEST(Arithmetic, NegatesZeroAndKeepsSignsOfRemainders) {
  const auto sign_of_zero = [](const char* op, double a, double b) {
    const auto y = run_op(op, {floats({1}, {a}), floats({1}, {b})}, {});
    EXPECT_EQ((*y)[0].get_double(0), 0);
    return std::signbit((*y)[0].get_double(0));
  };
  EXPECT_TRUE(sign_of_zero("mod", 6, -3));
  EXPECT_FALSE(sign_of_zero("mod", -6, 3));
  EXPECT_TRUE(sign_of_zero("fmod", -6, 3));
  EXPECT_FALSE(sign_of_zero("fmod", 6, -3));
  EXPECT_TRUE(sign_of_zero("min", 0, -0.0));
  EXPECT_FALSE(sign_of_zero("max", -0.0, 0));
  EXPECT_TRUE(std::signbit((*run_op("neg", {floats({1}, {0})}, {}))[0].get_double(0)));
}

TEST(Arithmetic, Integers) {
  // Every value fits into i8 and u8.
  const std::vector<double> a = {7, 5, 0, 100, 9};
  const std::vector<double> b = {2, 5, 3, 1, 0};
  const VectorCase cases[] = {
      {"add", {a, b}, {9, 10, 3, 101, 9}},
      {"sub", {a, {2, 5, 0, 1, 0}}, {5, 0, 0, 99, 9}},
      {"mul", {a, b}, {14, 25, 0, 100, 0}},
      {"div", {a, b}, {3, 1, 0, 100, 0}},
      {"mod", {a, b}, {1, 0, 0, 0, 0}},
      {"fmod", {a, b}, {1, 0, 0, 0, 0}},
      {"pow", {{2, 3, 0, 1, 11}, {6, 4, 0, 77, 2}}, {64, 81, 1, 1, 121}},
      {"min", {a, b}, {2, 5, 0, 1, 0}},
      {"max", {a, b}, {7, 5, 3, 100, 9}},
      {"abs", {a}, a},
      {"sign", {a}, {1, 1, 0, 1, 1}},
  };
  for (const VectorCase& test : cases) expect_on_integers(test);
}

TEST(Arithmetic, NegativeIntegers) {
  const std::vector<double> a = {7, -7, 7, -7, -128};
  const std::vector<double> b = {3, 3, -3, -3, 0};
  const VectorCase cases[] = {
      {"div", {a, b}, {2, -2, -2, 2, 0}},
      {"mod", {a, b}, {1, 2, -2, -1, 0}},   // numpy.mod
      {"fmod", {a, b}, {1, -1, 1, -1, 0}},  // numpy.fmod
      {"pow", {{-2, -1, -1, 1, 2, 0}, {3, 3, -2, -5, -1, -1}}, {-8, -1, 1, 1, 0, 0}},
      {"neg", {{7, -7, 0}}, {-7, 7, 0}},
      {"abs", {{7, -7, 0}}, {7, 7, 0}},
      {"sign", {{7, -7, 0}}, {1, -1, 0}},
      {"min", {a, b}, {3, -7, -3, -7, -128}},
      {"max", {a, b}, {7, 3, 7, -3, 0}},
  };
  for (const DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8}) {
    for (const VectorCase& test : cases) expect_vector(test, dtype);
  }
}

TEST(Arithmetic, IntegersWrap) {
  expect_vector({"add", {{127, -128}, {1, -1}}, {-128, 127}}, DType::I8);
  expect_vector({"mul", {{100, -128}, {3, -128}}, {44, 0}}, DType::I8);
  expect_vector({"neg", {{-128}}, {-128}}, DType::I8);
  expect_vector({"abs", {{-128}}, {-128}}, DType::I8);
  expect_vector({"div", {{-128}, {-1}}, {-128}}, DType::I8);
  expect_vector({"pow", {{7}, {3}}, {87}}, DType::I8);  // 343 - 256
  expect_vector({"sub", {{0, 3}, {1, 5}}, {255, 254}}, DType::U8);
  expect_vector({"neg", {{1}}, {255}}, DType::U8);
  expect_vector({"add", {{32767}, {1}}, {-32768}}, DType::I16);
  expect_vector({"add", {{2147483647}, {1}}, {-2147483648.0}}, DType::I32);
  expect_vector({"mul", {{65536}, {65536}}, {0}}, DType::I32);
  expect_vector({"div", {{-2147483648.0}, {-1}}, {-2147483648.0}}, DType::I32);
  expect_vector({"mod", {{-2147483648.0}, {-1}}, {0}}, DType::I32);
  const double least = -9223372036854775808.0;
  expect_vector({"div", {{least, least}, {-1, 0}}, {least, 0}}, DType::I64);
  expect_vector({"fmod", {{least, least}, {-1, 0}}, {0, 0}}, DType::I64);
  expect_vector({"abs", {{least}}, {least}}, DType::I64);
  expect_vector({"add", {{least}, {least}}, {0}}, DType::I64);
}

TEST(Arithmetic, SixRemaindersBySixteen) {
  const Tensor a = ints({2, 3}, {0, 1, 2, 3, 4, 5});
  const Tensor b = ints({3}, {16, 16, 16});
  expect_result(run_op("mod", {a, b}, {}), DType::I64, {2, 3}, {0, 1, 2, 3, 4, 5});
  for (const char* op : {"mod", "fmod"}) {
    expect_vector({op, {{0, 1, 2, 3, 4, 5}, {1, 1, 2, 2, 3, 3}}, {0, 0, 0, 1, 1, 2}}, DType::I32);
  }
}

TEST(Arithmetic, Broadcasts) {
  const Tensor column = floats({2, 1}, {10, 20});
  const Tensor row = floats({3}, {1, 2, 3});
  expect_result(run_op("add", {column, row}, {}), DType::F32, {2, 3}, {11, 12, 13, 21, 22, 23});
  expect_result(run_op("sub", {row, column}, {}), DType::F32, {2, 3}, {-9, -8, -7, -19, -18, -17});
  const Tensor cube = floats({2, 1, 2}, {1, 2, 3, 4});
  expect_result(run_op("mul", {cube, column}, {}), DType::F32, {2, 2, 2},
                {10, 20, 20, 40, 30, 40, 60, 80});
  expect_result(run_op("add", {floats({}, {1}), floats({}, {2})}, {}), DType::F32, {}, {3});
  expect_result(run_op("add", {floats({}, {1}), row}, {}), DType::F32, {3}, {2, 3, 4});
  expect_result(run_op("add", {floats({0, 3}, {}), row}, {}), DType::F32, {0, 3}, {});
  expect_result(run_op("add", {floats({2, 0}, {}), column}, {}), DType::F32, {2, 0}, {});
  const Tensor deep = floats({1, 1, 2, 1, 1, 2, 1}, {1, 2, 3, 4});
  expect_result(run_op("mul", {deep, floats({3}, {1, 10, 100})}, {}), DType::F32,
                {1, 1, 2, 1, 1, 2, 3}, {1, 10, 100, 2, 20, 200, 3, 30, 300, 4, 40, 400});
}

TEST(Arithmetic, TheSameTensorTwice) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::F32, {3}});
  graph.add_output("y", (*build_node(graph, "mul", {x, x}))->result());
  expect_result(evaluate(graph, std::vector<Tensor>{floats({3}, {1, 2, 3})}), DType::F32, {3},
                {1, 4, 9});
}

// x - (x + 1) in f32 is -1 for small x; nothing may cancel x first and lose a rounding.
TEST(Arithmetic, DifferencesKeepTheirRoundings) {
  Graph graph;
  Builder builder(graph);
  Value* x = graph.add_input("x", {DType::F32, {3}});
  Value* sum = builder.binary("add", x, builder.scalar(1, DType::F32));
  graph.add_output("y", builder.binary("sub", x, sum));
  // 2^24 + 1 rounds to 2^24, so that the difference there is 0.
  expect_result(evaluate(graph, std::vector<Tensor>{floats({3}, {0.5, 1000, 16777216})}),
                DType::F32, {3}, {-1, -1, 0});
}

TEST(Arithmetic, RefusesWhatDoesNotFit) {
  const Tensor a = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  expect_error(run_op("add", {a, floats({2}, {1, 2})}, {}), "do not broadcast: [2, 3] and [2]");
  expect_error(run_op("add", {a, ints({3}, {1, 2, 3})}, {}), "must have the same dtype");
  expect_error(run_op("add", {a}, {}), "operand 'b' is missing");
  expect_error(run_op("neg", {zeros(DType::Bool, {2})}, {}), "operand 'x' cannot be bool");
  expect_error(run_op("reciprocal", {ints({1}, {2})}, {}), "operand 'x' cannot be i64");
}

// ---- shape values ----

class SizeArithmetic : public testing::Test {
 protected:
  // The contents of op(a, b), or of op(a) without b, where a and b are lists of sizes.
  std::string contents(const char* op, const Shape& a, const std::optional<Shape>& b = {},
                       DType dtype = DType::I64) {
    Graph graph;
    std::vector<Value*> operands = {sizes(graph, a, dtype)};
    if (b) operands.push_back(sizes(graph, *b, dtype));
    const auto node = build_node(graph, op, operands);
    EXPECT_TRUE(node.has_value()) << node.error().message;
    const auto& found = (*node)->result()->contents();
    return found ? to_string(Shape(found->begin(), found->end())) : "unknown";
  }

  static Value* sizes(Graph& graph, const Shape& shape, DType dtype) {
    Value* value = graph.add_input("sizes" + std::to_string(graph.inputs().size()),
                                   {dtype, {static_cast<std::int64_t>(shape.size())}});
    value->set_contents(shape);
    return value;
  }

  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t", {1, 512, 8});
};

TEST_F(SizeArithmetic, IsExact) {
  EXPECT_EQ(contents("add", {s, 1}, {{1, 2}}), "[s + 1, 3]");
  EXPECT_EQ(contents("sub", {s, 1}, {{s, 2}}), "[0, -1]");
  EXPECT_EQ(contents("mul", {s, 3}, {{t}}), "[s*t, 3*t]");
  EXPECT_EQ(contents("div", {s * 12, t, 7}, {{12, 8, 2}}), "[s, floor_div(t, 8), 3]");
  EXPECT_EQ(contents("mod", {s * 12, t, 7}, {{12, 16, 4}}), "[0, mod(t, 16), 3]");
  EXPECT_EQ(contents("fmod", {s * 12, t, -7}, {{12, 16, 4}}), "[0, mod(t, 16), -3]");
  EXPECT_EQ(contents("min", {s, 3}, {{s + 1, 2}}), "[s, 2]");
  EXPECT_EQ(contents("max", {s, 3}, {{s + 1, 2}}), "[s + 1, 3]");
  EXPECT_EQ(contents("neg", {s, 3}), "[-s, -3]");
  EXPECT_EQ(contents("abs", {s, -3}), "[s, 3]");
  EXPECT_EQ(contents("sign", {t, -3, 0}), "[1, -1, 0]");
  EXPECT_EQ(contents("pow", {s, 3}, {{2, 4}}), "[s^2, 81]");
}

TEST_F(SizeArithmetic, TruncatesWhereIntegersDo) {
  EXPECT_EQ(contents("div", {-7, 7, -7, 5}, {{2, -2, -2, 0}}), "[-3, -3, 3, 0]");
  EXPECT_EQ(contents("fmod", {-7, 7, -7, 5}, {{2, -2, -2, 0}}), "[-1, 1, -1, 0]");
  EXPECT_EQ(contents("mod", {-7, 7, -7, 5}, {{2, -2, -2, 0}}), "[1, -1, -1, 0]");
}

TEST_F(SizeArithmetic, SaysNothingWhereNothingIsCertain) {
  EXPECT_EQ(contents("div", {s - 5}, {{2}}), "unknown");  // may be negative, and then truncates
  EXPECT_EQ(contents("div", {s}, {{0}}), "unknown");
  EXPECT_EQ(contents("fmod", {s - 5}, {{2}}), "unknown");
  EXPECT_EQ(contents("sign", {s}), "unknown");
  EXPECT_EQ(contents("pow", {s}, {{t}}), "unknown");
  EXPECT_EQ(contents("pow", {2}, {{-1}}), "unknown");
}

TEST_F(SizeArithmetic, BroadcastsAndWraps) {
  EXPECT_EQ(contents("mul", {s, t, 2}, {{2}}), "[2*s, 2*t, 4]");
  EXPECT_EQ(contents("add", {2147483647}, {{1}}, DType::I32), "[-2147483648]");
  EXPECT_EQ(contents("mul", {int64_t{1} << 62}, {{4}}), "unknown");
}

}  // namespace
}  // namespace opweld
