#include "ops/scalar_functions.h"

#include <numbers>
#include <span>

namespace opweld {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kLn2 = std::numbers::ln2;

// Where an odd function with slope 1 at zero is x itself, in f64 and so in f32. Below it the
// formulas would lose the sign of zero and touch subnormals.
constexpr double kTiny = 0x1p-30;
// From here on sqrt(x^2 + 1) is |x| to the last place, while x^2 is far from overflow.
constexpr double kLarge = 0x1p28;

// sum of coefficients[i] * x^i
Term polynomial(Term x, std::span<const double> coefficients) {
  Term sum = x.number(coefficients.back());
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// (atan(z) - z) / z^3 as a polynomial in z^2: interpolated at Chebyshev nodes of [0, tan(pi/8)^2];
// z + z^3 p(z^2) is atan(z) with a relative error of 7e-18 there.
constexpr double kAtan[] = {
    -0.3333333333333333,   0.19999999999995516, -0.14285714284665682,  0.11111111015187018,
    -0.0909090457530649,   0.07692183125376892, -0.06664510525508936,  0.05858140904866328,
    -0.050854078345894844, 0.03923044778479309, -0.019175404711104935,
};

// (sinh(z) - z) / z^3 likewise over [0, 1], with a relative error of 9e-18.
constexpr double kSinh[] = {
    0.16666666666666666,    0.008333333333333299,   0.00019841269841324198, 2.7557319191381816e-06,
    2.5052117695907823e-08, 1.6057679623801638e-10, 7.746178593018827e-13,
};

// sinh(x) for |x| <= 1.
Term sinh_near_zero(Term x) {
  const Term square = x * x;
  return x + x * square * polynomial(square, kSinh);
}

// `magnitude`, the function's value at |x|, with the sign of x.
Term odd(Term x, Term magnitude) {
  const Term value = select(x < 0, -magnitude, magnitude);
  return select(abs(x) < kTiny, x, value);
}

}  // namespace

// Kahan's correction: the logarithm is that of 1 + d for the d that the sum really holds, and
// log(1 + d) / d barely changes between d and x.
Term log1p(Term x) {
  const Term sum = 1 + x;
  const Term d = sum - 1;
  const Term logarithm = log(sum);
  // d equals x where the sum is exact, and where both are infinite.
  const Term corrected = select(equal(d, x), logarithm, logarithm * (x / d));
  return select(equal(d, 0), x, corrected);
}

// exp(x) - 1 = 2 sinh(x/2) exp(x/2), which has no cancellation near zero.
Term expm1(Term x) {
  const Term half = 0.5 * x;
  const Term root = exp(half);
  return select(abs(x) < 1, 2 * sinh_near_zero(half) * root, root * root - 1);
}

Term tan(Term x) {
  return sin(x) / cos(x);
}

// |x| is brought to [0, tan(pi/8)] by atan(a) = pi/2 - atan(1/a) and
// atan(a) = pi/4 + atan((a - 1) / (a + 1)).
Term atan(Term x) {
  constexpr double kTanPi8 = 0.41421356237309503;
  const Term a = abs(x);
  const Term inverted = a > 1;
  const Term b = select(inverted, 1 / a, a);
  const Term turned = b > kTanPi8;
  const Term z = select(turned, (b - 1) / (b + 1), b);
  const Term square = z * z;
  const Term near = z + z * square * polynomial(square, kAtan);
  const Term first = select(turned, kPi / 4 + near, near);
  return odd(x, select(inverted, kPi / 2 - first, first));
}

Term asin(Term x) {
  return atan(x / sqrt((1 - x) * (1 + x)));
}

Term acos(Term x) {
  return 2 * atan(sqrt((1 - x) / (1 + x)));
}

// exp(|x| / 2) is squared in two steps, so that nothing overflows before the result does.
Term sinh(Term x) {
  const Term a = abs(x);
  const Term root = exp(0.5 * a);
  const Term far = 0.5 * root * root - 0.5 / root / root;
  return select(a < 1, sinh_near_zero(x), select(x < 0, -far, far));
}

Term cosh(Term x) {
  const Term root = exp(0.5 * abs(x));
  return 0.5 * root * root + 0.5 / root / root;
}

// log(a + sqrt(a^2 + 1)) with the 1 taken out: a + sqrt(a^2 + 1) - 1 = a + a^2 / (1 + sqrt(a^2 +
// 1)).
Term asinh(Term x) {
  const Term a = abs(x);
  const Term square = a * a;
  const Term near = log1p(a + square / (1 + sqrt(square + 1)));
  return odd(x, select(a > kLarge, log(a) + kLn2, near));
}

// log(x + sqrt(x^2 - 1)); the roots are taken apart so that every x < 1 gives NaN.
Term acosh(Term x) {
  const Term excess = x - 1;
  const Term near = log1p(excess + sqrt(excess) * sqrt(x + 1));
  return select(x > kLarge, log(x) + kLn2, near);
}

Term atanh(Term x) {
  const Term a = abs(x);
  return odd(x, 0.5 * log1p(2 * a / (1 - a)));
}

}  // namespace opweld
