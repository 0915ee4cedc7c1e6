// Expected values were computed with 50 digits from the textbook definitions (mpmath).
#include <cmath>

#include "ops/tables.h"

namespace opweld {
namespace {

TEST(Math, ElementaryFunctions) {
  const std::vector<double> x = {-2.5, -1, -0.25, 0, 0.5, 1, 3, 10};
  const VectorCase cases[] = {
      {"exp",
       {x},
       {0.0820849986238988, 0.36787944117144233, 0.7788007830714049, 1, 1.6487212707001282,
        2.718281828459045, 20.085536923187668, 22026.465794806718}},
      {"tanh",
       {x},
       {-0.9866142981514303, -0.7615941559557649, -0.24491866240370913, 0, 0.46211715726000974,
        0.7615941559557649, 0.9950547536867305, 0.9999999958776927}},
      {"erf",
       {x},
       {-0.999593047982555, -0.8427007929497149, -0.27632639016823696, 0, 0.5204998778130465,
        0.8427007929497149, 0.9999779095030014, 1}},
      {"sigmoid",
       {x},
       {0.07585818002124355, 0.2689414213699951, 0.4378234991142019, 0.5, 0.6224593312018546,
        0.7310585786300049, 0.9525741268224333, 0.9999546021312976}},
      {"sin",
       {x},
       {-0.5984721441039565, -0.8414709848078965, -0.24740395925452294, 0, 0.479425538604203,
        0.8414709848078965, 0.1411200080598672, -0.5440211108893698}},
      {"cos",
       {x},
       {-0.8011436155469337, 0.5403023058681398, 0.9689124217106447, 1, 0.8775825618903728,
        0.5403023058681398, -0.9899924966004454, -0.8390715290764524}},
      {"log",
       {{0.0625, 0.5, 1, 1.5, 3, 100}},
       {-2.772588722239781, -0.6931471805599453, 0, 0.4054651081081644, 1.0986122886681098,
        4.605170185988092}},
      {"sqrt", {{0, 0.25, 2, 3, 100}}, {0, 0.5, 1.4142135623730951, 1.7320508075688772, 10}},
      {"rsqrt", {{0.0625, 0.5, 1, 3, 100}}, {4, 1.4142135623730951, 1, 0.5773502691896257, 0.1}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

TEST(Math, AtTheEdges) {
  const VectorCase cases[] = {
      {"exp", {{-kInf, kInf, kNaN}}, {0, kInf, kNaN}},
      {"log", {{0, -1, kInf, kNaN}}, {-kInf, kNaN, kInf, kNaN}},
      {"sqrt", {{-1, kInf, kNaN}}, {kNaN, kInf, kNaN}},
      {"rsqrt", {{0, -1, kInf, kNaN}}, {kInf, kNaN, 0, kNaN}},
      {"tanh", {{-kInf, kInf, kNaN}}, {-1, 1, kNaN}},
      {"erf", {{-kInf, kInf, kNaN}}, {-1, 1, kNaN}},
      {"sigmoid", {{-kInf, -1024, 1024, kInf, kNaN}}, {0, 0, 1, 1, kNaN}},
      {"sin", {{-kInf, kInf, kNaN}}, {kNaN, kNaN, kNaN}},
      {"cos", {{-kInf, kInf, kNaN}}, {kNaN, kNaN, kNaN}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

TEST(Math, RoundsToIntegralValues) {
  const std::vector<double> x = {-2.5, -1.5, -0.75, -0.5, 0, 0.5, 1.25, 1.5, 2.5, kInf, kNaN};
  expect_on_floats({"floor", {x}, {-3, -2, -1, -1, 0, 0, 1, 1, 2, kInf, kNaN}});
  expect_on_floats({"ceil", {x}, {-2, -1, 0, 0, 0, 1, 2, 2, 3, kInf, kNaN}});
  expect_on_floats({"round", {x}, {-2, -2, -1, 0, 0, 0, 1, 2, 2, kInf, kNaN}});
}

TEST(Math, TellsNanAndInfinity) {
  for (const DType dtype : kFloatDTypes) {
    const Tensor x = make_tensor(dtype, {5}, {-kInf, -1, 0, kInf, kNaN});
    expect_result(run_op("is_nan", {x}, {}), DType::Bool, {5}, {0, 0, 0, 0, 1});
    expect_result(run_op("is_inf", {x}, {}), DType::Bool, {5}, {1, 0, 0, 1, 0});
  }
}

TEST(Math, RefusesIntegers) {
  expect_error(run_op("exp", {ints({2}, {1, 2})}, {}), "operand 'x' cannot be i64");
  expect_error(run_op("is_nan", {ints({2}, {1, 2})}, {}), "operand 'x' cannot be i64");
}

TEST(Trigonometry, Values) {
  const std::vector<double> x = {-2.5, -1, -0.25, 0, 0.5, 1, 3, 10};
  const std::vector<double> unit = {-1, -0.75, -0.25, 0, 0.5, 1};
  const VectorCase cases[] = {
      {"tan",
       {x},
       {0.7470222972386603, -1.5574077246549023, -0.25534192122103627, 0, 0.5463024898437905,
        1.5574077246549023, -0.1425465430742778, 0.6483608274590866}},
      {"asin",
       {unit},
       {-1.5707963267948966, -0.848062078981481, -0.25268025514207865, 0, 0.5235987755982989,
        1.5707963267948966}},
      {"acos",
       {unit},
       {3.141592653589793, 2.4188584057763776, 1.8234765819369754, 1.5707963267948966,
        1.0471975511965979, 0}},
      {"atan",
       {x},
       {-1.1902899496825317, -0.7853981633974483, -0.24497866312686414, 0, 0.4636476090008061,
        0.7853981633974483, 1.2490457723982544, 1.4711276743037347}},
      {"sinh",
       {x},
       {-6.0502044810397875, -1.1752011936438014, -0.2526123168081683, 0, 0.5210953054937474,
        1.1752011936438014, 10.017874927409903, 11013.232874703393}},
      {"cosh",
       {x},
       {6.132289479663686, 1.5430806348152437, 1.0314130998795732, 1, 1.1276259652063807,
        1.5430806348152437, 10.067661995777765, 11013.232920103323}},
      {"asinh",
       {x},
       {-1.6472311463710958, -0.881373587019543, -0.24746646154726346, 0, 0.48121182505960347,
        0.881373587019543, 1.8184464592320668, 2.99822295029797}},
      {"acosh",
       {{1, 1.125, 2, 10, 100}},
       {0, 0.4949329230945269, 1.3169578969248168, 2.993222846126381, 5.298292365610485}},
      {"atanh",
       {{-0.75, -0.25, 0, 0.5, 0.875}},
       {-0.9729550745276566, -0.25541281188299536, 0, 0.5493061443340549, 1.354025100551105}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

TEST(Trigonometry, AtTheEdges) {
  const double right = M_PI / 2;
  const VectorCase cases[] = {
      {"tan", {{kInf, kNaN}}, {kNaN, kNaN}},
      {"asin", {{-1.5, 2, kInf, kNaN}}, {kNaN, kNaN, kNaN, kNaN}},
      {"acos", {{-1.5, 2, kInf, kNaN}}, {kNaN, kNaN, kNaN, kNaN}},
      {"atan", {{-kInf, kInf, kNaN}}, {-right, right, kNaN}},
      {"sinh", {{-kInf, kInf, kNaN}}, {-kInf, kInf, kNaN}},
      {"cosh", {{-kInf, kInf, kNaN}}, {kInf, kInf, kNaN}},
      {"asinh", {{-kInf, kInf, kNaN}}, {-kInf, kInf, kNaN}},
      {"acosh", {{0.5, -2, -kInf, kInf, kNaN}}, {kNaN, kNaN, kNaN, kInf, kNaN}},
      {"atanh", {{-1, 1, 1.5, -2, kNaN}}, {-kInf, kInf, kNaN, kNaN, kNaN}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

}  // namespace
}  // namespace opweld
