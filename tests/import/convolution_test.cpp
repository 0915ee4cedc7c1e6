// Conv, against plain loops over windows: every two of its options, sizes of zero, NaN, and what it
// refuses.
#include <cmath>
#include <limits>

#include "import/convolution_model.h"

namespace opweld {
namespace {

using testing::ConvolutionChoice;
using testing::ConvolutionModel;
using ::testing::HasSubstr;

void expect_near(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  for (std::int64_t i = 0; i < actual.num_elements(); ++i) {
    ASSERT_NEAR(actual.get_double(i), expected.get_double(i), 1e-5) << "element " << i;
  }
}

TEST(Conv, EachTwoOptions) {
  for (const ConvolutionChoice& choice :
       testing::CoveringArray<testing::kConvolutionFactors>(testing::kConvolutionLevels)
           .choices()) {
    SCOPED_TRACE(::testing::PrintToString(choice));
    const ConvolutionModel model(choice, DType::F32);
    const Tensor x = model.random(model.image_sizes(2), 1);
    const auto outputs = run(model.model(), model.inputs(x));
    ASSERT_EQ(outputs.size(), 1U);
    expect_near(outputs[0], model.expected(x));
  }
}

TEST(Conv, OneGraphServesAllSizes) {
  for (const int padding : {testing::kUneven, testing::kSameUpper, testing::kSameLower}) {
    ConvolutionChoice choice{1, 2, 1, 0, padding, 0, 1, testing::kAllFree, 0, 0};
    const ConvolutionModel model(choice, DType::F32);
    for (const std::int64_t batch : {0, 1, 3}) {
      for (const std::int64_t longer : {-3, 0, 1, 8}) {
        const Tensor x = model.random(model.image_sizes(batch, longer), 1);
        const auto outputs = run(model.model(), {x});
        ASSERT_EQ(outputs.size(), 1U);
        expect_near(outputs[0], model.expected(x));
      }
    }
  }
}

// x [1, 1, 5] with w [1, 1, K], without a name for anything but the node.
ModelBuilder line(const std::vector<float>& w, const std::string& size = "5") {
  ModelBuilder model(22);
  model.input("x", {"1", "1", size}).output("y");
  model.initializer(tensor_proto<float>("w", {1, 1, static_cast<std::int64_t>(w.size())}, w));
  return model;
}

TEST(Conv, NaNAndInfinitiesReachTheirWindowsAlone) {
  ModelBuilder model = line({1, 2});
  model.node("Conv", {"x", "w"}, {"y"}).set("pads", std::vector<std::int64_t>{1, 1});
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  expect_output(model, {floats({1, 1, 5}, {1, nan, 1, inf, 1})}, DType::F32, {1, 1, 6},
                {2, std::nan(""), std::nan(""), inf, inf, 1});
}

TEST(Conv, PaddingIsNotMultiplied) {
  // 0 times infinity would be NaN.
  const float inf = std::numeric_limits<float>::infinity();
  ModelBuilder model = line({1, 2});
  model.node("Conv", {"x", "w"}, {"y"}).set("pads", std::vector<std::int64_t>{1, 0});
  expect_output(model, {floats({1, 1, 5}, {inf, 0, 0, 0, 0})}, DType::F32, {1, 1, 5},
                {inf, inf, 0, 0, 0});
}

TEST(Conv, WindowsLongerThanTheImage) {
  // One element short: no window. With strides, up to a stride short.
  ModelBuilder none = line({1, 1, 1, 1, 1, 1});
  none.node("Conv", {"x", "w"}, {"y"});
  expect_output(none, {floats({1, 1, 5}, {1, 2, 3, 4, 5})}, DType::F32, {1, 1, 0}, {});
  ModelBuilder shorter = line({1, 1, 1, 1, 1, 1, 1});
  shorter.node("Conv", {"x", "w"}, {"y"}).name("embed");
  EXPECT_THAT(import_error(shorter), HasSubstr("embed"));
  EXPECT_THAT(import_error(shorter),
              HasSubstr("a window of 7 elements is longer than axis 2 of x, which has 5"));
}

TEST(Conv, WithoutChannelsGivesTheBias) {
  ModelBuilder model(22);
  model.input("x", {"1", "0", "3"}).output("y");
  model.initializer(tensor_proto<float>("w", {2, 0, 2}, {}));
  model.initializer(tensor_proto<float>("b", {2}, {3, 4}));
  model.node("Conv", {"x", "w", "b"}, {"y"});
  expect_output(model, {floats({1, 0, 3}, {})}, DType::F32, {1, 2, 2}, {3, 3, 4, 4});
}

TEST(Conv, MeansTheSameInOldOpsets) {
  ModelBuilder model(1);
  model.input("x", {"1", "1", "3"}).output("y");
  model.initializer(tensor_proto<float>("w", {1, 1, 2}, {1, 10}));
  model.node("Conv", {"x", "w"}, {"y"}).set("kernel_shape", std::vector<std::int64_t>{2});
  expect_output(model, {floats({1, 1, 3}, {1, 2, 3})}, DType::F32, {1, 1, 2}, {21, 32});
}

TEST(Conv, RefusesWhatDisagreesAndNamesTheNode) {
  using List = std::vector<std::int64_t>;
  const auto error_of = [](const Sizes& w, const std::function<void(NodeWriter&)>& change,
                           const Sizes& bias = {}) {
    ModelBuilder model(22);
    model.input("x", {"n", "4", "9", "9"}).output("y");
    model.initializer(
        tensor_proto<float>("w", w, std::vector<float>(static_cast<std::size_t>(num_elements(w)))));
    std::vector<std::string> operands{"x", "w"};
    if (!bias.empty()) {
      const auto count = static_cast<std::size_t>(num_elements(bias));
      model.initializer(tensor_proto<float>("b", bias, std::vector<float>(count)));
      operands.emplace_back("b");
    }
    NodeWriter node = model.node("Conv", operands, {"y"}).name("stem");
    change(node);
    const std::string error = import_error(model);
    EXPECT_THAT(error, HasSubstr("stem"));
    return error;
  };
  const auto with = [](const std::string& name, auto value) {
    return [=](NodeWriter& node) { node.set(name, value); };
  };
  const auto plain = [](NodeWriter&) {};
  EXPECT_THAT(error_of({6, 3, 2, 2}, plain), HasSubstr("the channels of x"));
  EXPECT_THAT(error_of({6, 4, 2}, plain), HasSubstr("x has rank 4, but w has rank 3"));
  EXPECT_THAT(error_of({3, 2, 2, 2}, with("group", 2)), HasSubstr("the filters of w"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, with("group", 0)), HasSubstr("attribute 'group' is 0"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, with("strides", List{1})),
              HasSubstr("'strides' has 1 elements, and there should be 2"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, with("strides", List{1, 0})),
              HasSubstr("'strides' must not be below 1, but an element of it is 0"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, with("dilations", List{-1, 1})), HasSubstr("'dilations'"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, with("pads", List{1, 1})),
              HasSubstr("'pads' has 2 elements, and there should be 4"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, with("pads", List{0, -1, 0, 0})), HasSubstr("'pads'"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, with("kernel_shape", List{2, 3})),
              HasSubstr("'kernel_shape'"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, with("auto_pad", "SAME")), HasSubstr("auto_pad 'SAME'"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, plain, {5}), HasSubstr("the bias"));
  EXPECT_THAT(error_of({6, 4, 2, 2}, plain, {6, 1}), HasSubstr("a bias of rank 1"));
  // Numbers beyond all sizes, that are products of what is fine by itself.
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  error_of({6, 4, 2, 2}, with("dilations", List{kHuge, 1}));
  error_of({6, 4, 2, 2}, with("pads", List{kHuge, 0, kHuge, 0}));
  error_of({6, 4, 2, 2}, with("group", std::int64_t{kHuge}));
}

}  // namespace
}  // namespace opweld
