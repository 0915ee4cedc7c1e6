// Operators that no schedule serves, which the executable calls.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "compile.h"
#include "ops/builder.h"
#include "ops/reference.h"

namespace opweld {
namespace {

constexpr FusionLevel kLevels[] = {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto};

Tensor random_tensor(const TensorType& type, const Sizes& sizes, unsigned seed) {
  Tensor tensor = Tensor::allocate(type.dtype, sizes).value();
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(-2, 2);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.set_double(i, real(random));
  return tensor;
}

Expected<std::vector<Tensor>> run_at(FusionLevel level, const Graph& graph,
                                     const std::vector<Tensor>& inputs) {
  CompileOptions options;
  options.level = level;
  options.threads = 1;
  OPWELD_TRY(Compiled compiled, compile(graph.clone(), options));
  return compiled.executable.run(inputs);
}

// Every level of fusion against the reference in f64.
void expect_reference(const std::string& text, double tolerance) {
  SCOPED_TRACE(text);
  const Graph graph = parse_graph(text).value();
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    inputs.push_back(random_tensor(input->type(), evaluate(input->shape(), {}).value(),
                                   static_cast<unsigned>(inputs.size())));
  }
  const auto expected = evaluate(graph, inputs, {.in_f64 = true, .observer = {}});
  ASSERT_TRUE(expected) << expected.error().message;
  for (const FusionLevel level : kLevels) {
    SCOPED_TRACE(static_cast<int>(level));
    const auto actual = run_at(level, graph, inputs);
    ASSERT_TRUE(actual) << actual.error().message;
    ASSERT_EQ((*actual)[0].sizes(), (*expected)[0].sizes());
    for (std::int64_t i = 0; i < (*expected)[0].num_elements(); ++i) {
      const double wanted = (*expected)[0].get_double(i);
      ASSERT_NEAR((*actual)[0].get_double(i), wanted, tolerance * (1 + std::abs(wanted)))
          << "at " << i;
    }
  }
}

// An operator that no schedule serves is a call, which is handed all operands of the schema: those
// that the graph leaves out at the end as absent ones.
TEST(Call, GetsAbsentOperandsAsAbsent) {
  expect_reference(
      "graph g(%q: f64[1, 2, 3, 4], %k: f64[1, 2, 5, 4], %v: f64[1, 2, 5, 7]) {"
      "%y = attention(%q, %k, %v) {scale = 0.5} return %y as \"y\" }",
      1e-12);
  expect_reference(
      "graph g(%x: f32[3, 5]) {"
      "%y = pad(%x) {before = <1, 2>, after = <2, 0>, mode = \"reflect\"}"
      "return %y as \"y\" }",
      0);
}

// So is an operator that is known by its body only.
TEST(Call, RunsTheBodyOfAComposite) {
  expect_reference(
      "graph g(%x: f32[2, 6, 5], %s: f32[6], %b: f32[6]) {"
      "%y = group_norm(%x, %s, %b) {groups = 3, epsilon = 1e-05}"
      "return %y as \"y\" }",
      1e-5);
}

TEST(Call, ReinterpretsBits) {
  const Graph graph = parse_graph(
                          "graph g(%x: f32[3]) { %a = neg(%x) %b = bitcast(%a) {to = i32}"
                          "%y = neg(%b) return %y as \"y\" }")
                          .value();
  Tensor x = Tensor::allocate(DType::F32, {3}).value();
  x.set_double(0, -1);
  x.set_double(1, 2);
  for (const FusionLevel level : kLevels) {
    const auto y = run_at(level, graph, {x});
    ASSERT_TRUE(y) << y.error().message;
    EXPECT_EQ((*y)[0].get_int(0), -0x3f800000);
    EXPECT_EQ((*y)[0].get_int(1), 0x40000000);
    EXPECT_EQ((*y)[0].get_int(2), std::numeric_limits<std::int32_t>::min());  // negating it wraps
  }
}

}  // namespace
}  // namespace opweld
