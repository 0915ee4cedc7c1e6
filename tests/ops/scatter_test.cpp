#include <cmath>
#include <cstring>
#include <limits>

#include "ops/run_op.h"

namespace opweld {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The signed types and the floats that hold the small values below exactly.
constexpr DType kSignedTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16,
                                  DType::I64, DType::I32, DType::I16};

Attributes reducing(const std::string& reduction) {
  return {{"reduction", reduction}};
}
Attributes reducing(const std::string& reduction, std::int64_t axis) {
  return {{"reduction", reduction}, {"axis", axis}};
}
Attributes writing(const std::string& mode, std::int64_t axis) {
  return {{"mode", mode}, {"axis", axis}};
}

struct Reduced {
  std::string reduction;
  std::vector<double> values;
};

TEST(ScatterElements, EveryReduction) {
  const std::vector<Reduced> cases = {
      {"none", {40, 20, 60, 10, 5, 6, 7, -50, -30}},
      {"add", {41, 22, 63, 14, 5, 6, 7, -42, -21}},
      {"min", {1, 2, 3, 4, 5, 6, 7, -50, -30}},
      {"max", {40, 20, 60, 10, 5, 6, 7, 8, 9}},
  };
  const Tensor indices = ints({2, 3}, {1, 0, 2, 0, -1, -3});
  for (const DType dtype : kSignedTypes) {
    const Tensor x = make_tensor(dtype, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    const Tensor updates = make_tensor(dtype, {2, 3}, {10, 20, -30, 40, -50, 60});
    for (const auto& [reduction, values] : cases) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(dtype), reduction));
      expect_result(run_op("scatter_elements", {x, indices, updates}, reducing(reduction, 0)),
                    dtype, {3, 3}, values);
    }
  }
}

TEST(ScatterElements, UpdatesThatMeetCombineInOrder) {
  const std::vector<Reduced> cases = {
      {"none", {5, 11, 7, -1, 9}}, {"add", {5, 22, 7, 7, 9}}, {"mul", {5, 396, 7, -8, 9}},
      {"min", {5, 2, 7, -1, 9}},   {"max", {5, 11, 7, 8, 9}},
  };
  const Tensor indices = ints({1, 4}, {1, 1, -4, 3}, DType::I32);
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::I64, DType::I16}) {
    const Tensor x = make_tensor(dtype, {1, 5}, {5, 6, 7, 8, 9});
    const Tensor updates = make_tensor(dtype, {1, 4}, {2, 3, 11, -1});
    for (const auto& [reduction, values] : cases) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(dtype), reduction));
      expect_result(run_op("scatter_elements", {x, indices, updates}, reducing(reduction, 1)),
                    dtype, {1, 5}, values);
    }
  }
}

TEST(ScatterElements, SmallIntegersWrap) {
  const Tensor x = make_tensor(DType::I8, {3}, {100, -100, 7});
  const Tensor all = ints({3}, {0, 1, 2});
  expect_result(run_op("scatter_elements", {x, all, make_tensor(DType::I8, {3}, {100, -100, 50})},
                       reducing("add", 0)),
                DType::I8, {3}, {-56, 56, 57});
  expect_result(run_op("scatter_elements", {x, all, make_tensor(DType::I8, {3}, {3, 3, 37})},
                       reducing("mul", 0)),
                DType::I8, {3}, {44, -44, 3});
  const Tensor bytes = make_tensor(DType::U8, {2}, {200, 3});
  const Tensor both = ints({2}, {0, 1});
  expect_result(run_op("scatter_elements", {bytes, both, make_tensor(DType::U8, {2}, {100, 254})},
                       reducing("add", 0)),
                DType::U8, {2}, {44, 1});
  expect_result(run_op("scatter_elements", {bytes, both, make_tensor(DType::U8, {2}, {100, 254})},
                       reducing("max", 0)),
                DType::U8, {2}, {200, 254});
}

TEST(ScatterElements, Int64SumsWrapWithoutTrapping) {
  Tensor x = zeros(DType::I64, {1});
  x.set_int(0, std::numeric_limits<std::int64_t>::max());
  const auto result =
      run_op("scatter_elements", {x, ints({1}, {0}), ints({1}, {1})}, reducing("add", 0));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ((*result)[0].get_int(0), std::numeric_limits<std::int64_t>::min());
}

TEST(ScatterElements, BoolsCombineAsNumpyDoes) {
  const Tensor x = make_tensor(DType::Bool, {4}, {0, 0, 1, 1});
  const Tensor updates = make_tensor(DType::Bool, {4}, {0, 1, 0, 1});
  const Tensor all = ints({4}, {0, 1, 2, 3});
  for (const std::string sum : {"add", "max"}) {
    expect_result(run_op("scatter_elements", {x, all, updates}, reducing(sum, 0)), DType::Bool, {4},
                  {0, 1, 1, 1});
  }
  for (const std::string product : {"mul", "min"}) {
    expect_result(run_op("scatter_elements", {x, all, updates}, reducing(product, 0)), DType::Bool,
                  {4}, {0, 0, 0, 1});
  }
}

TEST(ScatterElements, NanWinsMinAndMax) {
  const Tensor x = floats({3}, {kNan, 1, 1});
  const Tensor updates = floats({3}, {1, kNan, 2});
  const Tensor all = ints({3}, {0, 1, 2});
  expect_result(run_op("scatter_elements", {x, all, updates}, reducing("min", 0)), DType::F32, {3},
                {kNan, kNan, 1});
  expect_result(run_op("scatter_elements", {x, all, updates}, reducing("max", 0)), DType::F32, {3},
                {kNan, kNan, 2});
}

TEST(ScatterElements, HalfSumsRoundOnce) {
  // 2048 + 1 + 1: each addition alone would round back to 2048 in f16.
  const Tensor x = make_tensor(DType::F16, {1}, {2048});
  const Tensor ones = make_tensor(DType::F16, {2}, {1, 1});
  expect_result(run_op("scatter_elements", {x, ints({2}, {0, 0}), ones}, reducing("add", 0)),
                DType::F16, {1}, {2050});
}

// x with element i replaced by element sources[i] - 100 of the updates where sources[i] >= 100, bit
// by bit for every dtype.
void expect_scatter_moves(const std::string& op, const Sizes& x_sizes, const Tensor& indices,
                          const Sizes& update_sizes, const Attributes& attributes,
                          const std::vector<int>& sources) {
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(std::string(to_string(dtype)));
    const Tensor data[] = {random_bits(dtype, x_sizes, 1), random_bits(dtype, update_sizes, 2)};
    std::vector<Tensor> operands = {data[0], indices, data[1]};
    if (op == "tensor_scatter") std::swap(operands[1], operands[2]);
    const auto results = run_op(op, operands, attributes);
    ASSERT_TRUE(results.has_value()) << results.error().message;
    ASSERT_EQ((*results)[0].sizes(), x_sizes);
    const auto width = static_cast<std::size_t>(byte_size(dtype));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto from = static_cast<std::size_t>(sources[i] % 100);
      EXPECT_EQ(std::memcmp((*results)[0].data() + i * width,
                            data[sources[i] / 100].data() + from * width, width),
                0)
          << "element " << i;
    }
  }
}

TEST(ScatterElements, MovesBitsOfEveryDType) {
  expect_scatter_moves("scatter_elements", {3, 3}, ints({2, 3}, {1, 0, 2, 0, -1, -3}), {2, 3},
                       reducing("none", 0), {103, 101, 105, 100, 4, 5, 6, 104, 102});
  expect_scatter_moves("scatter_elements", {2}, ints({0}, {}), {0}, reducing("none", 0), {0, 1});
}

TEST(ScatterElements, Errors) {
  const Tensor x = floats({2, 2}, {0, 1, 2, 3});
  const Tensor one = floats({1, 1}, {9});
  const Attributes none = reducing("none", 0);
  expect_error(run_op("scatter_elements", {x, ints({1, 1}, {2}), one}, none),
               "index 2 (element 0 of indices) is out of range for axis 0 of size 2");
  expect_error(run_op("scatter_elements", {x, ints({1, 1}, {-3}), one}, none), "index -3");
  expect_error(run_op("scatter_elements", {x, ints({1}, {0}), floats({1}, {9})}, none),
               "indices have rank 1, x has rank 2");
  expect_error(run_op("scatter_elements", {x, ints({1, 2}, {0, 0}), one}, none),
               "axis 1 of indices and updates");
  expect_error(run_op("scatter_elements", {x, ints({1, 1}, {0}), one}, reducing("sum", 0)),
               "reduction \"sum\" is none of");
  expect_error(run_op("scatter_elements", {x, ints({1, 1}, {0}), ints({1, 1}, {0})}, none),
               "updates");
}

TEST(ScatterNd, EveryReductionOfRows) {
  const std::vector<Reduced> cases = {
      {"none", {30, 2, 3, 4, -5, 6}},     {"add", {31, 4, 3, 4, 10, -8}},
      {"mul", {30, 4, 3, 4, -250, -720}}, {"min", {1, 2, 3, 4, -5, -20}},
      {"max", {30, 2, 3, 4, 10, 6}},
  };
  const Tensor indices = ints({3, 1}, {2, -3, 2});
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::I64, DType::I32}) {
    const Tensor x = make_tensor(dtype, {3, 2}, {1, 2, 3, 4, 5, 6});
    const Tensor updates = make_tensor(dtype, {3, 2}, {10, -20, 30, 2, -5, 6});
    for (const auto& [reduction, values] : cases) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(dtype), reduction));
      expect_result(run_op("scatter_nd", {x, indices, updates}, reducing(reduction)), dtype, {3, 2},
                    values);
    }
  }
}

TEST(ScatterNd, ElementsAndInnerBlocks) {
  expect_result(run_op("scatter_nd",
                       {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8}), ints({4, 1}, {4, 3, 1, -1}),
                        floats({4}, {9, 10, 11, 12})},
                       reducing("none")),
                DType::F32, {8}, {1, 11, 3, 10, 9, 6, 7, 12});
  expect_result(run_op("scatter_nd",
                       {floats({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}),
                        ints({1, 2, 2}, {0, 1, -1, -2}), floats({1, 2, 2}, {50, 51, 60, 61})},
                       reducing("add")),
                DType::F32, {2, 2, 2}, {0, 1, 52, 54, 64, 66, 6, 7});
}

TEST(ScatterNd, MovesBitsOfEveryDType) {
  expect_scatter_moves("scatter_nd", {3, 2}, ints({2, 1}, {2, -3}), {2, 2}, reducing("none"),
                       {102, 103, 2, 3, 100, 101});
  expect_scatter_moves("scatter_nd", {}, ints({0}, {}), {}, reducing("none"), {100});
  expect_scatter_moves("scatter_nd", {2}, ints({0, 1}, {}), {0}, reducing("none"), {0, 1});
}

TEST(ScatterNd, Errors) {
  const Tensor x = floats({2, 2}, {0, 1, 2, 3});
  expect_error(run_op("scatter_nd", {x, ints({1, 2}, {0, 2}), floats({1}, {9})}, reducing("none")),
               "index 2 (element 1 of indices) is out of range for axis 1 of size 2");
  expect_error(
      run_op("scatter_nd", {x, ints({1, 3}, {0, 0, 0}), floats({1}, {9})}, reducing("none")),
      "address 3 axes, x has rank 2");
  expect_error(
      run_op("scatter_nd", {x, ints({1, 1}, {0}), floats({1, 3}, {9, 9, 9})}, reducing("none")),
      "axis 1 of the blocks of x at the indices and updates");
}

TEST(TensorScatter, WritesRowsOfEachBatch) {
  expect_scatter_moves("tensor_scatter", {2, 2, 4, 1}, ints({2}, {2, 0}), {2, 2, 2, 1},
                       writing("linear", 2),
                       {0, 1, 100, 101, 4, 5, 102, 103, 104, 105, 10, 11, 106, 107, 14, 15});
  expect_scatter_moves("tensor_scatter", {2, 4, 3}, ints({2}, {3, 1}), {2, 1, 3},
                       writing("linear", 1), {0,  1,  2,  3,   4,   5,   6,  7,  8,  100, 101, 102,
                                              12, 13, 14, 103, 104, 105, 18, 19, 20, 21,  22,  23});
}

TEST(TensorScatter, CircularWritesWrapAround) {
  expect_scatter_moves("tensor_scatter", {2, 2, 4, 1}, ints({2}, {3, 5}), {2, 2, 2, 1},
                       writing("circular", 2),
                       {101, 1, 2, 100, 103, 5, 6, 102, 8, 104, 105, 11, 12, 106, 107, 15});
  expect_scatter_moves("tensor_scatter", {3, 2}, ints({3}, {1, 2, 3}), {3, 1},
                       writing("circular", 1), {0, 100, 101, 3, 4, 102});
}

TEST(TensorScatter, StartsAtZeroByDefault) {
  expect_result(run_op("tensor_scatter",
                       {floats({2, 3}, {0, 1, 2, 3, 4, 5}), floats({2, 2}, {10, 11, 12, 13})},
                       writing("linear", 1)),
                DType::F32, {2, 3}, {10, 11, 2, 12, 13, 5});
}

TEST(TensorScatter, EmptyBatchesAndUpdates) {
  expect_scatter_moves("tensor_scatter", {0, 3}, ints({0}, {}), {0, 2}, writing("linear", 1), {});
  expect_scatter_moves("tensor_scatter", {1, 3}, ints({1}, {3}), {1, 0}, writing("linear", 1),
                       {0, 1, 2});
}

TEST(TensorScatter, Errors) {
  const Tensor cache = floats({1, 3}, {0, 1, 2});
  const Tensor update = floats({1, 2}, {8, 9});
  const auto run = [&](double start) {
    return run_op("tensor_scatter", {cache, update, ints({1}, {start})}, writing("linear", 1));
  };
  expect_error(run(2), "write index 2 of batch 0 puts row 1 of the update outside");
  expect_error(run(-1), "write index -1");
  expect_error(run(9223372036854774784.0), "outside the cache's 3 rows");
  expect_error(run_op("tensor_scatter", {update, cache}, writing("linear", 1)),
               "must not be longer");
  expect_error(run_op("tensor_scatter", {cache, update}, writing("ring", 1)),
               "neither \"linear\" nor \"circular\"");
  expect_error(run_op("tensor_scatter", {cache, update}, writing("linear", 0)), "the batch");
  expect_error(run_op("tensor_scatter", {cache, update, ints({2}, {0, 0})}, writing("linear", 1)),
               "write_indices and the batch of the cache");
}

}  // namespace
}  // namespace opweld
