// Targets by name: each narrower view of the host has what its name says and nothing more.
#include "target/target.h"

#include <gmock/gmock.h>

#include <string>

namespace opweld {
namespace {

using ::testing::HasSubstr;

TEST(Target, OnlyTheWidestViewsHaveAMatrixUnit) {
  for (const char* name : {"host-generic", "host-avx2", "host-avx512"}) {
    const auto target = find_target(name);
    if (target) {
      EXPECT_FALSE(target->has_amx_bf16) << name;
      EXPECT_EQ(target->name, name);
    } else {
      EXPECT_THAT(target.error().message, HasSubstr("this machine offers host, host-generic"));
    }
  }
  const bool has_unit = find_target("host").value().has_amx_bf16;
  const auto amx = find_target("host-amx");
  ASSERT_EQ(amx.has_value(), has_unit);
  if (has_unit) {
    EXPECT_TRUE(amx->has_amx_bf16);
    EXPECT_EQ(amx->name, "host-amx");
    EXPECT_EQ(amx->vector_bits, 512);
  } else {
    EXPECT_THAT(amx.error().message, HasSubstr("not available here"));
  }
}

TEST(Target, WhatIsNotHereCanBePlannedForAlone) {
  for (const char* name : {"ascend-910b", "cuda-sm90"}) {
    const auto target = find_target(name);
    ASSERT_TRUE(target) << name;
    EXPECT_EQ(target->name, name);
    EXPECT_TRUE(target->planned_only);
    EXPECT_TRUE(target->cpu.empty()) << "no processor that code could be generated for";
    const Status here = check_is_here(*target);
    ASSERT_FALSE(here);
    EXPECT_EQ(here.error().kind, ErrorKind::Usage);
    EXPECT_THAT(here.error().message, HasSubstr(name));
    EXPECT_THAT(here.error().message, HasSubstr("opweld explain plans and counts for it"));
    EXPECT_THAT(offered_targets(), ::testing::Not(::testing::Contains(name)));
  }
  for (const std::string& name : offered_targets()) {
    const auto target = find_target(name);
    ASSERT_TRUE(target) << name;
    EXPECT_TRUE(check_is_here(*target)) << name;
  }
}

// Against the sums that the vendors publish for a whole chip.
TEST(Target, PlannedRatesComeToWhatIsPublished) {
  const auto all_cores = [](const Target& target, double rate) { return rate * target.cores; };
  const Target ascend = find_target("ascend-910b").value();
  // 20 cores of 4096 multiply-adds at 1.8 GHz, and 40 vector units of 64 lanes.
  EXPECT_NEAR(all_cores(ascend, ascend.matrix_flops), 295e12, 1e12);
  EXPECT_NEAR(all_cores(ascend, ascend.peak_flops), 9.2e12, 0.1e12);
  EXPECT_EQ(ascend.on_chip_bytes, 196608);  // ub_size
  const Target hopper = find_target("cuda-sm90").value();
  EXPECT_NEAR(all_cores(hopper, hopper.matrix_flops), 989e12, 1e12);
  EXPECT_NEAR(all_cores(hopper, hopper.peak_flops), 67e12, 0.2e12);
  EXPECT_EQ(hopper.on_chip_bytes, 227 * 1024);
}

TEST(Target, HasNoMoreCoresThanThreads) {
  Target target;
  target.cores = 4;
  EXPECT_EQ(on_threads(target, 1).cores, 1);
  EXPECT_EQ(on_threads(target, 3).cores, 3);
  EXPECT_EQ(on_threads(target, 64).cores, 4) << "nor more than there are";
}

TEST(Target, UnknownNamesAreToldWhatThereIs) {
  const auto target = find_target("host-avx1024");
  ASSERT_FALSE(target);
  EXPECT_THAT(target.error().message, HasSubstr("'host-avx1024' is not known"));
  EXPECT_THAT(target.error().message, HasSubstr("host-generic"));
  EXPECT_THAT(target.error().message, HasSubstr("plans for ascend-910b, cuda-sm90"));
}

}  // namespace
}  // namespace opweld
