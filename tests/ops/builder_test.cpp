#include "ops/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace opweld {
namespace {

using ::testing::HasSubstr;

const Dim kB = Dim::symbol("b");
const Dim kS = Dim::symbol("s");

std::string message(const Expected<Node*>& node) {
  return node ? "no error" : node.error().message;
}

class BuildNode : public ::testing::Test {
 protected:
  Value* input(DType dtype, Shape shape) {
    return graph_.add_input(fmt::format("x{}", graph_.inputs().size()), {dtype, std::move(shape)});
  }
  std::string add_error(std::vector<Value*> operands, Attributes attributes = {},
                        std::string name = "") {
    const std::size_t nodes = graph_.num_nodes();
    auto built = build_node(graph_, "add", std::move(operands), std::move(attributes),
                            {std::move(name), "Add", ""});
    EXPECT_EQ(graph_.num_nodes(), nodes) << "a failed build leaves nothing behind";
    return message(built);
  }

  Graph graph_;
};

TEST_F(BuildNode, InfersTheResultType) {
  auto node = build_node(graph_, "add", {input(DType::F16, {kB, 1, 3}), input(DType::F16, {kS, 1})},
                         {}, {"/Add", "Add", "layers.0"});
  ASSERT_TRUE(node) << message(node);
  EXPECT_EQ((*node)->result()->type(), (TensorType{DType::F16, {kB, kS, 3}}));
  EXPECT_EQ((*node)->source().scope, "layers.0");
  EXPECT_TRUE(graph_.assumptions().empty());
  EXPECT_TRUE(verify(graph_));
}

TEST_F(BuildNode, InsertsBeforeANode) {
  Value* x = input(DType::F32, {2});
  auto last = build_node(graph_, "add", {x, x});
  auto first = build_node(graph_, "add", {x, x}, {}, {}, *last);
  EXPECT_EQ(graph_.nodes().front().get(), *first);
}

TEST_F(BuildNode, RecordsSizesItHadToAssumeEqual) {
  auto node = build_node(graph_, "add", {input(DType::F32, {kB, 7}), input(DType::F32, {kS, kS})},
                         {}, {"/layers.0/Add", "Add", ""});
  ASSERT_TRUE(node) << message(node);
  EXPECT_EQ((*node)->result()->shape(), (Shape{kB, 7})) << "a constant tells more than a symbol";
  ASSERT_EQ(graph_.assumptions().size(), 2U);
  EXPECT_EQ(graph_.assumptions()[0].left, Dim(7));
  EXPECT_EQ(graph_.assumptions()[0].right, kS);
  EXPECT_EQ(graph_.assumptions()[0].reason,
            "add '/layers.0/Add': axis -1 of the operands must be equal");
  EXPECT_EQ(graph_.assumptions()[1].left, kB);
  EXPECT_TRUE(verify(graph_));
}

TEST_F(BuildNode, RefusesShapesThatCannotBroadcast) {
  EXPECT_EQ(add_error({input(DType::F32, {2, 3}), input(DType::F32, {4})}, {}, "/Add_7"),
            "add '/Add_7': the operands do not broadcast: [2, 3] and [4] differ on axis -1");
  EXPECT_THAT(add_error({input(DType::F32, {kS}), input(DType::F32, {kS + 1})}),
              HasSubstr("differ on axis -1"));
}

TEST_F(BuildNode, NamesUnknownOperators) {
  EXPECT_EQ(message(build_node(graph_, "ad", {})), "unknown operator 'ad'; did you mean 'add'?");
  EXPECT_EQ(message(build_node(graph_, "flux_capacitor", {}, {}, {"/Flux", "Flux", ""})),
            "/Flux: unknown operator 'flux_capacitor'");
  EXPECT_THAT(message(build_node(graph_, std::string(100'000, 'x'), {})),
              HasSubstr("unknown operator"));
}

TEST_F(BuildNode, ChecksTheNumberOfOperands) {
  Value* x = input(DType::F32, {2});
  EXPECT_EQ(add_error({x}), "add: operand 'b' is missing");
  EXPECT_EQ(add_error({nullptr, x}), "add: operand 'a' is missing");
  EXPECT_EQ(add_error({}), "add: operand 'a' is missing");
  EXPECT_EQ(add_error({x, x, x}), "add: takes 2 operands at most, not 3");
}

TEST_F(BuildNode, ChecksDtypes) {
  Value* f = input(DType::F32, {2});
  Value* h = input(DType::F16, {2});
  Value* b = input(DType::Bool, {2});
  EXPECT_EQ(add_error({f, h}, {}, "/Add"),
            "add '/Add': operands 'a' and 'b' must have the same dtype, but are f32 and f16");
  EXPECT_EQ(add_error({b, b}),
            "add: operand 'a' cannot be bool; it must be one of f64, f32, f16, bf16, i64, i32, "
            "i16, i8, u8");
}

TEST_F(BuildNode, ChecksAttributes) {
  Value* x = input(DType::F32, {2});
  EXPECT_EQ(add_error({x, x}, {{"axis", std::int64_t{1}}}),
            "add: has no attribute 'axis'; it has none");
  EXPECT_EQ(message(build_node(graph_, "constant", {})),
            "constant: attribute 'value' (a tensor) is missing");
  EXPECT_EQ(message(build_node(graph_, "constant", {}, {{"value", 1.5}})),
            "constant: attribute 'value' must be a tensor, not a real number");
  EXPECT_EQ(message(build_node(graph_, "reshape", {x}, {{"shape", Shape{2, Dim::overflow()}}})),
            "reshape: attribute 'shape' overflows 64 bits: [2, overflow]");
}

TEST_F(BuildNode, MakesAttributesTheKindOfTheSchema) {
  Value* x = input(DType::F32, {2, 3});
  auto reshaped = build_node(graph_, "reshape", {x}, {{"shape", Ints{3, 2}}});
  ASSERT_TRUE(reshaped) << message(reshaped);
  EXPECT_EQ((*reshaped)->attributes().shape("shape"), (Shape{3, 2}));
  auto flat = build_node(graph_, "reshape", {x}, {{"shape", std::int64_t{6}}});
  ASSERT_TRUE(flat) << message(flat);
  EXPECT_EQ((*flat)->attributes().shape("shape"), Shape{6});
  EXPECT_TRUE(verify(graph_));
}

TEST_F(BuildNode, ParsesTextWithInference) {
  auto graph = parse_graph(R"(
    graph g(%x: f32[b, 3], %y: f32[c, 1]) {
      %sum = add(%x, %y) @"/Add"
      %flat: f32[3*b] = reshape(%sum) {shape = <3*b>}
      return %flat as "out"
    })");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_TRUE(verify(*graph));
  const std::string text = to_text(*graph);
  EXPECT_THAT(text,
              HasSubstr("assume b == c, \"add '/Add': axis -2 of the operands must be equal\""));
  auto again = parse_graph(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_text(*again), text) << "the assumption is not made twice";

  const auto error = [](std::string_view statement) {
    auto parsed = parse_graph(
        fmt::format("graph g(%x: f32[b, 3]) {{\n  {}\n  return %x as \"y\"\n}}", statement));
    return parsed ? "no error" : parsed.error().message;
  };
  EXPECT_EQ(error("%y: f32[b, 4] = add(%x, %x)"),
            "line 2, column 19: 'y' is f32[b, 3], not f32[b, 4]");
  EXPECT_EQ(error("%y = ad(%x, %x)"),
            "line 2, column 8: unknown operator 'ad'; did you mean 'add'?");
  EXPECT_EQ(error("%y, %z = add(%x, %x)"), "line 2, column 12: add has 1 results, but 2 are named");
  EXPECT_EQ(error("%y = add(%x, _)"), "line 2, column 8: add: operand 'b' is missing");
}

TEST_F(BuildNode, KnowsTheElementsOfShapeArithmetic) {
  Builder build(graph_);
  Value* two = build.ints({1, 2});
  Value* sum = build.op("add", {two, build.ints({10})});
  ASSERT_TRUE(build.status());
  ASSERT_TRUE(sum->contents());
  EXPECT_EQ(*sum->contents(), (std::vector<Dim>{11, 12}));
  EXPECT_EQ(build.scalar(1.5, DType::F32)->contents(), std::nullopt);
}

TEST_F(BuildNode, BuildsTenThousandNodesWellWithinASecond) {
  const auto start = std::chrono::steady_clock::now();
  Value* x = input(DType::F32, {kB, kS, 384});
  Value* y = x;
  for (int i = 0; i < 10'000; ++i) {
    auto node = build_node(graph_, "add", {y, x});
    ASSERT_TRUE(node) << message(node);
    y = (*node)->result();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 0.5);
}

TEST(Builder, TheFirstErrorSticks) {
  Graph graph;
  Builder build(graph, nullptr, {"/Node", "Node", ""});
  Value* a = build.scalar(1, DType::F32);
  Value* b = build.scalar(1, DType::F64);
  EXPECT_EQ(a->producer()->source().name, "/Node");
  EXPECT_EQ(build.binary("add", a, b), nullptr);
  EXPECT_EQ(build.binary("add", a, a), nullptr) << "even what would succeed";
  EXPECT_EQ(build.constant(*Tensor::allocate(DType::F32, {})), nullptr);
  EXPECT_EQ(graph.num_nodes(), 2U);
  ASSERT_FALSE(build.status());
  EXPECT_THAT(build.status().error().message, HasSubstr("add '/Node': operands 'a' and 'b'"));
}

TEST(Builder, CastToTheSameDtypeIsNothing) {
  Graph graph;
  Builder build(graph);
  Value* x = build.scalar(1, DType::F32);
  EXPECT_EQ(build.cast(x, DType::F32), x);
  EXPECT_EQ(graph.num_nodes(), 1U);
}

TEST(Verify, FindsNodesThatTheirOperatorWouldNotMake) {
  const auto violation = [](const auto& spoil) {
    Graph graph;
    Value* x = graph.add_input("x", {DType::F32, {kS}});
    Node* node = *build_node(graph, "add", {x, x}, {}, {"/Add", "Add", ""});
    graph.add_output("y", node->result());
    EXPECT_TRUE(verify(graph));
    spoil(graph, *node);
    const Status status = verify(graph);
    return status ? "no violation" : status.error().message;
  };
  EXPECT_EQ(violation([](Graph&, Node& node) { node.result()->set_type({DType::F32, {kB}}); }),
            "add '/Add' (node 0): result 0 is f32[b], but its operands make it f32[s]");
  EXPECT_EQ(violation([](Graph& graph, Node& node) {
              node.set_operand(1, graph.add_input("y", {DType::F64, {kS}}));
            }),
            "add '/Add' (node 0): operands 'a' and 'b' must have the same dtype, but are f32 and "
            "f64");
  EXPECT_EQ(violation([](Graph&, Node& node) { node.set_operand(1, nullptr); }),
            "add '/Add' (node 0): operand 'b' is missing");
  EXPECT_EQ(violation([](Graph&, Node& node) { node.attributes().set("axis", std::int64_t{1}); }),
            "add '/Add' (node 0): has no attribute 'axis'; it has none");
  EXPECT_EQ(
      violation([](Graph& graph, Node& node) { graph.add_node("bogus", {}, {}, {}, {}, &node); }),
      "bogus (node 1): unknown operator 'bogus'");
  EXPECT_EQ(violation([](Graph& graph, Node& node) {
              graph.add_node("add", {node.operand(0), node.operand(0)}, {}, {});
            }),
            "add (node 1): has 0 results, but its operator 1");
  EXPECT_THAT(violation([](Graph& graph, Node& node) {
                node.set_operand(1, graph.add_input("y", {DType::F32, {kB}}));
              }),
              HasSubstr("needs s and b to be equal"));
}

TEST(Verify, AcceptsWhatTheGraphAssumes) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::F32, {kS}});
  Node* node = *build_node(graph, "add", {x, x});
  node->result()->set_type({DType::F32, {kB}});
  graph.assume_equal(kB, kS, "told so");
  EXPECT_TRUE(verify(graph));
}

}  // namespace
}  // namespace opweld
