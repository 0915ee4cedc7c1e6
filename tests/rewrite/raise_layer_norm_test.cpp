#include "rewrite/raise/layer_norm.h"
#include "rewrite/raise/rms_norm.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

std::string norm_text(const std::string& body, const std::string& dtype = "f32",
                      const std::string& result = "%y as \"y\"") {
  return "graph g(%x: " + dtype + "[b, s, 7], %w: " + dtype + "[7], %c: " + dtype +
         "[7]) {\n %e = constant {value = f32[] {1e-12}}\n %one = constant {value = f32[] {1.0}}\n"
         " %n = constant {value = f32[] {7.0}}\n" +
         body + "\n return " + result + "\n}";
}

const RaisingCase kCase = {raise_layer_norm, {{"b", 2}, {"s", 5}}};

const std::string kCentred = "%m = reduce_mean(%x) {axes = [2], keepdims = 1}\n %d = sub(%x, %m)\n";
const std::string kVariance =
    "%q = mul(%d, %d)\n %p = reduce_mean(%q) {axes = [-1]}\n %v = add(%p, %e)\n";
const std::string kQuotient = "%r = sqrt(%v)\n %u = div(%d, %r)\n";
const std::string kScaled = "%z = mul(%u, %w)\n %y = add(%z, %c)";

TEST(RaiseLayerNorm, BecomesOneOperatorOfTheSameName) {
  EXPECT_EQ(raised_text(norm_text(kCentred + kVariance + kQuotient + kScaled), kCase),
            "graph g(%x: f32[b, s, 7], %w: f32[7], %c: f32[7]) {\n"
            "  %y = layer_norm(%x, %w, %c) {axis = 2, epsilon = 9.999999960041972e-13}\n"
            "  return %y as \"y\"\n}\n");
}

TEST(RaiseLayerNorm, EverySpellingOfVarianceAndQuotient) {
  for (const char* variance :
       {"%q = mul(%d, %d)\n %p = reduce_mean(%q) {axes = [2]}\n %v = add(%e, %p)\n",
        "%two = constant {value = f32[] {2.0}}\n %q = pow(%d, %two)\n"
        "%p = reduce_mean(%q) {axes = [2]}\n %v = add(%p, %e)\n",
        "%q = mul(%d, %d)\n %a = reduce_sum(%q) {axes = [2]}\n %p = div(%a, %n)\n"
        "%v = add(%p, %e)\n",
        "%a = reduce_sum_square(%d) {axes = [2]}\n %p = div(%a, %n)\n %v = add(%p, %e)\n"}) {
    for (const char* quotient :
         {"%r = sqrt(%v)\n %u = div(%d, %r)\n", "%r = rsqrt(%v)\n %u = mul(%d, %r)\n",
          "%r = sqrt(%v)\n %i = div(%one, %r)\n %u = mul(%i, %d)\n"}) {
      EXPECT_EQ(raised(norm_text(joined({kCentred, variance, quotient, kScaled})), kCase),
                "layer_norm")
          << variance << quotient;
    }
  }
}

TEST(RaiseLayerNorm, MeanAsSumByCount) {
  EXPECT_EQ(raised(norm_text("%a = reduce_sum(%x) {axes = [2]}\n %m = div(%a, %n)\n"
                             "%d = sub(%x, %m)\n" +
                             kVariance + kQuotient + kScaled),
                   kCase),
            "layer_norm");
}

TEST(RaiseLayerNorm, ScaleAndBiasAreOptional) {
  EXPECT_EQ(raised(norm_text(kCentred + kVariance + "%r = sqrt(%v)\n %y = div(%d, %r)"), kCase),
            "layer_norm");
  EXPECT_EQ(raised(norm_text(kCentred + kVariance + kQuotient + "%y = mul(%u, %w)"), kCase),
            "layer_norm");
  EXPECT_EQ(raised(norm_text(kCentred + kVariance + kQuotient + "%y = add(%c, %u)"), kCase),
            "layer_norm");
}

TEST(RaiseLayerNorm, AnyLengthAndSeveralAxes) {
  for (const std::int64_t length : {1, 3, 8, 15, 16, 17, 31, 33, 640}) {
    const std::string text =
        "graph g(%x: f32[6, 2, n]) {\n %e = constant {value = f32[] {1e-05}}\n"
        " %m = reduce_mean(%x) {axes = [1, 2]}\n %d = sub(%x, %m)\n %q = mul(%d, %d)\n"
        " %p = reduce_mean(%q) {axes = [2, 1]}\n %v = add(%p, %e)\n %r = sqrt(%v)\n"
        " %y = div(%d, %r)\n return %y as \"y\"\n}";
    // Differences of 1e30 from their mean keep fewer digits.
    const RaisingCase of = {raise_layer_norm, {{"n", length}}, {kInf, -kInf, kNan, 0.0, 1e4}};
    EXPECT_EQ(raised(text, of), "layer_norm");
  }
}

TEST(RaiseLayerNorm, CastsAreTakenIn) {
  const std::string wide =
      "%xw = cast(%x) {to = f32}\n %ww = cast(%w) {to = f32}\n %cw = cast(%c) {to = f32}\n"
      "%m = reduce_mean(%xw) {axes = [2]}\n %d = sub(%xw, %m)\n" +
      kVariance + kQuotient + "%z = mul(%u, %ww)\n %a = add(%z, %cw)\n %y = cast(%a) {to = f16}";
  EXPECT_EQ(raised(norm_text(wide, "f16"), kCase), "cast cast layer_norm");
  // Rounded to a half before the scale.
  EXPECT_EQ(raised(norm_text("%xw = cast(%x) {to = f32}\n %m = reduce_mean(%xw) {axes = [2]}\n"
                             "%d = sub(%xw, %m)\n" +
                                 kVariance + kQuotient +
                                 "%a = cast(%u) {to = f16}\n"
                                 "%z = mul(%a, %w)\n %y = add(%z, %c)",
                             "f16"),
                   kCase),
            "layer_norm mul add");
}

TEST(RaiseLayerNorm, StepsThatAreReadElsewhereStay) {
  // The scaled value is an output: the bias stays.
  EXPECT_EQ(raised(norm_text(kCentred + kVariance + kQuotient + kScaled, "f32",
                             "%y as \"y\", %z as \"z\""),
                   kCase),
            "layer_norm add");
  // The difference, the mean, the variance.
  for (const char* also : {"%d as \"also\"", "%m as \"also\"", "%v as \"also\""}) {
    EXPECT_EQ(raised(norm_text(joined({kCentred, kVariance, kQuotient, kScaled}), "f32",
                               joined({"%y as \"y\", ", also})),
                     kCase)
                  .find("layer_norm"),
              std::string::npos)
        << also;
  }
  // With the difference given out, its division is an rms_norm still.
  const RaisingCase rms = {raise_rms_norm, {{"b", 2}, {"s", 5}}};
  EXPECT_EQ(raised(norm_text(kCentred + kVariance + kQuotient + kScaled, "f32",
                             "%y as \"y\", %d as \"d\""),
                   rms),
            "reduce_mean sub rms_norm add");
}

TEST(RaiseLayerNorm, NearMissesStayAsTheyAre) {
  const auto stays = [](const std::string& body) {
    EXPECT_EQ(raised(norm_text(body), kCase).find("layer_norm"), std::string::npos) << body;
  };
  // Mean and variance over different axes.
  stays("%m = reduce_mean(%x) {axes = [1]}\n %d = sub(%x, %m)\n" + kVariance + kQuotient + kScaled);
  // The mean of another value.
  stays("%f = exp(%x)\n %m = reduce_mean(%f) {axes = [2]}\n %d = sub(%x, %m)\n" + kVariance +
        kQuotient + kScaled);
  // x - mean in the square, x above.
  stays(kCentred + kVariance + "%r = sqrt(%v)\n %u = div(%x, %r)\n" + kScaled);
  // The epsilon behind the root.
  stays(kCentred +
        "%q = mul(%d, %d)\n %p = reduce_mean(%q) {axes = [2]}\n %f = sqrt(%p)\n"
        "%r = add(%f, %e)\n %u = div(%d, %r)\n" +
        kScaled);
  // mean(x^2) - mean(x)^2.
  stays(
      "%m = reduce_mean(%x) {axes = [2]}\n %d = sub(%x, %m)\n %q = mul(%x, %x)\n"
      "%a = reduce_mean(%q) {axes = [2]}\n %f = mul(%m, %m)\n %p = sub(%a, %f)\n"
      "%v = add(%p, %e)\n" +
      kQuotient + kScaled);
}

}  // namespace
}  // namespace opweld
