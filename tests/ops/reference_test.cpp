#include "ops/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/builder.h"

namespace opweld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Tensor tensor(DType dtype, Sizes sizes, const std::vector<double>& values = {}) {
  Tensor result = *Tensor::allocate(dtype, std::move(sizes));
  for (std::size_t i = 0; i < values.size(); ++i) {
    result.set_double(static_cast<std::int64_t>(i), values[i]);
  }
  return result;
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) result.push_back(tensor.get_double(i));
  return result;
}

// ---- symbols ----

class BindSymbols : public ::testing::Test {
 protected:
  // Binds a graph with one input of each shape to inputs of these sizes.
  static Expected<Bindings> bind(const std::vector<Shape>& shapes,
                                 const std::vector<Sizes>& sizes) {
    Graph graph;
    for (const Shape& shape : shapes) {
      graph.add_input(fmt::format("x{}", graph.inputs().size()), {DType::U8, shape});
    }
    std::vector<Tensor> inputs;
    inputs.reserve(sizes.size());
    for (const Sizes& each : sizes) inputs.push_back(tensor(DType::U8, each));
    return bind_symbols(graph, inputs);
  }
  static std::string error(const std::vector<Shape>& shapes, const std::vector<Sizes>& sizes) {
    const auto bound = bind(shapes, sizes);
    if (bound) return "no error";
    EXPECT_EQ(bound.error().kind, ErrorKind::Usage);
    return bound.error().message;
  }

  const Dim b_ = Dim::symbol("b");
  const Dim s_ = Dim::symbol("s", {8, 64, 8});
};

TEST_F(BindSymbols, FromPlainAxes) {
  EXPECT_EQ(*bind({{b_, s_}, {s_, 3}}, {{5, 16}, {16, 3}}), (Bindings{{"b", 5}, {"s", 16}}));
  EXPECT_EQ(*bind({{b_}}, {{0}}), (Bindings{{"b", 0}}));
}

TEST_F(BindSymbols, FromExpressions) {
  EXPECT_EQ(*bind({{b_ * 3 + 1}}, {{16}}), (Bindings{{"b", 5}}));
  EXPECT_EQ(*bind({{s_ * 2}}, {{48}}), (Bindings{{"s", 24}}));
  EXPECT_EQ(*bind({{b_ * s_}, {s_}}, {{48}, {16}}), (Bindings{{"b", 3}, {"s", 16}}));
  EXPECT_EQ(*bind({{b_ + s_}, {s_ + 1}}, {{10}, {9}}), (Bindings{{"b", 2}, {"s", 8}}));
}

TEST_F(BindSymbols, NamesTheInputAndAxisThatDoNotFit) {
  EXPECT_EQ(error({{b_}, {3, b_}}, {{5}, {3, 6}}),
            "input 'x1', axis 1: the size b is 5 by the other inputs, but here 6");
  EXPECT_EQ(error({{3}}, {{4}}), "input 'x0', axis 0: the size must be 3, but is 4");
  EXPECT_THAT(error({{b_, s_}}, {{1, 12}}), HasSubstr("input 'x0', axis 1: "));
  EXPECT_THAT(error({{b_, s_}}, {{1, 72}}), HasSubstr("input 'x0', axis 1: "));
  EXPECT_EQ(error({{b_, 3}}, {{3}}), "input 'x0' must have rank 2 (u8[b, 3]), but has sizes [3]");
  EXPECT_EQ(error({{b_}}, {}), "the graph has 1 inputs, but 0 were given");
  EXPECT_EQ(error({{b_ * 2}}, {{5}}), "input 'x0', axis 0: no value of b makes 2*b the size 5");
  EXPECT_THAT(error({{b_ * s_}}, {{5}}), HasSubstr("do not determine b in b*s"));
}

// ---- evaluation ----

TEST(Evaluate, ComputesInTheOrderOfTheOutputs) {
  Graph graph;
  Builder build(graph);
  Value* x = graph.add_input("x", {DType::F32, {Dim::symbol("s"), 2}});
  Value* c = build.constant(tensor(DType::F32, {2}, {10, 20}));
  Value* sum = build.binary("add", x, c);
  Value* twice = build.binary("add", sum, sum);  // the same operand twice
  graph.add_output("twice", twice);
  graph.add_output("x", x);      // an input that is an output
  graph.add_output("sum", sum);  // read by a node and given out
  graph.add_output("c", c);
  graph.add_output("sum again", sum);
  for (const std::int64_t length : {0, 1, 3}) {
    std::vector<double> data;
    for (int i = 0; i < length * 2; ++i) data.push_back(i);
    const auto outputs = evaluate(graph, std::vector{tensor(DType::F32, {length, 2}, data)});
    ASSERT_TRUE(outputs) << outputs.error().message;
    ASSERT_EQ(outputs->size(), 5U);
    EXPECT_EQ((*outputs)[2].sizes(), (Sizes{length, 2}));
    EXPECT_EQ(values((*outputs)[1]), data);
    for (std::size_t i = 0; i < data.size(); ++i) {
      const double expected = data[i] + (i % 2 == 0 ? 10 : 20);
      EXPECT_EQ(values((*outputs)[2])[i], expected);
      EXPECT_EQ(values((*outputs)[0])[i], 2 * expected);
    }
    EXPECT_THAT(values((*outputs)[3]), ElementsAre(10, 20));
    EXPECT_TRUE(identical((*outputs)[2], (*outputs)[4]));
  }
}

TEST(Evaluate, RoundsToTheDtypeUnlessAskedForF64) {
  Graph graph;
  Builder build(graph);
  Value* x = graph.add_input("x", {DType::F16, {1}});
  Value* sum = build.binary("add", x, build.scalar(1, DType::F16));
  graph.add_output("y", sum);
  const std::vector input{tensor(DType::F16, {1}, {0x1p-12})};

  const auto rounded = evaluate(graph, input);
  ASSERT_TRUE(rounded);
  EXPECT_EQ(rounded->front().dtype(), DType::F16);
  EXPECT_EQ(rounded->front().get_double(0), 1.0);

  const auto exact = evaluate(graph, input, {.in_f64 = true, .observer = {}});
  ASSERT_TRUE(exact);
  EXPECT_EQ(exact->front().dtype(), DType::F64);
  EXPECT_EQ(exact->front().get_double(0), 1 + 0x1p-12);

  // In that mode inputs may have been f64 from the start.
  const auto finer = evaluate(graph, std::vector{tensor(DType::F64, {1}, {0x1p-30})},
                              {.in_f64 = true, .observer = {}});
  ASSERT_TRUE(finer);
  EXPECT_EQ(finer->front().get_double(0), 1 + 0x1p-30);
}

TEST(Evaluate, ChecksInputDtypesAndAssumptions) {
  Graph graph;
  Builder build(graph);
  Value* x = graph.add_input("x", {DType::F32, {Dim::symbol("s")}});
  Value* y = graph.add_input("y", {DType::F32, {Dim::symbol("t")}});
  graph.add_output("sum", build.binary("add", x, y));
  const auto run = [&](const Tensor& a, const Tensor& b) {
    const auto outputs = evaluate(graph, std::vector{a, b});
    return outputs ? "no error" : outputs.error().message;
  };
  const Tensor three = tensor(DType::F32, {3});
  EXPECT_EQ(run(three, three), "no error");
  EXPECT_EQ(run(three, tensor(DType::F32, {4})),
            "add: axis -1 of the operands must be equal: s and t must be equal, but are 3 and 4");
  EXPECT_EQ(run(three, tensor(DType::F64, {3})), "input 'y' must be f32, but is f64");
}

TEST(Evaluate, ShowsEveryNodeToTheObserver) {
  Graph graph;
  Builder build(graph);
  Value* x = graph.add_input("x", {DType::I32, {1}});
  Value* sum = build.binary("add", x, x);
  build.binary("add", sum, sum);  // nobody reads it
  graph.add_output("y", sum);
  std::vector<std::pair<std::string, double>> seen;
  ReferenceOptions options;
  options.observer = [&seen](const Node& node, std::span<const Tensor> results) {
    seen.emplace_back(node.display_name(), results[0].get_double(0));
  };
  ASSERT_TRUE(evaluate(graph, std::vector{tensor(DType::I32, {1}, {3})}, options));
  EXPECT_THAT(seen, ElementsAre(Pair("add_0", 6), Pair("add_1", 12)));
}

TEST(Evaluate, IntegersWrap) {
  Graph graph;
  Builder build(graph);
  Value* x = graph.add_input("x", {DType::I8, {2}});
  graph.add_output("y", build.binary("add", x, x));
  const auto outputs = evaluate(graph, std::vector{tensor(DType::I8, {2}, {100, -100})});
  EXPECT_THAT(values(outputs->front()), ElementsAre(-56, 56));
}

TEST(Evaluate, ReportsOperatorsItDoesNotKnow) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::F32, {1}});
  Node* node = graph.add_node("bogus", {x}, {}, {x->type()}, {"/Bogus", "Bogus", ""});
  graph.add_output("y", node->result());
  const auto outputs = evaluate(graph, std::vector{tensor(DType::F32, {1})});
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().message, "bogus '/Bogus': unknown operator 'bogus'");
}

}  // namespace
}  // namespace opweld
