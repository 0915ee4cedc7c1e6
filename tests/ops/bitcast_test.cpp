#include <cstring>

#include "ops/run_op.h"

namespace opweld {
namespace {

// Bit patterns by hand, from IEEE 754 and the definition of bfloat16.
TEST(Bitcast, ReadsTheBitsOfEachElement) {
  expect_result(run_op("bitcast", {floats({3}, {1, -2, 0})}, {{"to", DType::I32}}), DType::I32, {3},
                {0x3f800000, -0x40000000, 0});
  expect_result(
      run_op("bitcast", {ints({1, 2}, {0x40490fdb, 0x7f800000}, DType::I32)}, {{"to", DType::F32}}),
      DType::F32, {1, 2}, {0x1.921fb6p+1, std::numeric_limits<double>::infinity()});
  expect_result(
      run_op("bitcast", {make_tensor(DType::F16, {2}, {1, 0x1p-24})}, {{"to", DType::I16}}),
      DType::I16, {2}, {0x3c00, 1});
  expect_result(run_op("bitcast", {make_tensor(DType::F16, {1}, {1.875})}, {{"to", DType::BF16}}),
                DType::BF16, {1}, {1});
  expect_result(run_op("bitcast", {make_tensor(DType::F64, {}, {1})}, {{"to", DType::I64}}),
                DType::I64, {}, {0x3ff0000000000000});
  expect_result(run_op("bitcast", {ints({2}, {-1, 5}, DType::I8)}, {{"to", DType::U8}}), DType::U8,
                {2}, {255, 5});
}

TEST(Bitcast, GivesBoolsThatAreZeroOrOne) {
  const auto result = run_op("bitcast", {ints({3}, {0, 1, 200}, DType::U8)}, {{"to", DType::Bool}});
  ASSERT_TRUE(result);
  const std::byte* bytes = (*result)[0].data();
  EXPECT_EQ(std::vector(bytes, bytes + 3), (std::vector{std::byte{0}, std::byte{1}, std::byte{1}}));
}

TEST(Bitcast, ThereAndBackKeepsEveryBit) {
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      if (byte_size(from) != byte_size(to) || to == DType::Bool) continue;
      SCOPED_TRACE(fmt::format("{} by way of {}", to_string(from), to_string(to)));
      for (const Sizes& sizes : {Sizes{}, Sizes{0}, Sizes{3, 17}}) {
        const Tensor x = random_bits(from, sizes, 7);
        const auto there = run_op("bitcast", {x}, {{"to", to}});
        ASSERT_TRUE(there);
        const auto back = run_op("bitcast", {(*there)[0]}, {{"to", from}});
        ASSERT_TRUE(back);
        ASSERT_EQ((*back)[0].sizes(), sizes);
        EXPECT_TRUE(
            x.num_bytes() == 0 ||
            std::memcmp((*back)[0].data(), x.data(), static_cast<std::size_t>(x.num_bytes())) == 0);
      }
    }
  }
}

// An evaluation of floats in f64 throughout must still see the bits of the declared dtype.
TEST(Bitcast, SeesDeclaredDTypesWhenFloatsAreEvaluatedInF64) {
  const Graph graph = parse_graph(
                          "graph g(%x: f16[2]) { %b = bitcast(%x) {to = i16}"
                          "%f = bitcast(%b) {to = f16} %y = add(%f, %f)"
                          "return %b as \"b\", %y as \"y\" }")
                          .value();
  const Tensor x = make_tensor(DType::F16, {2}, {1, -2});
  const auto results = evaluate(graph, std::span(&x, 1), {.in_f64 = true, .observer = {}});
  ASSERT_TRUE(results) << results.error().message;
  expect_tensor((*results)[0], DType::I16, {2}, {0x3c00, -0x4000});
  expect_tensor((*results)[1], DType::F64, {2}, {2, -4});
}

TEST(Bitcast, RefusesAnotherWidth) {
  expect_error(run_op("bitcast", {floats({2}, {1, 2})}, {{"to", DType::I64}}),
               "the bits of f32 cannot be read as i64: their widths are 4 and 8 bytes");
}

}  // namespace
}  // namespace opweld
