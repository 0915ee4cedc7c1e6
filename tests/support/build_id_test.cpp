#include "support/build_id.h"

#include <gtest/gtest.h>

namespace opweld {
namespace {

TEST(BuildId, IsADigestAndStaysTheSame) {
  const std::string id = build_id();
  EXPECT_GE(id.size(), 16U) << "the linker must be asked for one";
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(build_id(), id);
}

}  // namespace
}  // namespace opweld
