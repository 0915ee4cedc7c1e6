#include "rewrite/raise/numbered_rows.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/builder.h"

namespace opweld {
namespace {

// Of %y, by the numbers %n, of which there are as many as `rows` says.
std::optional<Tensor> table(const std::string& nodes, std::int64_t count,
                            const std::string& rows = "r") {
  auto graph = parse_graph("graph g(%n: i64[" + rows + "], %x: f32[" + rows + "]) {\n" + nodes +
                           "\n return %y as \"y\"\n}");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  if (!graph) return std::nullopt;
  return rows_by_number(graph->outputs().front().value, graph->inputs().front(), count);
}

const std::string kThree = "%three = constant {value = i64[] {3}}\n";
const std::string kCounted = "%e = iota() {shape = <4>, axis = 0, dtype = i64}\n";

TEST(NumberedRows, AreComputed) {
  const auto tripled = table(kThree + "%y = mul(%n, %three)", 5);
  ASSERT_TRUE(tripled);
  ASSERT_EQ(tripled->sizes(), Sizes{5});
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(tripled->get_int(i), 3 * i);
  const auto hits = table(
      kCounted + "%c = reshape(%n) {shape = <r, 1>}\n%h = eq(%c, %e)\n%y = cast(%h) {to = f32}", 4);
  ASSERT_TRUE(hits);
  ASSERT_EQ(hits->sizes(), (Sizes{4, 4}));
  for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(hits->get_double(i), i / 4 == i % 4 ? 1 : 0);
}

// As many rows as there are numbers, or as columns: which axis is which is not told by its size.
TEST(NumberedRows, OfKnownSizes) {
  for (const std::string rows : {"1", "4", "7"}) {
    const auto hits =
        table(kCounted + "%c = reshape(%n) {shape = <" + rows +
                  ", 1>}\n%s = expand(%c) {shape = <" + rows + ", 4>}\n%y = eq(%s, %e)",
              4, rows);
    ASSERT_TRUE(hits) << rows;
    ASSERT_EQ(hits->sizes(), (Sizes{4, 4}));
    for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(hits->get_int(i), i / 4 == i % 4 ? 1 : 0);
  }
}

TEST(NumberedRows, AreNoneWhereRowsDiffer) {
  // Something else is read.
  EXPECT_FALSE(table("%m = cast(%x) {to = i64}\n%y = add(%n, %m)", 4));
  // By their places.
  EXPECT_FALSE(table(kCounted + "%y = add(%n, %e)", 4, "4"));
  EXPECT_FALSE(
      table("%i = iota() {shape = <4, 1>, axis = 0, dtype = i64}\n"
            "%c = reshape(%n) {shape = <4, 1>}\n%y = add(%c, %i)",
            4, "4"));
  EXPECT_FALSE(table("%i = iota() {shape = <r>, axis = 0, dtype = i64}\n%y = add(%n, %i)", 4));
  // Rows meet.
  EXPECT_FALSE(table("%c = reshape(%n) {shape = <1, r>}\n%y = neg(%c)", 4));
  EXPECT_FALSE(table("%c = reshape(%n) {shape = <2, 2>}\n%y = neg(%c)", 4, "4"));
  EXPECT_FALSE(table("%y = cumsum(%n) {axis = 0}", 4));
  EXPECT_FALSE(
      table("%c = reshape(%n) {shape = <4, 1>}\n%s = expand(%c) {shape = <4, 4>}\n"
            "%y = add(%s, %n)",
            4, "4"));
  // Nothing of the numbers.
  EXPECT_FALSE(table(kThree + "%y = neg(%three)", 4));
}

}  // namespace
}  // namespace opweld
