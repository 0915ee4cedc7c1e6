// Shapes: how they are computed in models, and what operators make of them.
#include <algorithm>
#include <limits>

#include "import/model_builder.h"

namespace opweld {
namespace {

using testing::HasSubstr;
using Integers = std::vector<std::int64_t>;

// The type of the first output, or the error.
std::string output_type(const ModelBuilder& model) {
  const auto graph = model.import();
  return graph ? to_string(graph->outputs()[0].value->type()) : graph.error().message;
}

// ---- shapes through chains of operators ----

TEST(ShapeChain, ReshapesByComputedSizesAsExportersWriteIt) {
  ModelBuilder model;
  model.input("x", {"batch", "s", "12"}).output("y");
  model.ints("zero", {0}).ints("heads", {3}).ints("head", {4});
  model.initializer(tensor_proto<std::int64_t>("i0", {}, {0}));
  model.initializer(tensor_proto<std::int64_t>("i1", {}, {1}));
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "i0"}, {"b"}).set("axis", 0);
  model.node("Gather", {"shape", "i1"}, {"s"}).set("axis", 0);
  model.node("Unsqueeze", {"b", "zero"}, {"b1"});
  model.node("Unsqueeze", {"s", "zero"}, {"s1"});
  model.node("Concat", {"b1", "s1", "heads", "head"}, {"target"}).set("axis", 0);
  model.node("Reshape", {"x", "target"}, {"y"});
  EXPECT_EQ(output_type(model), "f32[batch, s, 3, 4]");
}

TEST(ShapeChain, ComputesWithSizes) {
  ModelBuilder model;
  model.input("x", {"b", "s"}).output("y");
  model.ints("two", {2}).ints("one", {1});
  model.node("Shape", {"x"}, {"last"}).set("start", -1);
  model.node("Mul", {"last", "two"}, {"m"});
  model.node("Add", {"m", "one"}, {"a"});
  model.node("ConstantOfShape", {"a"}, {"y"});
  EXPECT_EQ(output_type(model), "f32[2*s + 1]");
}

TEST(ShapeChain, ChoosesByWhetherASizeIsOpen) {  // as exporters write Expand
  ModelBuilder model;
  model.input("x", {"b", "1"}).output("y");
  model.ints("wanted", {-1, 5}).ints("ones", {1, 1}).ints("minus", {-1, -1});
  model.node("Equal", {"wanted", "minus"}, {"open"});
  model.node("Where", {"open", "ones", "wanted"}, {"target"});
  model.node("Expand", {"x", "target"}, {"y"});
  EXPECT_EQ(output_type(model), "f32[b, 5]");
}

TEST(ShapeChain, FoldsConstantsOfReals) {
  ModelBuilder model;
  model.input("x", {"6"}).output("y");
  model.initializer(tensor_proto<float>("size", {1}, {2.4F}));
  model.ints("rest", {-1});
  model.node("Ceil", {"size"}, {"c"});
  model.node("Cast", {"c"}, {"i"}).set("to", onnx::TensorProto::INT64);
  model.node("Concat", {"i", "rest"}, {"shape"}).set("axis", 0);
  model.node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_EQ(output_type(model), "f32[3, 2]");
}

// ---- Reshape ----

std::string reshaped(const std::vector<std::string>& x, const Integers& shape, int allow_zero = 0) {
  ModelBuilder model;
  model.input("x", x).ints("shape", shape).output("y");
  model.node("Reshape", {"x", "shape"}, {"y"}).name("view").set("allowzero", allow_zero);
  return output_type(model);
}

TEST(Reshape, ResolvesZeroAndMinusOne) {
  EXPECT_EQ(reshaped({"b", "s", "12"}, {0, 0, 3, -1}), "f32[b, s, 3, 4]");
  EXPECT_EQ(reshaped({"b", "s", "12"}, {0, -1}), "f32[b, 12*s]");
  EXPECT_EQ(reshaped({"b", "s", "12"}, {-1, 12}), "f32[b*s, 12]");
  EXPECT_EQ(reshaped({"b", "s"}, {-1}), "f32[b*s]");
  EXPECT_EQ(reshaped({"2", "0"}, {0, 3}, 1), "f32[0, 3]");
  EXPECT_THAT(reshaped({"2", "3"}, {-1, -1}), HasSubstr("leaves two sizes open"));
  EXPECT_THAT(reshaped({"2", "3"}, {-2, 3}), HasSubstr("size -2"));
  EXPECT_THAT(reshaped({"2", "3"}, {4, -1}), HasSubstr("node 'view' (Reshape)"));
  EXPECT_THAT(reshaped({"2", "3"}, {7}), HasSubstr("6 elements"));
  EXPECT_THAT(reshaped({"2"}, {2, 0}), HasSubstr("keeps the size of axis 1"));
}

// ---- Slice ----

// x[start : end : step] of one axis with the elements 0, 1, 2, ...
std::vector<double> sliced(std::int64_t length, std::int64_t start, std::int64_t end,
                           std::int64_t step, bool free) {
  ModelBuilder model;
  model.input("x", {free ? "n" : std::to_string(length)}).output("y");
  model.ints("start", {start}).ints("end", {end}).ints("axes", {0}).ints("step", {step});
  model.node("Slice", {"x", "start", "end", "axes", "step"}, {"y"});
  std::vector<float> x;
  for (std::int64_t i = 0; i < length; ++i) x.push_back(static_cast<float>(i));
  const auto outputs = run(model, {floats({length}, x)});
  std::vector<double> elements;
  if (outputs.empty()) return {-1};
  for (std::int64_t i = 0; i < outputs[0].num_elements(); ++i) {
    elements.push_back(outputs[0].get_double(i));
  }
  return elements;
}

// The rule of the standard, by walking. It is Python's but for a start before the first element of
// a backward slice, which the standard moves onto that element.
std::vector<double> walked(std::int64_t length, std::int64_t start, std::int64_t end,
                           std::int64_t step) {
  const auto bound = [&](std::int64_t value, std::int64_t low) {
    if (value < 0) value += length;
    return std::min(std::max(value, low), step > 0 ? length : length - 1);
  };
  const std::int64_t stop = bound(end, step > 0 ? 0 : -1);
  std::vector<double> elements;
  for (std::int64_t i = bound(start, 0); step > 0 ? i < stop : i > stop; i += step) {
    elements.push_back(static_cast<double>(i));
  }
  return elements;
}

TEST(Slice, ClampsItsBoundsAsTheStandardSays) {
  for (const bool free : {false, true}) {
    for (const std::int64_t length : {0, 1, 2, 7}) {
      for (const std::int64_t start : {-9, -7, -2, 0, 1, 3, 7, 9}) {
        for (const std::int64_t end : {-9, -1, 0, 2, 6, 7, 9}) {
          for (const std::int64_t step : {-3, -1, 1, 2, 9}) {
            SCOPED_TRACE(fmt::format("{}: [{}:{}:{}] {}", length, start, end, step, free));
            EXPECT_EQ(sliced(length, start, end, step, free), walked(length, start, end, step));
          }
        }
      }
    }
  }
}

TEST(Slice, HasNothingBetweenZeroAndFiveBackwards) {
  EXPECT_EQ(sliced(10, 0, 5, -1, false), std::vector<double>{});
}

TEST(Slice, TakesTheGreatestIntegersForTheEnds) {
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(sliced(4, 1, Limits::max(), 1, true), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(sliced(3, Limits::max(), Limits::min(), -1, true), (std::vector<double>{2, 1, 0}));
  EXPECT_EQ(sliced(3, Limits::max(), Limits::min(), Limits::min(), false),
            (std::vector<double>{2}));
}

TEST(Slice, ReadsAttributesInOldOpsets) {
  ModelBuilder model(9);
  model.input("x", {"b", "4"}).output("y");
  model.node("Slice", {"x"}, {"y"})
      .set("starts", Integers{1})
      .set("ends", Integers{-1})
      .set("axes", Integers{1});
  EXPECT_EQ(output_type(model), "f32[b, 2]");
}

TEST(Slice, FollowsSizes) {
  ModelBuilder model;
  model.input("x", {"b", "s"}).input("table", {"512", "2"}).output("y");
  model.ints("zero", {0});
  model.node("Shape", {"x"}, {"length"}).set("start", 1);
  model.node("Slice", {"table", "zero", "length", "zero"}, {"y"});
  EXPECT_EQ(output_type(model), "f32[min(s, 512), 2]");
}

// ---- axes as attributes and as operands ----

TEST(Squeeze, ReadsAxesWhereTheOpsetHasThem) {
  for (const std::int64_t opset : {11, 13}) {
    ModelBuilder model(opset);
    model.input("x", {"b", "1", "3", "1"}).ints("axes", {-1, 1}).output("y");
    if (opset < 13) {
      model.node("Squeeze", {"x"}, {"y"}).set("axes", Integers{-1, 1});
    } else {
      model.node("Squeeze", {"x", "axes"}, {"y"});
    }
    EXPECT_EQ(output_type(model), "f32[b, 3]");
  }
  ModelBuilder all;
  all.input("x", {"1", "3", "1"}).output("y");
  all.node("Squeeze", {"x"}, {"y"});
  EXPECT_EQ(output_type(all), "f32[3]");
  ModelBuilder wrong;
  wrong.input("x", {"1", "3"}).ints("axes", {1}).output("y");
  wrong.node("Squeeze", {"x", "axes"}, {"y"});
  EXPECT_THAT(output_type(wrong), HasSubstr("axis 1 has size 3"));
}

TEST(Unsqueeze, CountsAxesInTheResult) {
  ModelBuilder model;
  model.input("x", {"b", "3"}).ints("axes", {-1, 0}).output("y");
  model.node("Unsqueeze", {"x", "axes"}, {"y"});
  EXPECT_EQ(output_type(model), "f32[1, b, 3, 1]");
}

TEST(Flatten, SplitsAtItsAxis) {
  const auto flattened = [](int axis) {
    ModelBuilder model;
    model.input("x", {"2", "3", "s"}).output("y");
    model.node("Flatten", {"x"}, {"y"}).set("axis", axis);
    return output_type(model);
  };
  EXPECT_EQ(flattened(0), "f32[1, 6*s]");
  EXPECT_EQ(flattened(1), "f32[2, 3*s]");
  EXPECT_EQ(flattened(3), "f32[6*s, 1]");
  EXPECT_EQ(flattened(-1), "f32[6, s]");
  EXPECT_THAT(flattened(4), HasSubstr("axis 4"));
}

TEST(Split, DividesByListCountOrAttribute) {
  ModelBuilder equal(13);
  equal.input("x", {"4"}).output("b").output("a");
  equal.node("Split", {"x"}, {"a", "b"});
  auto outputs = run(equal, {floats({4}, {1, 2, 3, 4})});
  ASSERT_EQ(outputs.size(), 2U);
  expect_tensor(outputs[0], DType::F32, {2}, {3, 4});

  ModelBuilder listed(11);
  listed.input("x", {"5"}).output("a").output("b");
  listed.node("Split", {"x"}, {"a", "b"}).set("split", Integers{4, 1});
  outputs = run(listed, {floats({5}, {1, 2, 3, 4, 5})});
  ASSERT_EQ(outputs.size(), 2U);
  expect_tensor(outputs[1], DType::F32, {1}, {5});

  ModelBuilder uneven(18);
  uneven.input("x", {"5"}).output("a").output("b");
  uneven.node("Split", {"x"}, {"a", "b"}).set("num_outputs", 2);
  outputs = run(uneven, {floats({5}, {1, 2, 3, 4, 5})});
  ASSERT_EQ(outputs.size(), 2U);
  expect_tensor(outputs[1], DType::F32, {2}, {4, 5});

  ModelBuilder wrong(13);
  wrong.input("x", {"5"}).ints("parts", {2, 2}).output("a");
  wrong.node("Split", {"x", "parts"}, {"a", "b"});
  EXPECT_THAT(import_error(wrong), HasSubstr("sum of the parts"));
}

TEST(Expand, BroadcastsBothWays) {
  ModelBuilder model;
  model.input("x", {"3", "1"}).ints("shape", {2, 1, 2}).output("y");
  model.node("Expand", {"x", "shape"}, {"y"});
  expect_output(model, {floats({3, 1}, {1, 2, 3})}, DType::F32, {2, 3, 2},
                {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3});
}

TEST(Pad, ReadsAmountsAndAxes) {
  ModelBuilder old(10);
  old.input("x", {"1", "2"}).output("y");
  old.node("Pad", {"x"}, {"y"}).set("pads", Integers{0, 1, 1, 0}).set("value", 9.0);
  expect_output(old, {floats({1, 2}, {1, 2})}, DType::F32, {2, 3}, {9, 1, 2, 9, 9, 9});
  ModelBuilder axes(18);
  axes.input("x", {"1", "2"}).ints("pads", {1, 0}).ints("axes", {-1}).output("y");
  axes.node("Pad", {"x", "pads", "", "axes"}, {"y"});
  expect_output(axes, {floats({1, 2}, {1, 2})}, DType::F32, {1, 3}, {0, 1, 2});
}

TEST(Range, CountsSizesAndNumbers) {
  ModelBuilder sizes;
  sizes.input("x", {"s"}).output("y");
  sizes.initializer(tensor_proto<std::int64_t>("zero", {}, {0}));
  sizes.initializer(tensor_proto<std::int64_t>("two", {}, {2}));
  sizes.node("Size", {"x"}, {"n"});
  sizes.node("Range", {"zero", "n", "two"}, {"y"});
  expect_output(sizes, {floats({5}, {0, 0, 0, 0, 0})}, DType::I64, {3}, {0, 2, 4});
  expect_output(sizes, {floats({0}, {})}, DType::I64, {0}, {});
  ModelBuilder reals;
  reals.output("y");
  reals.initializer(tensor_proto<float>("a", {}, {1}));
  reals.initializer(tensor_proto<float>("b", {}, {-1}));
  reals.initializer(tensor_proto<float>("c", {}, {-0.75F}));
  reals.node("Range", {"a", "b", "c"}, {"y"});
  expect_output(reals, {}, DType::F32, {3}, {1, 0.25, -0.5});
}

}  // namespace
}  // namespace opweld
