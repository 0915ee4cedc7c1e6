// GraphBuilder used right and wrong.
#include <memory>
#include <optional>

#include "compute.h"
#include "ops/op.h"
#include "opweld/functions.h"
#include "opweld/graph_builder.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

TEST(Builder, TypesAreInferredWithSymbols) {
  GraphBuilder builder("g");
  builder.symbol("s", 1, 512, 8);
  const GraphTensor x = builder.input("x", DType::F16, {"b", "s", 12});
  EXPECT_EQ(x.type(), "f16[b, s, 12]");
  const GraphTensor y = reshape(x, {"b", Size("s") * 3, floor_div(Size(12), 3)});
  EXPECT_EQ(y.type(), "f16[b, 3*s, 4]");
  EXPECT_EQ(y.dtype(), DType::F16);
  EXPECT_EQ(y.rank(), 3);
  EXPECT_EQ(y.sizes()[2].constant(), 4);
  EXPECT_EQ(y.sizes()[1], Size("3*s"));
  const GraphTensor z = slice(x, {0, 0, 0}, {"b", Size("s") - 1, 12});
  EXPECT_EQ(z.type(), "f16[b, s - 1, 12]");
  builder.output("y", y);
  const Result<Model> model = builder.finish();
  ASSERT_TRUE(model) << message_of(model);
  EXPECT_THAT(model->symbols(), ElementsAre("b", "s"));
  EXPECT_EQ(model->inputs()[0].to_string(), "x: f16[b, s, 12]");
  EXPECT_EQ(model->outputs()[0].to_string(), "y: f16[b, 3*s, 4]");
  EXPECT_THAT(model->text(), HasSubstr("s in [1, 512] divisible 8"));
}

TEST(Builder, EveryOperatorIsKnownByName) {
  for (const OpDef* def : all_ops()) {
    GraphBuilder builder;
    static_cast<void>(builder.op(def->name, {}));
    EXPECT_THAT(message_of(builder.status()), ::testing::Not(HasSubstr("unknown operator")))
        << def->name;
  }
}

TEST(Builder, OperatorsOfSeveralResults) {
  GraphBuilder builder;
  const GraphTensor x = builder.input("x", DType::F32, {5});
  const std::vector<GraphTensor> top = builder.op_results("top_k", 2, {x}, {{"k", 2}, {"axis", 0}});
  builder.output("values", top[0]);
  builder.output("indices", top[1]);
  const Result<Model> model = builder.finish();
  ASSERT_TRUE(model) << message_of(model);
  const auto outputs = model->compile()->run({TensorView(std::vector<float>{3, 1, 4, 1, 5}, {5})});
  ASSERT_TRUE(outputs) << message_of(outputs);
  EXPECT_THAT((*outputs)[0].elements<float>().value(), ElementsAre(5, 4));
  EXPECT_THAT((*outputs)[1].elements<std::int64_t>().value(), ElementsAre(4, 2));
}

TEST(Builder, AskingForTheWrongNumberOfResultsIsAnError) {
  GraphBuilder builder;
  const GraphTensor x = builder.input("x", DType::F32, {5});
  const auto results = builder.op_results("relu", 3, {x});
  EXPECT_EQ(results.size(), 3U);
  EXPECT_FALSE(results[2].valid());
  EXPECT_THAT(message_of(builder.status()), HasSubstr("relu: has 1 results, but 3"));
}

TEST(Builder, WeightsStayWhereTheyAre) {
  auto owned = std::make_shared<std::vector<float>>(kSix);
  const std::weak_ptr<std::vector<float>> watch = owned;
  std::optional<Program> program;
  {
    GraphBuilder builder;
    const GraphTensor x = builder.input("x", DType::F32, {"s", 3});
    const TensorView view(*owned, {2, 3});
    builder.output("y", add(x, builder.weight("w", view, owned)));
    owned.reset();
    program = builder.finish().value().compile().value();
  }
  EXPECT_FALSE(watch.expired());
  const auto y = program->run({TensorView(std::vector<float>{1, 0, 0, 0, 0, 1}, {2, 3})});
  EXPECT_THAT(y->front().to_doubles(), ElementsAre(2, 2, 3, 4, 5, 7));
  program.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(Builder, LayersNameWhatIsBuilt) {
  GraphBuilder builder;
  const GraphTensor x = builder.input("x", DType::F32, {"s"});
  builder.layer("layers.0");
  const GraphTensor y = exp(x);
  builder.layer("layers.1");
  builder.output("y", y * y);
  const auto account =
      builder.finish()->compile({.fusion = FusionLevel::None})->account({{"s", 4}});
  ASSERT_TRUE(account) << message_of(account);
  ASSERT_EQ(account->kernels.size(), 2U);
  EXPECT_EQ(account->kernels[0].layer, "layers.0");
  EXPECT_EQ(account->kernels[1].layer, "layers.1");
  EXPECT_THAT(account->kernels[1].sources, ElementsAre("layers.1/mul_2"));
}

// ---- used wrongly ----

using Use = void (*)(GraphBuilder&, const GraphTensor& x);

std::string failure(Use use) {
  GraphBuilder builder;
  const GraphTensor x = builder.input("x", DType::F32, {"s", 6});
  use(builder, x);
  const std::string message = message_of(builder.status());
  EXPECT_NE(message, "");
  // From here on nothing happens, and nothing but the first error is told.
  EXPECT_FALSE(builder.input("later", DType::F32, {1}).valid());
  EXPECT_FALSE(builder.scalar(1).valid());
  EXPECT_FALSE(builder.constant(TensorView(kSix, {6})).valid());
  EXPECT_FALSE(builder.weight("later", TensorView(kSix, {6})).valid());
  EXPECT_FALSE(add(x, x).valid());
  builder.symbol("", 1, 0);
  builder.layer("later");
  builder.output("", x);
  EXPECT_EQ(message_of(builder.status()), message);
  EXPECT_EQ(message_of(builder.finish()), message);
  return message;
}

TEST(BuilderMisuse, Inputs) {
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.input("x", DType::F32, {}); }),
              HasSubstr("two inputs are named 'x'"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.input("", DType::F32, {}); }),
              HasSubstr("name"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.input("y", DType::F32, {-1}); }),
              AllOf(HasSubstr("'y'"), HasSubstr("-1")));
  EXPECT_THAT(
      failure([](GraphBuilder& b, const GraphTensor&) { b.input("y", DType::F32, {"2*t"}); }),
      AllOf(HasSubstr("'y'"), HasSubstr("t")));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.input("y", DType::F32, {""}); }),
              HasSubstr("'y'"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) {
                b.input("y", DType::F32, {static_cast<const char*>(nullptr)});
              }),
              HasSubstr("'y'"));
  EXPECT_THAT(
      failure([](GraphBuilder& b, const GraphTensor&) { b.input("y", DType::F32, {UINT64_MAX}); }),
      HasSubstr("'y'"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) {
                b.input("y", static_cast<DType>(200), {1});
              }),
              HasSubstr("dtype"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) {
                Size size = "s";
                for (int i = 0; i < 100; ++i) size = size * size;
                b.input("y", DType::F32, {size});
              }),
              HasSubstr("'y'"));
}

TEST(BuilderMisuse, Symbols) {
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.symbol("t", 5, 4); }),
              HasSubstr("'t'"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.symbol("t", -3, 4); }),
              HasSubstr("negative"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.symbol("t", 1, 4, 0); }),
              HasSubstr("divisor"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.symbol("", 1, 4); }),
              HasSubstr("name"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.symbol("s", 1, 4); }),
              HasSubstr("declared twice"));
}

TEST(BuilderMisuse, Weights) {
  EXPECT_THAT(
      failure([](GraphBuilder& b, const GraphTensor&) { b.weight("w", TensorView(kSix, {2, 4})); }),
      AllOf(HasSubstr("weight 'w'"), HasSubstr("32 bytes"), HasSubstr("24")));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) {
                b.weight("w", TensorView(DType::F32, {2}, nullptr, 8));
              }),
              HasSubstr("null"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) {
                b.weight("w", TensorView(kSix, {-2, -3}));
              }),
              HasSubstr("[-2, -3]"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) {
                b.weight("w", TensorView(kSix, {INT64_MAX, INT64_MAX}));
              }),
              HasSubstr("too large"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) {
                const auto* bytes = reinterpret_cast<const char*>(kSix.data());
                b.weight("w", TensorView(DType::F32, {2}, bytes + 1, 8));
              }),
              HasSubstr("multiple of 4"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) {
                b.constant(TensorView(static_cast<DType>(50), {2}, kSix.data(), 8));
              }),
              HasSubstr("dtype"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.scalar(300, DType::U8); }),
              HasSubstr("300"));
}

TEST(BuilderMisuse, Operators) {
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor& x) { b.op("sofmax", {x}); }),
              HasSubstr("did you mean 'softmax'"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor& x) { b.op("relu", {x, x}); }),
              HasSubstr("relu"));
  EXPECT_THAT(
      failure([](GraphBuilder& b, const GraphTensor& x) { b.op("softmax", {x}, {{"axes", 1}}); }),
      HasSubstr("'axes'"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor& x) {
                b.op("softmax", {x}, {{"axis", 1}, {"axis", 0}});
              }),
              HasSubstr("twice"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor& x) {
                b.op("softmax", {x}, {{"axis", "last"}});
              }),
              HasSubstr("'axis' must be an integer"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor& x) { b.op("softmax", {x, {}, x}); }),
              HasSubstr("softmax"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor& x) {
                GraphBuilder other;
                b.op("add", {x, other.input("x", DType::F32, {6})});
              }),
              HasSubstr("another builder"));
}

TEST(BuilderMisuse, Outputs) {
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor& x) {
                b.output("y", x);
                b.output("y", x);
              }),
              HasSubstr("two outputs are named 'y'"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) { b.output("y", GraphTensor()); }),
              HasSubstr("'y' is given no tensor"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor& x) { b.output("", x); }),
              HasSubstr("name"));
  EXPECT_THAT(failure([](GraphBuilder& b, const GraphTensor&) {
                GraphBuilder other;
                b.output("y", other.input("x", DType::F32, {6}));
              }),
              HasSubstr("another builder"));
  GraphBuilder without;
  EXPECT_THAT(message_of(without.finish()), HasSubstr("no output"));
}

TEST(BuilderMisuse, AfterFinish) {
  GraphBuilder builder;
  const GraphTensor x = builder.input("x", DType::F32, {"s"});
  builder.output("y", x);
  ASSERT_TRUE(builder.finish());
  EXPECT_EQ(x.type(), "f32[s]");  // what it was stays known
  EXPECT_TRUE(builder.status());
  EXPECT_FALSE(exp(x).valid());
  EXPECT_THAT(message_of(builder.status()), HasSubstr("after finish()"));
  EXPECT_THAT(message_of(builder.finish()), HasSubstr("after finish()"));
}

TEST(BuilderMisuse, TensorsOutliveTheirBuilder) {
  GraphTensor x;
  {
    GraphBuilder builder;
    x = builder.input("x", DType::F32, {"s"});
  }
  EXPECT_EQ(x.type(), "f32[s]");
  EXPECT_TRUE(exp(x).valid());
  GraphTensor moved = std::move(x);
  EXPECT_EQ(moved.type(), "f32[s]");
  EXPECT_EQ(x.type(), "invalid");  // NOLINT(bugprone-use-after-move): that is the question
}

TEST(BuilderMisuse, TheValueOfAFailedResultEndsTheProgramWithItsMessage) {
  GraphBuilder builder;
  EXPECT_DEATH(static_cast<void>(builder.finish().value()), "no output");
}

}  // namespace
}  // namespace opweld
