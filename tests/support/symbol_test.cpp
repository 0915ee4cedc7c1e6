#include "support/symbol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opweld {
namespace {

TEST(Symbol, TextRoundTrips) {
  for (const SymbolInfo& info :
       {SymbolInfo{"s", {1, 512, 8}}, SymbolInfo{"batch", {}}, SymbolInfo{"x", {-5, -5, 1}},
        SymbolInfo{"past length + 1", {0, 7, 1}}, SymbolInfo{"q\"\\\n", {0, 64, 64}},
        SymbolInfo{"min", {0, 3, 1}}, SymbolInfo{"in", {0, 3, 1}}, SymbolInfo{"7", {0, 3, 1}}}) {
    const auto parsed = SymbolInfo::parse(info.to_string());
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(*parsed, info) << info.to_string();
  }
  EXPECT_EQ((SymbolInfo{"s", {1, 512, 8}}.to_string()), "s in [1, 512] divisible 8");
  EXPECT_EQ((SymbolInfo{"s", {1, 512, 1}}.to_string()), "s in [1, 512]");
  EXPECT_EQ(SymbolInfo::parse("s").value(), (SymbolInfo{"s", {}}));
  EXPECT_EQ(SymbolInfo::parse(" s divisible 4 ").value(),
            (SymbolInfo{"s", {0, int64_t{1} << 40, 4}}));
}

TEST(Symbol, RejectsMalformedAndImpossibleOnes) {
  for (const char* text : {"",
                           "1s",
                           "s in",
                           "s in [1",
                           "s in [1, 2",
                           "s in [1 2]",
                           "s in [1, x]",
                           "s in [1, 2] div 2",
                           "s in [1, 2] divisible",
                           "s in [1, 2] divisible 2 2",
                           "\"s",
                           "s in [5, 4]",
                           "s in [1, 7] divisible 8",
                           "s in [-7, -1] divisible 8",
                           "s divisible 0",
                           "s divisible -2",
                           "\"\" in [0, 1]",
                           "s in [0, 9223372036854775807]",
                           "s in [0, 99999999999999999999]",
                           "mod in [0, 1]"}) {
    EXPECT_FALSE(SymbolInfo::parse(text).has_value()) << text;
  }
  EXPECT_TRUE(SymbolInfo::parse("s in [-8, -1] divisible 8").has_value());
}

TEST(Symbol, ChecksValues) {
  const SymbolInfo info{"s", {1, 512, 8}};
  EXPECT_TRUE(info.check(8).has_value());
  EXPECT_TRUE(info.check(512).has_value());
  EXPECT_EQ(info.check(0).error().kind, ErrorKind::Usage);
  EXPECT_FALSE(info.check(513).has_value());
  EXPECT_FALSE(info.check(12).has_value());
}

TEST(SymbolTable, HoldsOneDescriptionPerName) {
  SymbolTable table;
  EXPECT_TRUE(table.add({"s", {1, 512, 8}}).has_value());
  EXPECT_TRUE(table.add({"s", {1, 512, 8}}).has_value());
  EXPECT_THAT(table.add({"s", {1, 256, 8}}).error().message, ::testing::HasSubstr("twice"));
  EXPECT_FALSE(table.add({"", {}}).has_value());
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.find("s")->range.max, 512);
  EXPECT_EQ(table.find("t"), nullptr);
}

TEST(Bindings, KeepNamesSortedAndUnique) {
  Bindings bindings{{"s", 3}, {"b", 1}, {"s", 4}};
  bindings.set("k", 2);
  EXPECT_EQ(bindings.size(), 3u);
  EXPECT_EQ(bindings.find("s"), 4);
  EXPECT_EQ(bindings.find("b"), 1);
  EXPECT_EQ(bindings.find("a"), std::nullopt);
  EXPECT_EQ(bindings.find("z"), std::nullopt);
  EXPECT_EQ(bindings.begin()->first, "b");
}

}  // namespace
}  // namespace opweld
