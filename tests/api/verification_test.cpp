// Model::verify and Model::write_report.
#include "opweld/verification.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "compute.h"
#include "opweld/functions.h"
#include "opweld/model.h"
#include "temporary_folder.h"

namespace opweld {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

// y = gelu(x w) + x, in layers.
Model layered_model(int layers) {
  static const std::vector<float> kWeights = [] {
    std::vector<float> values(64);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = (static_cast<float>(i % 7) - 3) / 8;
    }
    return values;
  }();
  GraphBuilder builder("layered");
  GraphTensor x = builder.input("x", DType::F32, {"s", 8});
  const GraphTensor w = builder.weight("w", TensorView(kWeights, {8, 8}));
  for (int i = 0; i < layers; ++i) {
    builder.layer("layers." + std::to_string(i));
    x = gelu(matmul(x, w)) + x;
  }
  builder.output("y", x);
  return builder.finish().value();
}

// In f32 the one is lost beside 1e8; in double precision it is not.
Model cancelling_model() {
  return Model::parse(R"(graph cancelling(%x: f32[s, 3]) {
  %w = constant {value = f32[3, 1] {1.0, 1.0, 1.0}}
  %y = matmul(%x, %w)
  return %y as "y"
})")
      .value();
}

std::vector<float> ramp(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 11) / 8 - 0.5F);
  return values;
}

TEST(Verify, HoldsEveryKernelToItsOperators) {
  const Model model = layered_model(3);
  const std::vector<float> x = ramp(5 * 8);
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    const auto result = model.verify({TensorView(x, {5, 8})}, {.fusion = level});
    ASSERT_TRUE(result) << message_of(result);
    EXPECT_TRUE(result->ok()) << result->fault;
    const Account account = model.compile({.fusion = level})->account({{"s", 5}}).value();
    ASSERT_EQ(result->kernels.size(), account.kernels.size());
    for (std::size_t i = 0; i < account.kernels.size(); ++i) {
      EXPECT_EQ(result->kernels[i].name, account.kernels[i].name);
      EXPECT_EQ(result->kernels[i].operators, account.kernels[i].operators);
      EXPECT_EQ(result->kernels[i].layer, account.kernels[i].layer);
    }
    ASSERT_EQ(result->outputs.size(), 1U);
    EXPECT_EQ(result->outputs[0].name, "y");
    EXPECT_GT(result->outputs[0].to_reference, 0);
    EXPECT_GT(result->outputs[0].of_tolerance, 0);
    EXPECT_LT(result->outputs[0].of_tolerance, 1);
    EXPECT_EQ(result->custom_operators, 0);
  }
}

TEST(Verify, NamesTheOutputAndTheKernelThatDiffer) {
  const std::vector<float> x{1e8F, 1, -1e8F};
  const auto result = cancelling_model().verify({TensorView(x, {1, 3})});
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_FALSE(result->ok());
  EXPECT_THAT(result->fault, HasSubstr("output 'y', against the reference"));
  EXPECT_THAT(result->fault, HasSubstr("first at " + result->kernels[0].name));
  EXPECT_THAT(result->kernels[0].fault, HasSubstr("node"));
  EXPECT_GE(result->kernels[0].largest_difference, 1);
  EXPECT_FALSE(result->outputs[0].fault.empty());
  EXPECT_GT(result->outputs[0].of_tolerance, 1);
}

TEST(Verify, InStrictNumericsFusedIsUnfused) {
  const std::vector<float> x = ramp(3 * 8);
  const auto result =
      layered_model(2).verify({TensorView(x, {3, 8})}, {.numerics = Numerics::Strict});
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_TRUE(result->ok()) << result->fault;
  EXPECT_EQ(result->outputs[0].to_unfused, 0);
}

TEST(Verify, RefusesInputsAndSettingsThatCannotBe) {
  const Model model = layered_model(1);
  const std::vector<float> x = ramp(8);
  for (const auto& inputs : {std::vector<TensorView>{},
                             {TensorView(x, {8})},
                             {TensorView(x, {2, 4})},
                             {TensorView(x, {1, 8}), TensorView(x, {8})}}) {
    const auto result = model.verify(inputs);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::Usage) << result.error().message;
  }
  const auto result = model.verify({TensorView(x, {1, 8})}, {.threads = -1});
  EXPECT_THAT(message_of(result), HasSubstr("threads"));
}

class Report : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path() + "/page.html"; }
  [[nodiscard]] std::string page() const {
    std::ifstream in(path(), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  TemporaryFolder folder_;
};

TEST_F(Report, IsAPageWithTheModelInIt) {
  const auto done = layered_model(2).write_report(
      path(), {}, {.name = "my model", .sizes = {{"s", 24}}, .repeats = 2});
  ASSERT_TRUE(done) << message_of(done);
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("<!doctype html"));
  EXPECT_THAT(text, HasSubstr(R"("model":"my model")"));
  EXPECT_THAT(text, HasSubstr(R"("sizes":{"s":24})"));
  EXPECT_THAT(text, HasSubstr(R"("repeats":2)"));
  EXPECT_THAT(text, HasSubstr("layers.1"));
}

TEST_F(Report, ShowsARunOnGivenInputs) {
  const std::vector<float> x = ramp(7 * 8);
  const auto done =
      layered_model(1).write_report(path(), {}, {.repeats = 0}, {TensorView(x, {7, 8})});
  ASSERT_TRUE(done) << message_of(done);
  EXPECT_THAT(page(), HasSubstr(R"("sizes":{"s":7})"));
  EXPECT_THAT(page(), HasSubstr(R"("repeats":0)"));
  EXPECT_THAT(page(), HasSubstr(R"("model":"layered")"));
}

TEST_F(Report, RefusesWhatCannotBe) {
  const Model model = layered_model(1);
  const auto error = [&](const std::string& file, const PageSettings& settings,
                         const std::vector<TensorView>& inputs = {}) {
    return message_of(model.write_report(file, {}, settings, inputs));
  };
  const std::vector<float> x = ramp(8);
  EXPECT_THAT(error(folder_.path() + "/no/page.html", {.repeats = 0}), HasSubstr("cannot write"));
  EXPECT_THAT(error(path(), {.sizes = {{"t", 1}}}), HasSubstr("no free size 't'"));
  EXPECT_THAT(error(path(), {.sizes = {{"s", -1}}}), HasSubstr("s = -1"));
  EXPECT_THAT(error(path(), {.repeats = -1}), HasSubstr("repeats"));
  EXPECT_THAT(error(path(), {.repeats = 1001}), HasSubstr("repeats"));
  EXPECT_THAT(error(path(), {.sizes = {{"s", 1}}}, {TensorView(x, {1, 8})}),
              HasSubstr("sizes are those of the inputs"));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace opweld
