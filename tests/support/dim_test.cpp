#include "support/dim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

#include "support/compiled_dim.h"

namespace opweld {
namespace {

constexpr int64_t kMax = Dim::kPlusInfinity;
constexpr int64_t kMin = Dim::kMinusInfinity;

class DimTest : public ::testing::Test {
 protected:
  Dim a = Dim::symbol("a");
  Dim b = Dim::symbol("b", {1, 64});
  Dim s = Dim::symbol("s", {1, 4096});
  Dim t = Dim::symbol("t", {-100, 100});
  Dim e = Dim::symbol("e", {8, 512, 8});
};

TEST_F(DimTest, SumsAndProductsAreCanonical) {
  EXPECT_EQ(2 * s + s, 3 * s);
  EXPECT_EQ(s - s, 0);
  EXPECT_EQ((a + b) * (a - b), a * a - b * b);
  EXPECT_EQ((s + 1) * (s + 1), s * s + 2 * s + 1);
  EXPECT_EQ(a * b * 3, 3 * (b * a));
  EXPECT_EQ(-(a - b), b - a);
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(s == s + 1);
  EXPECT_FALSE(s == 3);
}

TEST_F(DimTest, DivisionByAConstant) {
  EXPECT_EQ(floor_div(s * 128, 64), 2 * s);
  EXPECT_EQ(floor_div(2 * s + 4, 2), s + 2);
  EXPECT_EQ(floor_div(2 * s + 5, 2), s + 2);
  EXPECT_EQ(floor_div(3 * s, 2), s + floor_div(s, 2));
  EXPECT_EQ(floor_div(s, 1), s);
  EXPECT_EQ(floor_div(s, -1), -s);
  EXPECT_EQ(floor_div(s, -4), floor_div(-s, 4));
  EXPECT_EQ(floor_div(s, 4097), 0) << "decided by the bounds";
  EXPECT_EQ(floor_div(4 * s + 3, 8), floor_div(s, 2)) << "3 is lost on multiples of 4";
  EXPECT_EQ(floor_div(e + 7, 8), floor_div(e, 8));
  EXPECT_EQ(floor_div(8 * a + mod(b, 4), 8), a);
  EXPECT_EQ(floor_div(a * 8 + mod(b, 8), 8), a);
  EXPECT_EQ(floor_div(floor_div(s, 2) * 8 + mod(s, 2), 8), floor_div(s, 2)) << "a padded layout";
  EXPECT_EQ(mod(floor_div(s, 2) * 8 + mod(s, 2), 8), mod(s, 2));
  EXPECT_FALSE(floor_div(s, 2) == floor_div(s, 4));
}

TEST_F(DimTest, NestedDivisions) {
  EXPECT_EQ(floor_div(floor_div(s, 4), 3), floor_div(s, 12));
  EXPECT_EQ(floor_div(floor_div(s, 4) + 1, 3), floor_div(s + 4, 12));
  EXPECT_EQ(floor_div(floor_div(a, s), b), floor_div(a, s * b));
  EXPECT_EQ(floor_div(mod(s, 8), 4), mod(floor_div(s, 4), 2));
}

TEST_F(DimTest, DivisionByAnExpression) {
  EXPECT_EQ(floor_div(b * s * 384, b * 12), 32 * s) << "the -1 of a reshape";
  EXPECT_EQ(floor_div(3 * b * s, 2 * b), floor_div(3 * s, 2));
  EXPECT_EQ(floor_div(a * s + s, s), a + 1);
  EXPECT_EQ(floor_div(a * s + mod(a, s), s), a);
  EXPECT_EQ(floor_div((a + 1) * (s + 2), s + 2), a + 1);
  EXPECT_EQ(floor_div(a * (s + 2), 2 * s + 4), floor_div(a, 2));
  EXPECT_EQ(floor_div(a * (s + 2), b * (s + 2)), floor_div(a, b));
  EXPECT_EQ(floor_div(s, s), 1);
  EXPECT_EQ(floor_div(s - 1, s), 0) << "0 <= s - 1 < s";
  EXPECT_EQ(floor_div(-a, -b), floor_div(a, b));
  EXPECT_EQ(floor_div(0, s), 0);
}

TEST_F(DimTest, Modulo) {
  EXPECT_EQ(mod(s * 128, 64), 0);
  EXPECT_EQ(mod(e, 8), 0);
  EXPECT_EQ(mod(e, 4), 0);
  EXPECT_EQ(mod(e + 3, 8), 3);
  EXPECT_FALSE(mod(e, 16) == 0);
  EXPECT_EQ(mod(s, 4097), s) << "in range";
  EXPECT_EQ(mod(mod(s, 8), 8), mod(s, 8));
  EXPECT_EQ(mod(mod(s, 8), 4), mod(s, 4));
  EXPECT_EQ(mod(s + 8 * a, 8), mod(s, 8));
  EXPECT_EQ(floor_div(s, 4) * 4 + mod(s, 4), s);
  EXPECT_EQ(3 * floor_div(s, 4) * 4 + 3 * mod(s, 4), 3 * s);
  EXPECT_EQ(floor_div(a, s) * s + mod(a, s), a);
  EXPECT_EQ(mod(a * s, s), 0);
  EXPECT_EQ(mod(-7, 4), 1);
  EXPECT_EQ(mod(7, -4), -1);
}

TEST_F(DimTest, CeilingAndRounding) {
  EXPECT_EQ(ceil_div(7, 4), 2);
  EXPECT_EQ(ceil_div(8, 4), 2);
  EXPECT_EQ(ceil_div(-7, 4), -1);
  EXPECT_EQ(ceil_div(e, 8), floor_div(e, 8));
  EXPECT_EQ(round_up(e, 8), e);
  EXPECT_EQ(round_up(13, 8), 16);
  EXPECT_TRUE(provably_le(s, round_up(s, 16)));
  EXPECT_TRUE(provably_lt(round_up(s, 16), s + 16));
}

TEST_F(DimTest, MinAndMax) {
  EXPECT_EQ(min(3, 5), 3);
  EXPECT_EQ(max(3, 5), 5);
  EXPECT_EQ(min(s, s + 1), s);
  EXPECT_EQ(max(s, s + 1), s + 1);
  EXPECT_EQ(min(s, s), s);
  EXPECT_EQ(min(s, 4096), s) << "decided by the bounds";
  EXPECT_EQ(max(s, 1), s);
  EXPECT_EQ(max(mod(s, 8), 0), mod(s, 8));
  EXPECT_EQ(min(a, b), min(b, a));
  EXPECT_EQ(min(a, min(b, s)), min(min(s, a), b));
  EXPECT_EQ(min(min(a, b), b), min(a, b));
  EXPECT_EQ(max(min(a, b), b), b) << "absorbed";
  EXPECT_EQ(min(4 * a, 4 * b), 4 * min(a, b));
  EXPECT_EQ(min(a + s, b + s), s + min(a, b));
  EXPECT_EQ(min(a + 2, b + 1), min(a + 1, b) + 1);
  EXPECT_EQ(min(-a, -b), -max(a, b));
  EXPECT_FALSE(min(a, b) == max(a, b));
}

TEST_F(DimTest, OrderIsProvenWhereItHolds) {
  EXPECT_TRUE(provably_le(s, s));
  EXPECT_FALSE(provably_lt(s, s));
  EXPECT_TRUE(provably_lt(s, s + 1));
  EXPECT_TRUE(provably_lt(s - 1, s));
  EXPECT_TRUE(provably_le(1, s));
  EXPECT_FALSE(provably_le(2, s));
  EXPECT_TRUE(provably_le(b, 64));
  EXPECT_TRUE(provably_lt(mod(s, 8), 8));
  EXPECT_TRUE(provably_lt(mod(a, s), s));
  EXPECT_TRUE(provably_le(0, mod(t, 8)));
  EXPECT_TRUE(provably_le(floor_div(s, 4) * 4, s));
  EXPECT_TRUE(provably_le(floor_div(s, 4), s));
  EXPECT_TRUE(provably_le(min(a, b), a));
  EXPECT_TRUE(provably_le(a, max(a, b)));
  EXPECT_TRUE(provably_le(min(a, b), max(a, b)));
  EXPECT_TRUE(provably_le(s, s * b)) << "b >= 1, but interval arithmetic must not lose s";
  EXPECT_FALSE(provably_le(a, b));
  EXPECT_FALSE(provably_le(t, s * t)) << "t may be negative";
}

TEST_F(DimTest, Bounds) {
  EXPECT_EQ(s.lower_bound(), 1);
  EXPECT_EQ(s.upper_bound(), 4096);
  EXPECT_EQ((2 * s + 1).upper_bound(), 8193);
  EXPECT_EQ((-s).lower_bound(), -4096);
  EXPECT_EQ((t * t).lower_bound(), 0);
  EXPECT_EQ((t * t).upper_bound(), 10000);
  EXPECT_EQ(floor_div(t, 8).lower_bound(), -13);
  EXPECT_EQ(floor_div(t, 8).upper_bound(), 12);
  EXPECT_EQ(floor_div(7 - s, 2).lower_bound(), -2045);
  EXPECT_EQ(floor_div(7 - s, 2).upper_bound(), 3);
  EXPECT_EQ(mod(s, 8).upper_bound(), 7);
  EXPECT_EQ(min(s, b).upper_bound(), 64);
  EXPECT_EQ(max(s, b).lower_bound(), 1);
  EXPECT_EQ((a * a).upper_bound(), kMax) << "2^80 does not fit";
  EXPECT_EQ((a * a - a * a * 2).lower_bound(), kMin);
  EXPECT_EQ((a * a - 5).upper_bound(), kMax) << "infinity minus something is infinity";
  EXPECT_EQ(Dim(7).lower_bound(), 7);
  const Dim odd_range = Dim::symbol("odd_range", {3, 30, 8});
  EXPECT_EQ(odd_range.lower_bound(), 8);
  EXPECT_EQ(odd_range.upper_bound(), 24);
}

TEST_F(DimTest, KnownDivisor) {
  EXPECT_EQ((12 * s + 8).known_divisor(), 4);
  EXPECT_EQ(e.known_divisor(), 8);
  EXPECT_EQ((e * e).known_divisor(), 64);
  EXPECT_EQ((3 * e).known_divisor(), 24);
  EXPECT_EQ((4 * floor_div(s, 4)).known_divisor(), 4);
  EXPECT_EQ(min(4 * a, 6 * b).known_divisor(), 2);
  EXPECT_EQ(Dim(0).known_divisor(), 0);
  EXPECT_EQ(Dim(-6).known_divisor(), 6);
  EXPECT_TRUE(e.divisible_by(4));
  EXPECT_TRUE(e.divisible_by(-4));
  EXPECT_FALSE(e.divisible_by(16));
  EXPECT_FALSE(e.divisible_by(0));
  EXPECT_TRUE(Dim(0).divisible_by(0));
  EXPECT_TRUE(Dim(kMin).divisible_by(kMin));
  EXPECT_TRUE(Dim(kMin).divisible_by(2));
  EXPECT_FALSE(Dim::overflow().divisible_by(2));
}

TEST_F(DimTest, Constants) {
  EXPECT_EQ(Dim().constant(), 0);
  EXPECT_EQ(Dim(5).constant(), 5);
  EXPECT_EQ((s - s + 5).constant(), 5);
  EXPECT_EQ(s.constant(), std::nullopt);
  EXPECT_EQ(Dim::overflow().constant(), std::nullopt);
  EXPECT_EQ(Dim(uint64_t{1} << 62).constant(), int64_t{1} << 62);
  EXPECT_TRUE(Dim(~uint64_t{0}).is_overflow());
}

TEST_F(DimTest, OverflowIsAValueOfItsOwn) {
  EXPECT_TRUE((Dim(kMax) + 1).is_overflow());
  EXPECT_TRUE((Dim(kMin) - 1).is_overflow());
  EXPECT_TRUE((-Dim(kMin)).is_overflow());
  EXPECT_TRUE((Dim(kMax) * 2).is_overflow());
  EXPECT_TRUE((s * kMax * 2).is_overflow());
  EXPECT_TRUE((s * kMax + s).is_overflow());
  EXPECT_TRUE(floor_div(s, 0).is_overflow());
  EXPECT_TRUE(mod(s, 0).is_overflow());
  EXPECT_TRUE(floor_div(Dim(kMin), -1).is_overflow());
  EXPECT_TRUE(floor_div(s, kMin).is_overflow());

  const Dim overflow = Dim::overflow();
  for (const Dim& result :
       {overflow + 1, overflow - overflow, overflow * 0, floor_div(overflow, 2), mod(2, overflow),
        min(overflow, 0), max(0, overflow), ceil_div(overflow, s), -overflow}) {
    EXPECT_TRUE(result.is_overflow());
  }
  EXPECT_FALSE(overflow == overflow);
  EXPECT_FALSE(overflow == 0);
  EXPECT_FALSE(provably_le(overflow, overflow));
  EXPECT_FALSE(provably_le(0, overflow));
  EXPECT_EQ(overflow.to_string(), "overflow");
  EXPECT_EQ(overflow.lower_bound(), kMin);
  EXPECT_EQ(overflow.upper_bound(), kMax);
  EXPECT_FALSE(overflow.evaluate({}).has_value());
  EXPECT_FALSE(structural_less(overflow, overflow));
}

TEST_F(DimTest, ExtremeConstantsDoNotTrip) {
  EXPECT_EQ(floor_div(Dim(kMin), 3).constant(), -3074457345618258603);
  EXPECT_EQ(mod(Dim(kMin), kMax).constant(), kMax - 1);
  EXPECT_EQ((s * kMin).to_string(), "-9223372036854775808*s");
  const Dim extreme = s * kMin + t;
  EXPECT_FALSE(floor_div(extreme, 3).is_overflow());
  EXPECT_FALSE(floor_div(extreme, a).is_overflow());
  EXPECT_FALSE(floor_div(a, extreme).is_overflow());
  EXPECT_FALSE(min(extreme, a).is_overflow());
}

TEST_F(DimTest, RunawayExpressionsOverflowInsteadOfGrowing) {
  Dim power = a + b + s + t;
  for (int i = 0; i < 40; ++i) power *= power;
  EXPECT_TRUE(power.is_overflow());

  Dim doubling = s;
  for (int i = 0; i < 64; ++i) doubling = floor_div(doubling * doubling + a, doubling + b);
  EXPECT_TRUE(doubling.is_overflow());

  Dim nested = s;
  for (int i = 0; i < 10000; ++i) nested = max(a, floor_div(b - nested, 3));
  EXPECT_TRUE(nested.is_overflow());
}

TEST_F(DimTest, Evaluates) {
  const Dim dim = floor_div(s * b + 3, 4) - mod(t, 7) + max(e, s);
  // (10*3 + 3) / 4 = 8; -3 mod 7 = 4; max(16, 10) = 16.
  EXPECT_EQ(dim.evaluate({{"s", 10}, {"b", 3}, {"t", -3}, {"e", 16}}).value(), 8 - 4 + 16);
  EXPECT_EQ(Dim(4).evaluate({}).value(), 4);
}

TEST_F(DimTest, EvaluationReportsWhatIsWrong) {
  EXPECT_THAT(s.evaluate({}).error().message, ::testing::HasSubstr("s is not known"));
  EXPECT_THAT(s.evaluate({{"s", 5000}}).error().message,
              ::testing::HasSubstr("s = 5000 is outside its range [1, 4096]"));
  EXPECT_THAT(e.evaluate({{"e", 12}}).error().message,
              ::testing::HasSubstr("e = 12 is not divisible by 8"));
  EXPECT_THAT(floor_div(s, t).evaluate({{"s", 5}, {"t", 0}}).error().message,
              ::testing::HasSubstr("divided by zero"));
  EXPECT_THAT((a * a).evaluate({{"a", int64_t{1} << 40}}).error().message,
              ::testing::HasSubstr("too large"));
}

TEST_F(DimTest, Substitutes) {
  const Dim dim = floor_div(s * b, 4) + min(a, s);
  EXPECT_EQ(dim.substitute(Bindings{{"s", 8}}), 2 * b + min(a, 8));
  EXPECT_EQ(dim.substitute(std::map<std::string, Dim, std::less<>>{{"b", 4 * a}, {"a", s}}),
            s * a + s)
      << "all at once: the new a is not replaced again";
  EXPECT_EQ(mod(e, 16).substitute(Bindings{{"e", 24}}), 8);
  EXPECT_EQ(s.substitute(Bindings{}), s);
}

TEST_F(DimTest, CollectsSymbols) {
  std::vector<std::shared_ptr<const SymbolInfo>> symbols;
  (floor_div(s, b) + max(e, s * a)).collect_symbols(symbols);
  std::vector<std::string> names;
  for (const auto& symbol : symbols) names.push_back(symbol->name);
  EXPECT_THAT(names, ::testing::ElementsAre("a", "b", "e", "s"));
  EXPECT_EQ(symbols[2]->range, (SymbolRange{8, 512, 8}));
}

TEST_F(DimTest, RecognisesPlainSymbols) {
  EXPECT_EQ(s.as_symbol()->name, "s");
  EXPECT_EQ(e.as_symbol()->name, "e");
  EXPECT_EQ((2 * s).as_symbol(), nullptr);
  EXPECT_EQ(floor_div(e, 8).as_symbol(), nullptr);
  EXPECT_EQ(floor_div(s, 8).as_symbol(), nullptr);
  EXPECT_EQ(Dim(1).as_symbol(), nullptr);
}

TEST_F(DimTest, HashesAndSorts) {
  std::unordered_set<Dim> hashed = {2 * s + s, 3 * s, s + 1, 1 + s, mod(s, 8), Dim(4)};
  EXPECT_EQ(hashed.size(), 4u);
  std::set<Dim, bool (*)(const Dim&, const Dim&)> sorted(structural_less);
  for (const Dim& dim : {b, a, Dim(2), Dim(1), a + b, b + a, a * b, floor_div(a, 2)}) {
    sorted.insert(dim);
  }
  EXPECT_EQ(sorted.size(), 7u);
}

TEST_F(DimTest, Prints) {
  EXPECT_EQ((2 * s + 1).to_string(), "2*s + 1");
  EXPECT_EQ((s - 1).to_string(), "s - 1");
  EXPECT_EQ((-s).to_string(), "-s");
  EXPECT_EQ((s * s * b * 3 - a).to_string(), "3*b*s^2 - a");
  EXPECT_EQ(floor_div(s, 4).to_string(), "floor_div(s, 4)");
  EXPECT_EQ(mod(s, 8).to_string(), "mod(s, 8)");
  EXPECT_EQ((3 * mod(s, 8) + s + 1).to_string(), "s + 3*mod(s, 8) + 1");
  EXPECT_EQ(mod(a, s).to_string(), "mod(a, s)");
  EXPECT_EQ((b * mod(a, s + 1)).to_string(), "b*mod(a, s + 1)");
  EXPECT_EQ(mod(e, 16).to_string(), "mod(e, 16)");
  EXPECT_EQ(floor_div(e, 4).to_string(), "floor_div(e, 4)");
  EXPECT_EQ(floor_div(e, 16).to_string(), "floor_div(e, 16)");
  EXPECT_EQ((e * e).to_string(), "e^2");
  EXPECT_EQ(min(b, a).to_string(), "min(a, b)");
  EXPECT_EQ(max(a, 5).to_string(), "max(a, 5)");
  EXPECT_EQ(Dim(-3).to_string(), "-3");
  EXPECT_EQ(fmt::format("<{}>", s * b), "<b*s>");
  EXPECT_EQ((Dim::symbol("past length") + Dim::symbol("mod")).to_string(),
            "\"mod\" + \"past length\"");
}

class DimParseTest : public DimTest {
 protected:
  void SetUp() override {
    for (const Dim& dim : {a, b, s, t, e, Dim::symbol("a \"b\"\\\n")}) {
      ASSERT_TRUE(symbols.add(*dim.as_symbol()).has_value());
    }
  }
  SymbolTable symbols;
};

TEST_F(DimParseTest, ReadsExpressions) {
  EXPECT_EQ(Dim::parse("2*s + 1", symbols).value(), 2 * s + 1);
  EXPECT_EQ(Dim::parse("  ( s+a ) * -2 - -3 ", symbols).value(), -2 * s - 2 * a + 3);
  EXPECT_EQ(Dim::parse("-s^2", symbols).value(), -(s * s));
  EXPECT_EQ(Dim::parse("-2^2", symbols).value(), -4);
  EXPECT_EQ(Dim::parse("(-2)^2", symbols).value(), 4);
  EXPECT_EQ(Dim::parse("-9223372036854775808", symbols).value(), kMin);
  EXPECT_EQ(Dim::parse("floor_div(s, 4)", symbols).value(), floor_div(s, 4));
  EXPECT_EQ(Dim::parse("ceil_div(s, 4)", symbols).value(), ceil_div(s, 4));
  EXPECT_EQ(Dim::parse("mod(s, 8)*b", symbols).value(), mod(s, 8) * b);
  EXPECT_EQ(Dim::parse("max(min(a, b, s), 7)", symbols).value(), max(min(a, min(b, s)), 7));
  const Dim odd = Dim::symbol("a \"b\"\\\n");
  EXPECT_EQ(Dim::parse(odd.to_string(), symbols).value(), odd);
}

TEST_F(DimParseTest, RejectsWhatIsNoExpression) {
  for (const std::string text : {"",
                                 " ",
                                 "s +",
                                 "* s",
                                 "q",
                                 "s s",
                                 "2s",
                                 "(s",
                                 "s)",
                                 "floor_div(s)",
                                 "mod(s, 2, 3)",
                                 "min(s)",
                                 "min()",
                                 "foo(s, 2)",
                                 "s ^",
                                 "s ^ 0",
                                 "s ^ 100",
                                 "s ^ -1",
                                 "overflow",
                                 "\"s",
                                 "99999999999999999999",
                                 "9223372036854775807 + 1",
                                 "floor_div(s, 0)",
                                 "s, 2",
                                 "s /2"}) {
    const auto result = Dim::parse(text, symbols);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_THAT(result.error().message, ::testing::HasSubstr("is no size")) << text;
  }
  EXPECT_FALSE(Dim::parse(std::string(100000, '('), symbols).has_value());
  EXPECT_FALSE(Dim::parse(std::string(100000, '-'), symbols).has_value());
  std::string nested = "s";
  for (int i = 0; i < 1000; ++i) nested = "min(a, " + nested + "*3)";
  EXPECT_FALSE(Dim::parse(nested, symbols).has_value());
  EXPECT_FALSE(Dim::parse(std::string_view("s\0+ 1", 5), symbols).has_value());
}

TEST_F(DimTest, CompiledReadsValuesByPosition) {
  const std::vector<std::string> names = {"t", "s", "e"};
  const auto compiled = CompiledDim::compile(floor_div(t, 4) + s * s + floor_div(e, 16), names);
  ASSERT_TRUE(compiled.has_value());
  EXPECT_FALSE(compiled->is_constant());
  EXPECT_EQ(compiled->evaluate(std::vector<int64_t>{-7, 9, 40}).value(), -2 + 81 + 2);
  EXPECT_EQ(compiled->evaluate(std::vector<int64_t>{8, 1, 8}).value(), 2 + 1 + 0);

  const auto constant = CompiledDim::compile(12, {});
  EXPECT_TRUE(constant->is_constant());
  EXPECT_EQ(constant->evaluate({}).value(), 12);
  EXPECT_FALSE(CompiledDim::compile(b, names).has_value());
  EXPECT_FALSE(CompiledDim::compile(Dim::overflow(), names).has_value());
}

TEST_F(DimTest, CompiledNeedsNoDepthLimit) {
  // A chain whose evaluation wants more stack than the inline one.
  Dim dim = s;
  for (int i = 0; i < 25; ++i) dim = max(a, floor_div(b - dim, 3));
  ASSERT_FALSE(dim.is_overflow());
  int64_t expected = 5;
  for (int i = 0; i < 25; ++i) {
    const int64_t difference = 7 - expected;
    expected = std::max<int64_t>(2, difference >= 0 ? difference / 3 : -((-difference + 2) / 3));
  }
  EXPECT_EQ(dim.evaluate({{"s", 5}, {"a", 2}, {"b", 7}}).value(), expected);
}

}  // namespace
}  // namespace opweld
