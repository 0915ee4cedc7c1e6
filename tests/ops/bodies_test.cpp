// Every composite operator is defined twice: a body of primitives, which becomes code, and an
// evaluation in double. Here each judges the other.
#include <algorithm>
#include <cmath>
#include <random>

#include "ops/tables.h"

namespace opweld {
namespace {

// Replaces composite nodes by their bodies until none is left.
void expand(Graph& graph) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Node* node : graph.nodes_in_order()) {
      const OpDef& def = op_def(*node);
      if (def.trait != FusionTrait::Composite) continue;
      const auto replacements = def.body(graph, *node);
      ASSERT_TRUE(replacements.has_value()) << replacements.error().message;
      ASSERT_EQ(replacements->size(), 1U);
      EXPECT_EQ((*replacements)[0]->type(), node->result()->type());
      graph.replace_all_uses(node->result(), (*replacements)[0]);
      graph.erase(node);
      changed = true;
    }
  }
  const Status status = verify(graph);
  EXPECT_TRUE(status.has_value()) << status.error().message;
}

Tensor random_tensor(DType dtype, const Sizes& sizes, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0.25, 2);
  Tensor tensor = zeros(dtype, sizes);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.set_double(i, normal(generator));
  return tensor;
}

struct BodyCase {
  std::string op;
  std::vector<Sizes> operands;
  Attributes attributes = {};
};

double largest_finite(const Tensor& tensor) {
  double largest = 1;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double size = std::fabs(tensor.get_double(i));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  return largest;
}

// A body computes in f32 where the evaluation does in double, and rounds as often: a few units of
// f32 in the largest value, and one of the dtype for the rounding at the end.
double tolerance(DType dtype, double largest) {
  const double unit = dtype == DType::F64 ? 0x1p-53 : 0x1p-24;
  const double last = dtype == DType::F16 ? 0x1p-10 : (dtype == DType::BF16 ? 0x1p-7 : 0);
  return (32 * unit + last) * largest;
}

void expect_same(const Tensor& actual, const Tensor& expected, double error) {
  ASSERT_EQ(actual.dtype(), expected.dtype());
  ASSERT_EQ(actual.sizes(), expected.sizes());
  for (std::int64_t i = 0; i < expected.num_elements(); ++i) {
    const double e = expected.get_double(i);
    if (std::isfinite(e)) {
      EXPECT_NEAR(actual.get_double(i), e, error) << "element " << i;
    } else {
      EXPECT_THAT(actual.get_double(i), testing::NanSensitiveDoubleEq(e)) << "element " << i;
    }
  }
}

void expect_body_agrees(const BodyCase& test, DType dtype, std::vector<Tensor> inputs) {
  SCOPED_TRACE(fmt::format("{} {}", test.op, to_string(dtype)));
  Graph graph;
  std::vector<Value*> operands;
  for (const Tensor& input : inputs) {
    const Shape shape(input.sizes().begin(), input.sizes().end());
    operands.push_back(graph.add_input(fmt::format("x{}", operands.size()), {dtype, shape}));
  }
  const auto node = build_node(graph, test.op, operands, test.attributes);
  ASSERT_TRUE(node.has_value()) << node.error().message;
  graph.add_output("y", (*node)->result());
  Graph expanded = graph.clone();
  expand(expanded);
  for (const bool in_f64 : {false, true}) {
    ReferenceOptions options;
    options.in_f64 = in_f64;
    const auto expected = evaluate(graph, inputs, options);
    const auto actual = evaluate(expanded, inputs, options);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    ASSERT_TRUE(actual.has_value()) << actual.error().message;
    const double largest = largest_finite((*expected)[0]);
    expect_same((*actual)[0], (*expected)[0], tolerance(in_f64 ? DType::F64 : dtype, largest));
  }
}

void expect_body_agrees(const BodyCase& test) {
  for (const DType dtype : kFloatDTypes) {
    std::vector<Tensor> inputs;
    unsigned seed = 1;
    for (const Sizes& sizes : test.operands) inputs.push_back(random_tensor(dtype, sizes, seed++));
    expect_body_agrees(test, dtype, std::move(inputs));
  }
}

Attributes axis(std::int64_t value) {
  return {{"axis", value}};
}

TEST(Bodies, OfSoftmax) {
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const std::int64_t n : {1, 3, 7, 8, 15, 16, 17, 31, 33, 640}) {
      expect_body_agrees({op, {{3, n}}});
    }
    expect_body_agrees({op, {{5}}, axis(0)});
    expect_body_agrees({op, {{2, 3, 4}}, axis(1)});
    expect_body_agrees({op, {{2, 3, 4}}, axis(-3)});
    expect_body_agrees({op, {{2, 0, 4}}, axis(1)});
    expect_body_agrees({op, {{0, 4}}, axis(1)});
  }
}

TEST(Bodies, OfSoftmaxOnLinesThatHoldNoNumber) {
  for (const char* op : {"softmax", "log_softmax", "reduce_log_sum_exp"}) {
    const Attributes attributes =
        std::string(op) == "reduce_log_sum_exp" ? Attributes{{"axes", Ints{1}}} : axis(1);
    for (const DType dtype : kFloatDTypes) {
      expect_body_agrees(
          {op, {}, attributes}, dtype,
          {make_tensor(dtype, {5, 3},
                       {-kInf, -kInf, -kInf, 1, kInf, 2, 1, kNaN, 2, -kInf, 1, 2, kInf, kInf, 0})});
    }
  }
}

TEST(Bodies, OfLogSumExp) {
  for (const std::int64_t keep : {0, 1}) {
    for (const Ints& axes : {Ints{1}, Ints{0, 2}, Ints{-1}, Ints{}}) {
      expect_body_agrees({"reduce_log_sum_exp", {{2, 3, 5}}, {{"axes", axes}, {"keepdims", keep}}});
    }
    expect_body_agrees({"reduce_log_sum_exp", {{2, 3}}, {{"keepdims", keep}}});
    expect_body_agrees({"reduce_log_sum_exp", {{2, 0}}, {{"axes", Ints{1}}, {"keepdims", keep}}});
  }
}

// An epsilon that f32 holds exactly: a constant of a body is rounded to the compute type.
Attributes norm_axis(std::int64_t value, double epsilon = 0x1p-16) {
  return {{"axis", value}, {"epsilon", epsilon}};
}

TEST(Bodies, OfNorms) {
  for (const char* op : {"layer_norm", "rms_norm"}) {
    for (const std::int64_t n : {1, 3, 7, 8, 15, 16, 17, 31, 33, 640}) {
      expect_body_agrees({op, {{2, n}, {n}}, norm_axis(-1)});
    }
    expect_body_agrees({op, {{7}}, norm_axis(0)});
    expect_body_agrees({op, {{2, 3, 4}, {3, 4}}, norm_axis(1)});
    expect_body_agrees({op, {{2, 3, 4}, {4}}, norm_axis(-2)});
    expect_body_agrees({op, {{2, 3, 4}, {2, 1, 1}}, norm_axis(2, 0.5)});
    expect_body_agrees({op, {{0, 4}, {4}}, norm_axis(1)});
    expect_body_agrees({op, {{4, 0}, {1}}, norm_axis(1)});
  }
  expect_body_agrees({"layer_norm", {{2, 5, 4}, {4}, {4}}, norm_axis(-1)});
  expect_body_agrees({"layer_norm", {{2, 5, 4}, {5, 4}, {5, 1}}, norm_axis(1)});
}

TEST(Bodies, OfNormsOfLargeHalves) {
  for (const char* op : {"layer_norm", "rms_norm"}) {
    const Tensor x = make_tensor(DType::F16, {1, 768}, std::vector<double>(768, 8000.0));
    expect_body_agrees({op, {}}, DType::F16, {x, random_tensor(DType::F16, {768}, 3)});
  }
}

TEST(Bodies, OfGroupNorm) {
  for (const std::int64_t groups : {1, 2, 6}) {
    const Attributes attributes{{"groups", groups}, {"epsilon", 0x1p-16}};
    expect_body_agrees({"group_norm", {{2, 6, 3, 5}, {6}, {6}}, attributes});
    expect_body_agrees({"group_norm", {{2, 6, 7}, {6}, {6}}, attributes});
    expect_body_agrees({"group_norm", {{0, 6, 2}, {6}, {6}}, attributes});
    expect_body_agrees({"group_norm", {{2, 6, 0}, {6}, {6}}, attributes});
  }
  expect_body_agrees(
      {"group_norm", {{3, 6}, {6}, {6}}, {{"groups", std::int64_t{2}}, {"epsilon", 0.25}}});
}

TEST(Bodies, OfRope) {
  for (const std::int64_t interleaved : {0, 1}) {
    const Attributes attributes{{"interleaved", interleaved}};
    expect_body_agrees({"rope", {{2, 3, 5, 8}, {5, 4}, {5, 4}}, attributes});
    expect_body_agrees({"rope", {{2, 3, 5, 8}, {2, 5, 4}, {1, 5, 4}}, attributes});
    expect_body_agrees({"rope", {{2, 3, 5, 9}, {5, 3}, {2, 5, 3}}, attributes});
    expect_body_agrees({"rope", {{1, 1, 1, 2}, {1, 1}, {1, 1}}, attributes});
    expect_body_agrees({"rope", {{2, 1, 0, 4}, {0, 2}, {0, 2}}, attributes});
    expect_body_agrees({"rope", {{1, 2, 3, 4}, {3, 0}, {3, 0}}, attributes});
  }
}

TEST(Bodies, WithSymbolicSizesNeedNoAssumption) {
  const Dim b = Dim::symbol("b");
  const Dim s = Dim::symbol("s");
  struct Case {
    std::string op;
    std::vector<Shape> operands;
    Attributes attributes;
  };
  const Case cases[] = {
      {"softmax", {{b, 12, s, s}}, {}},
      {"log_softmax", {{b, s, 100}}, {}},
      {"layer_norm", {{b, s, 384}, {384}, {384}}, {}},
      {"rms_norm", {{b, s, 384}, {384}}, {}},
      {"group_norm", {{b, 32, s}, {32}, {32}}, {{"groups", std::int64_t{8}}}},
      {"rope", {{b, 8, s, 64}, {s, 32}, {s, 32}}, {}},
      {"rope", {{b, 8, s, 64}, {b, s, 16}, {1, s, 16}}, {{"interleaved", std::int64_t{1}}}},
      {"reduce_log_sum_exp", {{b, s}}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.op);
    Graph graph;
    std::vector<Value*> operands;
    for (const Shape& shape : test.operands) {
      operands.push_back(graph.add_input(fmt::format("x{}", operands.size()), {DType::F16, shape}));
    }
    const auto node = build_node(graph, test.op, operands, test.attributes);
    ASSERT_TRUE(node.has_value()) << node.error().message;
    graph.add_output("y", (*node)->result());
    expand(graph);
    EXPECT_TRUE(graph.assumptions().empty());
    for (const auto& each : graph.nodes()) {
      EXPECT_NE(op_def(*each).trait, FusionTrait::Opaque) << each->op();
    }
  }
}

// The new nodes speak for the same node of the user's model.
TEST(Bodies, KeepTheSource) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::F32, {2, 4}});
  const Source source{"/layers.0/norm", "RMSNormalization", "layers.0"};
  graph.add_output("y", (*build_node(graph, "rms_norm", {x}, {}, source))->result());
  expand(graph);
  EXPECT_GT(graph.num_nodes(), 3U);
  for (const auto& node : graph.nodes()) EXPECT_EQ(node->source(), source) << node->op();
}

TEST(Bodies, AreThereForEveryCompositeAndNoOther) {
  for (const OpDef* def : all_ops()) {
    EXPECT_EQ(def->body != nullptr, def->trait == FusionTrait::Composite) << def->name;
    EXPECT_EQ(def->scalar != nullptr, def->trait == FusionTrait::Pointwise) << def->name;
  }
}

}  // namespace
}  // namespace opweld
