// Every way in which a graph can be broken through its own interface must be found.
#include "graph/verifier.h"

#include <gtest/gtest.h>

namespace opweld {
namespace {

TensorType vector_type() {
  return {DType::F32, {4}};
}

// Builds x -> neg "/Neg" -> abs -> output, spoils it and returns the first violation.
template <typename Spoil>
std::string violation(const Spoil& spoil) {
  Graph graph;
  Value* x = graph.add_input("x", vector_type());
  Node* neg = graph.add_node("neg", {x}, {}, {vector_type()}, {"/Neg", "Neg", ""});
  Node* abs = graph.add_node("abs", {neg->result()}, {}, {vector_type()});
  graph.add_output("y", abs->result());
  EXPECT_TRUE(verify_structure(graph));
  spoil(graph, *neg, *abs);
  const Status status = verify_structure(graph);
  return status ? "no violation" : status.error().message;
}

TEST(Verifier, FindsReadsBeforeTheDefinition) {
  EXPECT_EQ(violation([](Graph&, Node& neg, Node& abs) { neg.set_operand(0, abs.result()); }),
            "neg '/Neg' (node 0): operand 0 is not defined before it");
  EXPECT_EQ(violation([](Graph&, Node& neg, Node&) { neg.set_operand(0, neg.result()); }),
            "neg '/Neg' (node 0): operand 0 is not defined before it");
  EXPECT_EQ(violation([](Graph& graph, Node& neg, Node& abs) {
              graph.add_node("add", {neg.operand(0), abs.result()}, {}, {vector_type()}, {}, &neg);
            }),
            "add (node 2): operand 1 is not defined before it");
}

TEST(Verifier, FindsValuesOfOtherGraphs) {
  Graph other;
  Value* foreign = other.add_input("x", vector_type());
  EXPECT_EQ(violation([&](Graph&, Node&, Node& abs) { abs.set_operand(0, foreign); }),
            "abs (node 1): operand 0 is not defined before it");
  EXPECT_EQ(violation([&](Graph& graph, Node&, Node&) { graph.add_output("z", foreign); }),
            "output 'z' is not a value of this graph");
}

TEST(Verifier, FindsReadersOutsideTheGraph) {
  Graph other;
  EXPECT_EQ(violation([&](Graph&, Node& neg, Node&) {
              other.add_node("neg", {neg.result()}, {}, {vector_type()});
            }),
            "value '' lists 2 uses, but is read 1 times");
}

TEST(Verifier, FindsInputsOfOneName) {
  EXPECT_EQ(violation([](Graph& graph, Node&, Node&) { graph.add_input("x", vector_type()); }),
            "two inputs are named 'x'");
}

TEST(Verifier, FindsContentsThatDoNotFit) {
  const auto with = [](TensorType type, std::vector<Dim> contents) {
    return violation([&](Graph&, Node& neg, Node&) {
      neg.result()->set_type(type);
      neg.result()->set_contents(contents);
    });
  };
  EXPECT_EQ(with({DType::I64, {2}}, {1, Dim::symbol("s")}), "no violation");
  EXPECT_EQ(with({DType::I64, {}}, {1}), "no violation");
  EXPECT_EQ(with({DType::I64, {2}}, {1}),
            "neg '/Neg' (node 0), result 0: has 2 elements, but 1 contents");
  EXPECT_EQ(with({DType::I64, {Dim::symbol("s")}}, {1}),
            "neg '/Neg' (node 0), result 0: has s elements, but 1 contents");
  EXPECT_EQ(with({DType::F32, {1}}, {1}),
            "neg '/Neg' (node 0), result 0: only integer and bool tensors have contents, "
            "this is f32[1]");
}

TEST(Verifier, FindsImpossibleSizes) {
  const auto with = [](Dim size) {
    return violation(
        [&](Graph&, Node& neg, Node&) { neg.result()->set_type({DType::F32, {size}}); });
  };
  EXPECT_EQ(with(-1), "neg '/Neg' (node 0), result 0: a size is negative: -1");
  EXPECT_EQ(with(Dim::symbol("s") - 5), "no violation");
  EXPECT_EQ(with(-Dim::symbol("s", {1, 5, 1})),
            "neg '/Neg' (node 0), result 0: a size is negative: -s");
  EXPECT_EQ(with(Dim::overflow()), "neg '/Neg' (node 0), result 0: a size overflows 64 bits");
}

TEST(Verifier, FindsSymbolsWithTwoRanges) {
  EXPECT_EQ(violation([](Graph& graph, Node& neg, Node&) {
              graph.add_input("y", {DType::F32, {Dim::symbol("s", {0, 8, 1})}});
              neg.result()->set_type({DType::F32, {Dim::symbol("s", {0, 9, 1})}});
            }),
            "neg '/Neg' (node 0), result 0: symbol 's' is declared twice: 's in [0, 8]' and 's in "
            "[0, 9]'");
}

}  // namespace
}  // namespace opweld
