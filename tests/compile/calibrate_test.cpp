#include "calibrate.h"

#include <gtest/gtest.h>

namespace opweld::testing {
namespace {

TEST(Calibration, RatesArePossible) {
  for (const int threads : {1, 2}) {
    const Target target = find_target("host").value();
    auto calibration = Calibration::create(target, threads);
    ASSERT_TRUE(calibration) << calibration.error().message;
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(calibration->sample());
    const Target rates = calibration->rates();
    // What no machine that this runs on is beyond, in either direction.
    EXPECT_TRUE(rates.bandwidth > 1e8 && rates.bandwidth < 1e13) << rates.bandwidth;
    EXPECT_TRUE(rates.cache_bandwidth > 1e8 && rates.cache_bandwidth < 1e13);
    EXPECT_TRUE(rates.peak_flops > 1e8 && rates.peak_flops < 1e13) << rates.peak_flops;
    EXPECT_TRUE(rates.launch_seconds >= 0 && rates.launch_seconds < 1) << rates.launch_seconds;
    EXPECT_EQ(rates.has_amx_bf16, target.has_amx_bf16);
    EXPECT_EQ(target.has_amx_bf16, rates.matrix_flops > 0) << rates.matrix_flops;
    EXPECT_EQ(rates.name, target.name);
    EXPECT_EQ(rates.l2_bytes, target.l2_bytes);
  }
}

}  // namespace
}  // namespace opweld::testing
