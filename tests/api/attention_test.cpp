// Options of the public attention() beyond those of every model.
#include <cmath>
#include <cstdint>

#include "compute.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using testing::compute;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Input;
using testing::message_of;
using ::testing::Pointwise;
using Operands = std::vector<GraphTensor>;

// With q = 0 all visible keys weigh the same: keys 1, 2, 4, 8 in blocks of two.
TEST(AttentionFunction, OverAPagedCache) {
  const Input q{{2, 1, 1, 1}, {0, 0}};
  const Input k{{2, 1, 2, 1}, {0, 0, 0, 0}};
  const Input v{{2, 1, 2, 1}, {1, 2, 4, 8}};
  const auto run = [&](const std::vector<float>& lengths, const std::vector<float>& table,
                       AttentionOptions options = {}) {
    return compute({q, k, v, {{2}, lengths}, {{2, 2}, table}},
                   [&](GraphBuilder&, const Operands& o) {
                     options.lengths = cast(o[3], DType::I32);
                     options.block_table = cast(o[4], DType::I32);
                     return attention(o[0], o[1], o[2], options);
                   });
  };
  EXPECT_THAT(run({4, 3}, {1, 0, 0, 1}), Pointwise(DoubleNear(1e-6), {15.0 / 4, 7.0 / 3}));
  EXPECT_THAT(run({1, 0}, {1, -9, 99, 99}), ElementsAre(4, 0));
  EXPECT_THAT(run({4, 4}, {-1, 0, 7, 1}, {.causal = Causal::BottomRight, .window_left = 0}),
              ElementsAre(2, 8));
}

TEST(AttentionFunction, LengthsSlopesAndLogSumExp) {
  const Input q{{2, 2, 1, 1}, {0, 0, 0, 0}};
  const Input k{{2, 1, 3, 1}, {0, 0, 0, 0, 0, 0}};
  const Input v{{2, 1, 3, 1}, {1, 2, 4, 8, NAN, NAN}};
  const Input lengths{{2}, {3, 1}};
  // A slope of log 2 doubles the weight from key to key.
  const Input slopes{{2}, {0, static_cast<float>(std::log(2))}};
  const auto result = [&](bool lse) {
    return compute({q, k, v, lengths, slopes}, [&](GraphBuilder&, const Operands& o) {
      const AttentionOptions options{
          .causal = Causal::BottomRight, .lengths = cast(o[3], DType::I64), .slopes = o[4]};
      const AttentionWithLse both = attention_with_lse(o[0], o[1], o[2], options);
      return lse ? both.lse : both.result;
    });
  };
  EXPECT_THAT(result(false), Pointwise(DoubleNear(1e-5), {7.0 / 3, 3.0, 8.0, 8.0}));
  // The last key stands at distance 0: 1 + 1/2 + 1/4.
  EXPECT_THAT(result(true), Pointwise(DoubleNear(1e-5), {std::log(3), std::log(1.75), 0.0, 0.0}));
}

TEST(AttentionFunction, PagedCacheNamesWhatIsWrong) {
  GraphBuilder builder;
  const GraphTensor q = builder.input("q", DType::F32, {2, 1, "s", 1});
  const GraphTensor cache = builder.input("cache", DType::F32, {3, 1, 2, 1});
  const GraphTensor n = builder.input("n", DType::I64, {2});
  const GraphTensor blocks = builder.input("blocks", DType::I64, {2, 2});
  builder.output("y", attention(q, cache, cache, {.lengths = n, .block_table = blocks}));
  const Result<Model> model = builder.finish();
  ASSERT_TRUE(model) << message_of(model);
  const Result<Program> program = model->compile({.threads = 2});
  ASSERT_TRUE(program) << message_of(program);
  const auto run = [&](const std::vector<std::int64_t>& lengths,
                       const std::vector<std::int64_t>& table) {
    const std::vector<float> zeros(6);
    return message_of(
        program->run({TensorView(zeros, {2, 1, 3, 1}), TensorView(zeros, {3, 1, 2, 1}),
                      TensorView(lengths, {2}), TensorView(table, {2, 2})}));
  };
  EXPECT_EQ(run({4, 2}, {0, 2, 1, 5}), "");
  for (const std::int64_t block : {std::int64_t{3}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_THAT(run({4, 3}, {0, 2, 1, block}),
                AllOf(HasSubstr("attention_1"),
                      HasSubstr("the block table names a block that does not exist (sequence 1, "
                                "entry 1, block " +
                                std::to_string(block) + ", blocks 3)")));
  }
  for (const std::int64_t length : {std::int64_t{5}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_THAT(run({length, 1}, {0, 2, 1, 0}),
                AllOf(HasSubstr("attention_1"),
                      HasSubstr("(sequence 0, length " + std::to_string(length) + ", keys 4)")));
  }
}

TEST(AttentionFunction, OptionsThatDoNotFit) {
  const auto message = [](AttentionOptions (*options)(GraphBuilder&)) {
    GraphBuilder builder;
    const GraphTensor q = builder.input("q", DType::F32, {2, 4, 5, 8});
    const GraphTensor cache = builder.input("cache", DType::F32, {6, 2, 16, 8});
    const AttentionWithLse both = attention_with_lse(q, cache, cache, options(builder));
    EXPECT_FALSE(both.result.valid());
    EXPECT_FALSE(both.lse.valid());
    return message_of(builder.status());
  };
  const auto lengths = [](GraphBuilder& b) { return b.input("n", DType::I64, {2}); };
  static const auto kLengths = lengths;
  EXPECT_THAT(message([](GraphBuilder& b) {
                return AttentionOptions{.block_table = b.input("t", DType::I64, {2, 3})};
              }),
              HasSubstr("'block_table' needs 'lengths'"));
  EXPECT_THAT(message([](GraphBuilder& b) {
                return AttentionOptions{.lengths = kLengths(b),
                                        .block_table = b.input("t", DType::I64, {3, 3})};
              }),
              HasSubstr("the batch of 'q' and 'block_table'"));
  EXPECT_THAT(message([](GraphBuilder& b) {
                return AttentionOptions{.lengths = kLengths(b),
                                        .block_table = b.input("t", DType::F32, {2, 3})};
              }),
              HasSubstr("block_table"));
  EXPECT_THAT(message([](GraphBuilder& b) {
                return AttentionOptions{.mask = b.input("m", DType::Bool, {47}),
                                        .lengths = kLengths(b),
                                        .block_table = b.input("t", DType::I64, {2, 3})};
              }),
              HasSubstr("mask"));
  EXPECT_THAT(message([](GraphBuilder& b) {
                return AttentionOptions{.lengths = kLengths(b),
                                        .slopes = b.input("a", DType::F32, {2}),
                                        .block_table = b.input("t", DType::I64, {2, 3})};
              }),
              HasSubstr("slopes"));
  // Without a table, the cache is no batch of two.
  EXPECT_THAT(message([](GraphBuilder& b) { return AttentionOptions{.lengths = kLengths(b)}; }),
              HasSubstr("the batch of 'q' and 'k'"));
}

}  // namespace
}  // namespace opweld
