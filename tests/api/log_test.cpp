// The log of compilations that come in through the C++ interface.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "compute.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class CompileLog : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove(path_);
    setenv("OPWELD_LOG_FILE", path_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    unsetenv("OPWELD_LOG_FILE");
    unsetenv("OPWELD_LOG_LEVEL");
  }

  // What compiling exp(x) * 2 writes; the file is empty again afterwards.
  std::vector<std::string> lines(const char* level, FusionLevel fusion = FusionLevel::Auto,
                                 int compilations = 1) {
    setenv("OPWELD_LOG_LEVEL", level, 1);
    GraphBuilder builder("small");
    const GraphTensor x = builder.input("x", DType::F32, {"batch", 1000});
    builder.layer("layers.0");
    builder.output("y", exp(x) * 2);
    const Model model = builder.finish().value();
    std::vector<std::thread> threads;
    for (int i = 0; i < compilations; ++i) {
      threads.emplace_back([&] { EXPECT_TRUE(model.compile({.fusion = fusion, .threads = 1})); });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<std::string> result;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) result.push_back(line);
    std::filesystem::remove(path_);
    return result;
  }

  const std::string path_ = std::filesystem::temp_directory_path() /
                            ("opweld_compile_log_" + std::to_string(getpid()) + ".log");
};

TEST_F(CompileLog, SaysWhichKernelsWereFormed) {
  EXPECT_THAT(
      lines("1"),
      ElementsAre("AutoFusion: graph 'small' at level auto, batch = 1",
                  "AutoFusion: exp + mul -> FusedKernel_0 [layers.0] saves 8.0 kB, 1 kernel"));
}

TEST_F(CompileLog, SaysAtDebugWhichEdgesWereKept) {
  const std::string begin = "AutoFusion: graph 'small' at level none, batch = 1";
  const std::string nothing = "AutoFusion: no kernel fuses operators; kept apart: 1 F-LEVEL";
  EXPECT_THAT(lines("1", FusionLevel::None), ElementsAre(begin, nothing));
  EXPECT_THAT(
      lines("0", FusionLevel::None),
      ElementsAre(begin, nothing,
                  AllOf(StartsWith("AutoFusion: keep layers.0/exp_1 | layers.0/mul_2: level (This "
                                   "level of fusion keeps the two apart) "),
                        HasSubstr("[F-LEVEL] hint: "))));
}

TEST_F(CompileLog, SaysAtDebugWhichEdgesWereFused) {
  EXPECT_THAT(lines("0"),
              ElementsAre(StartsWith("AutoFusion: graph"), StartsWith("AutoFusion: exp + mul -> "),
                          "AutoFusion: fuse layers.0/exp_1 | layers.0/mul_2 -> FusedKernel_0 saves "
                          "8.0 kB"));
}

TEST_F(CompileLog, IsQuietUnlessAsked) {
  EXPECT_THAT(lines("2"), IsEmpty());
  EXPECT_THAT(lines(""), IsEmpty());
}

TEST_F(CompileLog, KeepsLinesOfThreadsWhole) {
  const auto written = lines("1", FusionLevel::Auto, 4);
  EXPECT_THAT(written, SizeIs(8));
  EXPECT_THAT(written, Each(StartsWith("AutoFusion: ")));
}

}  // namespace
}  // namespace opweld
