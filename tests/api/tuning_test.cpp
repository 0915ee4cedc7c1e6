// Measured block sizes through the public interface.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compute.h"
#include "opweld/functions.h"
#include "opweld/model.h"
#include "temporary_folder.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;

// Nobody's cache folder but the test's.
class TuningApi : public ::testing::Test {
 protected:
  TuningApi() {
    unsetenv("OPWELD_TUNED");
    setenv("OPWELD_CACHE_DIR", folder_.path().c_str(), 1);
  }
  ~TuningApi() override {
    setenv("OPWELD_TUNED", "0", 1);
    unsetenv("OPWELD_CACHE_DIR");
  }

  [[nodiscard]] std::string file() const { return folder_.path() + "/tuning.json"; }

 private:
  testing::TemporaryFolder folder_;
};

Model model() {
  return Model::parse(R"(graph g(%x: f32[rows, 24]) {
    %w = constant {value = f32[24, 100] random 1}
    %m = matmul(%x, %w)
    %y = relu(%m)
    return %y as "y"
  })")
      .value();
}

std::vector<float> ramp(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 11) / 8 - 0.5F);
  return values;
}

std::vector<double> results(const Program& program, std::int64_t rows) {
  const std::vector<float> x = ramp(rows * 24);
  const auto outputs = program.run({TensorView(x, {rows, 24})});
  EXPECT_TRUE(outputs) << message_of(outputs);
  return outputs ? (*outputs)[0].to_doubles() : std::vector<double>();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(TuningApi, NothingIsMeasuredUnlessAskedFor) {
  const auto program = model().compile();
  ASSERT_TRUE(program) << message_of(program);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(TuningApi, WhatIsMeasuredIsKeptAndChangesNoResult) {
  const Program plain = model().compile({.threads = 2}).value();
  const auto tuned =
      model().compile({.threads = 2, .tune_seconds = 3600, .tune_sizes = {{"rows", 50}}});
  ASSERT_TRUE(tuned) << message_of(tuned);
  EXPECT_THAT(text_of(file()), AllOf(HasSubstr("matmul + relu"), HasSubstr("rows = 50")));
  for (const std::int64_t rows : {1, 13, 50, 300}) {
    EXPECT_EQ(results(*tuned, rows), results(plain, rows));
  }
}

// Replaces what the last measurement found by a choice that was surely not the default.
void choose(const std::string& file) {
  std::string text = text_of(file);
  const std::size_t begin = text.find("\"blocking\": {");
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = text.find('}', begin);
  text.replace(begin, end - begin, "\"blocking\": {\"panels\": 2");
  std::ofstream(file) << text;
}

TEST_F(TuningApi, LaterCompilationsUseWhatIsKeptAndSaySo) {
  ASSERT_TRUE(model().compile({.tune_seconds = 3600}));
  choose(file());
  const Program program = model().compile().value();
  const Account account = program.account({{"rows", 1}}).value();
  ASSERT_EQ(account.tuning.size(), 1U);
  EXPECT_THAT(account.tuning[0], AllOf(HasSubstr("matmul + relu"), HasSubstr("panels 2")));
  EXPECT_THAT(program.account_json({{"rows", 1}}).value(), HasSubstr("panels 2"));
}

TEST_F(TuningApi, WhatIsKeptCanBeLeftAside) {
  ASSERT_TRUE(model().compile({.tune_seconds = 3600}));
  choose(file());
  const auto tuning = [](const CompileSettings& settings) {
    return model().compile(settings).value().account({{"rows", 1}}).value().tuning;
  };
  EXPECT_THAT(tuning({}), Not(IsEmpty()));
  EXPECT_THAT(tuning({.tuned = false}), IsEmpty());
  setenv("OPWELD_TUNED", "0", 1);
  EXPECT_THAT(tuning({}), IsEmpty());
}

TEST_F(TuningApi, WrongSettingsAreUsageErrors) {
  const auto error = [](const CompileSettings& settings) {
    const auto program = model().compile(settings);
    EXPECT_FALSE(program);
    if (program) return std::string();
    EXPECT_EQ(program.error().kind, ErrorKind::Usage);
    return program.error().message;
  };
  for (const double seconds : {-1.0, 1e9, std::nan(""), HUGE_VAL}) {
    EXPECT_THAT(error({.tune_seconds = seconds}), HasSubstr("tune_seconds"));
  }
  EXPECT_THAT(error({.tune_seconds = 1, .tune_sizes = {{"columns", 3}}}), HasSubstr("'columns'"));
  EXPECT_THAT(error({.tune_seconds = 1, .tune_sizes = {{"rows", -3}}}), HasSubstr("rows"));
  EXPECT_THAT(error({.tuned = false, .tune_seconds = 1}), HasSubstr("tuned"));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

}  // namespace
}  // namespace opweld
