// Activation functions with a bend: relu and its kin. NaN stays NaN.
#include <cmath>

#include "ops/families.h"
#include "ops/formula_op.h"
#include "ops/infer_helpers.h"
#include "ops/scalar_functions.h"

namespace opweld {
namespace {

// ---- relu and prelu, of integers too ----

Expr scalar_relu(const OpContext&, ExprPool& pool, std::span<const Expr> arguments) {
  return max(Term(pool, arguments[0]), 0).expr();
}

Expr scalar_prelu(const OpContext&, ExprPool& pool, std::span<const Expr> arguments) {
  const Term x(pool, arguments[0]);
  const Term slope(pool, arguments[1]);
  return select(x < 0, slope * x, x).expr();
}

std::int64_t integer_prelu(std::int64_t x, std::int64_t slope) {
  const auto product = static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(slope);
  return x < 0 ? static_cast<std::int64_t>(product) : x;
}

Expected<std::vector<TensorType>> infer_prelu(const OpContext& context) {
  OPWELD_CHECK(require_broadcast_to(context, 1, "slope", context.type(0).shape));
  return std::vector<TensorType>{context.type(0)};
}

// ---- leaky, thresholded, shrunk ----

Term leaky_relu(Term x, const Attributes& attributes) {
  return select(x < 0, attributes.real("alpha", 0.01) * x, x);
}

double leaky_relu(double x, const Attributes& attributes) {
  return x < 0 ? attributes.real("alpha", 0.01) * x : x;
}

Term thresholded_relu(Term x, const Attributes& attributes) {
  return select(x <= attributes.real("alpha", 1), 0, x);
}

double thresholded_relu(double x, const Attributes& attributes) {
  return x <= attributes.real("alpha", 1) ? 0 : x;
}

Term shrink(Term x, const Attributes& attributes) {
  const double bias = attributes.real("bias", 0);
  const double limit = attributes.real("lambd", 0.5);
  return select(x < -limit, x + bias, select(x <= limit, 0, x - bias));
}

double shrink(double x, const Attributes& attributes) {
  const double bias = attributes.real("bias", 0);
  const double limit = attributes.real("lambd", 0.5);
  if (x < -limit) return x + bias;
  return x <= limit ? 0 : x - bias;
}

// ---- exponential below zero ----

// Clevert et al., "Fast and Accurate Deep Network Learning by Exponential Linear Units" (2015).
Term elu(Term x, const Attributes& attributes) {
  return select(x < 0, attributes.real("alpha", 1) * expm1(x), x);
}

double elu(double x, const Attributes& attributes) {
  return x < 0 ? attributes.real("alpha", 1) * std::expm1(x) : x;
}

// Klambauer et al., "Self-Normalizing Neural Networks" (2017).
constexpr double kSeluAlpha = 1.6732632423543772;
constexpr double kSeluGamma = 1.0507009873554805;

Term selu(Term x, const Attributes& attributes) {
  const Term below = attributes.real("alpha", kSeluAlpha) * expm1(x);
  return attributes.real("gamma", kSeluGamma) * select(x < 0, below, x);
}

double selu(double x, const Attributes& attributes) {
  const double below = attributes.real("alpha", kSeluAlpha) * std::expm1(x);
  return attributes.real("gamma", kSeluGamma) * (x < 0 ? below : x);
}

// Barron, "Continuously Differentiable Exponential Linear Units" (2017).
Term celu(Term x, const Attributes& attributes) {
  const double alpha = attributes.real("alpha", 1);
  return select(x < 0, alpha * expm1(x / alpha), x);
}

double celu(double x, const Attributes& attributes) {
  const double alpha = attributes.real("alpha", 1);
  return x < 0 ? alpha * std::expm1(x / alpha) : x;
}

// ---- piecewise linear sigmoids ----

Term hard_sigmoid(Term x, const Attributes& attributes) {
  const double slope = attributes.real("alpha", 0.2);
  return max(min(slope * x + attributes.real("beta", 0.5), 1), 0);
}

double clamp_to_unit(double x) {
  if (x < 0) return 0;
  return x > 1 ? 1 : x;
}

double hard_sigmoid(double x, const Attributes& attributes) {
  return clamp_to_unit(attributes.real("alpha", 0.2) * x + attributes.real("beta", 0.5));
}

// Howard et al., "Searching for MobileNetV3" (2019).
Term hard_swish(Term x) {
  return x * max(min(x / 6 + 0.5, 1), 0);
}

// ---- the definitions ----

// A formula and its check, both of x and the attributes.
template <Term (*formula)(Term, const Attributes&), double (*real)(double, const Attributes&)>
OpDef rectifier(std::string_view name, std::string_view summary,
                const std::vector<std::string_view>& parameters) {
  std::vector<AttributeDef> attributes;
  attributes.reserve(parameters.size());
  for (const std::string_view parameter : parameters) {
    attributes.push_back({parameter, AttributeKind::Real, false});
  }
  return formula_op<formula, real>(name, summary, attributes);
}

OpDef relu_op() {
  using Int = std::int64_t;
  return {.name = "relu",
          .summary = "max(x, 0)",
          .trait = FusionTrait::Pointwise,
          .operands = {{"x", kNumbers}},
          .attributes = {},
          .infer = infer_same_dtype,
          .evaluate = evaluate_number<[](double x) { return x < 0 ? 0 : x; },
                                      [](Int x) { return x < 0 ? Int{0} : x; }>,
          .scalar = scalar_relu};
}

OpDef prelu_op() {
  return {.name = "prelu",
          .summary = "slope * x below 0, else x; the slope broadcasts to x",
          .trait = FusionTrait::Pointwise,
          .operands = {{"x", kNumbers, 1}, {"slope", kNumbers, 1}},
          .attributes = {},
          .infer = infer_prelu,
          .evaluate = evaluate_number<[](double x, double slope) { return x < 0 ? slope * x : x; },
                                      integer_prelu>,
          .scalar = scalar_prelu};
}

}  // namespace

std::span<const OpDef> rectifier_ops() {
  static const OpDef defs[] = {
      relu_op(),
      prelu_op(),
      rectifier<leaky_relu, leaky_relu>("leaky_relu", "alpha x below 0, else x; alpha is 0.01",
                                        {"alpha"}),
      rectifier<thresholded_relu, thresholded_relu>("thresholded_relu",
                                                    "x above alpha, else 0; alpha is 1", {"alpha"}),
      rectifier<shrink, shrink>(
          "shrink", "x + bias below -lambd, x - bias above lambd, else 0; bias is 0, lambd 0.5",
          {"bias", "lambd"}),
      rectifier<elu, elu>("elu", "alpha (exp(x) - 1) below 0, else x; alpha is 1", {"alpha"}),
      rectifier<selu, selu>(
          "selu", "gamma alpha (exp(x) - 1) below 0, else gamma x; alpha is 1.67326, gamma 1.0507",
          {"alpha", "gamma"}),
      rectifier<celu, celu>("celu", "alpha (exp(x / alpha) - 1) below 0, else x; alpha is 1",
                            {"alpha"}),
      rectifier<hard_sigmoid, hard_sigmoid>("hard_sigmoid",
                                            "alpha x + beta cut to [0, 1]; alpha is 0.2, beta 0.5",
                                            {"alpha", "beta"}),
      formula_op<[](Term x) { return hard_swish(x); },
                 [](double x) { return x * clamp_to_unit(x / 6 + 0.5); }>(
          "hard_swish", "x times x / 6 + 1/2 cut to [0, 1]"),
  };
  return defs;
}

}  // namespace opweld
