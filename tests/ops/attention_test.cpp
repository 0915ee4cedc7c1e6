// Expected values: numpy in f64, with whole score matrices (no online softmax), from the formulas
// at the head of ops/attention.cpp.
#include <cmath>

#include "ops/tables.h"

namespace opweld {
namespace {

constexpr std::int64_t kOne = 1;
constexpr std::int64_t kTwo = 2;

// Two batches, four query heads on two key heads, three queries, five keys, heads of 2 and 3.
const std::vector<double> kQ = {0.75,  1.25, -2,    1.25,  -0.25, 0,     0.5,   -1,   2,     -2,
                                -1,    -0.5, 0.25,  -0.5,  -1.5,  -2,    -2,    -2,   -1.5,  2,
                                -1.25, 0.75, 1,     -1.25, -1,    -0.25, -1,    2,    -1.25, 1.75,
                                1.25,  1.5,  -1.75, -0.5,  0.5,   0,     0.75,  0.75, 0.75,  -1.75,
                                2,     0.25, 1.75,  -1,    -0.5,  1.5,   -1.25, -1.75};
const std::vector<double> kK = {-0.5,  0.75,  -1.5, 1.5,   -0.75, -1.25, 0.25, 1.75,  1.75,  1.5,
                                -0.75, -2,    1.25, 1,     1.25,  -2,    -2,   0,     -0.75, -0.25,
                                1.75,  -1.25, 0,    -0.75, -0.75, 1.25,  -1.5, -0.75, -1.5,  -1.5,
                                -1,    0.75,  0.25, -0.25, -1.5,  1.25,  1.25, -1,    -1.75, -0.75};
const std::vector<double> kV = {
    -1.5,  1.25,   0.125,  0,      -0.875, 0,      1.875,  -1.125, 1.125, -2,     -0.75, 1.75,
    1.5,   -1.75,  1.375,  1.375,  -0.25,  -0.5,   2,      1.875,  0.75,  -0.375, -1.25, 1.75,
    -1,    0.25,   0.75,   -1.125, -0.75,  1,      -1.25,  0.75,   1.875, 0.75,   0.625, -0.125,
    1.875, -1.125, -0.625, 0.625,  0.625,  -1.625, -1.375, 0.75,   1.375, 0.5,    1.75,  -0.5,
    -0.75, 1.25,   -1.875, -1.25,  -1.25,  -0.5,   -1.375, 1.25,   1.375, -0.5,   -2,    0.875};

enum class Masked : std::uint8_t { None, Additive, OfKeys, OfPairs };

// Additive [S, T] with one -inf; bools per batch [B, 1, 1, T]; bools [S, T] whose rows 0 and 1 are
// all false.
Tensor make_mask(Masked masked, DType dtype) {
  switch (masked) {
    case Masked::Additive:
      return make_tensor(
          dtype, {3, 5},
          {-1.75, 0.5, -1.5, 1.75, 0.75, 2, 0.5, -kInf, -0.5, 1.25, -1.75, -1.5, -0.5, 1, 0});
    case Masked::OfKeys:
      return make_tensor(DType::Bool, {2, 1, 1, 5}, {1, 1, 0, 0, 1, 1, 0, 1, 1, 1});
    case Masked::OfPairs:
      return make_tensor(DType::Bool, {3, 5}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0});
    case Masked::None:
      break;
  }
  return {};
}

struct AttentionCase {
  Attributes attributes;
  Masked masked;
  std::vector<double> head1;  // of batch 0: [S, Dv]
  std::vector<double> head2;  // of batch 1
};

const AttentionCase kCases[] = {
    {Attributes{},
     Masked::None,
     {1.2083089936528928, -0.9476112799839703, 1.0613075518310167, 1.6322108487903635,
      -1.3063252409348323, 1.2046257408516468, 0.681804282531986, -0.6926648350874548,
      0.6926089626779474},
     {-0.7733428691837414, 0.713252052096127, -0.2268187657721225, -1.2460653182744401,
      1.0651097082501186, 0.9869708712096156, -1.259483509918725, 1.2349581080348024,
      0.8897483938669959}},
    {Attributes{{"scale", 0.5}},
     Masked::None,
     {0.6029993696118213, -0.7882853134575096, 0.9850640102648287, 1.1859028966355272,
      -1.132429886088957, 1.1587748445713841, 0.26513742301493803, -0.57946560290898,
      0.7011739792036015},
     {-0.7281122935981639, 0.532346896516104, -0.216361057825804, -1.016107000367926,
      0.7240604536376507, 0.49045050375838484, -1.043513484348301, 1.0626658469712567,
      0.33175267717785756}},
    {Attributes{{"causal", "top_left"}},
     Masked::None,
     {-1.5, 1.25, 0.125, -1.4560316538729654, 1.1877115096533677, 0.12133597115608045,
      0.7933195733766025, -0.6780358185758882, 0.6371910311192169},
     {0.5, 1.75, -0.5, -0.6703562571850433, 1.2818574971259826, -1.7873918829035476,
      -0.654483502838749, 1.200281976799711, -1.69634276726405}},
    {Attributes{{"causal", "bottom_right"}},
     Masked::None,
     {1.3739068552031108, -0.8116242229519871, 0.9556310958155316, 1.7086240661737109,
      -1.0498968455184512, 1.1061554154589646, 0.681804282531986, -0.6926648350874548,
      0.6926089626779474},
     {-0.5160804303947154, 0.6262144810525746, -1.0172949114472898, -1.290668577990993,
      1.2483562431420099, 0.9936650114235076, -1.259483509918725, 1.2349581080348024,
      0.8897483938669959}},
    {Attributes{{"window_left", kOne}, {"window_right", kOne}},
     Masked::None,
     {-1.1659497917620367, 0.7767622049962186, 0.09716248264683638, 1.7745005173416235,
      -1.0552239262758143, 1.0947187760001145, 1.0578005886929593, -1.0232300706568613,
      0.7844013665229067},
     {-0.18342268998076733, 1.4766309240076931, -1.251764958978844, -0.6807477584614459,
      1.2364678923227215, -1.7643123024539178, -1.2870613259903307, 1.2346796035170975,
      0.9102119008730978}},
    {Attributes{{"causal", "bottom_right"}, {"window_left", kOne}},
     Masked::None,
     {1.7960855101582145, -1.1144780680210953, 1.0776513060949289, 1.8053034363968952,
      -1.1182551712642157, 1.1362413812263072, -1.2936537220886741, -0.9518132222603788,
      1.6743200416523578},
     {-0.9766309240076931, 0.11684537996153455, -1.251764958978844, -1.3746909221054209,
      1.2438184421084133, 1.37036383158131, -1.372697285271976, 1.2414470595816252,
      1.3736841630125578}},
    {Attributes{{"scale", 2.0}, {"softcap", 1.5}},
     Masked::None,
     {1.351182494843893, -1.0006780821684265, 1.0610854507994303, 1.4399926231274365,
      -1.247355647152638, 1.1640527257165818, 0.6291954588978779, -0.70727798939449,
      0.6180798654979369},
     {-0.830395499256763, 0.7261804050456316, -0.09439377015963406, -1.0227614644640233,
      0.8254208039503902, 0.18167416627640764, -1.0983715191099865, 1.0901853966256967,
      0.2682883224099914}},
    {Attributes{},
     Masked::Additive,
     {0.1122474367090886, -1.1539593364844882, 1.365874856145505, 1.1980004853289399,
      -1.460204175052059, 1.2573440975208063, 0.6349678536974455, -0.910408664262233,
      1.0862565127950847},
     {-1.2010710232837618, 1.0936202610694088, 0.71102702109272, -0.9645612210350345,
      0.5878803944325841, 0.551923953293657, -1.3637060017977174, 1.243505084834129,
      1.3267255813141716}},
    {Attributes{},
     Masked::OfKeys,
     {0.2489469505993812, -0.5642636551375411, 0.7753478506372836, 1.3557807163646596,
      -1.6066745221099343, 1.3138360649242782, -0.4731346697826404, -0.1739338498660108,
      0.07637833067885176},
     {-0.7810783321535043, 0.535382149196677, 0.3193628027605073, -1.3045055708426487,
      1.0433282311961327, 1.32413272146381, -1.340466483461468, 1.2325671824889592,
      1.3292082422703113}},
    {Attributes{},
     Masked::OfPairs,
     {0, 0, 0, 0, 0, 0, 0.6728849351832784, -0.6811385713848749, 0.6851700546519368},
     {0, 0, 0, 0, 0, 0, -1.2611709016166006, 1.2421454154393534, 0.889781161289913}},
    {Attributes{
         {"scale", 0.5}, {"softcap", 2.0}, {"causal", "bottom_right"}, {"window_left", kTwo}},
     Masked::Additive,
     {0.46326384197987497, -0.7405219882435141, 0.38245320758843454, -0.7739709846769359,
      -0.8266268134576915, 0.677224611592319, -0.1442646205882222, -1.0004818848899166,
      1.4710051940735425},
     {-0.7021403624415243, 1.0366687994187789, -1.6277828847557305, -1.041040443919978, 1.25,
      -0.3615896916161143, -1.3463480017614047, 1.0955356050380363, 1.316063294410582}},
};

// One head [S, Dv] out of a result [B, Hq, S, Dv].
std::vector<double> head_of(const Tensor& result, std::int64_t batch, std::int64_t head) {
  const std::int64_t size = result.sizes()[2] * result.sizes()[3];
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) {
    values.push_back(result.get_double((batch * result.sizes()[1] + head) * size + i));
  }
  return values;
}

TEST(Attention, Values) {
  for (const AttentionCase& test : kCases) {
    for (const DType dtype : kFloatDTypes) {
      SCOPED_TRACE(fmt::format("case {}, {}", &test - kCases, to_string(dtype)));
      std::vector<Tensor> operands = {make_tensor(dtype, {2, 4, 3, 2}, kQ),
                                      make_tensor(dtype, {2, 2, 5, 2}, kK),
                                      make_tensor(dtype, {2, 2, 5, 3}, kV)};
      if (test.masked != Masked::None) operands.push_back(make_mask(test.masked, dtype));
      const auto results = run_op("attention", operands, test.attributes);
      ASSERT_TRUE(results.has_value()) << results.error().message;
      ASSERT_EQ((*results)[0].sizes(), (Sizes{2, 4, 3, 3}));
      const Tensor head1 = make_tensor(dtype, {3, 3}, head_of((*results)[0], 0, 1));
      const Tensor head2 = make_tensor(dtype, {3, 3}, head_of((*results)[0], 1, 2));
      expect_close(head1, dtype, {3, 3}, rounded(test.head1, dtype), 4);
      expect_close(head2, dtype, {3, 3}, rounded(test.head2, dtype), 4);
    }
  }
}

// q = 0 makes all scores equal, so that the result is the mean of the visible values.
Expected<std::vector<Tensor>> mean_of_visible(std::int64_t queries, std::int64_t keys,
                                              const Attributes& attributes,
                                              const Tensor& mask = {}) {
  std::vector<double> values;
  for (std::int64_t t = 0; t < keys; ++t) values.push_back(static_cast<double>(1 << t));
  std::vector<Tensor> operands = {zeros(DType::F32, {1, 1, queries, 2}),
                                  zeros(DType::F32, {1, 1, keys, 2}),
                                  floats({1, 1, keys, 1}, values)};
  if (mask.data() != nullptr) operands.push_back(mask);
  return run_op("attention", operands, attributes);
}

TEST(Attention, WhichKeysAreVisible) {
  const auto expect_means = [](const Attributes& attributes, std::int64_t queries,
                               std::int64_t keys, const std::vector<double>& means) {
    const auto results = mean_of_visible(queries, keys, attributes);
    expect_close((*results)[0], DType::F32, {1, 1, queries, 1}, rounded(means, DType::F32));
  };
  expect_means({}, 2, 4, {3.75, 3.75});
  expect_means({{"causal", "top_left"}}, 3, 4, {1, 1.5, 7.0 / 3});
  expect_means({{"causal", "bottom_right"}}, 3, 4, {1.5, 7.0 / 3, 3.75});
  // More queries than keys: the first ones see none.
  expect_means({{"causal", "bottom_right"}}, 4, 2, {0, 0, 1, 1.5});
  expect_means({{"causal", "top_left"}}, 4, 2, {1, 1.5, 1.5, 1.5});
  expect_means({{"window_left", kOne}}, 4, 4, {3.75, 3.75, 14.0 / 3, 6});
  expect_means({{"window_right", std::int64_t{0}}}, 4, 4, {1, 1.5, 7.0 / 3, 3.75});
  expect_means({{"window_left", std::int64_t{0}}, {"window_right", std::int64_t{0}}}, 4, 4,
               {1, 2, 4, 8});
  expect_means({{"causal", "bottom_right"}, {"window_left", kOne}, {"window_right", kTwo}}, 2, 4,
               {3, 6});
  expect_means({{"window_left", std::int64_t{-1}}, {"window_right", std::int64_t{-1}}}, 1, 4,
               {3.75});
}

TEST(Attention, RowsThatSeeNothingAreZeros) {
  const Tensor none = make_tensor(DType::Bool, {2, 3}, {0, 0, 0, 1, 0, 1});
  expect_result(mean_of_visible(2, 3, {}, none), DType::F32, {1, 1, 2, 1}, {0, 2.5});
  const Tensor minus_infinity = floats({2, 3}, {-kInf, -kInf, -kInf, 0, -kInf, 0});
  expect_result(mean_of_visible(2, 3, {}, minus_infinity), DType::F32, {1, 1, 2, 1}, {0, 2.5});
  // Finite scores, however low, are no mask.
  const Tensor low = floats({2, 3}, {-1e30, -1e30, -1e30, 0, -1e30, 0});
  expect_close((*mean_of_visible(2, 3, {}, low))[0], DType::F32, {1, 1, 2, 1},
               rounded({7.0 / 3, 2.5}, DType::F32));
}

TEST(Attention, LogSumExpOfEachRow) {
  // q = 0: the logarithm of how many keys a row sees, and -inf where it sees none.
  const Tensor mask = make_tensor(DType::Bool, {3, 4}, {1, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 0});
  const auto results = mean_of_visible(3, 4, {{"lse", kOne}}, mask);
  ASSERT_TRUE(results.has_value()) << results.error().message;
  ASSERT_EQ(results->size(), 2U);
  expect_close((*results)[1], DType::F32, {1, 1, 3},
               rounded({std::log(4), std::log(2), -kInf}, DType::F32));
  // Of half types it is f32.
  const Tensor half = zeros(DType::F16, {1, 1, 2, 2});
  EXPECT_EQ((*run_op("attention", {half, half, half}, {{"lse", kOne}}))[1].dtype(), DType::F32);
}

// Two batch elements of which `lengths` keys are valid, the rest NaN.
Expected<std::vector<Tensor>> mean_of_valid(const std::vector<double>& lengths,
                                            const Attributes& attributes) {
  const Tensor keys = floats({2, 1, 3, 1}, {0, 0, kNaN, 0, kNaN, kNaN});
  const Tensor values = floats({2, 1, 3, 1}, {1, 2, kNaN, 8, kNaN, kNaN});
  return run_op("attention",
                {zeros(DType::F32, {2, 1, 2, 1}), keys, values, Tensor(),
                 make_tensor(DType::I64, {2}, lengths)},
                attributes);
}

TEST(Attention, KeysBeyondTheLengthAreHidden) {
  expect_result(mean_of_valid({2, 1}, {}), DType::F32, {2, 1, 2, 1}, {1.5, 1.5, 8, 8});
  expect_result(mean_of_valid({2, 0}, {}), DType::F32, {2, 1, 2, 1}, {1.5, 1.5, 0, 0});
  // The last query stands at the last valid key.
  expect_result(mean_of_valid({2, 1}, {{"causal", "bottom_right"}}), DType::F32, {2, 1, 2, 1},
                {1, 1.5, 0, 8});
  expect_error(mean_of_valid({2, 4}, {}), "more than its keys (sequence 1, length 4, keys 3)");
  expect_error(mean_of_valid({-1, 0}, {}), "more than its keys (sequence 0, length -1, keys 3)");
}

TEST(Attention, SlopesWeighKeysByDistance) {
  // A slope of log 2 doubles the weight from one key to the next: (1 + 2*2 + 4*4) / 7. The
  // distance counts from the query's position.
  const auto results =
      run_op("attention",
             {zeros(DType::F32, {1, 2, 2, 1}), zeros(DType::F32, {1, 1, 3, 1}),
              floats({1, 1, 3, 1}, {1, 2, 4}), Tensor(), Tensor(), floats({2}, {std::log(2), 0})},
             {{"lse", kOne}});
  ASSERT_TRUE(results.has_value()) << results.error().message;
  expect_close((*results)[0], DType::F32, {1, 2, 2, 1},
               rounded({3, 3, 7.0 / 3, 7.0 / 3}, DType::F32), 4);
  expect_close((*results)[1], DType::F32, {1, 2, 2},
               rounded({std::log(7), std::log(3.5), std::log(3), std::log(3)}, DType::F32), 4);
}

TEST(Attention, WhatHiddenKeysHoldIsNotLookedAt) {
  const Tensor k = floats({1, 1, 2, 1}, {0, kNaN});
  const Tensor v = floats({1, 1, 2, 1}, {3, kInf});
  const Tensor q = zeros(DType::F32, {1, 1, 1, 1});
  for (const Tensor& mask : {floats({2}, {0, -kInf}), make_tensor(DType::Bool, {2}, {1, 0})}) {
    expect_result(run_op("attention", {q, k, v, mask}, {}), DType::F32, {1, 1, 1, 1}, {3});
  }
}

TEST(Attention, MasksBroadcast) {
  expect_result(mean_of_visible(2, 3, {}, make_tensor(DType::Bool, {1}, {0})), DType::F32,
                {1, 1, 2, 1}, {0, 0});
  expect_result(mean_of_visible(2, 3, {}, make_tensor(DType::Bool, {3}, {0, 1, 1})), DType::F32,
                {1, 1, 2, 1}, {3, 3});
  expect_result(mean_of_visible(2, 3, {}, make_tensor(DType::Bool, {1, 1, 2, 1}, {1, 0})),
                DType::F32, {1, 1, 2, 1}, rounded({7.0 / 3, 0}, DType::F32));
}

TEST(Attention, EmptySizes) {
  const auto run = [](Sizes q, Sizes k, Sizes v) {
    return run_op("attention",
                  {zeros(DType::F32, std::move(q)), zeros(DType::F32, std::move(k)),
                   zeros(DType::F32, std::move(v))},
                  {});
  };
  expect_result(run({1, 1, 2, 4}, {1, 1, 0, 4}, {1, 1, 0, 2}), DType::F32, {1, 1, 2, 2},
                {0, 0, 0, 0});
  expect_result(run({1, 1, 0, 4}, {1, 1, 3, 4}, {1, 1, 3, 2}), DType::F32, {1, 1, 0, 2}, {});
  expect_result(run({0, 2, 2, 4}, {0, 1, 3, 4}, {0, 1, 3, 2}), DType::F32, {0, 2, 2, 2}, {});
  expect_result(run({1, 1, 1, 0}, {1, 1, 2, 0}, {1, 1, 2, 1}), DType::F32, {1, 1, 1, 1}, {0});
  expect_result(run({1, 1, 1, 4}, {1, 1, 2, 4}, {1, 1, 2, 0}), DType::F32, {1, 1, 1, 0}, {});
}

TEST(Attention, ScoresThatAreNoNumbers) {
  const Tensor k = floats({1, 1, 2, 1}, {1, 2});
  const Tensor v = floats({1, 1, 2, 1}, {1, 2});
  const Tensor q = floats({1, 1, 4, 1}, {kNaN, kInf, -kInf, 0});
  // -inf * k is -inf for both keys: as if masked. 0 keeps the plain mean.
  expect_result(run_op("attention", {q, k, v}, {}), DType::F32, {1, 1, 4, 1}, {kNaN, kNaN, 0, 1.5});
  // A hidden key's score has no part in the row.
  const Tensor poisoned = floats({1, 1, 2, 1}, {1, kNaN});
  const Tensor one = floats({1, 1, 1, 1}, {1});
  expect_result(run_op("attention", {one, poisoned, v}, {{"causal", "top_left"}}), DType::F32,
                {1, 1, 1, 1}, {1});
  expect_result(run_op("attention", {one, poisoned, v}, {}), DType::F32, {1, 1, 1, 1}, {kNaN});
}

TEST(Attention, RowsOfNaNAsZeros) {
  const Tensor k = floats({1, 1, 2, 1}, {1, 2});
  const Tensor v = floats({1, 1, 2, 1}, {1, 2});
  const Tensor q = floats({1, 1, 4, 1}, {kNaN, kInf, -kInf, 0});
  const Attributes guarded = {{"zero_nan_rows", std::int64_t{1}}};
  expect_result(run_op("attention", {q, k, v}, guarded), DType::F32, {1, 1, 4, 1}, {0, 0, 0, 1.5});
  // NaN of V is no NaN of the scores.
  const Tensor poisoned = floats({1, 1, 2, 1}, {1, kNaN});
  expect_result(run_op("attention", {q, k, poisoned}, guarded), DType::F32, {1, 1, 4, 1},
                {0, 0, 0, kNaN});
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const Tensor q = floats({1, 1, 1, 1}, {1000});
  const Tensor k = floats({1, 1, 2, 1}, {1000, 999});
  const Tensor v = floats({1, 1, 2, 1}, {3, 7});
  expect_result(run_op("attention", {q, k, v}, {}), DType::F32, {1, 1, 1, 1}, {3});
}

TEST(Attention, Refuses) {
  const auto run = [](const std::vector<Sizes>& sizes, const Attributes& attributes = {}) {
    std::vector<Tensor> operands;
    for (const Sizes& each : sizes) operands.push_back(zeros(DType::F32, each));
    return run_op("attention", operands, attributes);
  };
  const Sizes q = {1, 2, 3, 4};
  expect_error(run({{2, 3, 4}, q, q}), "operand 0 must have rank 4");
  expect_error(run({q, {2, 2, 3, 4}, {2, 2, 3, 4}}), "the batch of 'q' and 'k'");
  expect_error(run({q, q, {1, 1, 3, 4}}), "the heads of 'k' and 'v'");
  expect_error(run({q, q, {1, 2, 5, 4}}), "the lengths of 'k' and 'v'");
  expect_error(run({q, {1, 2, 3, 5}, q}), "the head sizes of 'q' and 'k'");
  expect_error(run({{1, 3, 3, 4}, q, q}), "the number of query heads 3 is no multiple of 2");
  expect_error(run({q, {1, 0, 3, 4}, {1, 0, 3, 4}}), "cannot be divided by 0");
  expect_error(run({q, q, q, {2, 3}}), "operand 'mask' [2, 3] does not broadcast to [1, 2, 3, 3]");
  expect_error(run({q, q, q, {1, 1, 1, 3, 3}}), "it has more axes");
  expect_error(run({q, q, q}, {{"causal", "yes"}}), "attribute 'causal' must be");
  expect_error(run({q, q, q}, {{"window_left", std::int64_t{-2}}}), "'window_left' must be -1");
}

TEST(Attention, SymbolicSizes) {
  const Dim b = Dim::symbol("b");
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  Graph graph;
  const auto input = [&](std::string name, DType dtype, Shape shape) {
    return graph.add_input(std::move(name), {dtype, std::move(shape)});
  };
  Value* q = input("q", DType::F16, {b, 32, s, 128});
  Value* k = input("k", DType::F16, {b, 8, t, 128});
  Value* v = input("v", DType::F16, {b, 8, t, 64});
  Value* mask = input("mask", DType::Bool, {b, 1, s, t});
  const auto node = build_node(graph, "attention", {q, k, v, mask});
  ASSERT_TRUE(node.has_value()) << node.error().message;
  EXPECT_EQ((*node)->result()->type(), (TensorType{DType::F16, {b, 32, s, 64}}));
  EXPECT_TRUE(graph.assumptions().empty());
}

}  // namespace
}  // namespace opweld
