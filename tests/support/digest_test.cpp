#include "support/digest.h"

#include <gtest/gtest.h>

namespace opweld {
namespace {

// XXH3_128bits of the empty text, from the reference implementation's self-test of seed 0
// (github.com/Cyan4973/xxHash).
TEST(Digest, IsTheReferences) {
  EXPECT_EQ(digest(""), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, OfPartsIsThatOfTheWhole) {
  const std::string text(3000, 'x');
  for (const std::size_t cut : {0U, 1U, 16U, 240U, 241U, 1024U, 2999U, 3000U}) {
    DigestOfParts parts;
    parts.add(std::string_view(text).substr(0, cut));
    parts.add({});
    parts.add(std::string_view(text).substr(cut));
    EXPECT_EQ(parts.text(), digest(text)) << cut;
  }
  EXPECT_EQ(DigestOfParts().text(), digest(""));
}

}  // namespace
}  // namespace opweld
