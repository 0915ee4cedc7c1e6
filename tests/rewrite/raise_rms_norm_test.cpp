#include "rewrite/raise/rms_norm.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

std::string norm_text(const std::string& body, const std::string& dtype = "f32",
                      const std::string& result = "%y as \"y\"") {
  return "graph g(%x: " + dtype + "[b, s, 7], %w: " + dtype +
         "[7]) {\n %e = constant {value = f32[] {1e-05}}\n %one = constant {value = f32[] {1.0}}\n"
         " %n = constant {value = f32[] {7.0}}\n %half = constant {value = f32[] {0.5}}\n"
         " %minus = constant {value = f32[] {-0.5}}\n" +
         body + "\n return " + result + "\n}";
}

const RaisingCase kCase = {raise_rms_norm, {{"b", 2}, {"s", 5}}};

// The mean of squares with epsilon, as %v.
const std::string kVariance =
    "%q = mul(%x, %x)\n %m = reduce_mean(%q) {axes = [2], keepdims = 1}\n %v = add(%m, %e)\n";

TEST(RaiseRmsNorm, BecomesOneOperatorOfTheSameName) {
  EXPECT_EQ(raised_text(norm_text(kVariance + "%r = rsqrt(%v)\n %u = mul(%x, %r)\n"
                                              "%y = mul(%u, %w)"),
                        kCase),
            "graph g(%x: f32[b, s, 7], %w: f32[7]) {\n"
            "  %y = rms_norm(%x, %w) {axis = 2, epsilon = 9.999999747378752e-06}\n"
            "  return %y as \"y\"\n}\n");
}

TEST(RaiseRmsNorm, EverySpellingOfTheQuotient) {
  for (const char* quotient :
       {"%r = rsqrt(%v)\n %u = mul(%x, %r)\n", "%r = rsqrt(%v)\n %u = mul(%r, %x)\n",
        "%r = sqrt(%v)\n %u = div(%x, %r)\n",
        "%r = sqrt(%v)\n %i = reciprocal(%r)\n %u = mul(%x, %i)\n",
        "%r = sqrt(%v)\n %i = div(%one, %r)\n %u = mul(%i, %x)\n",
        "%r = pow(%v, %half)\n %u = div(%x, %r)\n", "%r = pow(%v, %minus)\n %u = mul(%x, %r)\n"}) {
    EXPECT_EQ(raised(norm_text(kVariance + quotient + "%y = mul(%w, %u)"), kCase), "rms_norm")
        << quotient;
  }
}

TEST(RaiseRmsNorm, EverySpellingOfTheMeanOfSquares) {
  const std::string rest = "%r = rsqrt(%v)\n %u = mul(%x, %r)\n %y = mul(%u, %w)";
  for (const char* mean :
       {"%two = constant {value = f32[] {2.0}}\n %q = pow(%x, %two)\n"
        "%m = reduce_mean(%q) {axes = [-1], keepdims = 1}\n %v = add(%e, %m)\n",
        "%q = mul(%x, %x)\n %a = reduce_sum(%q) {axes = [2], keepdims = 1}\n %m = div(%a, %n)\n"
        "%v = add(%m, %e)\n",
        "%c = constant {value = f32[] {0.14285715}}\n %q = mul(%x, %x)\n"
        "%a = reduce_sum(%q) {axes = [2], keepdims = 1}\n %m = mul(%c, %a)\n %v = add(%m, %e)\n",
        "%a = reduce_sum_square(%x) {axes = [2], keepdims = 1}\n %m = div(%a, %n)\n"
        "%v = add(%m, %e)\n"}) {
    // 1 / 7 as a number of f32 is not quite what it stands for.
    RaisingCase inexact = kCase;
    inexact.tolerance = 1e-7;
    EXPECT_EQ(raised(norm_text(mean + rest), inexact), "rms_norm") << mean;
  }
}

TEST(RaiseRmsNorm, ScaleAndEpsilonAreOptional) {
  EXPECT_EQ(raised(norm_text(kVariance + "%r = rsqrt(%v)\n %y = mul(%x, %r)"), kCase), "rms_norm");
  EXPECT_EQ(raised(norm_text("%q = mul(%x, %x)\n %m = reduce_mean(%q) {axes = [2]}\n"
                             "%r = rsqrt(%m)\n %y = mul(%x, %r)"),
                   kCase),
            "rms_norm");
}

TEST(RaiseRmsNorm, ScaleMultipliedIntoTheReciprocal) {
  EXPECT_EQ(
      raised(norm_text(kVariance + "%r = rsqrt(%v)\n %s = mul(%w, %r)\n %y = mul(%x, %s)"), kCase),
      "rms_norm");
}

TEST(RaiseRmsNorm, SeveralAxes) {
  EXPECT_EQ(raised(norm_text("%q = mul(%x, %x)\n %m = reduce_mean(%q) {axes = [2, 1]}\n"
                             "%v = add(%m, %e)\n %r = rsqrt(%v)\n %y = mul(%x, %r)"),
                   kCase),
            "rms_norm");
}

TEST(RaiseRmsNorm, AnyLength) {
  for (const std::int64_t length : {1, 3, 7, 8, 15, 16, 17, 31, 33, 640}) {
    const RaisingCase of = {raise_rms_norm, {{"n", length}}};
    EXPECT_EQ(raised("graph g(%x: f32[7, n], %w: f32[n]) {\n"
                     " %e = constant {value = f32[] {1e-06}}\n %q = mul(%x, %x)\n"
                     " %m = reduce_mean(%q) {axes = [1]}\n %v = add(%m, %e)\n %r = sqrt(%v)\n"
                     " %u = div(%x, %r)\n %y = mul(%u, %w)\n return %y as \"y\"\n}",
                     of),
              "rms_norm");
  }
}

TEST(RaiseRmsNorm, QuotientWithSeveralReadersIsRaisedAloneWithoutTheScale) {
  EXPECT_EQ(raised(norm_text(kVariance + "%r = rsqrt(%v)\n %u = mul(%x, %r)\n %a = mul(%u, %w)\n"
                                         "%y = add(%a, %u)"),
                   kCase),
            "rms_norm mul add");
  EXPECT_EQ(raised(norm_text(kVariance + "%r = rsqrt(%v)\n %u = mul(%x, %r)\n %y = mul(%u, %w)",
                             "f32", "%y as \"y\", %u as \"u\""),
                   kCase),
            "rms_norm mul");
}

TEST(RaiseRmsNorm, CastsAreTakenInWhereTheScaleComesBeforeTheCastBack) {
  const std::string wide =
      "%xw = cast(%x) {to = f32}\n %q = mul(%xw, %xw)\n %m = reduce_mean(%q) {axes = [2]}\n"
      "%v = add(%m, %e)\n %r = rsqrt(%v)\n %u = mul(%xw, %r)\n";
  for (const char* dtype : {"f16", "bf16"}) {
    const std::string to = std::string("{to = ") + dtype + "}";
    EXPECT_EQ(raised(norm_text(joined({wide, "%ww = cast(%w) {to = f32}\n %z = mul(%u, %ww)\n",
                                       "%y = cast(%z) ", to}),
                               dtype),
                     kCase),
              "cast rms_norm");
    // As Llama has it: the quotient is rounded before it meets the scale.
    const std::string rounded = joined({wide, "%z = cast(%u) ", to, "\n %y = mul(%w, %z)"});
    EXPECT_EQ(raised(norm_text(rounded, dtype), kCase), "rms_norm mul");
    // The wide result is read too.
    EXPECT_EQ(raised(norm_text(rounded, dtype, "%y as \"y\", %u as \"u\""), kCase),
              "cast rms_norm cast mul");
  }
}

TEST(RaiseRmsNorm, HalvesWithoutCastsGetStatisticsThatDoNotOverflow) {
  Graph graph = parse_graph(
                    "graph g(%x: f16[1, 768]) {\n %e = constant {value = f16[] {1e-05}}\n"
                    "%q = mul(%x, %x)\n %m = reduce_mean(%q) {axes = [1]}\n %v = add(%m, %e)\n"
                    "%r = rsqrt(%v)\n %y = mul(%x, %r)\n return %y as \"y\"\n}")
                    .value();
  ASSERT_TRUE(raise_rms_norm(graph));
  Tensor x = Tensor::allocate(DType::F16, {1, 768}).value();
  for (std::int64_t i = 0; i < 768; ++i) x.set_double(i, 8000);
  const auto y = evaluate(graph, std::span(&x, 1)).value();
  for (std::int64_t i = 0; i < 768; ++i) EXPECT_EQ(y[0].get_double(i), 1);
}

TEST(RaiseRmsNorm, NearMissesStayAsTheyAre) {
  const std::string scaled = "%u = mul(%x, %r)\n %y = mul(%u, %w)";
  const auto stays = [](const std::string& text) {
    EXPECT_EQ(raised(text, kCase).find("rms_norm"), std::string::npos) << text;
  };
  // The epsilon stands behind the root.
  stays(
      norm_text("%q = mul(%x, %x)\n %m = reduce_mean(%q) {axes = [2]}\n %d = sqrt(%m)\n"
                "%v = add(%d, %e)\n %r = reciprocal(%v)\n" +
                scaled));
  // The mean runs over an axis that is not the last.
  stays(
      norm_text("%q = mul(%x, %x)\n %m = reduce_mean(%q) {axes = [1]}\n %v = add(%m, %e)\n"
                "%r = rsqrt(%v)\n" +
                scaled));
  stays(
      norm_text("%q = mul(%x, %x)\n %m = reduce_mean(%q) {axes = [0, 2]}\n %v = add(%m, %e)\n"
                "%r = rsqrt(%v)\n" +
                scaled));
  // The sum is divided by another number.
  stays(
      norm_text("%c = constant {value = f32[] {8.0}}\n %q = mul(%x, %x)\n"
                "%a = reduce_sum(%q) {axes = [2]}\n %m = div(%a, %c)\n %v = add(%m, %e)\n"
                "%r = rsqrt(%v)\n" +
                scaled));
  // A product of two different values is no square.
  stays(
      norm_text("%q = mul(%x, %w)\n %m = reduce_mean(%q) {axes = [2]}\n %v = add(%m, %e)\n"
                "%r = rsqrt(%v)\n" +
                scaled));
  // Another value is divided.
  stays(norm_text(kVariance + "%r = rsqrt(%v)\n %z = exp(%x)\n %y = mul(%z, %r)"));
  // A step in between is read elsewhere, or is an output.
  stays(norm_text(kVariance + "%r = rsqrt(%v)\n %u = mul(%x, %r)\n %z = mul(%u, %w)\n"
                              "%y = add(%z, %r)"));
  stays(norm_text(kVariance + "%r = rsqrt(%v)\n" + scaled, "f32", "%y as \"y\", %m as \"m\""));
  stays(norm_text(kVariance + "%r = rsqrt(%v)\n" + scaled, "f32", "%y as \"y\", %q as \"q\""));
  // The epsilon is negative: where the mean is smaller, the root is NaN.
  stays(
      norm_text("%c = constant {value = f32[] {-0.1}}\n %q = mul(%x, %x)\n"
                "%m = reduce_mean(%q) {axes = [2]}\n %v = add(%m, %c)\n %r = rsqrt(%v)\n" +
                scaled));
  // The exponent is another one.
  stays(
      norm_text(kVariance + "%c = constant {value = f32[] {-0.4}}\n %r = pow(%v, %c)\n" + scaled));
}

TEST(RaiseRmsNorm, WhatVariesAlongOtherAxesIsNoScale) {
  EXPECT_EQ(raised("graph g(%x: f32[b, s, 7], %w: f32[b, s, 7]) {\n"
                   " %e = constant {value = f32[] {1e-05}}\n" +
                       kVariance +
                       "%r = rsqrt(%v)\n %u = mul(%x, %r)\n %y = mul(%u, %w)\n"
                       "return %y as \"y\"\n}",
                   kCase),
            "rms_norm mul");
}

}  // namespace
}  // namespace opweld
