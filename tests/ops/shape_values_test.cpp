// Contents that stay known through the chains exporters write around Reshape and Expand.
#include "ops/run_op.h"

namespace opweld {
namespace {

class ShapeValues : public testing::Test {
 protected:
  Value* sizes(const Shape& values) { return builder_.op("sizes", {}, {{"values", values}}); }
  Value* slice(Value* x, const Shape& starts, const Shape& sizes, const Ints& steps) {
    return builder_.op("slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
  }
  Value* gather(Value* x, Value* indices, std::int64_t axis = 0) {
    return builder_.op("gather", {x, indices}, {{"axis", axis}});
  }
  Value* concat(const std::vector<Value*>& parts, std::int64_t axis = 0) {
    return builder_.op("concat", parts, {{"axis", axis}});
  }
  void expect_contents(const Value* value, const std::vector<Dim>& contents) {
    ASSERT_TRUE(builder_.status().has_value()) << builder_.status().error().message;
    ASSERT_TRUE(value->contents().has_value());
    EXPECT_EQ(*value->contents(), contents);
  }

  Graph graph_;
  Builder builder_{graph_};
  Dim b_ = Dim::symbol("b");
  Dim s_ = Dim::symbol("s");
};

TEST_F(ShapeValues, ConstantsOfIntegers) {
  expect_contents(builder_.ints({3, -1, 7}), {3, -1, 7});
  expect_contents(builder_.constant(ints({}, {5}, DType::I32)), {5});
  expect_contents(builder_.ints({}), {});
  EXPECT_FALSE(builder_.constant(floats({1}, {5}))->contents().has_value());
  EXPECT_FALSE(builder_.constant(zeros(DType::I64, {1000}))->contents().has_value());
}

// Shape -> Gather -> Unsqueeze -> Concat, as written for x.view(b, s, 12, 32).
TEST_F(ShapeValues, TheExportersChain) {
  Value* shape = sizes({b_, s_, 384});
  Value* batch = builder_.reshape(gather(shape, builder_.constant(ints({}, {0}))), {1});
  Value* length = builder_.reshape(gather(shape, builder_.constant(ints({}, {-2}))), {1});
  Value* target = concat({batch, length, builder_.ints({12, 32})});
  expect_contents(target, {b_, s_, 12, 32});
  EXPECT_EQ(target->shape(), (Shape{4}));
}

// The pairs of torch's pad, reversed: Reshape -> Slice with step -1 -> Transpose -> Reshape.
TEST_F(ShapeValues, PadsTurnedAround) {
  Value* pairs = builder_.reshape(builder_.ints({1, 2, 3, 4, 5, 6}), {3, 2});
  Value* reversed = slice(pairs, {2, 0}, {3, 2}, {-1, 1});
  expect_contents(reversed, {5, 6, 3, 4, 1, 2});
  Value* turned = builder_.transpose(reversed, {1, 0});
  expect_contents(turned, {5, 3, 1, 6, 4, 2});
  expect_contents(builder_.reshape(turned, {6}), {5, 3, 1, 6, 4, 2});
}

TEST_F(ShapeValues, SlicesOfSizes) {
  Value* shape = sizes({b_, s_, 12, 32});
  expect_contents(slice(shape, {2}, {2}, {1}), {12, 32});
  expect_contents(slice(shape, {3}, {2}, {-2}), {32, s_});
  expect_contents(slice(shape, {0}, {0}, {-1}), {});
}

TEST_F(ShapeValues, GatherAlongAnyAxis) {
  Value* table = builder_.reshape(sizes({b_, s_, 1, 2}), {2, 2});
  expect_contents(gather(table, builder_.ints({1, 0}), 1), {s_, b_, 2, 1});
  expect_contents(gather(table, builder_.ints({-1}), 0), {1, 2});
  // Out of range, or indices that are data: not known, and an error only if it is run.
  EXPECT_FALSE(gather(table, builder_.ints({2}), 0)->contents().has_value());
  Value* data = graph_.add_input("i", {DType::I64, {1}});
  EXPECT_FALSE(gather(table, data)->contents().has_value());
}

TEST_F(ShapeValues, ConcatAlongTheInnerAxis) {
  Value* left = builder_.reshape(sizes({b_, s_}), {2, 1});
  Value* right = builder_.reshape(builder_.ints({7, 8}), {2, 1});
  expect_contents(concat({left, right}, 1), {b_, 7, s_, 8});
  Value* data = graph_.add_input("d", {DType::I64, {2, 1}});
  EXPECT_FALSE(concat({left, data}, 1)->contents().has_value());
}

TEST_F(ShapeValues, ExpandRepeats) {
  Value* one = builder_.reshape(sizes({s_}), {});
  expect_contents(builder_.expand(one, {3}), {s_, s_, s_});
  Value* row = builder_.reshape(builder_.ints({4, 5}), {1, 2});
  expect_contents(builder_.expand(row, {2, 2}), {4, 5, 4, 5});
  EXPECT_FALSE(builder_.expand(one, {s_})->contents().has_value());
  EXPECT_FALSE(builder_.expand(one, {1 << 20})->contents().has_value());
}

TEST_F(ShapeValues, CountedSequences) {
  expect_contents(
      builder_.op("iota", {},
                  {{"shape", Shape{2, 2}}, {"axis", std::int64_t{1}}, {"dtype", DType::I64}}),
      {0, 1, 0, 1});
  Value* start = builder_.reshape(sizes({s_}), {});
  Value* step = builder_.constant(ints({}, {2}));
  expect_contents(builder_.op("range", {start, step}, {{"length", Shape{3}}}),
                  {s_, s_ + 2, s_ + 4});
}

}  // namespace
}  // namespace opweld
