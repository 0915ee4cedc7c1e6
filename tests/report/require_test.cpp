#include "report/require.h"

#include <gmock/gmock.h>

#include "explained.h"

namespace opweld::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Require, PatternsAreParsed) {
  const auto pattern = parse_pattern(" 6 x MatMul + Add  +  Gelu [layers.0] ");
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->at_least, 6);
  EXPECT_EQ(pattern->scope, "layers.0");
  EXPECT_THAT(pattern->items, ElementsAre("MatMul", "Add", "Gelu"));
  // Names may hold nearly anything.
  EXPECT_THAT(parse_pattern("/a+b/c [x] + 3 x y")->items, ElementsAre("/a+b/c [x]", "3 x y"));
}

TEST(Require, WhatIsNoPatternIsTaught) {
  for (const char* text : {"", "  ", "+", "A + ", " + A", "A +  + B", "A + + + B", "2 x  + B"}) {
    const auto pattern = parse_pattern(text);
    ASSERT_FALSE(pattern) << text;
    EXPECT_EQ(pattern.error().kind, ErrorKind::Usage);
    EXPECT_THAT(pattern.error().message, HasSubstr("MatMul + Add + Gelu"));
  }
}

TEST(Require, FusionsThatAreThere) {
  const Explained explained(kFeedForward);
  for (const char* pattern : {
           "MatMul + Add + Gelu",             // as the log prints it
           "MatMul + Gelu",                   // others may be between
           "Gelu",                            // found in its spelling
           "matmul + ADD",                    // as anybody writes it
           "MatMul + Add + Gelu [layers.0]",  // in that layer
           "1 x MatMul",                      //
           "/mlp/MatMul + /mlp/Add",          // by name
           "/mlp/Add + /mlp/MatMul",          // in any order
           "/mlp/MatMul + /act/Erf",          // which became a part of the Gelu
           "/mlp/M + Gelu",                   // both, by what it alone begins with
           "/TopK",                           //
       }) {
    EXPECT_EQ(explained.missing(pattern), "") << pattern;
  }
}

TEST(Require, TheCodeThatKeptThemApartIsNamed) {
  const Explained explained(kFeedForward);
  for (const char* pattern :
       {"Gelu + TopK", "MatMul + TopK", "/act/Mul_1 + /TopK", "/mlp/MatMul + /TopK",
        "/TopK + /mlp/MatMul", "MatMul + Gelu + TopK", "Gelu + /TopK"}) {
    EXPECT_THAT(explained.missing(pattern),
                AllOf(HasSubstr("is not met: '/act/Mul_1' and '/TopK' are kept apart by F-OPAQUE"),
                      HasSubstr(pattern)))
        << pattern;
  }
  CompileOptions options;
  options.level = FusionLevel::None;
  EXPECT_THAT(Explained(kFeedForward, options).missing("MatMul + Add"),
              HasSubstr("'/mlp/MatMul' and '/mlp/Add' are kept apart by F-LEVEL"));
}

TEST(Require, WhatTheModelLacksIsNamed) {
  const Explained explained(kFeedForward);
  EXPECT_THAT(explained.missing("Gellu + Add"), HasSubstr("did you mean 'Gelu'"));
  EXPECT_THAT(explained.missing("Attention + Add"), HasSubstr("no operator called 'Attention'"));
  EXPECT_THAT(explained.missing("/mlp/MatMul + /mlp/Ad + /mlp/Sub"), HasSubstr("'/mlp/Sub'"));
  // It was there, but not any more.
  EXPECT_THAT(explained.missing("Erf"), HasSubstr("no operator of the model is Erf after"));
  EXPECT_THAT(explained.missing("Gelu + Add"), HasSubstr("no data leads from Gelu to Add"));
  EXPECT_THAT(explained.missing("MatMul + Gelu [layers.1]"), HasSubstr("layers.1"));
  EXPECT_THAT(explained.missing("2 x MatMul + Add"), HasSubstr("1 of 2 kernels have it"));
}

TEST(Require, AnOperatorOfTheModelThatNeedsNoKernel) {
  const Explained explained(R"(graph g(%x: f32[4]) {
    %c = constant {value = f32[4] {1.0, 2.0, 3.0, 4.0}}
    %e = exp(%c) @"Folded"
    %y = mul(%x, %e) @"Mul"
    return %y as "y"
  })");
  EXPECT_THAT(explained.missing("Folded + Mul"), HasSubstr("depends on no input"));
}

TEST(Require, MergedMatmulsAreListedOneByOne) {
  const Explained explained(R"(graph projections(%x: f32[n, 4]) {
    %v = constant {value = f32[4, 4] random 1}
    %w = constant {value = f32[4, 4] random 2}
    %q = matmul(%x, %v) @"Q" op "MatMul"
    %k = matmul(%x, %w) @"K" op "MatMul"
    %t = transpose(%k) {permutation = [1, 0]} @"T" op "Transpose"
    %y = matmul(%q, %t) @"Y" op "MatMul"
    return %y as "y"
  })");
  EXPECT_EQ(explained.missing("MatMul + MatMul"), "");
  EXPECT_EQ(explained.missing("Q + K"), "");
  EXPECT_NE(explained.missing("MatMul + MatMul + MatMul"), "");
  EXPECT_NE(explained.missing("Q + Y"), "");
}

}  // namespace
}  // namespace opweld::testing
