// Every pointwise operator is defined twice: a scalar expression, which becomes code, and an
// evaluation in double. Here each judges the other, over all dtypes and the values that hurt.
#include <algorithm>
#include <cmath>
#include <map>

#include "ops/tables.h"

namespace opweld {
namespace {

const std::vector<double> kHardFloats = {
    0,      -0.0,   1e-30, -1e-30, 1e-8,  -1e-8, 1e-3,   -1e-3, 0.1,  -0.1,   0.25,  0.3, -0.3,
    0.4142, 0.4143, 0.5,   -0.5,   0.7,   0.75,  0.9999, 1,     -1,   1.0001, 1.125, 1.5, -1.5,
    2,      2.4142, -2.5,  3,      3.5,   -3.7,  -5.5,   -5.6,  6,    -6,     7,     10,  -10.25,
    17,     20.5,   -20.5, 50,     -50,   75,    -75,    85,    -85,  100,    -104,  640, 700,
    -700,   1e4,    -1e4,  1e10,   -1e10, 1e20,  1e38,   -1e38, kInf, -kInf,  kNaN};

std::vector<double> hard_integers(DType dtype) {
  std::vector<double> values;
  for (const int value : {-128, -127, -100, -33, -17, -16, -7, -3, -2, -1, 0,  1,  2,   3,  4,
                          5,    7,    8,    15,  16,  17,  31, 32, 33, 63, 64, 90, 126, 127}) {
    if (dtype != DType::U8 || value >= 0) values.push_back(value);
  }
  if (dtype == DType::U8) values.insert(values.end(), {128, 200, 254, 255});
  if (dtype == DType::I16) values.insert(values.end(), {-32768, -32767, 32767});
  if (dtype == DType::I32) values.insert(values.end(), {-2147483648.0, -2147483647.0, 2147483647});
  if (dtype == DType::I64) values.insert(values.end(), {-0x1p63, -0x1p62, 0x1p53, 0x1p62});
  return values;
}

std::vector<double> hard_values(DType dtype) {
  if (dtype == DType::Bool) return {0, 1};
  return is_float(dtype) ? kHardFloats : hard_integers(dtype);
}

// All combinations of hard values: operand i of the result is a vector of one length for all i.
std::vector<Tensor> combinations(const std::vector<DType>& dtypes) {
  std::size_t length = 1;
  for (const DType dtype : dtypes) length *= hard_values(dtype).size();
  std::vector<Tensor> operands;
  std::size_t repeat = length;
  for (const DType dtype : dtypes) {
    const auto values = hard_values(dtype);
    repeat /= values.size();
    std::vector<double> elements;
    for (std::size_t i = 0; i < length; ++i) elements.push_back(values[i / repeat % values.size()]);
    operands.push_back(make_tensor(dtype, {static_cast<std::int64_t>(length)}, elements));
  }
  return operands;
}

ScalarValue element_of(const Tensor& tensor, std::int64_t i) {
  return is_float(tensor.dtype()) ? ScalarValue{tensor.get_double(i), 0}
                                  : ScalarValue{0, tensor.get_int(i)};
}

// The operator by its scalar form, each element stored in the result's dtype.
Tensor interpret(const std::string& op, const std::vector<Tensor>& operands,
                 const Attributes& attributes) {
  Graph graph;
  std::vector<Value*> values;
  std::vector<Expr> arguments;
  ExprPool pool;
  for (const Tensor& operand : operands) {
    const auto index = static_cast<int>(values.size());
    const Shape shape(operand.sizes().begin(), operand.sizes().end());
    values.push_back(graph.add_input(fmt::format("x{}", index), {operand.dtype(), shape}));
    arguments.push_back(pool.input(index, compute_dtype(operand.dtype())));
  }
  Node* node = build_node(graph, op, values, attributes).value();
  const DType dtype = node->result()->dtype();
  Expr root = find_op(op)->scalar({node->operands(), node->attributes()}, pool, arguments);
  EXPECT_EQ(pool[root].type, compute_dtype(dtype));
  root = pool.store(root, dtype);

  ScalarInterpreter interpreter = ScalarInterpreter::make(pool, root).value();
  Tensor result = zeros(dtype, operands[0].sizes());
  std::vector<ScalarValue> inputs(operands.size());
  for (std::int64_t i = 0; i < result.num_elements(); ++i) {
    for (std::size_t k = 0; k < operands.size(); ++k) inputs[k] = element_of(operands[k], i);
    const ScalarValue value = interpreter(inputs);
    if (is_float(dtype)) {
      result.set_double(i, value.real);
    } else {
      result.set_int(i, value.integer);
    }
  }
  return result;
}

// The distance between neighbouring values of a float dtype at `value`.
double ulp(double value, DType dtype) {
  struct Format {
    int digits;    // of the significand
    int exponent;  // of the least normal value
  };
  const std::map<DType, Format> formats = {{DType::F64, {53, -1022}},
                                           {DType::F32, {24, -126}},
                                           {DType::F16, {11, -14}},
                                           {DType::BF16, {8, -126}}};
  const Format format = formats.at(dtype);
  const int exponent = value == 0 ? format.exponent : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, format.exponent) - format.digits + 1);
}

// A few units in the last place, and what the formula itself amplifies: gelu's cancels below zero,
// so that its error is one of units of x; swish rounds alpha * x, which the exponential magnifies
// by its size; a sigmoid below the least subnormal is lost, and x times that of the product.
double tolerance(const std::string& op, double x, double expected, DType dtype) {
  constexpr double kUlps = 4;
  const double size = std::fabs(x);
  const double lost = std::isinf(x) ? 0 : size * ulp(0, dtype);
  if (op == "gelu" && x < 0 && x > -64) return kUlps * ulp(x, dtype);
  if (op == "swish") return kUlps * ulp(expected, dtype) * std::max(1.0, size) + lost;
  if (op == "silu" || op == "mish") return kUlps * ulp(expected, dtype) + lost;
  return kUlps * ulp(expected, dtype);
}

void expect_agreement(const std::string& op, const std::vector<DType>& dtypes,
                      const Attributes& attributes = {}) {
  SCOPED_TRACE(op + " " + std::string(to_string(dtypes.back())));
  const auto operands = combinations(dtypes);
  const auto evaluated = run_op(op, operands, attributes);
  ASSERT_TRUE(evaluated.has_value()) << evaluated.error().message;
  const Tensor& expected = (*evaluated)[0];
  const Tensor actual = interpret(op, operands, attributes);
  ASSERT_EQ(actual.dtype(), expected.dtype());
  const auto where = [&](std::int64_t i) {
    std::string text;
    for (const Tensor& operand : operands) text += fmt::format("{} ", operand.get_double(i));
    return text;
  };
  for (std::int64_t i = 0; i < expected.num_elements(); ++i) {
    if (!is_float(expected.dtype())) {
      ASSERT_EQ(actual.get_int(i), expected.get_int(i)) << where(i);
      continue;
    }
    const double a = actual.get_double(i);
    const double e = expected.get_double(i);
    if (std::isnan(e) || std::isinf(e)) {
      ASSERT_THAT(a, testing::NanSensitiveDoubleEq(e)) << where(i);
    } else {
      const double x = operands[0].get_double(i);
      ASSERT_NEAR(a, e, tolerance(op, x, e, expected.dtype())) << where(i);
    }
  }
}

TEST(ScalarForms, AgreeWithEvaluation) {
  int operators = 0;
  for (const OpDef* def : all_ops()) {
    if (def->trait != FusionTrait::Pointwise || def->name == "cast") continue;
    ++operators;
    ASSERT_NE(def->scalar, nullptr) << def->name;
    for (const DType dtype : kAllDTypes) {
      if ((def->operands.back().dtypes & dtype_bit(dtype)) == 0) continue;
      std::vector<DType> dtypes;
      for (const OperandDef& operand : def->operands) {
        const bool fits = (operand.dtypes & dtype_bit(dtype)) != 0;
        dtypes.push_back(fits ? dtype : DType::Bool);
      }
      expect_agreement(std::string(def->name), dtypes);
    }
  }
  EXPECT_GE(operators, 60);
}

TEST(ScalarForms, AgreeWithAttributes) {
  for (const DType dtype : kFloatDTypes) {
    expect_agreement("gelu", {dtype}, {{"approximate", "tanh"}});
    expect_agreement("swish", {dtype}, {{"alpha", 1.702}});
    expect_agreement("leaky_relu", {dtype}, {{"alpha", 0.3}});
    expect_agreement("elu", {dtype}, {{"alpha", 1.5}});
    expect_agreement("celu", {dtype}, {{"alpha", 0.5}});
    expect_agreement("selu", {dtype}, {{"alpha", 2.0}, {"gamma", 3.0}});
    expect_agreement("shrink", {dtype}, {{"bias", 0.25}, {"lambd", 1.5}});
    expect_agreement("thresholded_relu", {dtype}, {{"alpha", 2.0}});
    expect_agreement("hard_sigmoid", {dtype}, {{"alpha", 0.3}, {"beta", 0.25}});
  }
}

TEST(ScalarForms, CastsAgreeBetweenAllDTypes) {
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      if (from != to) expect_agreement("cast", {from}, {{"to", to}});
    }
  }
}

TEST(ScalarForms, ClipTakesEitherBound) {
  for (const char* absent : {"low", "high"}) {
    Graph graph;
    Value* x = graph.add_input("x", {DType::F32, {3}});
    Value* bound = graph.add_input("bound", {DType::F32, {}});
    const bool high_only = std::string(absent) == "low";
    std::vector<Value*> operands = {x, bound};
    if (high_only) operands = {x, nullptr, bound};
    Node* node = build_node(graph, "clip", operands).value();
    ExprPool pool;
    std::vector<Expr> arguments = {pool.input(0, DType::F32), pool.input(1, DType::F32)};
    if (high_only) arguments = {arguments[0], kNoExpr, arguments[1]};
    const Expr root = find_op("clip")->scalar({node->operands(), {}}, pool, arguments);
    EXPECT_EQ(to_string(pool, root), high_only ? "min(in0, in1)" : "max(in0, in1)");
  }
}

}  // namespace
}  // namespace opweld
