// Attention with every option: alone, in pairs, over head sizes, dtypes and widths of vectors.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "covering_array.h"
#include "tile/attention_group.h"

namespace opweld::testing {
namespace {

// One query, few (which share a task with all heads of their group), any number.
const std::string kQueries[] = {"1", "3", "s"};

std::int64_t count(const std::string& queries) {
  return queries == "s" ? 40 : std::stoi(queries);
}

void check(const AttentionGroup& options, const std::vector<std::int64_t>& lengths) {
  const GroupRunner group(options.text(), KernelKind::Attention);
  for (const std::int64_t keys : lengths) {
    group.check(
        attention_inputs(group, options, {.queries = count(options.queries), .keys = keys}));
  }
}

TEST(AttentionOptions, LogSumExpAsASecondResult) {
  for (const std::string& queries : kQueries) {
    for (const std::string attributes : {"causal = \"none\"", "causal = \"top_left\""}) {
      check({.queries = queries, .attributes = attributes, .lse = true}, {0, 1, 200, 700});
    }
  }
  // Of a row that sees nothing, -inf.
  const AttentionGroup options{.queries = "1", .mask = "bool[t]", .lse = true};
  const GroupRunner group(options.text(), KernelKind::Attention);
  std::vector<Tensor> inputs = attention_inputs(group, options, {.keys = 5});
  for (std::int64_t t = 0; t < 5; ++t) inputs[3].set_int(t, 0);
  EXPECT_EQ((*group.run(inputs))[1].get_double(0), -std::numeric_limits<double>::infinity());
  group.check(inputs);
}

TEST(AttentionOptions, LogSumExpAloneOrWithWorkAroundIt) {
  const GroupRunner alone(R"(graph g(%q: f32[b, 4, s, d], %k: f32[b, 2, t, d]) {
    %y, %l = attention(%q, %k, %k) {lse = 1}
    %z = neg(%l)
    %r = reshape(%z) {shape = <b, 4, s, 1>}
    return %r as "r"
  })",
                          KernelKind::Attention);
  alone.check({{"b", 2}, {"s", 20}, {"t", 30}, {"d", 8}});
}

TEST(AttentionOptions, LengthsOfEachBatchElement) {
  for (const std::string& queries : kQueries) {
    for (const std::string attributes : {"causal = \"none\"", "causal = \"bottom_right\"",
                                         "causal = \"top_left\", window_left = 9",
                                         "causal = \"bottom_right\", window_left = 30"}) {
      check({.queries = queries, .attributes = attributes, .lengths = true, .lse = true},
            {0, 5, 192, 700});
    }
  }
}

TEST(AttentionOptions, LengthsMustFit) {
  for (const std::string& queries : kQueries) {
    const AttentionGroup options{.queries = queries, .lengths = true};
    const GroupRunner group(options.text(), KernelKind::Attention);
    for (const std::int64_t length : {-1, 301}) {
      std::vector<Tensor> inputs =
          attention_inputs(group, options, {.queries = count(queries), .keys = 300});
      inputs[3].set_int(1, length);
      const auto result = group.run(inputs);
      ASSERT_FALSE(result);
      EXPECT_NE(result.error().message.find(
                    "the length of a sequence is negative or more than its keys (sequence 1"),
                std::string::npos)
          << result.error().message;
    }
  }
}

TEST(AttentionOptions, SlopesOfEachHead) {
  for (const std::string& queries : kQueries) {
    for (const std::string attributes : {"causal = \"none\"", "causal = \"bottom_right\""}) {
      check({.queries = queries, .attributes = attributes, .slopes = true, .lse = true},
            {1, 150, 300});
    }
  }
}

// Which chunk is the last to arrive, of those in sight, must not show.
TEST(AttentionOptions, ChunksInSightCombineToTheSameBitsInAnyOrder) {
  for (const std::string& queries : kQueries) {
    for (const std::string attributes :
         {"causal = \"none\"", "causal = \"top_left\"",
          "causal = \"bottom_right\", window_left = 500", "window_left = 2, window_right = 400"}) {
      const AttentionGroup options{
          .queries = queries, .attributes = attributes, .lengths = true, .lse = true};
      const GroupRunner group(options.text(), KernelKind::Attention);
      std::vector<Tensor> inputs = attention_inputs(
          group, options, {.queries = std::min<std::int64_t>(16, count(queries)), .keys = 2000});
      Tensor& lengths = inputs[options.place('n')];
      lengths.set_int(1, 0);
      lengths.set_int(2, 700);
      group.check(inputs);
      const auto forwards = group.run(inputs);
      const auto backwards = group.run(inputs, GroupRunner::Order::LastTaskFirst);
      ASSERT_TRUE(forwards && backwards);
      for (std::size_t i = 0; i < 2; ++i) {
        const auto bytes = static_cast<std::size_t>((*forwards)[i].num_bytes());
        EXPECT_EQ(std::memcmp((*forwards)[i].data(), (*backwards)[i].data(), bytes), 0);
      }
    }
  }
}

// ---- every option, and every two of them ----

// What may be chosen, and how: 0 is without the option.
enum Option : std::uint8_t {
  kCausal,       // none, at the top left, at the bottom right
  kWindowLeft,   // none, 20
  kWindowRight,  // none, 3
  kSoftcap,      // none, 1.5
  kMask,         // none, bool, float
  kKeys,         // all, lengths, lengths and pages
  kSlopes,
  kLse,
  kKeyHeads,   // of four: 2, 1, 4
  kValueHead,  // as K's, of another size
  kHead,       // 16, 19
  kOptions,
  kDType = kOptions,  // f32, f16, bf16
  kCount,             // of queries: 1, 3, 37, and a free number, which is each of them
  kSizes,             // known, free, which are some with primes, 0 and 1
  kTarget,            // this machine with all it has, its vectors alone, those of AVX2
  kFactors,
};
constexpr int kLevels[kFactors] = {3, 2, 2, 2, 3, 3, 2, 2, 3, 2, 2, 3, 4, 2, 3};
using Choice = std::array<int, kFactors>;

AttentionGroup group_of(const Choice& of) {
  AttentionGroup group;
  const char* const causal[] = {"none", "top_left", "bottom_right"};
  group.attributes = fmt::format("causal = \"{}\"", causal[of[kCausal]]);
  if (of[kWindowLeft] != 0) group.attributes += ", window_left = 20";
  if (of[kWindowRight] != 0) group.attributes += ", window_right = 3";
  if (of[kSoftcap] != 0) group.attributes += ", softcap = 1.5";
  group.lengths = of[kKeys] != 0;
  group.paged = of[kKeys] == 2;
  group.slopes = of[kSlopes] != 0;
  group.lse = of[kLse] != 0;
  group.key_heads = std::array{2, 1, 4}[of[kKeyHeads]];
  group.dtype = std::array{"f32", "f16", "bf16"}[of[kDType]];
  group.queries = std::array{"1", "3", "37", "s"}[of[kCount]];
  if (of[kSizes] == 0) {
    group.batch = "3";
    group.keys = "293";
    group.pages = "23";
    group.page_size = "13";
    group.head = of[kHead] == 0 ? "16" : "19";
    group.value_head = of[kValueHead] == 0 ? group.head : "24";
  }
  const std::string keys = !group.paged ? group.keys : of[kSizes] == 0 ? "299" : "w * p";
  if (of[kMask] == 1)
    group.mask = fmt::format("bool[{}, 1, {}, {}]", group.batch, group.queries, keys);
  if (of[kMask] == 2)
    group.mask = fmt::format("f32[{}, 4, {}, {}]", group.batch, group.queries, keys);
  return group;
}

void check(const Choice& of) {
  const AttentionGroup options = group_of(of);
  const std::string target = std::array{"host", "host-avx512", "host-avx2"}[of[kTarget]];
  SCOPED_TRACE(target + " " + options.text());
  const GroupRunner group(options.text(), KernelKind::Attention, target);
  const std::int64_t head = of[kHead] == 0 ? 16 : 19;
  const AttentionSizes usual{
      .keys = 293, .head = head, .value_head = of[kValueHead] == 0 ? head : 24, .page_size = 13};
  std::vector<AttentionSizes> all = {usual};
  if (of[kSizes] != 0) {
    for (const std::int64_t keys : {0, 1, 97}) {
      all.push_back(usual);
      all.back().keys = keys;
      all.back().batch = keys == 97 ? 1 : 3;
    }
    all.push_back({.keys = 5, .head = 1, .value_head = 1, .batch = 0});
  }
  for (AttentionSizes sizes : all) {
    const auto free = std::vector<std::int64_t>{1, 3, 37, 0};
    for (const std::int64_t queries :
         options.queries == "s" ? free : std::vector<std::int64_t>{count(options.queries)}) {
      sizes.queries = queries;
      group.check(attention_inputs(group, options, sizes));
    }
  }
}

TEST(AttentionOptions, EachAlone) {
  for (int option = 0; option < kOptions; ++option) {
    for (int level = 0; level < kLevels[option]; ++level) {
      if (level == 0 && option != 0) continue;  // without options, once
      for (const int queries : {0, 2}) {
        Choice choice{};
        choice[option] = level;
        choice[kCount] = queries;
        check(choice);
      }
    }
  }
}

TEST(AttentionOptions, EachPair) {
  for (const Choice& choice : CoveringArray<kFactors>(std::to_array(kLevels)).choices()) {
    check(choice);
  }
}

TEST(AttentionOptions, HeadSizesOfEveryDtypeAndWidth) {
  for (const std::string target : {"host", "host-avx512", "host-avx2"}) {
    for (const std::string dtype : {"f32", "f16", "bf16"}) {
      if (target == "host-avx512" && dtype != "bf16") continue;  // as on "host"
      for (const std::string& queries : {std::string("1"), std::string("s")}) {
        const AttentionGroup options{
            .queries = queries, .attributes = "causal = \"bottom_right\"", .dtype = dtype};
        const GroupRunner group(options.text(), KernelKind::Attention, target);
        for (const std::int64_t size : {1, 7, 32, 64, 80, 127, 128, 256}) {
          group.check({{"b", 1}, {"s", 20}, {"t", 131}, {"d", size}, {"e", size}});
        }
        group.check({{"b", 1}, {"s", 20}, {"t", 131}, {"d", 13}, {"e", 80}});
        group.check({{"b", 1}, {"s", 20}, {"t", 131}, {"d", 192}, {"e", 128}});
      }
    }
  }
}

// NaN and infinities in Q, K, V and a mask, with rows that are masked whole, in all forms of the
// schedule: where keys are split and where they are not, with one vector of keys and with several.
TEST(AttentionOptions, RowsOfNaNAsZeros) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const std::string target : {"host", "host-avx512", "host-avx2"}) {
    for (const std::string dtype : {"f32", "f16", "bf16"}) {
      for (const std::string queries : {"1", "3", "s"}) {
        const AttentionGroup options{.queries = queries,
                                     .attributes = "causal = \"none\", zero_nan_rows = 1",
                                     .mask = "f32[b, 1, " + queries + ", t]",
                                     .dtype = dtype};
        const GroupRunner group(options.text(), KernelKind::Attention, target);
        for (const std::int64_t keys : {7, 300}) {
          for (const double value : {kNaN, kInf, -kInf}) {
            for (const char operand : {'q', 'k', 'v', 'm'}) {
              std::vector<Tensor> inputs =
                  attention_inputs(group, options, {.queries = count(queries), .keys = keys});
              Tensor& tensor = inputs[options.place(operand)];
              tensor.set_double(tensor.num_elements() / 2, value);
              Tensor& mask = inputs[options.place('m')];
              for (std::int64_t key = 0; key < keys; ++key) mask.set_double(key, -kInf);
              SCOPED_TRACE(fmt::format("{} {} {} {}: {} in {}", target, dtype, queries, keys, value,
                                       operand));
              group.check(inputs);
            }
          }
        }
      }
    }
  }
}

// NaN and infinity in K and V at keys that a row does not see, some of which other rows do see.
TEST(AttentionOptions, WhatHiddenKeysHoldDoesNotReachARow) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  struct Case {
    std::string target, queries, dtype;
  };
  for (const auto& [target, queries, dtype] :
       {Case{"host", "1", "f32"}, Case{"host-avx2", "1", "f32"}, Case{"host", "3", "f32"},
        Case{"host-avx2", "s", "f32"}, Case{"host", "s", "bf16"},
        Case{"host-avx512", "s", "bf16"}}) {
    for (AttentionGroup options :
         {AttentionGroup{.attributes = "causal = \"top_left\""},
          AttentionGroup{.attributes = "causal = \"bottom_right\", window_left = 3", .lse = true},
          AttentionGroup{.attributes = "causal = \"none\", window_right = 2"},
          AttentionGroup{.mask = "bool[b, 1, 1, t]"}, AttentionGroup{.mask = "f32[b, 1, 1, t]"},
          AttentionGroup{.lengths = true, .lse = true}}) {
      options.queries = queries;
      options.dtype = dtype;
      SCOPED_TRACE(target + " " + options.text());
      const GroupRunner group(options.text(), KernelKind::Attention, target);
      for (const std::int64_t bad : {0, 30, 290, 299}) {
        std::vector<Tensor> inputs =
            attention_inputs(group, options, {.queries = count(queries), .keys = 300});
        for (std::int64_t b = 0; b < 3; ++b) {
          for (std::int64_t d = 0; d < 16; ++d) {
            const std::int64_t at = (b * 2 * 300 + bad) * 16 + d;
            inputs[1].set_double(at, kNaN);
            inputs[2].set_double(at, d % 2 == 0 ? kNaN : kInf);
          }
          if (!options.mask.empty()) {
            const std::int64_t at = b * 300 + bad;
            options.mask.starts_with("f32") ? inputs[3].set_double(at, -kInf)
                                            : inputs[3].set_int(at, 0);
          }
        }
        group.check(inputs);
      }
    }
  }
}

}  // namespace
}  // namespace opweld::testing
