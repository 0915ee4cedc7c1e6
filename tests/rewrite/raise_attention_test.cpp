#include <cmath>

#include "rewrite/raise/attention.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

const Bindings kSizes = {{"b", 2}, {"h", 4}, {"s", 5}, {"t", 7}, {"d", 4}, {"p", 2}};

// Rows in which every score is hidden, and NaN in hidden ones, are looked at by tests of their own.
const RaisingCase kCase = {raise_attention, kSizes, {0.0, 30.0, -30.0}};

// How many attentions the pass finds, the graph meaning the same.
int found(const std::string& text, const RaisingCase& of = kCase) {
  const std::string left = " " + raised(text, of) + " ";
  int count = 0;
  for (auto at = left.find(" attention "); at != std::string::npos;
       at = left.find(" attention ", at + 1)) {
    ++count;
  }
  return count;
}

// The attention as text: its attributes and how many operands it has.
std::string attention_of(const std::string& text) {
  const std::string left = raised_text(text, kCase);
  const auto begin = left.find("attention(");
  return begin == std::string::npos ? left : left.substr(begin, left.find('\n', begin) - begin);
}

std::string graph_text(const std::string& scores, const std::string& more = "",
                       const std::string& dtype = "f32") {
  const auto operand = [&](const char* name, const char* length) {
    return std::string("%") + name + ": " + dtype + "[b, h, " + length + ", d]";
  };
  return "graph g(" + operand("q", "s") + ", " + operand("k", "t") + ", " + operand("v", "t") +
         more + ") {\n %c = constant {value = " + dtype +
         "[] {0.5}}\n %kt = transpose(%k) {permutation = [0, 1, 3, 2]}\n" + scores +
         " %w = softmax(%x) {axis = 3}\n %y = matmul(%w, %v)\n return %y as \"y\"\n}";
}

const std::string kProduct = "%a = matmul(%q, %kt)\n";

TEST(RaiseAttention, ScaleAsProductOrQuotientOnEitherSide) {
  EXPECT_EQ(found(graph_text(kProduct + "%x = mul(%a, %c)\n")), 1);
  EXPECT_EQ(found(graph_text(kProduct + "%x = mul(%c, %a)\n")), 1);
  EXPECT_EQ(found(graph_text(kProduct + "%x = div(%a, %c)\n")), 1);
  EXPECT_EQ(found(graph_text("%x = matmul(%q, %kt)\n")), 1);
}

TEST(RaiseAttention, ScaleFoldedIntoQueriesKeysOrBoth) {
  EXPECT_EQ(found(graph_text("%qs = mul(%q, %c)\n %x = matmul(%qs, %kt)\n")), 1);
  EXPECT_EQ(attention_of(graph_text("%qs = mul(%q, %c)\n %ks = mul(%kt, %c)\n"
                                    "%x = matmul(%qs, %ks)\n")),
            "attention(%q, %k, %v) {causal = \"none\", scale = 0.25}");
  EXPECT_EQ(found(graph_text("%qs = mul(%q, %c)\n %ks = div(%kt, %c)\n %m = matmul(%qs, %ks)\n"
                             "%x = mul(%m, %c)\n")),
            1);
}

TEST(RaiseAttention, SoftCap) {
  EXPECT_EQ(attention_of(graph_text("%n = constant {value = f32[] {2.0}}\n" + kProduct +
                                    "%e = mul(%a, %c)\n %f = div(%e, %n)\n %g = tanh(%f)\n"
                                    "%x = mul(%g, %n)\n")),
            "attention(%q, %k, %v) {causal = \"none\", scale = 0.5, softcap = 2.0}");
  // A negative cap turns scores round; a cap around a mask caps the mask.
  EXPECT_EQ(found(graph_text("%n = constant {value = f32[] {-2.0}}\n" + kProduct +
                             "%g = tanh(%a)\n %x = mul(%g, %n)\n")),
            0);
  EXPECT_EQ(found(graph_text(kProduct + "%e = add(%a, %m)\n %g = tanh(%e)\n %x = mul(%g, %c)\n",
                             ", %m: f32[b, 1, 1, t]")),
            0);
}

TEST(RaiseAttention, AdditiveMasksInEitherOrder) {
  const std::string mask = ", %m: f32[b, 1, 1, t]";
  EXPECT_EQ(found(graph_text(kProduct + "%e = mul(%a, %c)\n %x = add(%e, %m)\n", mask)), 1);
  EXPECT_EQ(found(graph_text(kProduct + "%e = div(%a, %c)\n %x = add(%m, %e)\n", mask)), 1);
}

TEST(RaiseAttention, SeveralMasks) {
  EXPECT_EQ(found(graph_text(kProduct + "%e = add(%a, %m)\n %x = add(%n, %e)\n",
                             ", %m: f32[b, 1, 1, t], %n: f32[s, t]")),
            1);
  const std::string hiding = "%i = constant {value = f32[] {-inf}}\n";
  EXPECT_EQ(found(graph_text(hiding + kProduct + "%e = add(%a, %m)\n %x = select(%n, %e, %i)\n",
                             ", %m: f32[b, 1, 1, t], %n: bool[s, t]")),
            1);
}

TEST(RaiseAttention, FiniteFillsThatAreAddedStayAddedWhereAllKeysHaveThem) {
  // Of a row that is hidden throughout, the weights go by the scores.
  for (const char* fill : {"-10000.0", "-1000000000.0"}) {
    const std::string body =
        joined({"%f = constant {value = f32[] {", fill,
                "}}\n %z = constant {value = f32[] {0.0}}\n %n = constant {value = i64[] {0}}\n",
                "%g = eq(%ids, %n)\n %m = select(%g, %z, %f)\n", kProduct, "%x = add(%a, %m)\n"});
    EXPECT_EQ(found(graph_text(body, ", %ids: i64[b, 1, s, 1]")), 1) << fill;
  }
}

TEST(RaiseAttention, SelectionsOfMinusInfinity) {
  const std::string hiding = "%i = constant {value = f32[] {-inf}}\n" + kProduct;
  EXPECT_EQ(found(graph_text(hiding + "%x = select(%m, %a, %i)\n", ", %m: bool[s, t]")), 1);
  // A finite fill takes the place of scores: of a row without a visible key all weights are equal.
  EXPECT_EQ(found(graph_text("%i = constant {value = f32[] {-1000000000.0}}\n" + kProduct +
                                 "%x = select(%m, %a, %i)\n",
                             ", %m: bool[s, t]")),
            0);
  EXPECT_EQ(found(graph_text("%i = constant {value = f32[] {-3.4028235e38}}\n" + kProduct +
                                 "%x = select(%m, %a, %i)\n",
                             ", %m: bool[s, t]")),
            0);
}

// ---- causal masks ----

// Masks over [s, t] as %later, true where a key is later than the query.
const std::string kRows =
    "%rows = iota() {shape = <s, 1>, axis = 0, dtype = i64}\n"
    "%columns = iota() {shape = <1, t>, axis = 1, dtype = i64}\n";
const std::string kLater = kRows + "%later = gt(%columns, %rows)\n";
const std::string kLowest =
    "%low = constant {value = f32[] {-3.4028235e38}}\n %zero = constant {value = f32[] {0.0}}\n";
const std::string kInfinite =
    "%low = constant {value = f32[] {-inf}}\n %zero = constant {value = f32[] {0.0}}\n";
const std::string kTopLeft = "attention(%q, %k, %v) {causal = \"top_left\", scale = 1.0}";

TEST(RaiseAttention, CausalMasksInEverySpelling) {
  const std::string masks[] = {
      kLater + "%m = select(%later, %low, %zero)\n %x = add(%a, %m)\n",
      kLater + "%seen = not(%later)\n %m = select(%seen, %zero, %low)\n %x = add(%m, %a)\n",
      kLater +
          "%m4 = reshape(%later) {shape = <1, 1, s, t>}\n"
          "%m = select(%m4, %low, %zero)\n"
          "%e = expand(%m) {shape = <b, 1, s, t>}\n %x = add(%a, %e)\n",
      kLater + "%x = select(%later, %low, %a)\n",
      kRows + "%seen = le(%columns, %rows)\n %x = select(%seen, %a, %low)\n",
      kRows + "%seen = ge(%rows, %columns)\n %x = select(%seen, %a, %low)\n",
      kRows + "%later = lt(%rows, %columns)\n %x = select(%later, %low, %a)\n",
      kRows +
          "%one = constant {value = i64[] {1}}\n %next = add(%rows, %one)\n"
          "%later = ge(%columns, %next)\n %x = select(%later, %low, %a)\n",
      kRows +
          "%ahead = sub(%columns, %rows)\n %null = constant {value = i64[] {0}}\n"
          "%seen = le(%ahead, %null)\n %x = select(%seen, %a, %low)\n"};
  for (const std::string& fill : {kLowest, kInfinite}) {
    for (const std::string& mask : masks) {
      EXPECT_EQ(attention_of(graph_text(joined({fill, kProduct, mask}))), kTopLeft) << mask;
    }
  }
}

TEST(RaiseAttention, CausalMasksByLowerTriangles) {
  // A triangle of ones, as it is or compared with 0.
  const std::string triangle =
      kRows +
      "%seen = le(%columns, %rows)\n %one = constant {value = f32[] {1.0}}\n"
      "%ones = expand(%one) {shape = <s, t>}\n %tril = select(%seen, %ones, %zero)\n";
  for (const char* mask :
       {"%b = cast(%tril) {to = bool}\n %x = select(%b, %a, %low)\n",
        "%b = cast(%tril) {to = bool}\n %m = select(%b, %zero, %low)\n %x = add(%a, %m)\n",
        "%b = eq(%tril, %zero)\n %x = select(%b, %low, %a)\n"}) {
    EXPECT_EQ(attention_of(graph_text(joined({kInfinite, kProduct, triangle, mask}))), kTopLeft)
        << mask;
  }
}

TEST(RaiseAttention, CausalMasksAfterPastKeys) {
  // p keys are past: query i stands at position p + i of p + s.
  const std::string text =
      "graph g(%q: f32[b, h, s, d], %k: f32[b, h, p + s, d], %v: f32[b, h, p + s, d]) {\n"
      "%sizes = sizes {values = <p>}\n %past = reshape(%sizes) {shape = <>}\n"
      "%null = constant {value = i64[] {0}}\n %one = constant {value = i64[] {1}}\n" +
      kLowest +
      "%columns = range(%null, %one) {length = <p + s>}\n"
      "%row = range(%past, %one) {length = <s>}\n %rows = reshape(%row) {shape = <s, 1>}\n"
      "%later = gt(%columns, %rows)\n %m = select(%later, %low, %zero)\n"
      "%kt = transpose(%k) {permutation = [0, 1, 3, 2]}\n %a = matmul(%q, %kt)\n"
      "%x = add(%a, %m)\n %w = softmax(%x) {axis = 3}\n %y = matmul(%w, %v)\n"
      "return %y as \"y\"\n}";
  EXPECT_EQ(attention_of(text), "attention(%q, %k, %v) {causal = \"bottom_right\", scale = 1.0}");
}

TEST(RaiseAttention, CausalMasksFromConstants) {
  const auto text = [](const std::string& mask, const std::string& lengths) {
    return "graph g(%q: f32[2, 2, 3, 4], %k: f32[2, 2, " + lengths + ", 4], %v: f32[2, 2, " +
           lengths + ", 4]) {\n" + kLowest + mask +
           "%kt = transpose(%k) {permutation = [0, 1, 3, 2]}\n %a = matmul(%q, %kt)\n"
           "%x = select(%m, %a, %low)\n %w = softmax(%x) {axis = 3}\n %y = matmul(%w, %v)\n"
           "return %y as \"y\"\n}";
  };
  const std::string triangle =
      "constant {value = bool[4, 4] {true, false, false, false, true, true, false, false, "
      "true, true, true, false, true, true, true, true}}\n";
  const auto window = [](int first_row, int columns) {
    return fmt::format("%m = slice(%full) {{starts = <{}, 0>, sizes = <3, {}>, steps = [1, 1]}}\n",
                       first_row, columns);
  };
  EXPECT_EQ(attention_of(text("%full = " + triangle + window(0, 3), "3")), kTopLeft);
  EXPECT_EQ(attention_of(text("%full = " + triangle + window(1, 4), "4")),
            "attention(%q, %k, %v) {causal = \"bottom_right\", scale = 1.0}");
  // One element of the triangle is another.
  std::string holed = triangle;
  holed.replace(holed.rfind("true, true, true, true"), 4, "false");
  EXPECT_EQ(found(text("%full = " + holed + window(1, 4), "4")), 0);
}

TEST(RaiseAttention, CausalMasksBesideOthers) {
  const std::string pad = ", %p: f32[b, 1, 1, t]";
  // Hidden by -inf, whatever else is added.
  EXPECT_EQ(attention_of(graph_text(kInfinite + kLater + kProduct +
                                        "%m = select(%later, %low, %zero)\n %n = add(%m, %p)\n"
                                        "%x = add(%a, %n)\n",
                                    pad)),
            "attention(%q, %k, %v, %p) {causal = \"top_left\", scale = 1.0}");
  EXPECT_EQ(attention_of(graph_text(kInfinite + kLater + kProduct +
                                        "%seen = not(%later)\n %n = and(%seen, %p)\n"
                                        "%x = select(%n, %a, %low)\n",
                                    ", %p: bool[b, 1, s, t]")),
            "attention(%q, %k, %v, %p) {causal = \"top_left\", scale = 1.0}");
  // By a finite number: a row whose other keys are hidden likewise has weights for both. As a sum
  // it stays a mask; in place of the scores it cannot be said.
  EXPECT_EQ(attention_of(graph_text(kLowest + kLater + kProduct +
                                        "%m = select(%later, %low, %zero)\n %n = add(%m, %p)\n"
                                        "%x = add(%a, %n)\n",
                                    pad)),
            "attention(%q, %k, %v, %n) {causal = \"none\", scale = 1.0}");
  EXPECT_EQ(
      found(graph_text(
          kLowest + kLater + kProduct + "%e = select(%later, %low, %a)\n %x = add(%e, %p)\n", pad)),
      0);
}

TEST(RaiseAttention, WhatIsNearlyCausalStaysAMask) {
  const auto causal = [](const std::string& mask) {
    const std::string text = attention_of(graph_text(
        kLowest + kProduct + mask + "%m = select(%later, %low, %zero)\n %x = add(%a, %m)\n"));
    return text.find("causal = \"none\"") == std::string::npos;
  };
  // Strictly earlier keys only: the first query sees none.
  EXPECT_FALSE(causal(kRows + "%later = ge(%columns, %rows)\n"));
  // Earlier keys are hidden, or keys that are later by two.
  EXPECT_FALSE(causal(kRows + "%later = lt(%columns, %rows)\n"));
  EXPECT_FALSE(causal(kRows + "%one = constant {value = i64[] {1}}\n %next = add(%rows, %one)\n"
                              "%later = gt(%columns, %next)\n"));
  EXPECT_TRUE(causal(kLater));
  // Counted along an axis of one element, which is 0 for all queries.
  EXPECT_FALSE(
      causal("%one = iota() {shape = <1, t>, axis = 0, dtype = i64}\n"
             "%columns = iota() {shape = <1, t>, axis = 1, dtype = i64}\n"
             "%first = expand(%one) {shape = <s, t>}\n"
             "%later = gt(%columns, %first)\n"));
  EXPECT_FALSE(
      causal("%null = iota() {shape = <1, t>, axis = 0, dtype = i64}\n"
             "%rows = iota() {shape = <s, 1>, axis = 0, dtype = i64}\n"
             "%columns = iota() {shape = <1, t>, axis = 1, dtype = i64}\n"
             "%twice = add(%rows, %null)\n %sum = add(%twice, %rows)\n"
             "%more = sub(%sum, %null)\n %later = gt(%columns, %more)\n"));
  // A large number that is not the lowest.
  EXPECT_EQ(attention_of(graph_text("%low = constant {value = f32[] {-10000.0}}\n"
                                    "%zero = constant {value = f32[] {0.0}}\n" +
                                    kProduct + kLater +
                                    "%m = select(%later, %low, %zero)\n %x = add(%a, %m)\n"))
                .find("top_left"),
            std::string::npos);
}

// ---- guarded rows ----

std::string guarded_text(const std::string& guard, const std::string& fill = "0.0") {
  return "graph g(%q: f32[b, h, s, d], %k: f32[b, h, d, t], %v: f32[b, h, t, d], "
         "%allowed: bool[s, t], %other: f32[s, t]) {\n" +
         kInfinite + "%fill = constant {value = f32[] {" + fill +
         "}}\n %m = select(%allowed, %zero, %low)\n %a = matmul(%q, %k)\n %x = add(%a, %m)\n"
         "%p = softmax(%x) {axis = 3}\n %g = reduce_max(%" +
         guard +
         ") {axes = [-1], keepdims = 1}\n %none = eq(%g, %low)\n"
         "%w = select(%none, %fill, %p)\n %y = matmul(%w, %v)\n return %y as \"y\"\n}";
}

TEST(RaiseAttention, RowsGuardedAgainstHidingAll) {
  const std::string masked = "attention(%q, %0, %v, %m) {causal = \"none\", scale = 1.0}";
  EXPECT_EQ(attention_of(guarded_text("x")), masked);
  EXPECT_EQ(attention_of(guarded_text("m")), masked);
  // The mask together with a causal one.
  EXPECT_EQ(attention_of("graph g(%q: f32[b, h, s, d], %k: f32[b, h, d, t], %v: f32[b, h, t, d], "
                         "%p: f32[b, 1, 1, t]) {\n" +
                         kInfinite + kLater +
                         "%c = select(%later, %low, %zero)\n %m = add(%p, %c)\n"
                         "%a = matmul(%q, %k)\n %x = add(%a, %m)\n %u = softmax(%x) {axis = 3}\n"
                         "%g = reduce_max(%m) {axes = [3], keepdims = 1}\n"
                         "%none = eq(%g, %low)\n %w = select(%none, %zero, %u)\n"
                         "%y = matmul(%w, %v)\n return %y as \"y\"\n}"),
            "attention(%q, %0, %v, %p) {causal = \"top_left\", scale = 1.0}");
  // By another value, or with another weight.
  EXPECT_EQ(found(guarded_text("other")), 0);
  EXPECT_EQ(found(guarded_text("m", "1.0")), 0);
  // Rows that are hidden throughout are zeros before and after.
  Graph graph = parse_graph(guarded_text("x")).value();
  auto inputs = random_inputs(graph, kSizes, {});
  for (std::int64_t t = 0; t < 7; ++t) inputs[3].set_int(t, 0);
  const auto before = results_of(graph, inputs, true);
  ASSERT_TRUE(raise_attention(graph));
  expect_same(before, results_of(graph, inputs, true), 1e-9);
  EXPECT_EQ(before[0].get_double(0), 0);
}

std::string nan_guarded_text(const std::string& guard, const std::string& more = "") {
  return "graph g(%q: f32[b, h, s, d], %k: f32[b, h, d, t], %v: f32[b, h, t, d], "
         "%allowed: bool[s, t], %other: f32[b, h, s, t]) {\n" +
         kInfinite + "%fill = constant {value = f32[] {1.0}}\n" +
         "%m = select(%allowed, %zero, %low)\n %a = matmul(%q, %k)\n %x = add(%a, %m)\n"
         "%p = softmax(%x) {axis = 3}\n" +
         guard + " %y = matmul(%w, %v)\n return %y as \"y\"" + more + "\n}";
}

TEST(RaiseAttention, RowsGuardedAgainstNaN) {
  const std::string masked =
      "attention(%q, %0, %v, %m) {causal = \"none\", scale = 1.0, zero_nan_rows = 1}";
  const std::string guard = "%n = is_nan(%p)\n %w = select(%n, %zero, %p)\n";
  EXPECT_EQ(attention_of(nan_guarded_text(guard)), masked);
  EXPECT_EQ(attention_of(nan_guarded_text("%n = is_nan(%p)\n %o = not(%n)\n"
                                          "%w = select(%o, %p, %zero)\n")),
            masked);
  // Other weights, another value asked, or the weights read by somebody else.
  EXPECT_EQ(found(nan_guarded_text("%n = is_nan(%p)\n %w = select(%n, %fill, %p)\n")), 0);
  EXPECT_EQ(found(nan_guarded_text("%n = is_nan(%p)\n %w = select(%n, %p, %zero)\n")), 0);
  EXPECT_EQ(found(nan_guarded_text("%n = is_nan(%other)\n %w = select(%n, %zero, %p)\n")), 0);
  EXPECT_EQ(found(nan_guarded_text(guard, ", %p as \"weights\"")), 0);
  EXPECT_EQ(found(nan_guarded_text(guard, ", %n as \"hidden\"")), 0);
  // Rows that are hidden throughout are zeros before and after.
  Graph graph = parse_graph(nan_guarded_text(guard)).value();
  auto inputs = random_inputs(graph, kSizes, {});
  for (std::int64_t t = 0; t < 7; ++t) inputs[3].set_int(t, 0);
  const auto before = results_of(graph, inputs, true);
  ASSERT_TRUE(raise_attention(graph));
  expect_same(before, results_of(graph, inputs, true), 1e-9);
  EXPECT_EQ(before[0].get_double(0), 0);
}

// Rows that are hidden throughout, and rows with a score of NaN or +inf: zeros before and after.
TEST(RaiseAttention, GuardsAgainstNaNHideAllOfIt) {
  const std::string text = nan_guarded_text("%n = is_nan(%p)\n %w = select(%n, %zero, %p)\n");
  const double kOdd[] = {std::numeric_limits<double>::quiet_NaN(),
                         std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity()};
  for (const double odd : kOdd) {
    for (const std::size_t operand : {0, 1}) {
      Graph graph = parse_graph(text).value();
      auto inputs = random_inputs(graph, kSizes, {});
      // The first row sees nothing, the others everything.
      for (std::int64_t i = 0; i < inputs[3].num_elements(); ++i) inputs[3].set_int(i, i >= 7);
      inputs[operand].set_double(inputs[operand].num_elements() - 1, odd);
      const auto before = results_of(graph, inputs, true);
      ASSERT_TRUE(raise_attention(graph));
      ASSERT_NE(to_text(graph).find("zero_nan_rows = 1"), std::string::npos);
      expect_same(before, results_of(graph, inputs, true), 1e-9);
      for (std::int64_t i = 0; i < before[0].num_elements(); ++i) {
        ASSERT_TRUE(std::isfinite(before[0].get_double(i)));
      }
    }
  }
  // Without a guard they are NaN.
  Graph plain = parse_graph(nan_guarded_text("%w = mul(%p, %p)\n")).value();
  ASSERT_TRUE(raise_attention(plain));
  EXPECT_EQ(to_text(plain).find("zero_nan_rows"), std::string::npos);
}

TEST(RaiseAttention, RowsOfHalvesGuardedAgainstNaN) {
  for (const char* dtype : {"f16", "bf16"}) {
    const std::string text =
        joined({"graph g(%q: ", dtype, "[b, h, s, d], %k: ", dtype, "[b, h, d, t], %v: ", dtype,
                "[b, h, t, d]) {\n %zero = constant {value = ", dtype, "[] {0.0}}\n",
                "%x = matmul(%q, %k)\n %wide = cast(%x) {to = f32}\n",
                "%u = softmax(%wide) {axis = 3}\n %p = cast(%u) {to = ", dtype, "}\n",
                "%n = is_nan(%p)\n %w = select(%n, %zero, %p)\n %y = matmul(%w, %v)\n",
                "return %y as \"y\"\n}"});
    EXPECT_EQ(found(text), 1) << dtype;
  }
}

TEST(RaiseAttention, MasksOfZerosAreNone) {
  EXPECT_EQ(attention_of(graph_text("%z = constant {value = f32[] {0.0}}\n"
                                    "%m = expand(%z) {shape = <s, t>}\n" +
                                    kProduct + "%x = add(%a, %m)\n")),
            "attention(%q, %k, %v) {causal = \"none\", scale = 1.0}");
}

// ---- heads ----

std::string grouped_text(const std::string& repeat) {
  const auto repeated = [&](const std::string& x) {
    std::string text = repeat;
    for (auto at = text.find('$'); at != std::string::npos; at = text.find('$')) {
      text.replace(at, 1, x);
    }
    return text;
  };
  return "graph g(%q: f32[b, 4, s, d], %k: f32[b, 2, t, d], %v: f32[b, 2, t, d]) {\n" +
         repeated("k") + repeated("v") +
         "%kt = transpose(%kr) {permutation = [0, 1, 3, 2]}\n %m = matmul(%q, %kt)\n"
         "%p = softmax(%m) {axis = -1}\n %y = matmul(%p, %vr)\n return %y as \"y\"\n}";
}

TEST(RaiseAttention, RepeatedHeadsOfGroupedQueries) {
  const std::string grouped = "attention(%q, %k, %v) {causal = \"none\", scale = 1.0}";
  const std::string split = "%$1 = reshape(%$) {shape = <b, 2, 1, t, d>}\n";
  const std::string merged = "%$r = reshape(%$2) {shape = <b, 4, t, d>}\n";
  const std::string repeats[] = {split + "%$2 = expand(%$1) {shape = <b, 2, 2, t, d>}\n" + merged,
                                 split + "%$2 = tile(%$1) {repeats = <1, 1, 2, 1, 1>}\n" + merged,
                                 split + "%$2 = concat(%$1, %$1) {axis = 2}\n" + merged,
                                 std::string("%$2 = constant {value = i64[4] {0, 0, 1, 1}}\n"
                                             "%$r = gather(%$, %$2) {axis = 1}\n")};
  for (const std::string& repeat : repeats) {
    EXPECT_EQ(attention_of(grouped_text(repeat)), grouped) << repeat;
  }
  // The heads one after the other, and again: each query head meets another one.
  for (const std::string& repeat : {std::string("%$r = concat(%$, %$) {axis = 1}\n"),
                                    std::string("%$r = tile(%$) {repeats = <1, 2, 1, 1>}\n"),
                                    std::string("%$2 = constant {value = i64[4] {0, 1, 0, 1}}\n"
                                                "%$r = gather(%$, %$2) {axis = 1}\n")}) {
    EXPECT_NE(attention_of(grouped_text(repeat)), grouped) << repeat;
  }
}

// As PyTorch's exporter transposes keys: with the heads joined to the batch, repeated ones as well.
TEST(RaiseAttention, KeysTransposedWithHeadsJoinedToTheBatch) {
  const auto text = [](const std::string& keys) {
    return "graph g(%q: f32[b, h, s, d], %k: f32[b, h, t, d], %v: f32[b, h, t, d]) {\n" + keys +
           "%j = reshape(%kr) {shape = <b*h, t, d>}\n %jt = transpose(%j) {permutation = [0, 2, "
           "1]}\n"
           "%kt = reshape(%jt) {shape = <b, h, d, t>}\n %x = matmul(%q, %kt)\n"
           "%w = softmax(%x) {axis = 3}\n %y = matmul(%w, %v)\n return %y as \"y\"\n}";
  };
  EXPECT_EQ(attention_of(text("%kr = reshape(%k) {shape = <b, h, t, d>}\n")),
            "attention(%q, %kr, %v) {causal = \"none\", scale = 1.0}");
  const std::string repeated =
      "graph g(%q: f32[b, 6, s, d], %k: f32[b, 2, t, d], %v: f32[b, 2, t, d]) {\n"
      "%k5 = reshape(%k) {shape = <b, 2, 1, t, d>}\n %ke = expand(%k5) {shape = <b, 2, 3, t, d>}\n"
      "%v5 = reshape(%v) {shape = <b, 2, 1, t, d>}\n %ve = expand(%v5) {shape = <b, 2, 3, t, d>}\n"
      "%kr = reshape(%ke) {shape = <b, 6, t, d>}\n %vr = reshape(%ve) {shape = <b, 6, t, d>}\n"
      "%j = reshape(%kr) {shape = <6*b, t, d>}\n %jt = transpose(%j) {permutation = [0, 2, 1]}\n"
      "%kt = reshape(%jt) {shape = <b, 6, d, t>}\n %x = matmul(%q, %kt)\n"
      "%w = softmax(%x) {axis = 3}\n %y = matmul(%w, %vr)\n return %y as \"y\"\n}";
  EXPECT_EQ(attention_of(repeated), "attention(%q, %k, %v) {causal = \"none\", scale = 1.0}");
}

TEST(RaiseAttention, HeadsRepeatedOfKeysOnlyAreTakenAsTheyAre) {
  const std::string text =
      "graph g(%q: f32[b, 4, s, d], %k: f32[b, 2, t, d], %v: f32[b, 4, t, d]) {\n"
      "%c = constant {value = f32[] {0.5}}\n %ks = mul(%k, %c)\n"
      "%k1 = reshape(%ks) {shape = <b, 2, 1, t, d>}\n"
      "%k2 = expand(%k1) {shape = <b, 2, 2, t, d>}\n %k3 = reshape(%k2) {shape = <b, 4, t, d>}\n"
      "%k4 = mul(%k3, %c)\n %kt = transpose(%k4) {permutation = [0, 1, 3, 2]}\n"
      "%m = matmul(%q, %kt)\n %p = softmax(%m) {axis = -1}\n %y = matmul(%p, %v)\n"
      "return %y as \"y\"\n}";
  EXPECT_EQ(found(text), 1);
}

TEST(RaiseAttention, OneHeadOfKeysForAllQueries) {
  EXPECT_EQ(attention_of("graph g(%q: f32[b, h, s, d], %k: f32[b, 1, t, d], "
                         "%v: f32[b, 1, t, d]) {\n"
                         "%kt = transpose(%k) {permutation = [0, 1, 3, 2]}\n"
                         "%m = matmul(%q, %kt)\n %p = softmax(%m) {axis = -1}\n"
                         "%y = matmul(%p, %v)\n return %y as \"y\"\n}"),
            "attention(%q, %k, %v) {causal = \"none\", scale = 1.0}");
}

TEST(RaiseAttention, HeadsJoinedWithTheBatch) {
  const std::string attention =
      "%kt = transpose(%k3) {permutation = [0, 2, 1]}\n %a = matmul(%q3, %kt)\n"
      "%e = add(%a, %m)\n %p = softmax(%e) {axis = 2}\n %y3 = matmul(%p, %v3)\n";
  const std::string joined =
      "%q3 = reshape(%q) {shape = <b*h, s, d>}\n %k3 = reshape(%k) {shape = <b*h, t, d>}\n"
      "%v3 = reshape(%v) {shape = <b*h, t, d>}\n";
  EXPECT_EQ(attention_of("graph g(%q: f32[b, h, s, d], %k: f32[b, h, t, d], %v: f32[b, h, t, d], "
                         "%m: f32[s, t]) {\n" +
                         joined + attention +
                         "%y = reshape(%y3) {shape = <b, h, s, d>}\n return %y as \"y\"\n}"),
            "attention(%q, %k, %v, %m) {causal = \"none\", scale = 1.0}");
  // Nothing tells the heads apart, and the mask varies with them.
  EXPECT_EQ(found("graph g(%q3: f32[h, s, d], %k3: f32[h, t, d], %v3: f32[h, t, d], "
                  "%m: f32[h, s, t]) {\n" +
                  attention + " return %y3 as \"y\"\n}"),
            1);
  // Keys transposed while their heads were still apart.
  EXPECT_EQ(attention_of("graph g(%q: f32[b, h, s, d], %k: f32[b, h, t, d], "
                         "%v: f32[b, h, t, d]) {\n"
                         "%q3 = reshape(%q) {shape = <b*h, s, d>}\n"
                         "%k4 = transpose(%k) {permutation = [0, 1, 3, 2]}\n"
                         "%kt = reshape(%k4) {shape = <b*h, d, t>}\n"
                         "%v3 = reshape(%v) {shape = <b*h, t, d>}\n %a = matmul(%q3, %kt)\n"
                         "%p = softmax(%a) {axis = 2}\n %y = matmul(%p, %v3)\n"
                         "return %y as \"y\"\n}"),
            "attention(%q, %k, %v) {causal = \"none\", scale = 1.0}");
}

// ---- halves ----

TEST(RaiseAttention, CastsAroundTheSoftmax) {
  for (const char* dtype : {"f16", "bf16"}) {
    const std::string text =
        "graph g(%q: $[b, h, s, d], %k: $[b, h, t, d], %v: $[b, h, t, d], %m: $[s, t]) {\n"
        "%c = constant {value = $[] {0.5}}\n"
        "%kt = transpose(%k) {permutation = [0, 1, 3, 2]}\n %a = matmul(%q, %kt)\n"
        "%e = mul(%a, %c)\n %f = add(%e, %m)\n %x = cast(%f) {to = f32}\n"
        "%w = softmax(%x) {axis = 3}\n %u = cast(%w) {to = $}\n %y = matmul(%u, %v)\n"
        "return %y as \"y\"\n}";
    std::string typed = text;
    for (auto at = typed.find('$'); at != std::string::npos; at = typed.find('$')) {
      typed.replace(at, 1, dtype);
    }
    EXPECT_EQ(attention_of(typed), "attention(%q, %k, %v, %m) {causal = \"none\", scale = 0.5}");
  }
}

TEST(RaiseAttention, CastsOfOperandsAndResultAreTakenIn) {
  const std::string wide =
      "graph g(%q: f16[b, h, s, d], %k: f16[b, h, t, d], %v: f16[b, h, t, d]) {\n"
      "%qw = cast(%q) {to = f32}\n %kw = cast(%k) {to = f32}\n %vw = cast(%v) {to = f32}\n"
      "%kt = transpose(%kw) {permutation = [0, 1, 3, 2]}\n %x = matmul(%qw, %kt)\n"
      "%w = softmax(%x) {axis = 3}\n";
  EXPECT_EQ(attention_of(wide + "%o = matmul(%w, %vw)\n %y = cast(%o) {to = f16}\n"
                                "return %y as \"y\"\n}"),
            "attention(%q, %k, %v) {causal = \"none\", scale = 1.0}");
  // The result stays wide.
  EXPECT_EQ(attention_of(wide + "%y = matmul(%w, %vw)\n return %y as \"y\"\n}"),
            "attention(%qw, %kw, %vw) {causal = \"none\", scale = 1.0}");
  // Weights are rounded for values that are halves: all are widened, and the result goes back.
  EXPECT_EQ(raised(wide + "%u = cast(%w) {to = f16}\n %y = matmul(%u, %v)\n return %y as \"y\"\n}",
                   kCase),
            "cast cast cast attention cast");
}

// ---- near misses ----

TEST(RaiseAttention, NearMissesStayAsTheyAre) {
  // The mask is scaled as well.
  EXPECT_EQ(found(graph_text(kProduct + "%e = add(%a, %m)\n %x = mul(%e, %c)\n",
                             ", %m: f32[b, 1, 1, t]")),
            0);
  // The mask makes the scores larger.
  EXPECT_EQ(found("graph g(%q: f32[1, h, s, d], %k: f32[1, h, d, t], %v: f32[b, h, t, d], "
                  "%m: f32[b, 1, s, t]) {\n %a = matmul(%q, %k)\n %x = add(%a, %m)\n"
                  "%w = softmax(%x) {axis = 3}\n %y = matmul(%w, %v)\n return %y as \"y\"\n}"),
            0);
  // The softmax runs over the queries.
  EXPECT_EQ(found("graph g(%q: f32[b, h, s, d], %k: f32[b, h, d, s], %v: f32[b, h, s, d]) {\n"
                  "%m = matmul(%q, %k)\n %p = softmax(%m) {axis = 2}\n %y = matmul(%p, %v)\n"
                  "return %y as \"y\"\n}"),
            0);
  // The scores, or the weights, are an output.
  for (const char* also : {"%m", "%p"}) {
    EXPECT_EQ(found(joined({"graph g(%q: f32[b, h, s, d], %k: f32[b, h, d, t], "
                            "%v: f32[b, h, t, d]) {\n %m = matmul(%q, %k)\n"
                            "%p = softmax(%m) {axis = 3}\n %y = matmul(%p, %v)\n"
                            "return %y as \"y\", ",
                            also, " as \"also\"\n}"})),
              0);
  }
  // The scale depends on data.
  EXPECT_EQ(found(graph_text(kProduct + "%x = mul(%a, %m)\n", ", %m: f32[b, h, s, t]")), 0);
  // Something else is done to the scores.
  EXPECT_EQ(found(graph_text(kProduct + "%x = abs(%a)\n")), 0);
}

TEST(RaiseAttention, RowsWithoutAVisibleKeyAreZeros) {
  Graph graph = parse_graph(graph_text("%i = constant {value = f32[] {-inf}}\n" + kProduct +
                                           "%x = select(%m, %a, %i)\n",
                                       ", %m: bool[s, t]"))
                    .value();
  ASSERT_TRUE(raise_attention(graph));
  auto inputs = random_inputs(graph, kSizes, {});
  for (std::int64_t t = 0; t < 7; ++t) inputs[3].set_int(t, 0);
  const auto y = evaluate(graph, inputs).value();
  for (std::int64_t d = 0; d < 4; ++d) EXPECT_EQ(y[0].get_double(d), 0);
}

}  // namespace
}  // namespace opweld
