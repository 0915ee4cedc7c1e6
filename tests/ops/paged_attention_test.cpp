// attention over a block table. With q = 0 all scores are equal, so that a result is the mean of
// the values that are visible, written out here.
#include "ops/tables.h"

namespace opweld {
namespace {

constexpr std::int64_t kOne = 1;

// Four blocks of two keys; two sequences of up to three blocks.
const std::vector<double> kBlocks = {1, 2, 4, 8, 16, 32, 64, 128};

Expected<std::vector<Tensor>> mean(const std::vector<double>& table,
                                   const std::vector<double>& lengths,
                                   const Attributes& attributes = {}, std::int64_t queries = 1,
                                   const Tensor& mask = {}, DType indices = DType::I64) {
  return run_op("attention",
                {zeros(DType::F32, {2, 1, queries, 1}), zeros(DType::F32, {4, 1, 2, 1}),
                 floats({4, 1, 2, 1}, kBlocks), mask, ints({2}, lengths, indices), Tensor(),
                 ints({2, 3}, table, indices)},
                attributes);
}

TEST(PagedAttention, KeysAreThoseOfTheTable) {
  for (const DType indices : {DType::I64, DType::I32}) {
    // 64, 128, 1, 2, 16 and 4, 8, 64.
    expect_close((*mean({3, 0, 2, 1, 3, 0}, {5, 3}, {}, 1, {}, indices))[0], DType::F32,
                 {2, 1, 1, 1}, rounded({211.0 / 5, 76.0 / 3}, DType::F32));
  }
  // Sequences may share blocks, even one block several times.
  expect_result(mean({1, 1, 1, 1, 0, 0}, {6, 4}), DType::F32, {2, 1, 1, 1}, {6, 3.75});
}

TEST(PagedAttention, EachHeadHasItsRowsOfABlock) {
  // Blocks [2, 2 heads, 2 keys, 1]; three query heads on each.
  const auto result = run_op(
      "attention",
      {zeros(DType::F32, {1, 6, 1, 1}), zeros(DType::F32, {2, 2, 2, 1}),
       floats({2, 2, 2, 1}, kBlocks), Tensor(), ints({1}, {3}), Tensor(), ints({1, 2}, {1, 0})},
      {});
  const double first = (16 + 32 + 1) / 3.0;
  const double second = (64 + 128 + 4) / 3.0;
  expect_close((*result)[0], DType::F32, {1, 6, 1, 1},
               rounded({first, first, first, second, second, second}, DType::F32));
}

TEST(PagedAttention, MasksCountKeysOfTheSequence) {
  const Attributes causal = {{"causal", "bottom_right"}};
  // Two queries at the last two of the valid keys.
  expect_result(mean({3, 0, 2, 1, 3, 0}, {4, 1}, causal, 2), DType::F32, {2, 1, 2, 1},
                rounded({193.0 / 3, 48.75, 0, 4}, DType::F32));
  const Attributes window = {{"causal", "bottom_right"}, {"window_left", kOne}};
  expect_result(mean({3, 0, 2, 1, 3, 0}, {4, 3}, window), DType::F32, {2, 1, 1, 1}, {1.5, 36});
  const Tensor mask = make_tensor(DType::Bool, {6}, {0, 1, 0, 1, 1, 1});
  expect_result(mean({3, 0, 2, 1, 3, 0}, {4, 3}, {}, 1, mask), DType::F32, {2, 1, 1, 1}, {65, 8});
}

TEST(PagedAttention, OnlyBlocksThatAreSeenNeedExist) {
  expect_result(mean({3, 0, -1, 1, 99, -7}, {4, 2}), DType::F32, {2, 1, 1, 1}, {48.75, 6});
  expect_result(mean({-1, -1, -1, 4, 4, 4}, {0, 0}), DType::F32, {2, 1, 1, 1}, {0, 0});
  const Attributes window = {{"causal", "bottom_right"}, {"window_left", kOne}};
  expect_result(mean({9, 0, 9, 9, 9, 3}, {4, 6}, window), DType::F32, {2, 1, 1, 1}, {1.5, 96});
  expect_error(mean({3, 0, -1, 1, 99, -7}, {5, 2}),
               "a block that does not exist (sequence 0, entry 2, block -1, blocks 4)");
  expect_error(mean({3, 0, -1, 1, 4, -7}, {4, 3}),
               "a block that does not exist (sequence 1, entry 1, block 4, blocks 4)");
  expect_error(mean({0, 1, 2, 0, 1, 2}, {6, 7}), "(sequence 1, length 7, keys 6)");
  expect_error(mean({0, 1, 2, 0, 1, 2}, {-1, 6}), "(sequence 0, length -1, keys 6)");
}

TEST(PagedAttention, Refuses) {
  const auto run = [](const Sizes& k, const Sizes& v, const Sizes& lengths, const Sizes& table,
                      const Tensor& mask = {}) {
    return run_op("attention",
                  {zeros(DType::F32, {2, 2, 1, 4}), zeros(DType::F32, k), zeros(DType::F32, v),
                   mask, zeros(DType::I64, lengths), Tensor(), zeros(DType::I64, table)},
                  {});
  };
  const Sizes pages = {5, 2, 3, 4};
  ASSERT_TRUE(run(pages, pages, {2}, {2, 6}).has_value());
  expect_error(run(pages, {6, 2, 3, 4}, {2}, {2, 6}), "the blocks of 'k' and 'v'");
  expect_error(run(pages, {5, 1, 3, 4}, {2}, {2, 6}), "the heads of 'k' and 'v'");
  expect_error(run(pages, {5, 2, 4, 4}, {2}, {2, 6}), "the block sizes of 'k' and 'v'");
  expect_error(run(pages, pages, {2}, {3, 6}), "the batch of 'q' and 'block_table'");
  expect_error(run(pages, pages, {2}, {12}), "operand 6 must have rank 2");
  expect_error(run(pages, pages, {3}, {2, 6}), "the batch of 'q' and 'lengths'");
  expect_error(run(pages, pages, {2}, {2, 6}, zeros(DType::Bool, {1, 17})), "[2, 2, 1, 18]");
  expect_error(
      run_op("attention",
             {zeros(DType::F32, {2, 2, 1, 4}), zeros(DType::F32, pages), zeros(DType::F32, pages),
              Tensor(), Tensor(), Tensor(), zeros(DType::I64, {2, 6})},
             {}),
      "'block_table' needs 'lengths'");
}

TEST(PagedAttention, SymbolicSizes) {
  Graph graph;
  const auto input = [&](std::string name, DType dtype, Shape shape) {
    return graph.add_input(std::move(name), {dtype, std::move(shape)});
  };
  const Dim b = Dim::symbol("b");
  const Dim s = Dim::symbol("s");
  const Dim w = Dim::symbol("w");
  Value* q = input("q", DType::F16, {b, 32, s, 128});
  Value* k = input("k", DType::F16, {Dim::symbol("n"), 8, 16, 128});
  Value* v = input("v", DType::F16, {Dim::symbol("n"), 8, 16, 64});
  Value* mask = input("mask", DType::Bool, {b, 1, s, w * 16});
  Value* lengths = input("lengths", DType::I32, {b});
  Value* table = input("table", DType::I32, {b, w});
  const auto node = build_node(graph, "attention", {q, k, v, mask, lengths, nullptr, table});
  ASSERT_TRUE(node.has_value()) << node.error().message;
  EXPECT_EQ((*node)->result()->type(), (TensorType{DType::F16, {b, 32, s, 64}}));
  EXPECT_TRUE(graph.assumptions().empty());
}

}  // namespace
}  // namespace opweld
