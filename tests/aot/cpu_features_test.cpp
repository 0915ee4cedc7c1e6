// What the loader asks a processor for, held against what LLVM finds in this one.
#include "aot/cpu_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include "codegen/cpu/jit.h"
#include "target/target.h"

namespace opweld::aot {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CpuFeatures, AreWhatLlvmFindsInThisProcessor) {
  int known = 0;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    const std::string name = feature.getKey().str();
    const auto has = host_has(name);
    if (!has) {
      EXPECT_TRUE(needed_features(std::vector{name})) << name << " is in neither list";
      continue;
    }
    ++known;
    // Whether the system gives tile registers, LLVM does not ask.
    if (name.starts_with("amx") && feature.getValue()) continue;
    EXPECT_EQ(*has, feature.getValue()) << name;
  }
  EXPECT_GT(known, 30);
}

TEST(CpuFeatures, OfTargetsAreThereAndNoMoreThanTheyName) {
  for (const std::string& name : offered_targets()) {
    SCOPED_TRACE(name);
    const Target target = find_target(name).value();
    const auto jit = cpu::Jit::create({target.cpu, target.features, target.vector_bits});
    ASSERT_TRUE(jit) << jit.error().message;
    const auto needed = needed_features(jit->features());
    ASSERT_TRUE(needed) << needed.error().message;
    for (const std::string& feature : *needed) EXPECT_EQ(host_has(feature), true) << feature;
    EXPECT_THAT(*needed, Contains("sse2"));
    const bool may_have_avx = name != "host-generic";
    const bool may_have_avx512 = may_have_avx && name != "host-avx2";
    if (!may_have_avx) {
      EXPECT_THAT(*needed, Not(Contains("avx")));
    }
    if (!may_have_avx512) {
      EXPECT_THAT(*needed, Not(Contains("avx512f")));
    }
  }
}

TEST(CpuFeatures, AnUnknownOneIsAnError) {
  EXPECT_FALSE(host_has("avx4096"));
  const auto needed = needed_features(std::vector<std::string>{"avx2", "avx4096"});
  ASSERT_FALSE(needed);
  EXPECT_THAT(needed.error().message, HasSubstr("avx4096"));
}

}  // namespace
}  // namespace opweld::aot
