#include "ops/tables.h"

namespace opweld {
namespace {

struct ComparisonCase {
  std::string op;
  std::vector<double> on_numbers;  // of kA and kB
  std::vector<double> on_nan;      // of NaN with 1, 1 with NaN, NaN with NaN
};

const std::vector<double> kA = {1, 2, 2, 0, 100};
const std::vector<double> kB = {2, 1, 2, 0, 3};
const ComparisonCase kCases[] = {
    {"eq", {0, 0, 1, 1, 0}, {0, 0, 0}}, {"ne", {1, 1, 0, 0, 1}, {1, 1, 1}},
    {"lt", {1, 0, 0, 0, 0}, {0, 0, 0}}, {"le", {1, 0, 1, 1, 0}, {0, 0, 0}},
    {"gt", {0, 1, 0, 0, 1}, {0, 0, 0}}, {"ge", {0, 1, 1, 1, 1}, {0, 0, 0}},
};

TEST(Comparison, OfEveryNumber) {
  for (const ComparisonCase& test : kCases) {
    for (const DType dtype : kAllDTypes) {
      if (dtype == DType::Bool) continue;
      SCOPED_TRACE(test.op + " " + std::string(to_string(dtype)));
      const std::vector<Tensor> operands = {make_tensor(dtype, {5}, kA),
                                            make_tensor(dtype, {5}, kB)};
      expect_result(run_op(test.op, operands, {}), DType::Bool, {5}, test.on_numbers);
    }
  }
}

TEST(Comparison, WithNan) {
  for (const ComparisonCase& test : kCases) {
    for (const DType dtype : kFloatDTypes) {
      SCOPED_TRACE(test.op + " " + std::string(to_string(dtype)));
      const std::vector<Tensor> operands = {make_tensor(dtype, {3}, {kNaN, 1, kNaN}),
                                            make_tensor(dtype, {3}, {1, kNaN, kNaN})};
      expect_result(run_op(test.op, operands, {}), DType::Bool, {3}, test.on_nan);
    }
  }
}

TEST(Comparison, WithInfinityAndZeros) {
  const Tensor a = floats({3}, {-kInf, kInf, 0.0});
  const Tensor b = floats({3}, {kInf, kInf, -0.0});
  expect_result(run_op("lt", {a, b}, {}), DType::Bool, {3}, {1, 0, 0});
  expect_result(run_op("eq", {a, b}, {}), DType::Bool, {3}, {0, 1, 1});
}

// 2^53 and 2^53 + 1 are one double, but two integers.
TEST(Comparison, OfLongIntegersIsExact) {
  Tensor a = zeros(DType::I64, {1});
  Tensor b = zeros(DType::I64, {1});
  a.set_int(0, int64_t{1} << 53);
  b.set_int(0, (int64_t{1} << 53) + 1);
  expect_result(run_op("eq", {a, b}, {}), DType::Bool, {1}, {0});
  expect_result(run_op("lt", {a, b}, {}), DType::Bool, {1}, {1});
}

TEST(Comparison, OfBools) {
  const Tensor a = make_tensor(DType::Bool, {4}, {0, 0, 1, 1});
  const Tensor b = make_tensor(DType::Bool, {4}, {0, 1, 0, 1});
  expect_result(run_op("eq", {a, b}, {}), DType::Bool, {4}, {1, 0, 0, 1});
  expect_result(run_op("ne", {a, b}, {}), DType::Bool, {4}, {0, 1, 1, 0});
  expect_error(run_op("lt", {a, b}, {}), "operand 'a' cannot be bool");
}

TEST(Comparison, BroadcastsAndRefuses) {
  const Tensor column = ints({2, 1}, {1, 2});
  const Tensor row = ints({3}, {1, 2, 3});
  expect_result(run_op("ge", {column, row}, {}), DType::Bool, {2, 3}, {1, 0, 0, 1, 1, 0});
  expect_result(run_op("eq", {ints({0}, {}), ints({}, {1})}, {}), DType::Bool, {0}, {});
  expect_error(run_op("eq", {row, floats({3}, {1, 2, 3})}, {}), "must have the same dtype");
}

// ---- shape values ----

std::string compare_sizes(const char* op, const Shape& a, const Shape& b) {
  Graph graph;
  const auto list = [&](std::string name, const Shape& sizes) {
    Value* value =
        graph.add_input(std::move(name), {DType::I64, {static_cast<std::int64_t>(sizes.size())}});
    value->set_contents(sizes);
    return value;
  };
  const auto node = build_node(graph, op, {list("a", a), list("b", b)});
  const auto& contents = (*node)->result()->contents();
  return contents ? to_string(Shape(contents->begin(), contents->end())) : "unknown";
}

TEST(Comparison, OfSizesWhereCertain) {
  const Dim s = Dim::symbol("s", {1, 512, 1});
  const Dim t = Dim::symbol("t");
  EXPECT_EQ(compare_sizes("eq", {s, s, 3, t}, {-1, s, 3, t + 1}), "[0, 1, 1, 0]");
  EXPECT_EQ(compare_sizes("ne", {s, s, 3, t}, {-1, s, 3, t + 1}), "[1, 0, 0, 1]");
  EXPECT_EQ(compare_sizes("lt", {0, s, 3, 600}, {s, s, 4, s}), "[1, 0, 1, 0]");
  EXPECT_EQ(compare_sizes("le", {0, s, 5, 512}, {t, s, 4, t + 512}), "[1, 1, 0, 1]");
  EXPECT_EQ(compare_sizes("gt", {s, s, 3}, {0, s, 4}), "[1, 0, 0]");
  EXPECT_EQ(compare_sizes("ge", {s, 0}, {1, s}), "[1, 0]");
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    EXPECT_EQ(compare_sizes(op, {s}, {t}), "unknown") << op;
  }
}

}  // namespace
}  // namespace opweld
