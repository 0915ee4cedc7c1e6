#include "rewrite/simplify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/builder.h"
#include "ops/reference.h"

namespace opweld {
namespace {

// Simplifies, checks that every bit of the result stays for special values too, and returns the
// operators that are left.
std::string simplified(const std::string& body) {
  Graph graph = parse_graph("graph g(%x: f32[8]) {" + body + "\n return %y as \"y\" }").value();
  Tensor x = Tensor::allocate(DType::F32, {8}).value();
  const double inf = std::numeric_limits<double>::infinity();
  const double values[] = {0.0, -0.0, inf, -inf, std::nan(""), 1.7, -3.3e-39, 3e38};
  for (int i = 0; i < 8; ++i) x.set_double(i, values[i]);
  const auto before = evaluate(graph, std::span(&x, 1)).value();
  EXPECT_TRUE(simplify(graph));
  const Status sound = verify(graph);
  EXPECT_TRUE(sound) << sound.error().message;
  const auto after = evaluate(graph, std::span(&x, 1)).value();
  EXPECT_TRUE(identical(before[0], after[0]));
  std::string left;
  for (const auto& node : graph.nodes()) {
    if (node->op() != "constant") left += node->op() + " ";
  }
  return left;
}

TEST(Simplify, ReplacesOperatorsByCheaperOnesOfEqualValue) {
  EXPECT_EQ(simplified("%c = constant {value = f32[] {2.0}}\n %y = pow(%x, %c)"), "mul ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {8.0}}\n %y = div(%x, %c)"), "mul ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {1.0}}\n %a = mul(%x, %c)\n %y = exp(%a)"),
            "exp ");
  EXPECT_EQ(simplified("%a = transpose(%x) {permutation = [0]}\n %y = exp(%a)"), "exp ");
  EXPECT_EQ(simplified("%a = reshape(%x) {shape = <8>}\n %y = exp(%a)"), "exp ");
}

TEST(Simplify, LeavesWhatWouldChangeABit) {
  EXPECT_EQ(simplified("%c = constant {value = f32[] {3.0}}\n %y = div(%x, %c)"), "div ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {0.0}}\n %y = mul(%x, %c)"), "mul ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {0.0}}\n %y = add(%x, %c)"), "add ");
  // The constant widens the result.
  EXPECT_EQ(simplified("%c = constant {value = f32[1, 1] {1.0}}\n %y = mul(%x, %c)"), "mul ");
}

}  // namespace
}  // namespace opweld
