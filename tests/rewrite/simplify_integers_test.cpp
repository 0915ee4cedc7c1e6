// Positions and comparisons of them that are known at all sizes.
#include <algorithm>

#include "rewrite/dce.h"
#include "rewrite/raising.h"
#include "rewrite/ramp.h"
#include "rewrite/simplify.h"

namespace opweld {
namespace {

const Bindings kSizes = {{"b", 2}, {"s", 5}, {"t", 7}};

// The operators that are left of what the output needs.
std::string left(const std::string& inputs, const std::string& nodes,
                 const Bindings& sizes = kSizes) {
  const auto pass = [](Graph& graph) -> Status {
    OPWELD_CHECK(simplify(graph));
    return eliminate_dead_code(graph);
  };
  return raised("graph g(" + inputs + ") {\n" + nodes + "\n return %y as \"y\"\n}",
                RaisingCase{+pass, sizes});
}

std::string number(const std::string& name, const std::string& value) {
  return "%" + name + " = constant {value = i64[] {" + value + "}}\n";
}

const std::string kRows = "%rows = iota() {shape = <s, 1>, axis = 0, dtype = i64}\n";
const std::string kColumns = "%columns = iota() {shape = <1, s>, axis = 1, dtype = i64}\n";

TEST(SimplifyIntegers, ComparisonsThatAreTheSameEverywhere) {
  const auto compared = [](const std::string& op, const std::string& ahead) {
    return left("%x: f32[s]", "%i = iota() {shape = <s>, axis = 0, dtype = i64}\n" +
                                  number("n", ahead) + "%j = add(%i, %n)\n%y = " + op +
                                  "(%i, %j)\n");
  };
  for (const char* op : {"eq", "lt", "le", "gt", "ge"}) {
    for (const char* ahead : {"-1", "0", "1"}) EXPECT_EQ(compared(op, ahead), "expand") << op;
  }
  // Positions are never below 0, and all before the size of what they count.
  EXPECT_EQ(left("%x: f32[s]", kRows + number("n", "0") + "%y = ge(%rows, %n)\n"), "expand");
  EXPECT_EQ(left("%x: f32[s]", kRows + number("n", "0") + "%y = lt(%rows, %n)\n"), "expand");
  EXPECT_EQ(left("%x: f32[s]", kRows + "%n = sizes {values = <s>}\n%y = lt(%rows, %n)\n"),
            "expand");
  EXPECT_EQ(left("%x: f32[s]", kRows + number("n", "0") + "%y = gt(%rows, %n)\n"), "iota gt");
  EXPECT_EQ(left("%x: f32[s]", kRows + number("n", "3") + "%y = lt(%rows, %n)\n"), "iota lt");
  // Of one that grows and one that does not, and of data.
  EXPECT_EQ(left("%x: f32[s]", kRows + kColumns + "%y = le(%rows, %columns)\n"), "iota iota le");
  EXPECT_EQ(left("%x: i64[s]", number("n", "1") + "%j = add(%x, %n)\n%y = lt(%x, %j)\n"), "add lt");
}

// What wraps around or truncates is no ramp.
TEST(SimplifyIntegers, NarrowIntegersAreNotKnown) {
  for (const char* type : {"i8", "u8", "i16"}) {
    EXPECT_EQ(
        left("%x: f32[s]", std::string("%i = iota() {shape = <s>, axis = 0, dtype = ") + type +
                               "}\n%n = constant {value = " + type +
                               "[] {100}}\n%m = add(%n, %n)\n%j = add(%i, %m)\n%y = lt(%i, %j)\n"),
        "iota add add lt")
        << type;
  }
}

TEST(SimplifyIntegers, LogicOfWhatIsKnown) {
  const std::string t = "%t = constant {value = bool[] {true}}\n";
  const std::string f = "%f = constant {value = bool[] {false}}\n";
  const std::string inputs = "%x: bool[b, s]";
  EXPECT_EQ(left(inputs, t + "%y = and(%x, %t)\n"), "");
  EXPECT_EQ(left(inputs, f + "%y = and(%f, %x)\n"), "expand");
  EXPECT_EQ(left(inputs, t + "%y = or(%x, %t)\n"), "expand");
  EXPECT_EQ(left(inputs, f + "%y = or(%f, %x)\n"), "");
  // The other one broadcasts.
  EXPECT_EQ(left("%x: bool[1, s]",
                 "%t = constant {value = bool[3, 1] {true, true, true}}\n"
                 "%y = and(%x, %t)\n"),
            "expand");
}

// Tuples (i, j, ..) of which each counts along an axis of the result.
std::string grid(const std::vector<std::string>& shapes, const std::vector<int>& axes,
                 const std::string& spread) {
  std::string text;
  std::string names;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    text += fmt::format(
        "%i{0} = iota() {{shape = <{1}>, axis = {2}, dtype = i64}}\n"
        "%e{0} = expand(%i{0}) {{shape = <{3}>}}\n%t{0} = reshape(%e{0}) {{shape = <{3}, 1>}}\n",
        i, shapes[i], axes[i], spread);
    names += (i == 0 ? "%t" : ", %t") + std::to_string(i);
  }
  const auto rank = std::count(spread.begin(), spread.end(), ',') + 1;
  return text + fmt::format("%places = concat({}) {{axis = {}}}\n", names, rank) +
         "%y = gather_nd(%x, %places) {batch_dims = 0}\n";
}

TEST(SimplifyIntegers, LookingUpAGridIsAView) {
  // As masks look up positions by batch and query, and by batch and key.
  EXPECT_EQ(left("%x: i64[b, s]", grid({"b, 1, 1, 1", "1, 1, s, 1"}, {0, 2}, "b, 1, s, 1")),
            "reshape");
  EXPECT_EQ(left("%x: bool[b, s]", grid({"b, 1, 1, 1", "1, 1, 1, s"}, {0, 3}, "b, 1, 1, s")),
            "reshape");
  // Transposed, repeated, of other types.
  EXPECT_EQ(left("%x: f32[s, b]", grid({"1, s", "b, 1"}, {1, 0}, "b, s")), "transpose");
  EXPECT_EQ(left("%x: f32[s], %o: f32[b]", grid({"1, s"}, {1}, "b, s")), "iota expand gather");
  EXPECT_EQ(left("%x: f32[b, s]", grid({"b, 1, 1", "1, s, 1"}, {0, 1}, "b, s, 3")),
            "reshape expand");
  EXPECT_EQ(left("%x: f32[1, s]", grid({"1, 1", "s, 1"}, {0, 0}, "s, 1")), "reshape");
  // A diagonal, a part, and what might be out of range.
  const std::string kept = "iota expand reshape iota expand reshape concat gather_nd";
  EXPECT_EQ(left("%x: f32[s, s]", grid({"s, 1", "s, 1"}, {0, 0}, "s, 1")),
            "iota reshape iota reshape concat gather_nd");
  EXPECT_EQ(left("%x: f32[b, t], %o: f32[s]", grid({"b, 1", "1, s"}, {0, 1}, "b, s")), kept);
}

TEST(SimplifyIntegers, TuplesOfOneArePositions) {
  EXPECT_EQ(left("%x: f32[s, 4], %i: i64[b, 2, 1]", "%y = gather_nd(%x, %i) {batch_dims = 0}\n"),
            "reshape gather");
  EXPECT_EQ(left("%x: f32[s, 4], %i: i64[b, 2]", "%y = gather_nd(%x, %i) {batch_dims = 0}\n"),
            "gather_nd");
  EXPECT_EQ(left("%x: f32[b, 4], %i: i64[b, 2, 1]", "%y = gather_nd(%x, %i) {batch_dims = 1}\n"),
            "gather_nd");
}

// Positions that a model counts itself, as one that looks for sequences packed into one another:
// the step from each to the next is 1, so that there are none.
std::string packed(const std::string& first) {
  return number("one", "1") + number("first", first) + number("null", "0") +
         "%positions = range(%null, %one) {length = <s>}\n%wide = reshape(%positions) {shape = <1, "
         "s>}\n"
         "%each = expand(%wide) {shape = <b, s>}\n"
         "%head = slice(%each) {starts = <0, 0>, sizes = <b, min(s, 1)>, steps = [1, 1]}\n"
         "%before = sub(%head, %first)\n%all = concat(%before, %each) {axis = 1}\n"
         "%low = slice(%all) {starts = <0, 0>, sizes = <b, s>, steps = [1, 1]}\n"
         "%high = slice(%all) {starts = <0, min(2*s, 1)>, sizes = <b, max(min(s, 2*s - 1), 0)>, "
         "steps = [1, 1]}\n%ahead = sub(%high, %low)\n%is = eq(%ahead, %one)\n%breaks = not(%is)\n"
         "%counted = cast(%breaks) {to = i64}\n%number = cumsum(%counted) {axis = 1, exclusive = "
         "0, reverse = 0}\n%y = eq(%number, %null)\n";
}

TEST(SimplifyIntegers, PackedSequencesThatAreOne) {
  for (const std::int64_t s : {1, 2, 5}) {
    const Bindings sizes = {{"b", 2}, {"s", s}};
    EXPECT_EQ(left("%x: f32[b, s]", packed("1"), sizes), "expand");
    EXPECT_TRUE(left("%x: f32[b, s]", packed("2"), sizes).ends_with("cumsum eq"));
  }
}

TEST(SimplifyIntegers, TruthsBehindLookups) {
  const std::string breaks =
      number("one", "1") + number("null", "0") +
      "%p = range(%null, %one) {length = <s>}\n%w = reshape(%p) {shape = <1, s>}\n"
      "%each = expand(%w) {shape = <b, s>}\n%same = eq(%each, %each)\n%no = not(%same)\n"
      "%n = cast(%no) {to = i64}\n%c = cumsum(%n) {axis = 1, exclusive = 0, reverse = 0}\n";
  const auto looked_up = [](const std::string& axis, const std::string& name) {
    const std::string shape = axis == "2" ? "b, 1, s, 1" : "b, 1, 1, s";
    const std::string own = axis == "2" ? "1, 1, s, 1" : "1, 1, 1, s";
    return fmt::format(
        "%b{0} = iota() {{shape = <{1}>, axis = 0, dtype = i64}}\n"
        "%o{0} = iota() {{shape = <{2}>, axis = {3}, dtype = i64}}\n"
        "%oe{0} = expand(%o{0}) {{shape = <{1}>}}\n%bt{0} = reshape(%b{0}) {{shape = <{1}, 1>}}\n"
        "%ot{0} = reshape(%oe{0}) {{shape = <{1}, 1>}}\n"
        "%pl{0} = concat(%bt{0}, %ot{0}) {{axis = 4}}\n"
        "%{0} = gather_nd(%c, %pl{0}) {{batch_dims = 0}}\n",
        name, shape, own, axis);
  };
  EXPECT_EQ(left("%x: f32[b, s]",
                 breaks + looked_up("2", "q") + looked_up("3", "k") + "%y = eq(%q, %k)\n"),
            "expand");
}

// ---- what is known inside of a shape ----

TEST(EqualInside, WhereASizeMayBeZero) {
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  EXPECT_TRUE(equal_inside(max(min(s, 2 * s - 1), 0), s, {s}));
  EXPECT_TRUE(equal_inside(min(2 * s, 1), 1, {s}));
  EXPECT_TRUE(equal_inside(min(s, 1) * min(t, 1), 1, {s, t}));
  // Not where the shape has elements for s of 0.
  EXPECT_FALSE(equal_inside(min(2 * s, 1), 1, {t}));
  EXPECT_FALSE(equal_inside(min(s, 2), 2, {s}));
  EXPECT_FALSE(equal_inside(s, t, {s, t}));
  EXPECT_TRUE(equal_inside(s, t, {Dim(0), s}));
}

// What PyTorch traces of `places // 2`.
std::string floored(const std::string& places, const std::string& by = "2",
                    const std::string& back = "2") {
  return left("%x: f32[t, 9], %n: i64[t, 3]",
              places + number("c", by) + number("d", back) + number("zero", "0") +
                  "%q = div(%i, %c)\n%whole = mul(%q, %d)\n%rest = sub(%i, %whole)\n"
                  "%below = lt(%rest, %zero)\n%one = cast(%below) {to = i64}\n"
                  "%y = sub(%q, %one)\n");
}

const std::string kPlaces = "%v, %i = top_k(%x) {axis = 1, k = <3>}\n";
const std::string kAll = " div mul sub lt cast sub";

TEST(SimplifyIntegers, PlacesAreDividedAsTheyAre) {
  EXPECT_EQ(floored(kPlaces), "top_k div");
  EXPECT_EQ(floored("%v, %p = top_k(%x) {axis = 1, k = <3>}\n"
                    "%m = transpose(%p) {permutation = [1, 0]}\n"
                    "%s = slice(%m) {starts = <1, 0>, sizes = <2, t>, steps = [1, 1]}\n"
                    "%j = reshape(%s) {shape = <2*t>}\n%k = cast(%j) {to = i32}\n"
                    "%i = cast(%k) {to = i64}\n"),
            "top_k transpose slice reshape cast cast div");
  EXPECT_EQ(floored("%i = argmax(%x) {axis = 1, keepdims = 1}\n"), "argmax div");
  EXPECT_EQ(floored("%small, %i = top_k(%n) {axis = 1, k = <3>, largest = 0}\n"), "top_k div");
}

TEST(SimplifyIntegers, WhatMayBeNegativeIsNotDividedAsItIs) {
  // Any number, the least of any numbers, and what is computed of places.
  EXPECT_EQ(floored("%i = neg(%n)\n"), "neg" + kAll);
  EXPECT_EQ(floored("%i, %p = top_k(%n) {axis = 1, k = <3>}\n"), "top_k" + kAll);
  EXPECT_EQ(floored(kPlaces, "-2", "-2"), "top_k" + kAll);
  // What does not fit wraps around.
  EXPECT_EQ(floored("%v, %p = top_k(%x) {axis = 1, k = <3>}\n%s = cast(%p) {to = i8}\n"
                    "%i = cast(%s) {to = i64}\n"),
            "top_k cast cast" + kAll);
  // Not the rest of that quotient.
  EXPECT_EQ(floored(kPlaces, "2", "3"), "top_k" + kAll);
}

}  // namespace
}  // namespace opweld
