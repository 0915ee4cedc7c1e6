// What operators mean, by opset and by attribute, against values worked out by hand.
#include <algorithm>
#include <cmath>
#include <limits>

#include "import/model_builder.h"

namespace opweld {
namespace {

using testing::HasSubstr;
using Integers = std::vector<std::int64_t>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kInfF = std::numeric_limits<float>::infinity();

TEST(ReduceSum, ReadsAxesFromAttributeOrOperand) {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  ModelBuilder attribute(11);
  attribute.input("x", {"2", "2"}).output("y");
  attribute.node("ReduceSum", {"x"}, {"y"}).set("axes", Integers{-1}).set("keepdims", 0);
  expect_output(attribute, {x}, DType::F32, {2}, {3, 7});
  ModelBuilder operand(13);
  operand.input("x", {"2", "2"}).ints("axes", {0}).output("y");
  operand.node("ReduceSum", {"x", "axes"}, {"y"});
  expect_output(operand, {x}, DType::F32, {1, 2}, {4, 6});
}

TEST(ReduceSum, WithoutAxesReducesAllOrNothing) {
  for (const bool empty : {false, true}) {
    for (const int noop : {0, 1}) {
      ModelBuilder model(18);
      model.input("x", {"2", "2"}).ints("axes", {}).output("y");
      const std::vector<std::string> operands =
          empty ? std::vector<std::string>{"x", "axes"} : std::vector<std::string>{"x"};
      model.node("ReduceSum", operands, {"y"}).set("noop_with_empty_axes", noop);
      if (noop == 1) {
        expect_output(model, {floats({2, 2}, {1, 2, 3, 4})}, DType::F32, {2, 2}, {1, 2, 3, 4});
      } else {
        expect_output(model, {floats({2, 2}, {1, 2, 3, 4})}, DType::F32, {1, 1}, {10});
      }
    }
  }
}

TEST(ReduceMax, OfBoolsIsAny) {
  ModelBuilder model(20);
  model.input("x", {"2", "2"}, onnx::TensorProto::BOOL).ints("axes", {1}).output("y");
  model.node("ReduceMax", {"x", "axes"}, {"y"}).set("keepdims", 0);
  expect_output(model, {bools({2, 2}, {0, 1, 0, 0})}, DType::Bool, {2}, {1, 0});
}

TEST(Softmax, JoinsAxesBeforeOpset13) {
  const Tensor x = floats({1, 2, 2}, {0, 0, 0, 0});
  ModelBuilder old(11);
  old.input("x", {"1", "2", "2"}).output("y");
  old.node("Softmax", {"x"}, {"y"});
  expect_output(old, {x}, DType::F32, {1, 2, 2}, {0.25, 0.25, 0.25, 0.25});
  ModelBuilder recent(13);
  recent.input("x", {"1", "2", "2"}).output("y");
  recent.node("Softmax", {"x"}, {"y"});
  expect_output(recent, {x}, DType::F32, {1, 2, 2}, {0.5, 0.5, 0.5, 0.5});
}

TEST(Clip, ReadsBoundsFromAttributesOrOperands) {
  const Tensor x = floats({3}, {-2, std::nanf(""), 2});
  ModelBuilder old(10);
  old.input("x", {"3"}).output("y");
  old.node("Clip", {"x"}, {"y"}).set("max", 1.0);
  expect_output(old, {x}, DType::F32, {3}, {-2, std::nan(""), 1});
  ModelBuilder recent(13);
  recent.input("x", {"3"}).output("y");
  recent.initializer(tensor_proto<float>("low", {}, {-1}));
  recent.node("Clip", {"x", "low"}, {"y"});
  expect_output(recent, {x}, DType::F32, {3}, {-1, std::nan(""), 2});
}

TEST(Activations, KeepNaNAndTheLimits) {
  const auto apply = [](const std::string& op, const char* form, const std::vector<double>& want,
                        double tolerance) {
    ModelBuilder model(20);
    model.input("x", {"5"}).output("y");
    auto node = model.node(op, {"x"}, {"y"});
    if (form != nullptr) node.set("approximate", form);
    expect_output(model, {floats({5}, {std::nanf(""), -1, 75, kInfF, -kInfF})}, DType::F32, {5},
                  want, tolerance);
  };
  const double nan = std::nan("");
  apply("Relu", nullptr, {nan, 0, 75, kInf, 0}, 0);
  apply("Gelu", "none", {nan, -0.158655, 75, kInf, 0}, 1e-6);
  apply("Gelu", "tanh", {nan, -0.158808, 75, kInf, 0}, 1e-6);
}

TEST(Dropout, PassesEverythingOn) {
  ModelBuilder model(13);
  model.input("x", {"2"}).output("y").output("mask");
  model.node("Dropout", {"x"}, {"y", "mask"});
  const auto outputs = run(model, {floats({2}, {3, 4})});
  ASSERT_EQ(outputs.size(), 2U);
  expect_tensor(outputs[0], DType::F32, {2}, {3, 4});
  expect_tensor(outputs[1], DType::Bool, {2}, {1, 1});
}

TEST(BatchNormalization, UsesGivenStatistics) {
  ModelBuilder model(15);
  model.input("x", {"1", "2", "2"}).output("y");
  model.initializer(tensor_proto<float>("scale", {2}, {1, 2}));
  model.initializer(tensor_proto<float>("bias", {2}, {0, 1}));
  model.initializer(tensor_proto<float>("mean", {2}, {1, 3}));
  model.initializer(tensor_proto<float>("var", {2}, {4, 1}));
  model.node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y"})
      .set("epsilon", 0.0);
  expect_output(model, {floats({1, 2, 2}, {1, 3, 3, 4})}, DType::F32, {1, 2, 2}, {0, 1, 1, 3});
}

TEST(LayerNormalization, GivesItsStatistics) {
  ModelBuilder model;
  model.input("x", {"1", "4"}).output("y").output("m").output("d");
  model.initializer(tensor_proto<float>("scale", {4}, {1, 1, 1, 2}));
  model.node("LayerNormalization", {"x", "scale"}, {"y", "m", "d"}).set("epsilon", 0.0);
  const auto outputs = run(model, {floats({1, 4}, {1, 3, 1, 3})});
  ASSERT_EQ(outputs.size(), 3U);
  expect_tensor(outputs[0], DType::F32, {1, 4}, {-1, 1, -1, 2});
  expect_tensor(outputs[1], DType::F32, {1, 1}, {2});
  expect_tensor(outputs[2], DType::F32, {1, 1}, {1});
}

TEST(GroupNormalization, ScalesGroupsBeforeOpset21AndChannelsSince) {
  for (const std::int64_t opset : {18, 21}) {
    ModelBuilder model(opset);
    model.input("x", {"1", "2", "2"}).output("y");
    const std::int64_t parameters = opset < 21 ? 1 : 2;
    model.initializer(
        tensor_proto<float>("scale", {parameters}, std::vector<float>(parameters, 2)));
    model.initializer(tensor_proto<float>("bias", {parameters}, std::vector<float>(parameters, 1)));
    model.node("GroupNormalization", {"x", "scale", "bias"}, {"y"})
        .set("num_groups", 1)
        .set("epsilon", 0.0);
    expect_output(model, {floats({1, 2, 2}, {1, 3, 1, 3})}, DType::F32, {1, 2, 2}, {-1, 3, -1, 3});
  }
}

TEST(MatMul, TakesVectors) {
  ModelBuilder dot;
  dot.input("a", {"2"}).input("b", {"2"}).output("y");
  dot.node("MatMul", {"a", "b"}, {"y"});
  expect_output(dot, {floats({2}, {1, 2}), floats({2}, {3, 4})}, DType::F32, {}, {11});
  ModelBuilder row;
  row.input("a", {"2"}).input("b", {"2", "2", "1"}).output("y");
  row.node("MatMul", {"a", "b"}, {"y"});
  expect_output(row, {floats({2}, {1, 2}), floats({2, 2, 1}, {3, 4, 5, 6})}, DType::F32, {2, 1},
                {11, 17});
}

TEST(MatMul, ThenAddOfAWiderTermBroadcasts) {
  ModelBuilder model;
  model.input("a", {"3", "3"}).input("b", {"3", "1"}).input("c", {"1", "4"}).output("y");
  model.node("MatMul", {"a", "b"}, {"m"});
  model.node("Add", {"m", "c"}, {"y"});
  expect_output(model,
                {floats({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}), floats({3, 1}, {1, 2, 3}),
                 floats({1, 4}, {0, 10, 20, 30})},
                DType::F32, {3, 4}, {1, 11, 21, 31, 2, 12, 22, 32, 3, 13, 23, 33});
}

TEST(Gemm, TransposesScalesAndBroadcasts) {
  ModelBuilder model;
  model.input("a", {"2", "1"}).input("b", {"2", "2"}).input("c", {"2"}).output("y");
  model.node("Gemm", {"a", "b", "c"}, {"y"})
      .set("transA", 1)
      .set("transB", 1)
      .set("alpha", 2.0)
      .set("beta", 0.5);
  // a' = [1 2], b' = [[1 3] [2 4]]: a' b' = [5 11]
  expect_output(model, {floats({2, 1}, {1, 2}), floats({2, 2}, {1, 2, 3, 4}), floats({2}, {2, 4})},
                DType::F32, {1, 2}, {11, 24});
}

TEST(Mod, TakesTheSignOfTheDivisorOrOfTheDividend) {
  for (const int fmod : {0, 1}) {
    ModelBuilder model;
    model.ints_input("a", {"3"}).ints_input("b", {"3"}).output("y");
    model.node("Mod", {"a", "b"}, {"y"}).set("fmod", fmod);
    const std::vector<double> want =
        fmod == 0 ? std::vector<double>{2, -2, 1} : std::vector<double>{-1, 1, 1};
    expect_output(model, {ints({3}, {-4, 4, 7}), ints({3}, {3, -3, 2})}, DType::I64, {3}, want);
  }
}

TEST(Mod, LeavesSmallRemaindersAlone) {
  ModelBuilder model;
  model.ints_input("a", {"2", "3"}).ints("b", {16, 16, 16}).output("y");
  model.node("Mod", {"a", "b"}, {"y"});
  expect_output(model, {ints({2, 3}, {0, 1, 2, 3, 4, 5})}, DType::I64, {2, 3}, {0, 1, 2, 3, 4, 5});
}

TEST(Gather, CountsNegativeIndicesFromTheEndAndRefusesOthers) {
  ModelBuilder model;
  model.input("x", {"3"}).ints_input("i", {"2"}).output("y");
  model.node("Gather", {"x", "i"}, {"y"}).name("pick");
  expect_output(model, {floats({3}, {1, 2, 3}), ints({2}, {-1, 0})}, DType::F32, {2}, {3, 1});
  const auto graph = model.import();
  ASSERT_TRUE(graph.has_value());
  const std::vector<Tensor> inputs{floats({3}, {1, 2, 3}), ints({2}, {3, 0})};
  const auto outputs = evaluate(*graph, inputs);
  ASSERT_FALSE(outputs.has_value());
  EXPECT_THAT(outputs.error().message, HasSubstr("'pick'"));
}

TEST(TopK, GivesValuesAndIndices) {
  ModelBuilder model;
  model.input("x", {"4"}).ints("k", {2}).output("v").output("i");
  model.node("TopK", {"x", "k"}, {"v", "i"}).set("largest", 0);
  const auto outputs = run(model, {floats({4}, {5, 1, 4, 1})});
  ASSERT_EQ(outputs.size(), 2U);
  expect_tensor(outputs[0], DType::F32, {2}, {1, 1});
  expect_tensor(outputs[1], DType::I64, {2}, {1, 3});
}

TEST(Trilu, KeepsATriangle) {
  ModelBuilder model;
  model.input("x", {"2", "3"}).output("y");
  model.initializer(tensor_proto<std::int64_t>("k", {}, {1}));
  model.node("Trilu", {"x", "k"}, {"y"}).set("upper", 0);
  expect_output(model, {floats({2, 3}, {1, 2, 3, 4, 5, 6})}, DType::F32, {2, 3},
                {1, 2, 0, 4, 5, 6});
}

TEST(CumProd, MultipliesUpToEachElement) {
  const auto apply = [](int exclusive, int reverse, const std::vector<double>& want) {
    ModelBuilder model(26);
    model.input("x", {"3"}).output("y");
    model.initializer(tensor_proto<std::int64_t>("axis", {}, {0}));
    model.node("CumProd", {"x", "axis"}, {"y"}).set("exclusive", exclusive).set("reverse", reverse);
    expect_output(model, {floats({3}, {2, 3, 5})}, DType::F32, {3}, want);
  };
  apply(0, 0, {2, 6, 30});
  apply(1, 0, {1, 2, 6});
  apply(0, 1, {30, 15, 5});
  apply(1, 1, {15, 5, 1});
}

// ---- Einsum ----

void expect_einsum(const std::string& equation, const std::vector<Tensor>& operands,
                   const Sizes& sizes, const std::vector<double>& values) {
  SCOPED_TRACE(equation);
  ModelBuilder model;
  std::vector<std::string> names;
  for (const Tensor& operand : operands) {
    names.push_back(std::string(1, static_cast<char>('a' + names.size())));
    std::vector<std::string> shape;
    for (const std::int64_t size : operand.sizes()) shape.push_back(std::to_string(size));
    model.input(names.back(), shape);
  }
  model.output("y");
  model.node("Einsum", names, {"y"}).set("equation", equation.c_str());
  expect_output(model, operands, DType::F32, sizes, values);
}

TEST(Einsum, ContractsReducesAndTransposes) {
  const Tensor a = floats({2, 2}, {1, 2, 3, 4});
  const Tensor b = floats({2, 2}, {5, 6, 7, 8});
  expect_einsum("ij,jk->ik", {a, b}, {2, 2}, {19, 22, 43, 50});
  expect_einsum("ij,jk", {a, b}, {2, 2}, {19, 22, 43, 50});
  expect_einsum("ij,kj->ki", {a, b}, {2, 2}, {17, 39, 23, 53});
  expect_einsum("ij->ji", {a}, {2, 2}, {1, 3, 2, 4});
  expect_einsum("ij->", {a}, {}, {10});
  expect_einsum("ii->i", {a}, {2}, {1, 4});
  expect_einsum("ii", {a}, {}, {5});
  expect_einsum("ij,ij->ij", {a, b}, {2, 2}, {5, 12, 21, 32});
  expect_einsum("ij,ij", {a, b}, {}, {70});
  expect_einsum("i,j->ji", {floats({2}, {1, 2}), floats({3}, {1, 2, 3})}, {3, 2},
                {1, 2, 2, 4, 3, 6});
  expect_einsum("ij,jk,k->i", {a, b, floats({2}, {1, 10})}, {2}, {239, 543});
  expect_einsum("...j,j...->...", {a, floats({2, 2}, {1, 0, 0, 1})}, {2}, {1, 4});
  expect_einsum("b...d , ...d -> b...", {floats({1, 2, 2}, {1, 2, 3, 4}), b}, {1, 2}, {17, 53});
}

TEST(Einsum, RefusesEquationsThatDoNotFit) {
  for (const char* equation : {"ij", "ijk->", "i.j->", "ij->k", "ij->ii", "i1->i", ""}) {
    SCOPED_TRACE(equation);
    ModelBuilder model;
    model.input("a", {"2", "2"}).input("b", {"2", "2"}).output("y");
    model.node("Einsum", {"a", "b"}, {"y"}).set("equation", equation);
    EXPECT_NE(import_error(model), "");
    ModelBuilder one;
    one.input("a", {"2", "2"}).output("y");
    one.node("Einsum", {"a"}, {"y"}).set("equation", equation);
    EXPECT_EQ(import_error(one) == "", std::string(equation) == "ij");
  }
}

// ---- Attention and RotaryEmbedding ----

// One head of size 1 over keys whose scores are all 0: the mean of the visible values.
TEST(Attention, GivesZerosWhereAllKeysAreMasked) {
  ModelBuilder model(23);
  model.input("q", {"1", "1", "2", "1"}).input("k", {"1", "1", "2", "1"});
  model.input("v", {"1", "1", "2", "1"}).input("m", {"2", "2"}, onnx::TensorProto::BOOL);
  model.output("y");
  model.node("Attention", {"q", "k", "v", "m"}, {"y"});
  expect_output(model,
                {floats({1, 1, 2, 1}, {0, 0}), floats({1, 1, 2, 1}, {1, 1}),
                 floats({1, 1, 2, 1}, {2, 4}), bools({2, 2}, {1, 1, 0, 0})},
                DType::F32, {1, 1, 2, 1}, {3, 0});
}

TEST(Attention, AlignsCausalQueriesAfterThePast) {
  ModelBuilder model(23);
  model.input("q", {"1", "s", "1"}).input("k", {"1", "s", "1"}).input("v", {"1", "s", "1"});
  model.input("pk", {"1", "1", "p", "1"}).input("pv", {"1", "1", "p", "1"});
  model.output("y").output("present");
  model.node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "", "present"})
      .set("is_causal", 1)
      .set("q_num_heads", 1)
      .set("kv_num_heads", 1);
  const auto outputs =
      run(model, {floats({1, 2, 1}, {0, 0}), floats({1, 2, 1}, {0, 0}), floats({1, 2, 1}, {4, 7}),
                  floats({1, 1, 1, 1}, {0}), floats({1, 1, 1, 1}, {1})});
  ASSERT_EQ(outputs.size(), 2U);
  expect_tensor(outputs[0], DType::F32, {1, 2, 1}, {2.5, 4});
  expect_tensor(outputs[1], DType::F32, {1, 1, 3, 1}, {1, 4, 7});
}

// The valid keys of a cache, and queries that are the last of them.
TEST(Attention, CountsTheValidKeysOfACache) {
  ModelBuilder model(24);
  model.input("q", {"2", "1", "2", "1"}).input("k", {"2", "1", "3", "1"});
  model.input("v", {"2", "1", "3", "1"}).ints_input("n", {"2"}).output("y");
  model.node("Attention", {"q", "k", "v", "", "", "", "n"}, {"y"}).set("is_causal", 1);
  const Tensor zero = floats({2, 1, 2, 1}, {0, 0, 0, 0});
  const Tensor keys = floats({2, 1, 3, 1}, {0, 0, 0, 0, 0, 0});
  const Tensor values = floats({2, 1, 3, 1}, {1, 2, 9, 4, 6, 8});
  expect_output(model, {zero, keys, values, ints({2}, {2, 3})}, DType::F32, {2, 1, 2, 1},
                {1, 1.5, 5, 6});
  const Graph graph = std::move(*model.import());
  const bool counted = std::ranges::any_of(graph.nodes(), [](const auto& node) {
    return node->op() == "attention" && node->operand(3) == nullptr && node->operand(4) != nullptr;
  });
  EXPECT_TRUE(counted) << "lengths became a mask";
}

TEST(Attention, SharesKeysAmongGroupsOfHeads) {
  ModelBuilder model(23);
  model.input("q", {"1", "1", "4"}).input("k", {"1", "1", "2"}).input("v", {"1", "1", "2"});
  model.output("y");
  model.node("Attention", {"q", "k", "v"}, {"y"}).set("q_num_heads", 4).set("kv_num_heads", 2);
  expect_output(
      model,
      {floats({1, 1, 4}, {1, 1, 1, 1}), floats({1, 1, 2}, {1, 1}), floats({1, 1, 2}, {5, 6})},
      DType::F32, {1, 1, 4}, {5, 5, 6, 6});
}

TEST(RotaryEmbedding, TurnsPairsByPosition) {
  // A quarter turn at position 1: (a, b) -> (-b, a).
  for (const int interleaved : {0, 1}) {
    ModelBuilder model(23);
    model.input("x", {"1", "1", "1", "4"}).ints_input("p", {"1", "1"}).output("y");
    model.initializer(tensor_proto<float>("cos", {2, 2}, {1, 1, 0, 0}));
    model.initializer(tensor_proto<float>("sin", {2, 2}, {0, 0, 1, 1}));
    model.node("RotaryEmbedding", {"x", "cos", "sin", "p"}, {"y"}).set("interleaved", interleaved);
    const std::vector<double> want =
        interleaved == 1 ? std::vector<double>{-2, 1, -4, 3} : std::vector<double>{-3, -4, 1, 2};
    expect_output(model, {floats({1, 1, 1, 4}, {1, 2, 3, 4}), ints({1, 1}, {1})}, DType::F32,
                  {1, 1, 1, 4}, want);
  }
}

}  // namespace
}  // namespace opweld
