// Expected values: numpy in f64 from the formulas in ops/norm.cpp.
#include <cmath>

#include "ops/tables.h"

namespace opweld {
namespace {

const std::vector<double> kX = {1, -2, 3, 0.5, 0.25, 4, -0.25, -8};
const std::vector<double> kScale = {1, 2, -1, 0.5};
const std::vector<double> kBias = {0, 1, 0.25, -3};

struct NormCase {
  const char* op;
  Attributes attributes;
  bool scale, bias;
  std::vector<double> result;
};

const NormCase kNormCases[] = {
    {"layer_norm",
     {},
     false,
     false,
     {0.2105583899886371, -1.4739087299204596, 1.333536469928035, -0.07018612999621236,
      0.2865340522507539, 1.1461362090030156, 0.17192043135045235, -1.604590692604222}},
    {"layer_norm",
     {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}},
     true,
     true,
     {0.2105583899886371, -1.9478174598409193, -1.083536469928035, -3.0350930649981063,
      0.2865340522507539, 3.292272418006031, 0.07807956864954765, -3.802295346302111}},
    {"layer_norm",
     {{"axis", std::int64_t{1}}, {"epsilon", 0.5}},
     false,
     false,
     {0.19569842191603265, -1.3698889534122287, 1.23942333880154, -0.06523280730534423,
      0.282842712474619, 1.131370849898476, 0.1697056274847714, -1.5839191898578664}},
    {"layer_norm",
     {{"axis", std::int64_t{0}}},
     false,
     false,
     {0.34625658272464577, -0.5284968894218278, 0.9294255641556282, 0.2004643373669002,
      0.1275682146880274, 1.2210100548711194, -0.0182240306697182, -2.278003833714775}},
    {"rms_norm",
     {},
     false,
     false,
     {0.5298121992304703, -1.0596243984609406, 1.5894365976914109, 0.26490609961523515,
      0.055858063405065966, 0.8937290144810555, -0.055858063405065966, -1.787458028962111}},
    {"rms_norm",
     {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}},
     true,
     false,
     {0.5298121992304703, -2.119248796921881, -1.5894365976914109, 0.13245304980761757,
      0.055858063405065966, 1.787458028962111, 0.055858063405065966, -0.8937290144810555}},
    {"rms_norm",
     {{"axis", std::int64_t{-2}}, {"epsilon", 1e-6}},
     false,
     false,
     {0.291149797758612, -0.582299595517224, 0.8734493932758359, 0.145574898879306,
      0.072787449439653, 1.164599191034448, -0.072787449439653, -2.329198382068896}},
};

TEST(Norm, Values) {
  for (const NormCase& test : kNormCases) {
    for (const DType dtype : kFloatDTypes) {
      SCOPED_TRACE(test.op + std::string(" ") + std::string(to_string(dtype)));
      std::vector<Tensor> operands = {make_tensor(dtype, {2, 4}, kX)};
      if (test.scale) operands.push_back(make_tensor(dtype, {4}, kScale));
      if (test.bias) operands.push_back(make_tensor(dtype, {4}, kBias));
      const auto y = run_op(test.op, operands, test.attributes);
      ASSERT_TRUE(y.has_value()) << y.error().message;
      expect_close((*y)[0], dtype, {2, 4}, rounded(test.result, dtype), 1);
    }
  }
}

TEST(Norm, BiasWithoutScaleAndOtherDTypes) {
  const Tensor x = make_tensor(DType::F16, {1, 2}, {-1, 1});
  const Attributes exact{{"epsilon", 0.0}};
  expect_result(run_op("layer_norm", {x, Tensor(), floats({2}, {10, 20})}, exact), DType::F16,
                {1, 2}, {9, 21});
  expect_result(run_op("layer_norm", {x, floats({2}, {3, 5})}, exact), DType::F16, {1, 2}, {-3, 5});
  expect_result(run_op("rms_norm", {x, make_tensor(DType::F64, {1}, {2})}, exact), DType::F16,
                {1, 2}, {-2, 2});
}

TEST(Norm, ScaleBroadcastsOverLeadingAxes) {
  const Tensor x = floats({2, 1, 2}, {-1, 1, -1, 1});
  const Tensor scale = floats({2, 1, 1}, {1, 10});
  expect_result(run_op("layer_norm", {x, scale}, {{"epsilon", 0.0}}), DType::F32, {2, 1, 2},
                {-1, 1, -10, 10});
}

// Squares of 8000 overflow a half; the statistics must not.
TEST(Norm, HalvesKeepStatisticsInMore) {
  const Tensor x = make_tensor(DType::F16, {1, 768}, std::vector<double>(768, 8000.0));
  std::vector<double> gamma;
  for (int i = 0; i < 768; ++i) gamma.push_back(i % 7 - 3);
  const Tensor scale = make_tensor(DType::F16, {768}, gamma);
  expect_result(run_op("rms_norm", {x, scale}, {}), DType::F16, {1, 768}, gamma);
  expect_result(run_op("layer_norm", {x, scale}, {}), DType::F16, {1, 768},
                std::vector<double>(768, 0.0));
}

TEST(Norm, EdgesOfShapeAndValue) {
  for (const char* op : {"layer_norm", "rms_norm"}) {
    expect_result(run_op(op, {floats({0, 4}, {})}, {}), DType::F32, {0, 4}, {});
    expect_result(run_op(op, {floats({4, 0}, {})}, {}), DType::F32, {4, 0}, {});
    expect_result(run_op(op, {floats({1, 2}, {kNaN, 1})}, {}), DType::F32, {1, 2}, {kNaN, kNaN});
    expect_error(run_op(op, {floats({}, {1})}, {}), "a scalar has no axes");
    expect_error(run_op(op, {floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({2}, {1, 2})}, {}),
                 "operand 'scale' [2] does not broadcast to [2, 3]");
    expect_error(run_op(op, {floats({2}, {1, 2}), floats({1, 2}, {1, 2})}, {}), "it has more axes");
  }
  expect_result(run_op("rms_norm", {floats({1, 2}, {kInf, 1})}, {}), DType::F32, {1, 2}, {kNaN, 0});
}

// ---- group_norm ----

const std::vector<double> kImage = {1, -2, 3, 0.5, 0.25, 4, -0.25, -8, 2, 2, -1, 7, 0, 0, 0, 4};

struct GroupCase {
  std::int64_t groups;
  std::vector<double> result;
};

const GroupCase kGroupCases[] = {
    {1,
     {0.34625658272464577, -0.5284968894218278, 2.8588511283112563, 1.4009286747338003,
      0.1224317853119726, -0.9710100548711194, -3.009112015334859, -4.139001916857388,
      0.10050370031084267, 0.10050370031084267, -1.211081406838539, 5.221155413055392,
      0.9535259021758987, 0.9535259021758987, -3.351762951087949, -2.547733348601208}},
    {2,
     {0.2105583899886371, -1.4739087299204596, 3.66707293985607, 0.8596277400075752,
      -0.0365340522507539, -0.8961362090030156, -2.914039784324774, -3.802295346302111,
      -0.17407755045418408, -0.17407755045418408, -1.4370857063585771, 4.133395908175313,
      0.8273493069415827, 0.8273493069415827, -3.2886746534707916, -2.133976039587626}},
    {4,
     {0.9999977777851852, -0.9999977777851852, 2.9999936000307197, -0.9999936000307197,
      1.2499985777808118, -0.7499985777808119, -2.500000166493153, -3.499999833506847, 0.0, 0.0,
      -0.9999993750002929, 2.999999375000293, 0.25, 0.25, -3.4999993750011718,
      -2.5000006249988282}},
};

TEST(GroupNorm, Values) {
  for (const GroupCase& test : kGroupCases) {
    for (const DType dtype : kFloatDTypes) {
      SCOPED_TRACE(fmt::format("{} groups, {}", test.groups, to_string(dtype)));
      const std::vector<Tensor> operands = {make_tensor(dtype, {2, 4, 2}, kImage),
                                            make_tensor(dtype, {4}, kScale),
                                            make_tensor(dtype, {4}, kBias)};
      const auto y = run_op("group_norm", operands, {{"groups", test.groups}});
      ASSERT_TRUE(y.has_value()) << y.error().message;
      expect_close((*y)[0], dtype, {2, 4, 2}, rounded(test.result, dtype), 4);
    }
  }
}

TEST(GroupNorm, Shapes) {
  const Tensor four = floats({4}, {1, 1, 1, 1});
  const Attributes halves{{"groups", std::int64_t{2}}};
  const Tensor matrix = floats({1, 4}, {-1, 1, -2, 2});
  expect_result(
      run_op("group_norm", {matrix, four, four}, {{"groups", std::int64_t{2}}, {"epsilon", 0.0}}),
      DType::F32, {1, 4}, {0, 2, 0, 2});
  expect_result(run_op("group_norm", {floats({0, 4, 3}, {}), four, four}, halves), DType::F32,
                {0, 4, 3}, {});
  expect_result(run_op("group_norm", {floats({2, 4, 0}, {}), four, four}, halves), DType::F32,
                {2, 4, 0}, {});
  const Tensor three = floats({3}, {1, 1, 1});
  expect_error(run_op("group_norm", {floats({1, 3}, {1, 2, 3}), three, three}, halves),
               "the number of channels 3 is no multiple of 2");
  expect_error(run_op("group_norm", {matrix, three, four}, halves), "channels of 'x' and 'scale'");
  expect_error(run_op("group_norm", {matrix, four, three}, halves), "channels of 'x' and 'bias'");
  expect_error(run_op("group_norm", {four, four, four}, halves), "must have rank 2 or more");
  expect_error(run_op("group_norm", {matrix, four, four}, {{"groups", std::int64_t{0}}}),
               "'groups' must be 1 or more");
}

}  // namespace
}  // namespace opweld
