// Index expressions stay simple enough that strides are visible. What is asked of each rewrite is
// that the value is the same at every place, and that no division is left where none is needed.
#include "tile/index_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace opweld::tile {
namespace {

class IndexMathTest : public ::testing::Test {
 protected:
  Expr loop(int index, const Dim& extent) {
    const Expr variable = pool_.loop(index);
    math_.set_bound(variable, extent);
    return variable;
  }

  bool divides(Expr root) const {
    const auto all = reachable_exprs(pool_, root);
    return std::any_of(all.begin(), all.end(), [this](Expr each) {
      return pool_[each].kind == ExprKind::Div || pool_[each].kind == ExprKind::Mod;
    });
  }

  // The value where loop variable 0 is `i`, loop variable 1 is `j` and every symbol is `s`.
  std::int64_t value(Expr root, std::int64_t i, std::int64_t j, std::int64_t s) const {
    const ExprNode& node = pool_[root];
    const auto argument = [&](int at) {
      return value(node.arguments[static_cast<std::size_t>(at)], i, j, s);
    };
    switch (node.kind) {
      case ExprKind::Constant:
        return node.integer;
      case ExprKind::Loop:
        return node.index == 0 ? i : j;
      case ExprKind::Size:
        return *node.size.evaluate({{"s", s}});
      case ExprKind::Add:
        return argument(0) + argument(1);
      case ExprKind::Sub:
        return argument(0) - argument(1);
      case ExprKind::Mul:
        return argument(0) * argument(1);
      case ExprKind::Div:
        return argument(0) / argument(1);
      case ExprKind::Mod:
        return argument(0) % argument(1);
      default:
        ADD_FAILURE() << "an index holds an unexpected operation";
        return 0;
    }
  }

  ExprPool pool_;
  IndexMath math_{pool_};
};

TEST_F(IndexMathTest, WhatAReshapeSplitsALayoutJoins) {
  const Dim s = Dim::symbol("s", {1});
  const Dim batch = Dim::symbol("b", {1});
  const Expr row = loop(0, batch * s);
  const Shape split = {batch, s, Dim(384)};
  const Expr column = loop(1, Dim(384));
  std::vector<Expr> index = math_.through_reshape(std::vector<Expr>{row}, {batch, s}, {batch * s});
  index.push_back(column);
  ASSERT_TRUE(divides(index[0]));
  const auto offset = math_.undivided_offset(index, split);
  ASSERT_TRUE(offset);
  for (const std::int64_t size : {1, 3, 7}) {
    for (std::int64_t i = 0; i < 2 * size; ++i) {
      EXPECT_EQ(value(*offset, i, 5, size), i * 384 + 5);
    }
  }
}

TEST_F(IndexMathTest, JoinsInEitherOrderAndAmongOtherTerms) {
  const Dim s = Dim::symbol("s", {1});
  const Expr x = math_.add(loop(0, Dim(64)), math_.constant(3));
  const Expr quotient = math_.mul(math_.div(x, s), s * 2);
  const Expr remainder = math_.mul(math_.mod(x, s), Dim(2));
  const Expr other = loop(1, Dim(9));
  for (const Expr sum :
       {math_.add(quotient, remainder), math_.add(remainder, quotient),
        math_.add(math_.add(other, remainder), quotient),
        math_.add(math_.add(quotient, other), math_.add(remainder, math_.constant(1)))}) {
    EXPECT_FALSE(divides(sum));
  }
  const Expr sum = math_.add(math_.add(other, remainder), quotient);
  for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(value(sum, i, 4, 5), (i + 3) * 2 + 4);
}

// Each differs from what may be joined in one thing: the factor, the divisor, what is divided.
TEST_F(IndexMathTest, KeepsDivisionsThatDoNotBelongTogether) {
  const Dim s = Dim::symbol("s", {1});
  const Expr x = loop(0, Dim(64));
  const Expr y = loop(1, Dim(64));
  const Expr div = math_.div(x, s);
  const Expr mod = math_.mod(x, s);
  const std::vector<std::pair<Expr, Expr>> pairs = {
      {math_.mul(div, s * 3), math_.mul(mod, Dim(2))},
      {math_.mul(div, s), math_.mod(x, s + 1)},
      {math_.mul(div, s), math_.mod(y, s)},
      {div, mod},
  };
  for (const auto& [left, right] : pairs) {
    const Expr sum = math_.add(left, right);
    EXPECT_TRUE(divides(sum));
    for (std::int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(value(sum, i, 7, 5), value(left, i, 7, 5) + value(right, i, 7, 5));
    }
  }
}

// The same expression is a head of eight in one case and a head of two in the next.
TEST_F(IndexMathTest, WhatACaseSaysOfAnExpressionEndsWithIt) {
  const Expr i = loop(0, Dim(64));
  const Expr head = math_.div(i, Dim(8));
  {
    const IndexMath::Scope few(math_);
    math_.set_bound(head, Dim(2));
    EXPECT_EQ(math_.bound(head), Dim(2));
    EXPECT_EQ(math_.mod(head, Dim(2)), head) << "a head of two is its own remainder";
  }
  EXPECT_EQ(math_.bound(head), Dim(8));
  EXPECT_EQ(value(math_.mod(head, Dim(2)), 40, 0, 1), 1);
}

TEST_F(IndexMathTest, OffersNoOffsetWhereNothingIsGained) {
  const Dim s = Dim::symbol("s", {1});
  const Expr x = loop(0, Dim(64));
  EXPECT_FALSE(math_.undivided_offset(std::vector<Expr>{x, loop(1, Dim(8))}, {Dim(64), Dim(8)}));
  // The other half of the division lies in no index: it stays.
  EXPECT_FALSE(
      math_.undivided_offset(std::vector<Expr>{math_.div(x, s), loop(1, Dim(8))}, {s, Dim(8)}));
}

}  // namespace
}  // namespace opweld::tile
