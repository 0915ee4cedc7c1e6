// Expected values were computed with 50 digits from the formulas in the comments (mpmath).
#include "ops/tables.h"

namespace opweld {
namespace {

const std::vector<double> kX = {-2.5, -1, -0.25, 0, 0.5, 1, 3, 10};

TEST(Activation, Gelu) {
  // x * erfc(-x / sqrt(2)) / 2
  expect_on_floats({"gelu",
                    {kX},
                    {-0.015524163314440337, -0.15865525393145705, -0.10032341857926907, 0,
                     0.34573123063700656, 0.8413447460685429, 2.99595030590511, 10}});
  // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
  expect_on_floats({"gelu",
                    {kX},
                    {-0.015084266089998582, -0.1588080093917233, -0.100324649298315, 0,
                     0.34571400982514394, 0.8411919906082767, 2.996362607918227, 10},
                    {{"approximate", "tanh"}}});
}

TEST(Activation, GeluAtTheEdges) {
  for (const char* form : {"none", "tanh"}) {
    const Attributes attributes{{"approximate", form}};
    const std::vector<double> x = {kInf, -kInf, 75, -75, kNaN};
    expect_on_floats({"gelu", {x}, {kInf, 0, 75, 0, kNaN}, attributes});
  }
}

TEST(Activation, GeluHasTwoForms) {
  expect_error(run_op("gelu", {floats({1}, {1})}, {{"approximate", "sigmoid"}}),
               "must be \"none\" or \"tanh\", not \"sigmoid\"");
}

TEST(Activation, SmoothFunctions) {
  const VectorCase cases[] = {
      // x / (1 + exp(-x))
      {"silu",
       {kX},
       {-0.18964545005310887, -0.2689414213699951, -0.10945587477855047, 0, 0.3112296656009273,
        0.7310585786300049, 2.8577223804672998, 9.999546021312975}},
      {"swish",
       {kX},
       {-0.18964545005310887, -0.2689414213699951, -0.10945587477855047, 0, 0.3112296656009273,
        0.7310585786300049, 2.8577223804672998, 9.999546021312975}},
      // x / (1 + exp(-1.702 * x))
      {"swish",
       {kX},
       {-0.03498616504857007, -0.1542042340671787, -0.09880035009980583, 0, 0.35038843660638014,
        0.8457957659328212, 2.981928690292214, 9.99999959420387},
       {{"alpha", 1.702}}},
      // log(1 + exp(x))
      {"softplus",
       {kX},
       {0.07888973429254963, 0.3132616875182228, 0.5759394198788436, 0.6931471805599453,
        0.9740769841801067, 1.3132616875182228, 3.048587351573742, 10.000045398899218}},
      // x * tanh(log(1 + exp(x)))
      {"mish",
       {kX},
       {-0.19681620390653334, -0.3034014613741089, -0.12992696367914103, 0, 0.37524521130489513,
        0.8650983882673103, 2.9865350049679575, 9.99999995878067}},
      // x / (1 + |x|)
      {"softsign",
       {kX},
       {-0.7142857142857143, -0.5, -0.2, 0, 0.3333333333333333, 0.5, 0.75, 0.9090909090909091}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

TEST(Activation, SmoothFunctionsAtTheEdges) {
  const VectorCase cases[] = {
      {"silu", {{kInf, -kInf, -1024, 1024, kNaN}}, {kInf, kNaN, 0, 1024, kNaN}},
      {"softplus", {{kInf, -kInf, -1024, 1024, kNaN}}, {kInf, 0, 0, 1024, kNaN}},
      {"mish", {{kInf, -kInf, -1024, 1024, kNaN}}, {kInf, kNaN, 0, 1024, kNaN}},
      {"softsign", {{kInf, -kInf, kNaN}}, {kNaN, kNaN, kNaN}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

TEST(Rectifier, Relu) {
  expect_on_floats({"relu", {{kNaN, -1, 0, 1, kInf, -kInf}}, {kNaN, 0, 0, 1, kInf, 0}});
  for (const DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8}) {
    expect_vector({"relu", {{-128, -1, 0, 1, 127}}, {0, 0, 0, 1, 127}}, dtype);
  }
  expect_vector({"relu", {{0, 1, 255}}, {0, 1, 255}}, DType::U8);
}

TEST(Rectifier, Prelu) {
  const Tensor x = floats({2, 3}, {-2, 0, 3, -4, kNaN, -kInf});
  const Tensor slope = floats({3}, {0.5, 2, -1});
  expect_result(run_op("prelu", {x, slope}, {}), DType::F32, {2, 3}, {-1, 0, 3, -2, kNaN, kInf});
  expect_result(run_op("prelu", {ints({3}, {-2, 0, 3}), ints({}, {4})}, {}), DType::I64, {3},
                {-8, 0, 3});
  expect_error(run_op("prelu", {slope, x}, {}), "operand 'slope' [2, 3] does not broadcast to [3]");
  expect_error(run_op("prelu", {floats({1}, {1}), slope}, {}), "they differ on axis -1");
}

TEST(Rectifier, PiecewiseFunctions) {
  const VectorCase cases[] = {
      {"leaky_relu", {kX}, {-0.025, -0.01, -0.0025, 0, 0.5, 1, 3, 10}},
      {"leaky_relu", {kX}, {-0.625, -0.25, -0.0625, 0, 0.5, 1, 3, 10}, {{"alpha", 0.25}}},
      {"thresholded_relu", {kX}, {0, 0, 0, 0, 0, 0, 3, 10}},
      {"thresholded_relu", {kX}, {0, 0, -0.25, 0, 0.5, 1, 3, 10}, {{"alpha", -0.5}}},
      {"shrink", {kX}, {-2.5, -1, 0, 0, 0, 1, 3, 10}},
      {"shrink", {kX}, {-1, 0, 0, 0, 0, 0, 1.5, 8.5}, {{"bias", 1.5}, {"lambd", 1.0}}},
      // min(max(x / 5 + 1/2, 0), 1)
      {"hard_sigmoid", {kX}, {0, 0.3, 0.45, 0.5, 0.6, 0.7, 1, 1}},
      // x * min(max(x / 6 + 1/2, 0), 1)
      {"hard_swish",
       {kX},
       {-0.20833333333333334, -0.3333333333333333, -0.11458333333333333, 0, 0.2916666666666667,
        0.6666666666666666, 3, 10}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

// In each row the one element between -lambd and lambd, and the bends themselves.
TEST(Rectifier, ShrinkAtTheBends) {
  expect_on_floats({"shrink",
                    {{-1.5, -1, -0.5, 0.5, 1, 1.5}},
                    {-1.25, 0, 0, 0, 0, 1.25},
                    {{"bias", 0.25}, {"lambd", 1.0}}});
}

TEST(Rectifier, ExponentialFunctions) {
  const VectorCase cases[] = {
      // alpha * (exp(x) - 1) below 0
      {"elu",
       {kX},
       {-0.9179150013761012, -0.6321205588285577, -0.22119921692859512, 0, 0.5, 1, 3, 10}},
      {"elu",
       {kX},
       {-1.8358300027522023, -1.2642411176571153, -0.44239843385719024, 0, 0.5, 1, 3, 10},
       {{"alpha", 2.0}}},
      // gamma * (alpha * (exp(x) - 1)) below 0, gamma * x above
      {"selu",
       {kX},
       {-1.6137857588732425, -1.1113307378125628, -0.38889019747811904, 0, 0.5253504936777402,
        1.0507009873554805, 3.1521029620664414, 10.507009873554805}},
      {"selu",
       {kX},
       {-4.589575006880506, -3.1606027941427883, -1.1059960846429755, 0, 1.25, 2.5, 7.5, 25},
       {{"alpha", 2.0}, {"gamma", 2.5}}},
      // alpha * (exp(x / alpha) - 1) below 0
      {"celu",
       {kX},
       {-1.4269904062796197, -0.7869386805747332, -0.2350061948308092, 0, 0.5, 1, 3, 10},
       {{"alpha", 2.0}}},
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

TEST(Rectifier, NanStaysNan) {
  for (const char* op : {"leaky_relu", "thresholded_relu", "shrink", "elu", "selu", "celu",
                         "hard_sigmoid", "hard_swish"}) {
    expect_on_floats({op, {{kNaN}}, {kNaN}});
  }
}

TEST(Rectifier, AtInfinity) {
  const std::vector<double> x = {-kInf, kInf};
  const VectorCase cases[] = {
      {"leaky_relu", {x}, {-kInf, kInf}},
      {"thresholded_relu", {x}, {0, kInf}},
      {"shrink", {x}, {-kInf, kInf}},
      {"elu", {x}, {-1, kInf}},
      {"selu", {x}, {-1.7580993408473766, kInf}},  // -alpha * gamma
      {"celu", {x}, {-1, kInf}},
      {"hard_sigmoid", {x}, {0, 1}},
      {"hard_swish", {x}, {kNaN, kInf}},  // -inf * 0
  };
  for (const VectorCase& test : cases) expect_on_floats(test);
}

}  // namespace
}  // namespace opweld
