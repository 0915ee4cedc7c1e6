#include "ops/run_op.h"

namespace opweld {
namespace {

Attributes padding(const Shape& before, const Shape& after, const std::string& mode) {
  return {{"before", before}, {"after", after}, {"mode", mode}};
}

void expect_pad(const Sizes& x, const Shape& before, const Shape& after, const std::string& mode,
                const Sizes& sizes, const std::vector<int>& sources) {
  expect_move({"pad", {x}, {}, padding(before, after, mode), sizes, sources});
}

TEST(Pad, WithZerosByDefault) {
  expect_pad({2, 3}, {1, 2}, {0, 1}, "constant", {3, 6},
             {-1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 2, -1, -1, -1, 3, 4, 5, -1});
  expect_pad({0}, {1}, {1}, "constant", {2}, {-1, -1});
  expect_pad({}, {}, {}, "constant", {}, {0});
}

TEST(Pad, WithAValueOfAnyDType) {
  expect_move({"pad", {{2}, {}}, {}, padding({1}, {2}, "constant"), {5}, {100, 0, 1, 100, 100}});
}

TEST(Pad, WithTheEdge) {
  expect_pad({5}, {2}, {3}, "edge", {10}, {0, 0, 0, 1, 2, 3, 4, 4, 4, 4});
  expect_pad({2, 3}, {1, 2}, {1, 0}, "edge", {4, 5},
             {0, 0, 0, 1, 2, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 3, 3, 3, 4, 5});
}

TEST(Pad, WithTheReflection) {
  expect_pad({5}, {2}, {3}, "reflect", {10}, {2, 1, 0, 1, 2, 3, 4, 3, 2, 1});
  expect_pad({3}, {7}, {8}, "reflect", {18},
             {1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2});
  expect_pad({1}, {2}, {1}, "reflect", {4}, {0, 0, 0, 0});
  expect_pad({2, 3}, {1, 2}, {1, 0}, "reflect", {4, 5},
             {5, 4, 3, 4, 5, 2, 1, 0, 1, 2, 5, 4, 3, 4, 5, 2, 1, 0, 1, 2});
}

TEST(Pad, WithTheOtherEnd) {
  expect_pad({5}, {2}, {3}, "wrap", {10}, {3, 4, 0, 1, 2, 3, 4, 0, 1, 2});
  expect_pad({3}, {7}, {8}, "wrap", {18}, {2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1});
  expect_pad({2, 3}, {1, 2}, {1, 0}, "wrap", {4, 5},
             {4, 5, 3, 4, 5, 1, 2, 0, 1, 2, 4, 5, 3, 4, 5, 1, 2, 0, 1, 2});
}

TEST(Pad, NegativeAmountsCropFirst) {
  expect_pad({4, 5}, {-1, 2}, {0, -3}, "constant", {3, 4},
             {-1, -1, 5, 6, -1, -1, 10, 11, -1, -1, 15, 16});
  expect_pad({6}, {2}, {-3}, "wrap", {5}, {1, 2, 0, 1, 2});
  expect_pad({6}, {-2}, {3}, "edge", {7}, {2, 3, 4, 5, 5, 5, 5});
  expect_pad({6}, {-4}, {3}, "reflect", {5}, {4, 5, 4, 5, 4});
  expect_pad({4}, {-2}, {-2}, "edge", {0}, {});
}

TEST(Pad, RefusesWhatCannotBe) {
  const Tensor x = floats({2}, {0, 1});
  expect_error(run_op("pad", {x}, padding({-2}, {-1}, "constant")), "no more may be cropped");
  expect_error(run_op("pad", {x}, padding({-3}, {4}, "constant")), "no more may be cropped");
  expect_error(run_op("pad", {x}, padding({1}, {1}, "mirror")), "mode \"mirror\" is none of");
  expect_error(run_op("pad", {x}, padding({1, 1}, {1}, "constant")), "x has rank 1");
  expect_error(run_op("pad", {x, floats({1}, {3})}, padding({1}, {1}, "constant")),
               "must be a scalar");
  for (const std::string mode : {"edge", "reflect", "wrap"}) {
    expect_error(run_op("pad", {floats({0}, {})}, padding({1}, {0}, mode)), "empty axis");
  }
}

TEST(Pad, SymbolicAmounts) {
  Graph graph;
  const Dim s = Dim::symbol("s", {1, 512});
  Value* x = graph.add_input("x", {DType::F32, {s}});
  // Up to the next multiple of 8.
  const auto node = build_node(graph, "pad", {x}, padding({0}, {round_up(s, 8) - s}, "constant"));
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ((*node)->result()->shape(), (Shape{round_up(s, 8)}));
  graph.add_output("y", (*node)->result());
  expect_result(evaluate(graph, std::vector{floats({7}, {1, 2, 3, 4, 5, 6, 7})}), DType::F32, {8},
                {1, 2, 3, 4, 5, 6, 7, 0});
}

}  // namespace
}  // namespace opweld
