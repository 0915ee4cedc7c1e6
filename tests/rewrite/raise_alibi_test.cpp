#include <cmath>
#include <functional>

#include "rewrite/raise/alibi.h"
#include "rewrite/raise/attention.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

// From primitive operators, or from an attention with a mask.
Status raise(Graph& graph) {
  OPWELD_CHECK(raise_attention(graph));
  return raise_alibi(graph);
}

// Infinite slopes are left out.
const RaisingCase kCase = {
    raise, {{"b", 2}, {"h", 4}, {"s", 5}, {"t", 7}, {"d", 4}, {"p", 2}}, {0.0, 3.0, -3.0}};

// The attention as text: its operands and attributes.
std::string attention_of(const std::string& text) {
  const std::string left = raised_text(text, kCase);
  const auto begin = left.find("attention(");
  return begin == std::string::npos ? left : left.substr(begin, left.find('\n', begin) - begin);
}

std::string operands_of(const std::string& text) {
  const std::string attention = attention_of(text);
  return attention.substr(0, attention.find('}') + 1);
}

bool has_slopes(const std::string& text) {
  return attention_of(text).starts_with("attention(%q, %k, %v, _, _, %");
}

const std::string kPositions =
    "%columns = iota() {shape = <1, t>, axis = 1, dtype = i64}\n"
    "%rows = iota() {shape = <s, 1>, axis = 0, dtype = i64}\n";
const std::string kDistances =
    kPositions + "%apart = sub(%columns, %rows)\n %x = cast(%apart) {to = f32}\n";
const std::string kBias = "%m = mul(%slopes, %x)\n";

// An attention with the mask %m; `more` are further inputs.
std::string masked(const std::string& mask, const std::string& attributes = "causal = \"none\"",
                   const std::string& more = "", const std::string& slopes = "f32[h, 1, 1]") {
  return joined({"graph g(%q: f32[b, h, s, d], %k: f32[b, h, t, d], %v: f32[b, h, t, d], %slopes: ",
                 slopes, more, ") {\n", mask, " %y = attention(%q, %k, %v, %m) {", attributes,
                 "}\n return %y as \"y\"\n}"});
}

// The same in primitive operators, from the scores %a on; `body` makes %x of them.
std::string written_out(const std::string& body) {
  constexpr const char* kHead =
      "graph g(%q: f32[b, h, s, d], %k: f32[b, h, t, d], %v: f32[b, h, t, d], "
      "%slopes: f32[h, 1, 1]) {\n %kt = transpose(%k) {permutation = [0, 1, 3, 2]}\n "
      "%a = matmul(%q, %kt)\n";
  constexpr const char* kTail =
      " %w = softmax(%z) {axis = 3}\n %y = matmul(%w, %v)\n return %y as \"y\"\n}";
  return joined({kHead, body, kTail});
}

TEST(RaiseAlibi, DistancesAndPositionsOfKeys) {
  EXPECT_TRUE(has_slopes(masked(kDistances + kBias)));
  EXPECT_TRUE(has_slopes(masked(kPositions + "%x = cast(%columns) {to = f32}\n" + kBias)));
}

TEST(RaiseAlibi, TheSlopesAreThoseOfTheModel) {
  EXPECT_EQ(raised(masked(kDistances + kBias), kCase), "reshape attention");
  EXPECT_EQ(attention_of(masked(kDistances + kBias, "causal = \"top_left\", softcap = 2.0")),
            "attention(%q, %k, %v, _, _, %0) {causal = \"top_left\", softcap = 2.0}");
}

TEST(RaiseAlibi, EverySpellingOfTheBias) {
  const std::string ranges =
      "%null = constant {value = i64[] {0}}\n %one = constant {value = i64[] {1}}\n"
      "%column = range(%null, %one) {length = <t>}\n %row = range(%null, %one) {length = <s>}\n"
      "%rows = reshape(%row) {shape = <s, 1>}\n";
  const std::string spellings[] = {
      // From Range, as floats or as whole numbers, with one axis or three.
      ranges + "%apart = sub(%column, %rows)\n %x = cast(%apart) {to = f32}\n" + kBias,
      ranges + "%c = cast(%column) {to = f32}\n %r = cast(%rows) {to = f32}\n %x = sub(%c, %r)\n" +
          kBias,
      "%null = constant {value = f32[] {0.0}}\n %one = constant {value = f32[] {1.0}}\n"
      "%x = range(%null, %one) {length = <t>}\n" +
          kBias,
      ranges + "%c = cast(%column) {to = f32}\n %x = reshape(%c) {shape = <1, 1, t>}\n" + kBias,
      // From the last key on: 1 - t, 2 - t ... 0.
      "%sizes = sizes {values = <1 - t>}\n %first = reshape(%sizes) {shape = <>}\n"
      "%one = constant {value = i64[] {1}}\n %column = range(%first, %one) {length = <t>}\n"
      "%x = cast(%column) {to = f32}\n" +
          kBias,
      // Negated, in either place.
      kPositions +
          "%apart = sub(%rows, %columns)\n %x = cast(%apart) {to = f32}\n"
          "%p = mul(%x, %slopes)\n %m = neg(%p)\n",
      kPositions + "%apart = sub(%rows, %columns)\n %n = neg(%apart)\n %x = cast(%n) {to = f32}\n" +
          kBias,
      kDistances + "%steep = neg(%slopes)\n %x2 = neg(%x)\n %m = mul(%steep, %x2)\n",
      kDistances +
          "%minus = constant {value = f32[] {-1.0}}\n %n = mul(%x, %minus)\n"
          "%p = mul(%n, %slopes)\n %m = mul(%p, %minus)\n",
      // Scaled.
      kDistances +
          "%half = constant {value = f32[] {0.5}}\n %p = mul(%x, %half)\n"
          "%m = mul(%p, %slopes)\n",
      kDistances +
          "%two = constant {value = f32[] {2.0}}\n %p = mul(%x, %slopes)\n"
          "%m = div(%p, %two)\n",
      // With further axes, and spread over the batch and the queries.
      kDistances + "%p = mul(%slopes, %x)\n %m = reshape(%p) {shape = <1, h, s, t>}\n",
      kPositions +
          "%x = cast(%columns) {to = f32}\n %p = mul(%slopes, %x)\n"
          "%m = expand(%p) {shape = <b, h, s, t>}\n",
      kDistances + "%x4 = expand(%x) {shape = <b, h, s, t>}\n %m = mul(%x4, %slopes)\n",
      kDistances + "%all = expand(%slopes) {shape = <h, s, t>}\n %m = mul(%all, %x)\n",
      // Rounded to a half type on the way.
      kDistances + "%p = mul(%slopes, %x)\n %n = cast(%p) {to = bf16}\n %m = cast(%n) {to = f32}\n",
  };
  for (const std::string& spelling : spellings) {
    EXPECT_TRUE(has_slopes(masked(spelling))) << spelling;
  }
  EXPECT_TRUE(has_slopes(masked(kDistances + kBias, "scale = 0.5", "", "f32[1, h, 1, 1]")));
  // One for all heads.
  EXPECT_TRUE(has_slopes(masked(kDistances + kBias, "scale = 0.5", "", "f32[1, 1, 1]")));
}

TEST(RaiseAlibi, AbsoluteDistancesUnderACausalMask) {
  const std::string apart = kPositions +
                            "%apart = sub(%rows, %columns)\n %x0 = cast(%apart) {to = f32}\n"
                            "%x1 = abs(%x0)\n %x = neg(%x1)\n" +
                            kBias;
  EXPECT_TRUE(has_slopes(masked(apart, "causal = \"top_left\"")));
  EXPECT_FALSE(has_slopes(masked(apart)));
  // Nor where the distance is counted from elsewhere than the diagonal.
  EXPECT_FALSE(has_slopes(masked(apart, "causal = \"bottom_right\"")));
}

const std::string kLater =
    "%later = gt(%columns, %rows)\n %zero = constant {value = f32[] {0.0}}\n";

TEST(RaiseAlibi, BesideOtherMasks) {
  const std::string pad = ", %p: f32[b, 1, 1, t]";
  const std::string infinite = "%low = constant {value = f32[] {-inf}}\n";
  const std::string finite = "%low = constant {value = f32[] {-3.4028235e38}}\n";
  const std::string bias = kDistances + "%e = mul(%slopes, %x)\n";
  EXPECT_EQ(operands_of(masked(bias + "%m = add(%p, %e)\n", "scale = 0.5", pad)),
            "attention(%q, %k, %v, %p, _, %0) {causal = \"none\", scale = 0.5}");
  for (const std::string& fill : {infinite, finite}) {
    EXPECT_EQ(operands_of(masked(joined({bias, kLater, fill,
                                         "%c = select(%later, %low, %zero)\n %m = add(%e, %c)\n"}),
                                 "scale = 0.5")),
              "attention(%q, %k, %v, _, _, %0) {causal = \"top_left\", scale = 0.5}")
        << fill;
  }
  EXPECT_EQ(operands_of(masked(bias + kLater + infinite +
                                   "%c = select(%later, %low, %zero)\n %n = add(%p, %c)\n"
                                   "%m = add(%n, %e)\n",
                               "scale = 0.5", pad)),
            "attention(%q, %k, %v, %p, _, %0) {causal = \"top_left\", scale = 0.5}");
  // A bool that hides a key whatever its bias is.
  EXPECT_EQ(operands_of(masked(bias + infinite + "%m = select(%p, %e, %low)\n", "scale = 0.5",
                               ", %p: bool[b, 1, s, t]")),
            "attention(%q, %k, %v, %p, _, %0) {causal = \"none\", scale = 0.5}");
  // The lowest number in place of a bias hides nothing in rows that have no other.
  EXPECT_FALSE(has_slopes(masked(bias + finite + "%m = select(%p, %e, %low)\n", "scale = 0.5",
                                 ", %p: bool[b, 1, s, t]")));
}

TEST(RaiseAlibi, WrittenOutWithACausalMask) {
  const std::string bias = kDistances + "%e = mul(%slopes, %x)\n %b = add(%a, %e)\n";
  const std::string raised = "attention(%q, %k, %v, _, _, %0) {causal = \"top_left\", scale = 1.0}";
  for (const std::string low : {"-inf", "-3.4028235e38"}) {
    const std::string fill = "%low = constant {value = f32[] {" + low + "}}\n";
    // The mask is added to the biased scores, selects among them, or is one with the bias.
    EXPECT_EQ(
        operands_of(written_out(joined(
            {bias, kLater, fill, "%m = select(%later, %low, %zero)\n", "%z = add(%b, %m)\n"}))),
        raised)
        << low;
    EXPECT_EQ(
        operands_of(written_out(joined({bias, kLater, fill, "%z = select(%later, %low, %b)\n"}))),
        raised)
        << low;
    EXPECT_EQ(operands_of(written_out(joined(
                  {kDistances, "%e = mul(%slopes, %x)\n", kLater, fill,
                   "%c = select(%later, %low, %zero)\n %m = add(%c, %e)\n %z = add(%a, %m)\n"}))),
              raised)
        << low;
  }
}

// Past keys: query i stands at position p + i of p + s.
TEST(RaiseAlibi, AfterPastKeys) {
  const std::string text =
      "graph g(%q: f32[b, h, s, d], %k: f32[b, h, p + s, d], %v: f32[b, h, p + s, d], "
      "%slopes: f32[h, 1, 1]) {\n"
      "%sizes = sizes {values = <p>}\n %past = reshape(%sizes) {shape = <>}\n"
      "%null = constant {value = i64[] {0}}\n %one = constant {value = i64[] {1}}\n"
      "%columns = range(%null, %one) {length = <p + s>}\n"
      "%row = range(%past, %one) {length = <s>}\n %rows = reshape(%row) {shape = <s, 1>}\n"
      "%apart = sub(%columns, %rows)\n %x0 = cast(%apart) {to = f32}\n %x1 = abs(%x0)\n"
      "%x = neg(%x1)\n %e = mul(%slopes, %x)\n" +
      kLater +
      "%low = constant {value = f32[] {-inf}}\n %c = select(%later, %low, %zero)\n"
      "%m = add(%c, %e)\n %y = attention(%q, %k, %v, %m) {scale = 0.5}\n return %y as \"y\"\n}";
  EXPECT_EQ(operands_of(text),
            "attention(%q, %k, %v, _, _, %0) {causal = \"bottom_right\", scale = 0.5}");
}

// What constant folding leaves of a model of known sizes: [2 heads, 3 queries, keys], element by
// element.
using Element = std::function<double(int head, int query, int key)>;

std::string folded(int keys, const Element& element, int queries = 3) {
  std::string numbers;
  for (int i = 0; i < 2 * queries * keys; ++i) {
    const double number = element(i / keys / queries, i / keys % queries, i % keys);
    numbers += i == 0 ? "" : ", ";
    numbers += std::isfinite(number) ? fmt::format("{:.9e}", number)
               : std::isnan(number)  ? "nan"
                                     : "-inf";
  }
  return fmt::format(
      "graph g(%q: f32[b, 2, 3, d], %k: f32[b, 2, {0}, d], %v: f32[b, 2, {0}, d]) {{\n"
      "%n = constant {{value = f32[2, {1}, {0}] {{{2}}}}}\n"
      "%y = attention(%q, %k, %v, %n) {{scale = 0.5}}\n return %y as \"y\"\n}}",
      keys, queries, numbers);
}

const double kSlopes[] = {0.25, std::exp2(-8.0 / 3)};  // the second is rounded

double product(int head, int distance) {
  return static_cast<float>(kSlopes[head]) * static_cast<float>(distance);
}

TEST(RaiseAlibi, Constants) {
  const std::string none = "attention(%q, %k, %v, _, _, %0) {causal = \"none\", scale = 0.5}";
  const std::string top = "attention(%q, %k, %v, _, _, %0) {causal = \"top_left\", scale = 0.5}";
  const std::string bottom =
      "attention(%q, %k, %v, _, _, %0) {causal = \"bottom_right\", scale = 0.5}";
  const auto apart = [](int h, int s, int t) { return product(h, t - s); };
  const auto keys = [](int h, int, int t) { return product(h, t); };
  EXPECT_EQ(operands_of(folded(5, apart)), none);
  EXPECT_EQ(operands_of(folded(5, keys)), none);
  EXPECT_EQ(operands_of(folded(5, keys, 1)), none);
  EXPECT_EQ(operands_of(folded(5, [](int h, int, int t) { return product(h, t - 4); })), none);
  for (const double low : {-kInf, -3.4028234663852886e38}) {
    const auto hidden = [&](int past) {
      return [=](int h, int s, int t) { return t > s + past ? low : product(h, t - s - past); };
    };
    EXPECT_EQ(operands_of(folded(3, hidden(0))), top);
    EXPECT_EQ(operands_of(folded(5, hidden(0))), top);
    EXPECT_EQ(operands_of(folded(2, hidden(0))), top);
    EXPECT_EQ(operands_of(folded(5, hidden(2))), bottom);
    // Neither alignment.
    EXPECT_FALSE(operands_of(folded(5, hidden(1))).starts_with("attention(%q, %k, %v, _"));
  }
}

TEST(RaiseAlibi, ConstantsThatAreNearlySo) {
  const auto stays = [](const Element& element) {
    const std::string left = operands_of(folded(5, element));
    EXPECT_TRUE(left.starts_with("attention(%q, %k, %v, %n)")) << left;
  };
  const auto changed = [](int head, int query, int key, double by) {
    return [=](int h, int s, int t) {
      const bool here = h == head && s == query && t == key;
      return here ? by : product(h, t - s);
    };
  };
  stays(changed(1, 2, 4, std::nextafterf(static_cast<float>(product(1, 2)), 1)));
  stays(changed(0, 0, 4, -kInf));
  stays(changed(1, 1, 0, -kInf));
  stays(changed(0, 2, 1, kNan));
  stays([](int h, int s, int t) { return -std::abs(product(h, t - s)); });
  stays([](int h, int s, int t) { return product(h, t - s) + 0.125; });
  stays([](int, int s, int t) { return t > s ? -10000.0 : 0.0; });
  stays([](int h, int s, int t) { return t < s ? -kInf : product(h, t - s); });
  // Hidden keys and no bias: a matter of the causal mask.
  stays([](int, int s, int t) { return t > s ? -3.4028234663852886e38 : 0.0; });
}

TEST(RaiseAlibi, NearMissesAreLeftAlone) {
  const auto stays = [](const std::string& text) {
    EXPECT_EQ(attention_of(text).find("attention(%q, %k, %v, %m"), 0U) << text;
  };
  // Slopes of their own for each batch element, query or key.
  for (const std::string slopes : {"f32[b, h, 1, 1]", "f32[h, s, 1]", "f32[h, 1, t]"}) {
    stays(masked(kDistances + kBias, "scale = 0.5", "", slopes));
  }
  // No slopes, a bias that curves, one that does not go by keys, one that goes by heads.
  stays(masked(kDistances + "%m = exp(%x)\n"));
  stays(masked(kDistances + "%x2 = mul(%x, %x)\n %m = mul(%slopes, %x2)\n"));
  stays(masked(kPositions + "%x = cast(%rows) {to = f32}\n %x2 = expand(%x) {shape = <s, t>}\n" +
               kBias));
  stays(
      masked("%of = iota() {shape = <h, 1, t>, axis = 0, dtype = f32}\n"
             "%m = mul(%slopes, %of)\n"));
  stays(masked("%of = iota() {shape = <h, s, t>, axis = 0, dtype = i64}\n" + kDistances +
               "%sum = add(%of, %apart)\n %f = cast(%sum) {to = f32}\n %m = mul(%slopes, %f)\n"));
  // Positions that come from data, and a sum with what is no position.
  stays(masked("%x = cast(%i) {to = f32}\n" + kBias, "scale = 0.5", ", %i: i64[s, t]"));
  stays(masked(kDistances + "%o = add(%x, %i)\n %m = mul(%slopes, %o)\n", "scale = 0.5",
               ", %i: f32[s, t]"));
  // Two biases: one of them stays.
  EXPECT_EQ(operands_of(masked(kDistances + "%e = mul(%slopes, %x)\n %f = mul(%i, %x)\n"
                                            "%m = add(%e, %f)\n",
                               "scale = 0.5", ", %i: f32[h, 1, 1]")),
            "attention(%q, %k, %v, %f, _, %0) {causal = \"none\", scale = 0.5}");
}

TEST(RaiseAlibi, WhereSlopesOrTheLogSumExpAreInTheWay) {
  const std::string head =
      "graph g(%q: f32[b, h, s, d], %k: f32[b, h, t, d], %slopes: f32[h, 1, 1], %o: f32[h]) {\n" +
      kDistances + kBias;
  EXPECT_EQ(attention_of(head + "%y = attention(%q, %k, %k, %m, _, %o) {scale = 0.5}\n"
                                "return %y as \"y\"\n}"),
            "attention(%q, %k, %k, %m, _, %o) {scale = 0.5}");
  EXPECT_EQ(attention_of(head + "%y, %l = attention(%q, %k, %k, %m) {lse = 1, scale = 0.5}\n"
                                "return %y as \"y\", %l as \"l\"\n}"),
            "attention(%q, %k, %k, %m) {lse = 1, scale = 0.5}");
}

// At the bottom right, `causal` counts from the last valid key and moves the window along.
TEST(RaiseAlibi, CausalMasksThatTheAttentionCannotSay) {
  const std::string text =
      "graph g(%q: f32[b, h, s, d], %k: f32[b, h, p + s, d], %slopes: f32[h, 1, 1], "
      "%n: i64[b]) {\n"
      "%columns = iota() {shape = <1, p + s>, axis = 1, dtype = i64}\n"
      "%row = iota() {shape = <s, 1>, axis = 0, dtype = i64}\n"
      "%past = sizes {values = <p>}\n %rows = add(%row, %past)\n"
      "%f = cast(%columns) {to = f32}\n %e = mul(%slopes, %f)\n" +
      kLater +
      "%low = constant {value = f32[] {-inf}}\n %c = select(%later, %low, %zero)\n"
      "%m = add(%c, %e)\n";
  EXPECT_EQ(operands_of(text + "%y = attention(%q, %k, %k, %m, %n) {scale = 0.5}\n"
                               "return %y as \"y\"\n}"),
            "attention(%q, %k, %k, %c, %n, %0) {causal = \"none\", scale = 0.5}");
  EXPECT_EQ(operands_of(text + "%y = attention(%q, %k, %k, %m) {scale = 0.5, window_left = 3}\n"
                               "return %y as \"y\"\n}"),
            "attention(%q, %k, %k, %c, _, %0) {causal = \"none\", scale = 0.5, window_left = 3}");
}

}  // namespace
}  // namespace opweld
