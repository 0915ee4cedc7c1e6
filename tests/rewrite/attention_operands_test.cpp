// What attentions say by attributes instead of operands: scales, shared heads, how far queries
// look.
#include "rewrite/raise/attention_operands.h"

#include <fmt/format.h>

#include "rewrite/raising.h"

namespace opweld {
namespace {

const Bindings kSizes = {{"b", 2}, {"s", 5}, {"t", 7}, {"d", 4}};
const RaisingCase kCase = {simplify_attention_operands, kSizes, {0.0, 30.0, -30.0}};

// The attention as text: its operands and attributes.
std::string attention_of(const std::string& text, const RaisingCase& of = kCase) {
  const std::string left = raised_text(text, of);
  const auto begin = left.find("attention(");
  return begin == std::string::npos ? left : left.substr(begin, left.find('\n', begin) - begin);
}

std::string graph_of(const std::string& inputs, const std::string& nodes) {
  return "graph g(" + inputs + ") {\n" + nodes + "\n return %y as \"y\"\n}";
}

const std::string kInputs = "%q: f32[b, 4, s, d], %k: f32[b, 4, t, d], %v: f32[b, 4, t, d]";
// As many queries as keys.
const std::string kSquare = "%q: f32[b, 4, s, d], %k: f32[b, 4, s, d], %v: f32[b, 4, s, d]";

// ---- the scale ----

TEST(AttentionOperands, ScaleOfQueriesAndKeysBehindViews) {
  const std::string scaled =
      "%c = constant {value = f32[] {0.25}}\n %r = mul(%x, %c)\n"
      "%h = reshape(%r) {shape = <b, s, 4, 8>}\n %q = transpose(%h) {permutation = [0, 2, 1, 3]}\n";
  EXPECT_EQ(attention_of(
                graph_of("%x: f32[b, s, 32], %k: f32[b, 4, t, 8], %v: f32[b, 4, t, 8]",
                         scaled + "%y = attention(%q, %k, %v) {causal = \"none\", scale = 2.0}")),
            "attention(%q, %k, %v) {causal = \"none\", scale = 0.5}");
  EXPECT_EQ(attention_of(graph_of(kInputs,
                                  "%c = constant {value = f32[] {4.0}}\n %qs = div(%q, %c)\n"
                                  "%ks = mul(%c, %k)\n %y = attention(%qs, %ks, %v)")),
            "attention(%q, %k, %v) {scale = 1.0}");
}

TEST(AttentionOperands, ScaleThatIsReadElsewhereStays) {
  const std::string text = "graph g(" + kInputs +
                           ") {\n %c = constant {value = f32[] {0.25}}\n %qs = mul(%q, %c)\n"
                           "%y = attention(%qs, %k, %v)\n return %y as \"y\", %qs as \"z\"\n}";
  EXPECT_EQ(attention_of(text), "attention(%qs, %k, %v)");
  // One of several numbers is no scale, and values are no part of the scores.
  EXPECT_EQ(attention_of(graph_of(kInputs + ", %f: f32[d]",
                                  "%qs = mul(%q, %f)\n %y = attention(%qs, %k, %v)")),
            "attention(%qs, %k, %v)");
  EXPECT_EQ(attention_of(graph_of(kInputs,
                                  "%c = constant {value = f32[] {0.25}}\n %vs = mul(%v, %c)\n"
                                  "%y = attention(%q, %k, %vs)")),
            "attention(%q, %k, %vs)");
}

// ---- the heads ----

TEST(AttentionOperands, RepeatedHeadsAreShared) {
  const std::string inputs = "%q: f32[b, 6, s, d], %k: f32[b, 2, t, d], %v: f32[b, 2, t, d]";
  const auto repeated = [](const std::string& of) {
    return "%" + of + "5 = reshape(%" + of + ") {shape = <b, 2, 1, t, d>}\n %" + of +
           "e = expand(%" + of + "5) {shape = <b, 2, 3, t, d>}\n %" + of + "r = reshape(%" + of +
           "e) {shape = <b, 6, t, d>}\n";
  };
  EXPECT_EQ(attention_of(graph_of(inputs, repeated("k") + repeated("v") +
                                              "%y = attention(%q, %kr, %vr) {scale = 0.5}")),
            "attention(%q, %k, %v) {scale = 0.5}");
  const std::string own = "%q: f32[b, 6, s, d], %k: f32[b, 2, t, d], %v: f32[b, 6, t, d]";
  EXPECT_EQ(attention_of(graph_of(own, repeated("k") + "%y = attention(%q, %kr, %v)")),
            "attention(%q, %kr, %v)");
}

// ---- the mask ----

std::string positions(const std::string& keys) {
  return "%rows = iota() {shape = <s, 1>, axis = 0, dtype = i64}\n"
         "%columns = iota() {shape = <1, " +
         keys + ">, axis = 1, dtype = i64}\n";
}

std::string number(const std::string& name, int value) {
  return fmt::format("%{} = constant {{value = i64[] {{{}}}}}\n", name, value);
}

const std::string kZero = "%zero = constant {value = f32[] {0.0}}\n";
const std::string kInfinite = kZero + "%low = constant {value = f32[] {-inf}}\n";
const std::string kLowest = kZero + "%low = constant {value = f32[] {-3.4028235e38}}\n";
const std::string kAttend = "%y = attention(%q, %k, %v, %m) {causal = \"none\", scale = 1.0}";
const std::string kTopLeft = "attention(%q, %k, %v) {causal = \"top_left\", scale = 1.0}";

// The attention behind a bool %seen, as a bool mask and added as 0 and -inf: the same of both.
std::string attention_by(const std::string& seen, const std::string& inputs = kSquare) {
  const std::string as_bool = attention_of(
      graph_of(inputs, seen + "%m = reshape(%seen) {shape = <1, 1, s, s>}\n" + kAttend));
  const std::string added = attention_of(
      graph_of(inputs, kInfinite + seen + "%m = select(%seen, %zero, %low)\n" + kAttend));
  EXPECT_EQ(as_bool, added);
  return as_bool;
}

TEST(AttentionOperands, CausalMasks) {
  EXPECT_EQ(attention_by(positions("s") + "%seen = le(%columns, %rows)\n"), kTopLeft);
  EXPECT_EQ(attention_by(positions("s") + "%late = gt(%columns, %rows)\n%seen = not(%late)\n"),
            kTopLeft);
  // More keys than queries, or fewer.
  EXPECT_EQ(
      attention_of(graph_of(kInputs, positions("t") + "%m = ge(%rows, %columns)\n" + kAttend)),
      kTopLeft);
  // The last query sees the last key.
  const std::string behind = positions("t") +
                             "%n = sizes {values = <t - s>}\n %p = add(%rows, %n)\n"
                             "%m = le(%columns, %p)\n" +
                             kAttend;
  EXPECT_EQ(attention_of(graph_of(kInputs, behind)),
            "attention(%q, %k, %v) {causal = \"bottom_right\", scale = 1.0}");
  // Selected the other way round, and of a constant.
  EXPECT_EQ(attention_of(graph_of(kSquare, kInfinite + positions("s") +
                                               "%late = gt(%columns, %rows)\n"
                                               "%m = select(%late, %low, %zero)\n" +
                                               kAttend)),
            kTopLeft);
  EXPECT_EQ(
      attention_of(graph_of("%q: f32[b, 4, 2, d], %k: f32[b, 4, 2, d], %v: f32[b, 4, 2, d]",
                            "%m = constant {value = f32[2, 2] {0.0, -inf, 0.0, 0.0}}\n" + kAttend)),
      kTopLeft);
}

// Keys from `first` positions behind the query on.
std::string window(const std::string& first, const std::string& join) {
  return attention_by(positions("s") + number("w", 3) + "%f = sub(%rows, %w)\n%a = " + first +
                      "\n" + "%c = le(%columns, %rows)\n" + join);
}

std::string windowed(int width) {
  return fmt::format(
      "attention(%q, %k, %v) {{causal = \"top_left\", scale = 1.0, window_left = {}}}", width);
}

TEST(AttentionOperands, Windows) {
  EXPECT_EQ(window("gt(%columns, %f)", "%seen = and(%a, %c)\n"), windowed(2));
  EXPECT_EQ(window("ge(%columns, %f)", "%seen = and(%c, %a)\n"), windowed(3));
  EXPECT_EQ(window("le(%columns, %f)", "%o = not(%a)\n%seen = and(%c, %o)\n"), windowed(2));
  // Of the same width twice, and beside what hides nothing.
  EXPECT_EQ(window("gt(%columns, %f)", "%b = and(%a, %c)\n%seen = and(%b, %a)\n"), windowed(2));
  EXPECT_EQ(
      window("gt(%columns, %f)",
             "%t = constant {value = bool[] {true}}\n%b = and(%a, %t)\n%seen = and(%b, %c)\n"),
      windowed(2));
  // On both sides, without a causal mask.
  EXPECT_EQ(attention_by(positions("s") + number("w", 2) +
                         "%f = sub(%rows, %w)\n%l = add(%rows, %w)\n%a = ge(%columns, %f)\n"
                         "%c = lt(%columns, %l)\n%seen = and(%a, %c)\n"),
            "attention(%q, %k, %v) {causal = \"none\", scale = 1.0, window_left = 2, "
            "window_right = 1}");
  // Of a cache: the last query at the last key.
  EXPECT_EQ(
      attention_of(graph_of(kInputs, positions("t") + number("w", 3) +
                                         "%n = sizes {values = <t - s>}\n %p = add(%rows, %n)\n"
                                         "%f = sub(%p, %w)\n%c = le(%columns, %p)\n"
                                         "%a = gt(%columns, %f)\n%m = and(%a, %c)\n" +
                                         kAttend)),
      "attention(%q, %k, %v) {causal = \"bottom_right\", scale = 1.0, window_left = 2}");
}

TEST(AttentionOperands, WhatElseHidesStaysAMask) {
  const std::string causal = positions("s") + "%c = le(%columns, %rows)\n";
  EXPECT_EQ(attention_of(graph_of(kSquare + ", %p: bool[b, 1, 1, s]",
                                  causal +
                                      "%n = and(%c, %p)\n"
                                      "%m = expand(%n) {shape = <b, 4, s, s>}\n" +
                                      kAttend)),
            "attention(%q, %k, %v, %p) {causal = \"top_left\", scale = 1.0}");
  EXPECT_EQ(attention_of(
                graph_of(kSquare + ", %p: bool[b, 1, 1, s]", kInfinite + causal +
                                                                 "%n = and(%p, %c)\n"
                                                                 "%m = select(%n, %zero, %low)\n" +
                                                                 kAttend)),
            "attention(%q, %k, %v, %p) {causal = \"top_left\", scale = 1.0}");
  // All of it, as a bool.
  EXPECT_EQ(attention_of(graph_of(kSquare + ", %p: bool[b, 1, 1, s]",
                                  kInfinite +
                                      "%n = select(%p, %zero, %low)\n"
                                      "%m = expand(%n) {shape = <b, 1, s, s>}\n" +
                                      kAttend)),
            "attention(%q, %k, %v, %p) {causal = \"none\", scale = 1.0}");
  // A mask that is added where keys are seen.
  EXPECT_EQ(attention_of(graph_of(kSquare + ", %p: f32[s, s]",
                                  kInfinite + causal + "%m = select(%c, %p, %low)\n" + kAttend)),
            "attention(%q, %k, %v, %p) {causal = \"top_left\", scale = 1.0}");
}

bool stays(const std::string& inputs, const std::string& nodes,
           const std::string& attend = kAttend) {
  return attention_of(graph_of(inputs, nodes + attend)).starts_with("attention(%q, %k, %v, %m");
}

TEST(AttentionOperands, MasksThatStay) {
  const std::string causal = positions("s") + "%c = le(%columns, %rows)\n";
  // Hidden by a number, beside others: a row of which all is hidden has weights.
  EXPECT_TRUE(stays(kSquare + ", %p: bool[b, 1, 1, s]",
                    kLowest + causal + "%n = and(%c, %p)\n%m = select(%n, %zero, %low)\n"));
  EXPECT_FALSE(stays(kSquare, kLowest + causal + "%m = select(%c, %zero, %low)\n"));
  // By a number, where queries stand behind the last key and see none.
  const std::string wide = positions("t") + number("w", 3) +
                           "%f = sub(%rows, %w)\n%a = gt(%columns, %f)\n%c = le(%columns, %rows)\n"
                           "%n = and(%a, %c)\n";
  EXPECT_TRUE(stays(kInputs, kLowest + wide + "%m = select(%n, %zero, %low)\n"));
  EXPECT_FALSE(stays(kInputs, kInfinite + wide + "%m = select(%n, %zero, %low)\n"));
  // By too little.
  EXPECT_TRUE(stays(kSquare, kZero + causal +
                                 "%some = constant {value = f32[] {-10000.0}}\n"
                                 "%m = select(%c, %zero, %some)\n"));
  // Of either of two, of a width in the data, of no constant width, or ahead of the query.
  EXPECT_TRUE(stays(kSquare, causal + "%d = gt(%columns, %rows)\n%m = or(%c, %d)\n"));
  EXPECT_TRUE(stays(kSquare + ", %w: i64[]", positions("s") + "%f = sub(%rows, %w)\n"
                                                              "%m = gt(%columns, %f)\n"));
  EXPECT_TRUE(stays(kInputs, positions("t") + "%n = sizes {values = <2*s>}\n %p = add(%rows, %n)\n"
                                              "%m = le(%columns, %p)\n"));
  EXPECT_TRUE(stays(
      kSquare, positions("s") + number("w", 1) + "%f = add(%rows, %w)\n%m = gt(%columns, %f)\n"));
  // Beside lengths, positions are those of valid keys.
  EXPECT_TRUE(stays(kSquare + ", %n: i64[b]", causal + "%m = reshape(%c) {shape = <1, 1, s, s>}\n",
                    "%y = attention(%q, %k, %v, %m, %n) {causal = \"none\", scale = 1.0}"));
}

TEST(AttentionOperands, ABandBesideAttributes) {
  const std::string causal = positions("t") + "%m = le(%columns, %rows)\n";
  const auto attend = [](const std::string& attributes) {
    return "%y = attention(%q, %k, %v, %m) {" + attributes + "}";
  };
  EXPECT_EQ(attention_of(graph_of(kInputs, causal + attend("causal = \"top_left\""))),
            "attention(%q, %k, %v) {causal = \"top_left\", scale = 1.0}");
  EXPECT_TRUE(stays(kInputs, causal, attend("causal = \"bottom_right\"")));
  // Windows count from where the last query stands; a mask that would move it stays.
  const std::string behind = positions("t") +
                             "%n = sizes {values = <t - s>}\n %p = add(%rows, %n)\n"
                             "%m = le(%columns, %p)\n";
  EXPECT_TRUE(stays(kInputs, behind, attend("window_left = 2")));
  EXPECT_EQ(attention_of(graph_of(kInputs, causal + attend("window_left = 2"))),
            "attention(%q, %k, %v) {causal = \"top_left\", scale = 1.0, window_left = 2}");
}

}  // namespace
}  // namespace opweld
