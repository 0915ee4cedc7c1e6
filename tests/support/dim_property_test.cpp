// Random expressions, built as Dim and evaluated directly side by side.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>

#include "support/compiled_dim.h"
#include "support/dim.h"

namespace opweld {
namespace {

constexpr int kSymbols = 4;
using Values = std::array<int64_t, kSymbols>;
// Nothing where the mathematical value is undefined or gets too large for the comparison.
using Direct = std::function<std::optional<int64_t>(const Values&)>;

struct Expression {
  Dim dim;
  Direct direct;
};

// Products of two values that pass fit in int64.
std::optional<int64_t> checked(int64_t value) {
  constexpr int64_t kLarge = int64_t{1} << 30;
  if (value < -kLarge || value > kLarge) return std::nullopt;
  return value;
}

// Written another way than the code under test does it.
int64_t floor_of_quotient(int64_t a, int64_t b) {
  const int64_t remainder = ((a % b) + b) % b;
  return (a - remainder) / b;
}

class RandomExpressions {
 public:
  explicit RandomExpressions(uint64_t seed) : random_(seed) {
    const std::array<SymbolRange, kSymbols> ranges = {
        SymbolRange{0, 50, 1}, SymbolRange{-40, 40, 1}, SymbolRange{1, 64, 8},
        SymbolRange{-12, 36, 6}};
    const std::array<const char*, kSymbols> names = {"a", "n", "e", "six"};
    for (int i = 0; i < kSymbols; ++i) {
      symbols_[i] = Dim::symbol(names[i], ranges[i]);
      EXPECT_TRUE(table_.add(*symbols_[i].as_symbol()).has_value());
    }
  }

  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  Values values() {
    Values result;
    for (int i = 0; i < kSymbols; ++i) {
      const SymbolRange& range = symbols_[i].as_symbol()->range;
      const int64_t first = -floor_of_quotient(-range.min, range.divisor);
      const int64_t last = floor_of_quotient(range.max, range.divisor);
      result[i] = integer(first, last) * range.divisor;
    }
    return result;
  }

  Bindings bindings(const Values& values, int count = kSymbols) const {
    Bindings result;
    for (int i = 0; i < count; ++i) result.set(symbols_[i].as_symbol()->name, values[i]);
    return result;
  }

  const SymbolTable& table() const { return table_; }

  Expression expression(int depth) {
    if (depth == 0 || integer(0, 9) == 0) return leaf();
    const Expression left = expression(depth - 1);
    const Expression right = expression(depth - 1);
    const Direct& a = left.direct;
    const Direct& b = right.direct;
    switch (integer(0, 7)) {
      case 0:
        return {left.dim + right.dim, combine(a, b, [](int64_t x, int64_t y) { return x + y; })};
      case 1:
        return {left.dim - right.dim, combine(a, b, [](int64_t x, int64_t y) { return x - y; })};
      case 2:
        return {left.dim * right.dim, combine(a, b, [](int64_t x, int64_t y) { return x * y; })};
      case 3:
        return {min(left.dim, right.dim),
                combine(a, b, [](int64_t x, int64_t y) { return x < y ? x : y; })};
      case 4:
        return {max(left.dim, right.dim),
                combine(a, b, [](int64_t x, int64_t y) { return x > y ? x : y; })};
      case 5:
        return quotient(left, right);
      case 6: {
        const int64_t constant = integer(1, 12) * (integer(0, 5) == 0 ? -1 : 1);
        return quotient(left, {constant, [constant](const Values&) { return constant; }});
      }
      default: {
        const int64_t constant = integer(1, 12) * (integer(0, 5) == 0 ? -1 : 1);
        return remainder(left, {constant, [constant](const Values&) { return constant; }});
      }
    }
  }

 private:
  template <typename Operation>
  static Direct combine(const Direct& a, const Direct& b, Operation operation) {
    return [a, b, operation](const Values& values) -> std::optional<int64_t> {
      const auto x = a(values);
      const auto y = b(values);
      if (!x || !y) return std::nullopt;
      return checked(operation(*x, *y));
    };
  }

  static Direct divide(const Expression& a, const Expression& b, bool want_remainder) {
    return [a = a.direct, b = b.direct, want_remainder](const Values& values) {
      const auto x = a(values);
      const auto y = b(values);
      if (!x || !y || *y == 0) return std::optional<int64_t>();
      const int64_t floor = floor_of_quotient(*x, *y);
      return std::optional<int64_t>(want_remainder ? *x - *y * floor : floor);
    };
  }

  static Expression quotient(const Expression& a, const Expression& b) {
    return {floor_div(a.dim, b.dim), divide(a, b, false)};
  }

  static Expression remainder(const Expression& a, const Expression& b) {
    return {mod(a.dim, b.dim), divide(a, b, true)};
  }

  Expression leaf() {
    if (integer(0, 2) == 0) {
      const int64_t constant = integer(-20, 20);
      return {constant, [constant](const Values&) { return constant; }};
    }
    const auto index = static_cast<size_t>(integer(0, kSymbols - 1));
    return {symbols_[index], [index](const Values& values) { return values[index]; }};
  }

  std::mt19937_64 random_;
  std::array<Dim, kSymbols> symbols_;
  SymbolTable table_;
};

TEST(DimProperties, ValuesBoundsDivisorsAndTextAgreeWithDirectEvaluation) {
  int compared = 0;
  int expressions = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    RandomExpressions random(seed);
    const Expression expression = random.expression(1 + static_cast<int>(seed % 4));
    const Dim& dim = expression.dim;
    if (dim.is_overflow()) continue;
    ++expressions;
    const std::string text = dim.to_string();

    const auto parsed = Dim::parse(text, random.table());
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    ASSERT_EQ(*parsed, dim) << "seed " << seed;
    ASSERT_EQ(parsed->hash(), dim.hash());

    const int64_t lower = dim.lower_bound();
    const int64_t upper = dim.upper_bound();
    for (int i = 0; i < 12; ++i) {
      const Values values = random.values();
      const auto expected = expression.direct(values);
      if (!expected) continue;
      const auto actual = dim.evaluate(random.bindings(values));
      // The canonical form may pass through larger values than the direct one, never wrong ones.
      if (!actual && actual.error().message.find("too large") != std::string::npos) continue;
      // Simplification may not introduce divisions.
      ASSERT_TRUE(actual.has_value()) << text << ": " << actual.error().message;
      ++compared;
      ASSERT_EQ(*actual, *expected) << text << ", seed " << seed;
      ASSERT_LE(lower, *expected) << text;
      ASSERT_GE(upper, *expected) << text;
      if (dim.known_divisor() == 0) {
        ASSERT_EQ(*expected, 0);
      } else {
        ASSERT_EQ(*expected % dim.known_divisor(), 0) << text;
      }
      const Dim partly = dim.substitute(random.bindings(values, 2));
      if (!partly.is_overflow()) {
        const auto rest = partly.evaluate(random.bindings(values));
        ASSERT_EQ(rest.value_or(*expected), *expected) << text << " became " << partly.to_string();
      }
      const Dim wholly = dim.substitute(random.bindings(values));
      if (!wholly.is_overflow()) {
        ASSERT_EQ(wholly, *expected) << text;
      }
    }
  }
  EXPECT_GT(expressions, 2500);
  EXPECT_GT(compared, 20000);
}

TEST(DimProperties, ProvenOrderHolds) {
  int proven = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    RandomExpressions random(seed + 1000000);
    const Expression a = random.expression(2);
    const Expression b = random.expression(2);
    const bool le = provably_le(a.dim, b.dim);
    const bool lt = provably_lt(a.dim, b.dim);
    ASSERT_TRUE(!lt || le);
    if (!le) continue;
    ++proven;
    for (int i = 0; i < 12; ++i) {
      const Values values = random.values();
      const auto x = a.direct(values);
      const auto y = b.direct(values);
      if (!x || !y) continue;
      ASSERT_LE(*x, *y) << a.dim.to_string() << " <= " << b.dim.to_string();
      if (lt) {
        ASSERT_LT(*x, *y) << a.dim.to_string() << " < " << b.dim.to_string();
      }
    }
  }
  EXPECT_GT(proven, 100);
}

TEST(DimProperties, StructuralLessIsAStrictWeakOrder) {
  RandomExpressions random(42);
  std::vector<Dim> dims;
  for (int i = 0; i < 60; ++i) dims.push_back(random.expression(i % 4).dim);
  for (const Dim& a : dims) {
    ASSERT_FALSE(structural_less(a, a));
    for (const Dim& b : dims) {
      ASSERT_FALSE(structural_less(a, b) && structural_less(b, a));
      if (!a.is_overflow() && !b.is_overflow()) {
        ASSERT_EQ(a == b, !structural_less(a, b) && !structural_less(b, a));
      }
      for (const Dim& c : dims) {
        if (structural_less(a, b) && structural_less(b, c)) {
          ASSERT_TRUE(structural_less(a, c));
        }
      }
    }
  }
}

TEST(DimProperties, RingLawsHoldByForm) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomExpressions random(seed + 2000000);
    const Dim a = random.expression(2).dim;
    const Dim b = random.expression(2).dim;
    const Dim c = random.expression(1).dim;
    if ((a * b * c).is_overflow() || (a + b).is_overflow() || c.is_overflow()) continue;
    ASSERT_EQ(a + b, b + a);
    ASSERT_EQ(a * b, b * a);
    ASSERT_EQ((a + b) * c, a * c + b * c);
    ASSERT_EQ((a * b) * c, a * (b * c));
    ASSERT_EQ(a - a, 0);
    ASSERT_EQ(min(a, b), min(b, a));
    ASSERT_EQ(max(a, b), max(b, a));
    for (const int64_t k : {2, 3, 8, 12}) {
      ASSERT_EQ(floor_div(a, k) * k + mod(a, k), a);
      ASSERT_EQ(floor_div(a * k, k), a);
      ASSERT_EQ(mod(a * k, k), 0);
      ASSERT_EQ(floor_div(c + b * k, k), floor_div(c, k) + b) << c << " + " << k << "*" << b;
    }
  }
}

}  // namespace
}  // namespace opweld
