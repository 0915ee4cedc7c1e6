#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "graph/verifier.h"

namespace opweld {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TensorType vector_type(Dim size = 4) {
  return {DType::F32, {std::move(size)}};
}

Node* unary(Graph& graph, std::string op, Value* x, Node* before = nullptr) {
  return graph.add_node(std::move(op), {x}, {}, {x->type()}, {}, before);
}

std::vector<std::string> ops_in_order(const Graph& graph) {
  std::vector<std::string> ops;
  for (const auto& node : graph.nodes()) ops.push_back(node->op());
  return ops;
}

TEST(Graph, RecordsEveryReaderOfAValue) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* square = graph.add_node("mul", {x, x}, {}, {vector_type()});
  Node* sum = graph.add_node("add", {square->result(), x}, {}, {vector_type()});
  EXPECT_THAT(x->uses(), ElementsAre(Use{square, 0}, Use{square, 1}, Use{sum, 1}));
  EXPECT_THAT(square->result()->uses(), ElementsAre(Use{sum, 0}));
  EXPECT_EQ(square->result()->producer(), square);
  EXPECT_TRUE(x->is_graph_input());
  EXPECT_FALSE(square->result()->is_graph_input());
}

TEST(Graph, AbsentOperandsAreNobodysUses) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* clip = graph.add_node("clip", {x, nullptr, x}, {}, {vector_type()});
  EXPECT_EQ(clip->operand(1), nullptr);
  EXPECT_THAT(x->uses(), ElementsAre(Use{clip, 0}, Use{clip, 2}));
  clip->set_operand(1, x);
  clip->set_operand(2, nullptr);
  EXPECT_THAT(x->uses(), ElementsAre(Use{clip, 0}, Use{clip, 1}));
}

TEST(Graph, InsertsBeforeANode) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* last = unary(graph, "last", x);
  unary(graph, "first", x, last);
  unary(graph, "second", x, last);
  EXPECT_THAT(ops_in_order(graph), ElementsAre("first", "second", "last"));
}

TEST(Graph, KnowsItsOutputs) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* node = unary(graph, "neg", x);
  EXPECT_FALSE(x->is_graph_output());
  graph.add_output("a", x);  // an input that is an output
  graph.add_output("b", node->result());
  graph.add_output("c", node->result());
  graph.set_output(1, x);
  EXPECT_TRUE(node->result()->is_graph_output());
  graph.set_output(2, x);
  EXPECT_FALSE(node->result()->is_graph_output());
  EXPECT_TRUE(x->is_graph_output());
  EXPECT_EQ(graph.outputs()[2].name, "c");
}

TEST(Graph, ReplacesAllUsesAndOutputs) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Value* y = graph.add_input("y", vector_type());
  Node* node = graph.add_node("add", {x, x}, {}, {vector_type()});
  graph.add_output("out", x);
  graph.replace_all_uses(x, y);
  EXPECT_THAT(x->uses(), IsEmpty());
  EXPECT_FALSE(x->is_graph_output());
  EXPECT_THAT(y->uses(), ElementsAre(Use{node, 0}, Use{node, 1}));
  EXPECT_EQ(graph.outputs()[0].value, y);
  graph.replace_all_uses(y, y);
  EXPECT_EQ(y->uses().size(), 2U);
  EXPECT_TRUE(verify_structure(graph));
}

TEST(Graph, EraseGivesUpTheOperands) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* node = graph.add_node("add", {x, x}, {}, {vector_type()});
  graph.erase(node);
  EXPECT_THAT(x->uses(), IsEmpty());
  EXPECT_EQ(graph.num_nodes(), 0U);
  EXPECT_EQ(unary(graph, "neg", x)->id(), 1) << "ids are not used again";
}

TEST(GraphDeathTest, WhatIsReadCannotBeErased) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* first = unary(graph, "neg", x);
  Node* second = unary(graph, "neg", first->result());
  graph.add_output("y", second->result());
  EXPECT_DEATH(graph.erase(first), "still read");
  EXPECT_DEATH(graph.erase(second), "makes an output");
}

TEST(Graph, NamesNodesByTheirSource) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* node = unary(graph, "neg", x);
  EXPECT_EQ(node->display_name(), "neg_0");
  node->set_source({"/layers.0/Neg", "Neg", "layers.0"});
  EXPECT_EQ(node->display_name(), "/layers.0/Neg");
}

TEST(Graph, SortKeepsAnOrderThatIsRightAlready) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* a = unary(graph, "a", x);
  unary(graph, "b", x);
  unary(graph, "c", a->result());
  unary(graph, "d", x);
  EXPECT_TRUE(graph.sort_topologically());
  EXPECT_THAT(ops_in_order(graph), ElementsAre("a", "b", "c", "d"));
}

TEST(Graph, SortMovesProducersUp) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* a = unary(graph, "a", x);
  unary(graph, "b", x);
  Node* c = unary(graph, "c", x);
  Node* d = unary(graph, "d", c->result());
  a->set_operand(0, d->result());
  EXPECT_FALSE(verify_structure(graph));
  EXPECT_TRUE(graph.sort_topologically());
  EXPECT_THAT(ops_in_order(graph), ElementsAre("c", "d", "a", "b"));
  EXPECT_TRUE(verify_structure(graph));
  graph.erase(graph.nodes_in_order()[3]);  // positions are still right
  EXPECT_THAT(ops_in_order(graph), ElementsAre("c", "d", "a"));
}

TEST(Graph, SortReportsCyclesAndLeavesTheOrder) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* a = unary(graph, "a", x);
  Node* b = unary(graph, "b", a->result());
  a->set_operand(0, b->result());
  EXPECT_FALSE(graph.sort_topologically());
  EXPECT_THAT(ops_in_order(graph), ElementsAre("a", "b"));
  a->set_operand(0, a->result());  // a node that reads itself
  EXPECT_FALSE(graph.sort_topologically());
}

TEST(Graph, CollectsTheSymbolsOfItsInputs) {
  const Dim s = Dim::symbol("s");
  const Dim b = Dim::symbol("b");
  Graph graph;
  graph.add_input("x", {DType::F32, {s * 2, b}});
  graph.add_input("y", {DType::F32, {s, 3}});
  EXPECT_THAT(graph.symbols(), ElementsAre(b, s));
}

TEST(Graph, RemembersEachAssumptionOnce) {
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  Graph graph;
  graph.assume_equal(s, t, "first");
  graph.assume_equal(s, t, "second");
  graph.assume_equal(s, s, "always");
  ASSERT_EQ(graph.assumptions().size(), 1U);
  EXPECT_EQ(graph.assumptions()[0].reason, "first");
}

TEST(Graph, CloneIsDeepAndKeepsNames) {
  Graph graph("model");
  Value* x = graph.add_input("x", vector_type(Dim::symbol("s")));
  Node* node = graph.add_node("two", {x, nullptr}, {{"k", std::int64_t{3}}},
                              {vector_type(), {DType::I64, {2}}}, {"/Two", "Two", "scope"});
  graph.erase(unary(graph, "gone", x));
  Node* last = unary(graph, "last", node->result(0));
  node->result(1)->set_name("sizes");
  node->result(1)->set_contents(std::vector<Dim>{Dim::symbol("s"), 7});
  graph.add_output("y", last->result());
  graph.assume_equal(Dim::symbol("s"), 4, "why");

  std::map<const Value*, Value*> mapping;
  Graph copy = graph.clone(&mapping);
  EXPECT_TRUE(verify_structure(copy));
  EXPECT_EQ(copy.name(), "model");
  ASSERT_EQ(copy.num_nodes(), 2U);
  const Node* twin = copy.nodes().front().get();
  EXPECT_NE(twin, node);
  EXPECT_EQ(twin->operand(0), copy.inputs()[0]);
  EXPECT_EQ(twin->operand(1), nullptr);
  EXPECT_EQ(twin->attributes(), node->attributes());
  EXPECT_EQ(twin->source(), node->source());
  EXPECT_EQ(twin->result(1)->name(), "sizes");
  EXPECT_EQ(twin->result(1)->contents(), node->result(1)->contents());
  EXPECT_EQ(mapping.at(node->result(1)), twin->result(1));
  EXPECT_EQ(copy.nodes().back()->display_name(), last->display_name());
  EXPECT_EQ(copy.outputs()[0].value, mapping.at(last->result()));
  EXPECT_EQ(copy.assumptions().size(), 1U);

  copy.nodes().front()->attributes().set("k", std::int64_t{4});
  EXPECT_EQ(node->attributes().integer("k"), 3);
  EXPECT_EQ(x->uses().size(), 1U) << "the copy does not read the original";
  EXPECT_EQ(unary(copy, "fresh", copy.inputs()[0])->id(), unary(graph, "fresh", x)->id());
}

TEST(Graph, MovesWithItsNodes) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* node = unary(graph, "neg", x);
  graph.add_output("y", node->result());
  Graph moved = std::move(graph);
  EXPECT_TRUE(verify_structure(moved));
  unary(moved, "before", x, node);
  EXPECT_THAT(ops_in_order(moved), ElementsAre("before", "neg"));
}

// Long chains and widely read values occur in real models; neither may cost a square of the size,
// nor exhaust the stack.
TEST(Graph, HandlesTenThousandNodesAtOnce) {
  constexpr int kCount = 10'000;
  const auto start = std::chrono::steady_clock::now();
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Value* chain = x;
  for (int i = 0; i < kCount; ++i) {
    chain = graph.add_node("add", {chain, x}, {}, {vector_type()})->result();
  }
  graph.add_output("y", chain);
  EXPECT_TRUE(graph.sort_topologically());
  EXPECT_TRUE(verify_structure(graph));
  Graph copy = graph.clone();
  copy.set_output(0, copy.inputs()[0]);
  for (Node* node : copy.nodes_in_order()) {
    copy.replace_all_uses(node->result(), copy.inputs()[0]);
    copy.erase(node);
  }
  EXPECT_EQ(copy.num_nodes(), 0U);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 2.0);
}

}  // namespace
}  // namespace opweld
