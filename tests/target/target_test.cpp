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
}

}  // namespace
}  // namespace opweld
