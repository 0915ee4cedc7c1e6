// The log: levels, files, threads.
#include "support/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace opweld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class LogFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }

  const std::string path_ = std::filesystem::temp_directory_path() /
                            ("opweld_log_test_" + std::to_string(getpid()) + ".log");
};

void say_both(const Log& log) {
  log.line(LogLevel::Debug, "debug");
  log.line(LogLevel::Info, "info");
}

TEST_F(LogFile, LevelsDecideWhatIsWritten) {
  say_both(Log("0", path_));
  EXPECT_THAT(lines(), ElementsAre("debug", "info"));
  say_both(Log("1", path_));  // appends
  EXPECT_THAT(lines(), ElementsAre("debug", "info", "info"));
  say_both(Log("2", path_));
  say_both(Log("", path_));
  EXPECT_THAT(lines(), ElementsAre("debug", "info", "info"));
}

TEST_F(LogFile, AQuietLogMakesNoFile) {
  say_both(Log("", path_));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LogFile, WithoutAFileStandardErrorIsUsed) {
  CaptureStderr();
  say_both(Log("info", ""));
  EXPECT_EQ(GetCapturedStderr(), "info\n");
  CaptureStderr();
  say_both(Log("", ""));
  EXPECT_EQ(GetCapturedStderr(), "");
}

TEST_F(LogFile, WrongSettingsAreTold) {
  CaptureStderr();
  say_both(Log("loud", path_));
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("OPWELD_LOG_LEVEL='loud'"));
  EXPECT_THAT(lines(), IsEmpty());
  CaptureStderr();
  say_both(Log("1", path_ + "/no/such/folder"));
  const std::string told = GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("cannot open OPWELD_LOG_FILE='" + path_));
  EXPECT_TRUE(told.ends_with("info\n"));
}

TEST_F(LogFile, TheEnvironmentIsReadEachTime) {
  setenv("OPWELD_LOG_LEVEL", "0", 1);
  setenv("OPWELD_LOG_FILE", path_.c_str(), 1);
  say_both(Log::from_environment());
  unsetenv("OPWELD_LOG_LEVEL");
  say_both(Log::from_environment());
  unsetenv("OPWELD_LOG_FILE");
  EXPECT_THAT(lines(), ElementsAre("debug", "info"));
}

TEST_F(LogFile, LinesOfThreadsStayWhole) {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      const Log log("1", path_);
      const std::string text(300, static_cast<char>('a' + thread));
      for (int i = 0; i < kLines; ++i) log.line(LogLevel::Info, text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto written = lines();
  EXPECT_EQ(written.size(), std::size_t{kThreads * kLines});
  for (const std::string& line : written) {
    EXPECT_EQ(line, std::string(300, line.front()));
  }
}

}  // namespace
}  // namespace opweld
