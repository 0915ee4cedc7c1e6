// Smooth activation functions.
//
// Where x is an infinity each gives what its written formula gives in IEEE arithmetic (silu(-inf)
// is -inf * 0 = NaN), except gelu, whose limit 0 at -inf is kept.
#include <cmath>
#include <numbers>

#include "ops/families.h"
#include "ops/formula_op.h"
#include "ops/scalar_functions.h"

namespace opweld {
namespace {

double sigmoid(double x) {  // neither side overflows
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

// ---- gelu: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016) ----

constexpr double kCubic = 0.044715;
constexpr double kSqrt2OverPi = 0.79788456080286536;  // sqrt(2 / pi)
constexpr double kSqrtHalf = std::numbers::sqrt2 / 2;

bool is_tanh_form(const Attributes& attributes) {
  return attributes.text("approximate", "none") == "tanh";
}

Expected<std::vector<TensorType>> infer_gelu(const OpContext& context) {
  const std::string form = context.attributes.text("approximate", "none");
  if (form != "none" && form != "tanh") {
    return fail("attribute 'approximate' must be \"none\" or \"tanh\", not \"{}\"", form);
  }
  return infer_same_dtype(context);
}

// The second factor is exactly 0 long before x falls to -64, so the bound changes no finite result,
// and at -inf it leaves -64 * 0 in place of -inf * 0.
Term gelu(Term unbounded, const Attributes& attributes) {
  const Term x = max(unbounded, -64);
  if (is_tanh_form(attributes)) {
    return 0.5 * x * (1 + tanh(kSqrt2OverPi * (x + kCubic * (x * x * x))));
  }
  return 0.5 * x * (1 + erf(x * kSqrtHalf));
}

double gelu(double x, const Attributes& attributes) {
  if (x == -std::numeric_limits<double>::infinity()) return -0.0;
  // (1 + tanh(u)) / 2 = sigmoid(2u) and (1 + erf(u)) / 2 = erfc(-u) / 2: no cancellation below 0.
  if (is_tanh_form(attributes)) {
    return x * sigmoid(2 * kSqrt2OverPi * (x + kCubic * (x * x * x)));
  }
  return x * (std::erfc(-x * kSqrtHalf) / 2);
}

OpDef gelu_op() {
  OpDef def = formula_op<[](Term x, const Attributes& a) { return gelu(x, a); },
                         [](double x, const Attributes& a) { return gelu(x, a); }>(
      "gelu",
      "x (1 + erf(x / sqrt 2)) / 2; with approximate \"tanh\" "
      "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2; 0 at -inf",
      {{"approximate", AttributeKind::Text, false}});
  def.infer = infer_gelu;
  return def;
}

// ---- softplus and mish: Misra, "Mish" (2019) ----

Term softplus(Term x) {
  return max(x, 0) + log1p(exp(-abs(x)));
}

double softplus(double x) {
  if (std::isnan(x)) return x;
  return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
}

// With e = exp(x): tanh(log(1 + e)) = ((1 + e)^2 - 1) / ((1 + e)^2 + 1) = n / (n + 2) for
// n = e (e + 2). From 20 on it is 1 in f64 too.
Term mish(Term x) {
  const Term e = exp(min(x, 20));
  const Term n = e * (e + 2);
  return x * (n / (n + 2));
}

}  // namespace

std::span<const OpDef> activation_ops() {
  static const OpDef defs[] = {
      gelu_op(),
      formula_op<[](Term x) { return x * sigmoid(x); }, [](double x) { return x * sigmoid(x); }>(
          "silu", "x sigmoid(x)"),
      formula_op<[](Term x, const Attributes& a) { return x * sigmoid(a.real("alpha", 1) * x); },
                 [](double x, const Attributes& a) { return x * sigmoid(a.real("alpha", 1) * x); }>(
          "swish", "x sigmoid(alpha x); with alpha 1.702 the quick form of gelu",
          {{"alpha", AttributeKind::Real, false}}),
      formula_op<[](Term x) { return softplus(x); }, [](double x) { return softplus(x); }>(
          "softplus", "log(1 + exp(x))"),
      formula_op<[](Term x) { return mish(x); },
                 [](double x) { return x * std::tanh(softplus(x)); }>("mish",
                                                                      "x tanh(log(1 + exp(x)))"),
      formula_op<[](Term x) { return x / (1 + abs(x)); },
                 [](double x) { return x / (1 + std::fabs(x)); }>("softsign", "x / (1 + |x|)"),
  };
  return defs;
}

}  // namespace opweld
