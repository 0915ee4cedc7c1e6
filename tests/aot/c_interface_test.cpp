// opweld/runtime.h as a program in C uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "aot/written_model.h"
#include "opweld/custom_op.h"  // both may be used together
#include "opweld/runtime.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

// y = relu(x) + 1 and the sum of its rows.
constexpr const char* kText = R"(graph g(%x: f32[n, 3], %k: i32[2]) {
  %one = constant {value = f32[] splat 1.0}
  %r = relu(%x)
  %y = add(%r, %one)
  %s = reduce_sum(%y) {axes = [1], keepdims = 0}
  %l = add(%k, %k)
  return %y as "y", %s as "s", %l as "l" })";

class CInterface : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(opweld_model_load(file_.path().c_str(), nullptr, &model_), OPWELD_OK)
        << opweld_error();
  }
  void TearDown() override { opweld_model_free(model_); }

  WrittenModel file_{kText};
  OpweldModel* model_ = nullptr;
  std::array<float, 6> x_ = {-1, 2, 3, 4, -5, 6};
  std::array<std::int32_t, 2> k_ = {20, -3};
  std::array<std::int64_t, 2> x_sizes_ = {2, 3};
  std::array<std::int64_t, 1> k_sizes_ = {2};
  std::array<OpweldTensor, 2> inputs_ = {OpweldTensor{OPWELD_F32, 2, x_sizes_.data(), x_.data()},
                                         OpweldTensor{OPWELD_I32, 1, k_sizes_.data(), k_.data()}};
};

TEST_F(CInterface, TellsWhatAModelTakesAndGives) {
  ASSERT_EQ(opweld_model_inputs(model_), 2U);
  ASSERT_EQ(opweld_model_outputs(model_), 3U);
  OpweldTensorInfo info;
  ASSERT_EQ(opweld_model_input(model_, 0, &info), OPWELD_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_STREQ(info.shape, "[n, 3]");
  EXPECT_EQ(info.dtype, OPWELD_F32);
  ASSERT_EQ(info.rank, 2);
  EXPECT_EQ(info.sizes[0], -1);
  EXPECT_EQ(info.sizes[1], 3);
  ASSERT_EQ(opweld_model_output(model_, 1, &info), OPWELD_OK);
  EXPECT_STREQ(info.name, "s");
  EXPECT_EQ(opweld_model_input(model_, 2, &info), OPWELD_USAGE);
  EXPECT_THAT(opweld_error(), HasSubstr("2 inputs"));
  EXPECT_STREQ(opweld_model_account(model_), "{}");
  EXPECT_STRNE(opweld_version(), "");
}

TEST_F(CInterface, GivesResultsThatOutliveTheModel) {
  OpweldResults* result = nullptr;
  ASSERT_EQ(opweld_model_run(model_, inputs_.data(), 2, &result), OPWELD_OK) << opweld_error();
  opweld_model_free(model_);
  model_ = nullptr;
  const OpweldTensor y = opweld_results_output(result, 0);
  EXPECT_EQ(y.dtype, OPWELD_F32);
  ASSERT_EQ(y.rank, 2);
  EXPECT_EQ(y.sizes[0], 2);
  const float expected[] = {1, 3, 4, 5, 1, 7};
  EXPECT_EQ(std::memcmp(y.data, expected, sizeof expected), 0);
  const OpweldTensor s = opweld_results_output(result, 1);
  EXPECT_EQ(static_cast<const float*>(s.data)[1], 13);
  const OpweldTensor l = opweld_results_output(result, 2);
  EXPECT_EQ(l.dtype, OPWELD_I32);
  EXPECT_EQ(static_cast<const std::int32_t*>(l.data)[1], -6);
  EXPECT_EQ(opweld_results_output(result, 3).data, nullptr);
  opweld_results_free(result);
  opweld_results_free(nullptr);
}

TEST_F(CInterface, WritesIntoTheCallersMemory) {
  std::array<std::int64_t, 2> sizes = {};
  ASSERT_EQ(opweld_model_output_sizes(model_, inputs_.data(), 2, 0, sizes.data(), 2), OPWELD_OK);
  EXPECT_EQ(sizes, (std::array<std::int64_t, 2>{2, 3}));
  EXPECT_EQ(opweld_model_output_sizes(model_, inputs_.data(), 2, 0, sizes.data(), 1), OPWELD_USAGE);
  EXPECT_EQ(opweld_model_output_sizes(model_, inputs_.data(), 2, 9, sizes.data(), 1), OPWELD_USAGE);
  std::array<float, 6> y = {};
  std::array<float, 2> s = {};
  std::array<std::int32_t, 2> l = {};
  std::array<OpweldTensor, 3> outputs = {OpweldTensor{OPWELD_F32, 2, sizes.data(), y.data()},
                                         OpweldTensor{OPWELD_F32, 1, k_sizes_.data(), s.data()},
                                         OpweldTensor{OPWELD_I32, 1, k_sizes_.data(), l.data()}};
  ASSERT_EQ(opweld_model_run_into(model_, inputs_.data(), 2, outputs.data(), 3), OPWELD_OK)
      << opweld_error();
  EXPECT_EQ(y[5], 7);
  EXPECT_EQ(s[0], 8);
  EXPECT_EQ(l[0], 40);
  outputs[0].data = x_.data();
  EXPECT_EQ(opweld_model_run_into(model_, inputs_.data(), 2, outputs.data(), 3), OPWELD_USAGE);
  EXPECT_THAT(opweld_error(), HasSubstr("overlaps input 'x'"));
}

TEST_F(CInterface, ChecksWhatACallerHandsOver) {
  const auto message = [&](std::size_t count = 2) {
    OpweldResults* result = nullptr;
    EXPECT_EQ(opweld_model_run(model_, inputs_.data(), count, &result), OPWELD_USAGE);
    EXPECT_EQ(result, nullptr);
    return std::string(opweld_error());
  };
  const OpweldTensor good = inputs_[0];
  EXPECT_THAT(message(1), HasSubstr("2 inputs"));
  inputs_[0].dtype = OPWELD_F64;
  EXPECT_THAT(message(), HasSubstr("must be f32"));
  inputs_[0].dtype = 42;
  EXPECT_THAT(message(), HasSubstr("no element type"));
  inputs_[0] = good;
  inputs_[0].rank = -1;
  EXPECT_THAT(message(), HasSubstr("sizes are missing"));
  inputs_[0] = good;
  inputs_[0].sizes = nullptr;
  EXPECT_THAT(message(), HasSubstr("sizes are missing"));
  inputs_[0] = good;
  x_sizes_ = {2, -3};
  EXPECT_THAT(message(), HasSubstr("input 'x'"));
  x_sizes_ = {2, 4};
  EXPECT_THAT(message(), HasSubstr("axis 1"));
  x_sizes_ = {2, 3};
  inputs_[0].data = nullptr;
  EXPECT_THAT(message(), HasSubstr("no data"));
  inputs_[0].data = reinterpret_cast<char*>(x_.data()) + 1;
  EXPECT_THAT(message(), HasSubstr("not aligned"));
  OpweldResults* result = nullptr;
  EXPECT_EQ(opweld_model_run(model_, nullptr, 2, &result), OPWELD_USAGE);
}

TEST_F(CInterface, LoadsAsItIsTold) {
  OpweldModel* other = nullptr;
  OpweldLoadOptions options = {};
  options.check_weights = 1;
  options.threads = 1;
  EXPECT_EQ(opweld_model_load(file_.path().c_str(), &options, &other), OPWELD_OK);
  opweld_model_free(other);
  options.threads = 2000;
  EXPECT_EQ(opweld_model_load(file_.path().c_str(), &options, &other), OPWELD_USAGE);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(opweld_model_load(nullptr, nullptr, &other), OPWELD_USAGE);
  EXPECT_EQ(opweld_model_load("/nowhere.opw", nullptr, &other), OPWELD_FAILURE);
  EXPECT_THAT(opweld_error(), HasSubstr("/nowhere.opw"));
}

TEST_F(CInterface, ServesSeveralThreadsEachWithItsOwnErrors) {
  std::vector<std::thread> threads;
  std::array<int, 4> wrong = {};
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        std::array<float, 6> x = x_;
        x[0] = static_cast<float>(t);
        std::array<OpweldTensor, 2> inputs = inputs_;
        inputs[0].data = x.data();
        OpweldResults* result = nullptr;
        if (t == 3) inputs[0].dtype = OPWELD_BOOL;
        const OpweldStatus status = opweld_model_run(model_, inputs.data(), 2, &result);
        if (t == 3) {
          wrong[t] += status != OPWELD_USAGE || *opweld_error() == '\0' ? 1 : 0;
          continue;
        }
        const OpweldTensor y = opweld_results_output(result, 0);
        const bool right = static_cast<const float*>(y.data)[0] == static_cast<float>(t) + 1;
        wrong[t] += status != OPWELD_OK || !right || *opweld_error() != '\0' ? 1 : 0;
        opweld_results_free(result);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

}  // namespace
}  // namespace opweld::testing
