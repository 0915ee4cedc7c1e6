// Attention over a paged KV cache: against the reference, and against attention over the same keys
// side by side.
#include <cstring>
#include <limits>

#include "tile/attention_group.h"

namespace opweld::testing {
namespace {

// One query, few (which share a task with all heads of their group), any number.
const std::string kQueries[] = {"1", "3", "s"};

std::int64_t count(const std::string& queries) {
  return queries == "s" ? 40 : std::stoi(queries);
}

AttentionGroup paged(const std::string& queries, const std::string& attributes) {
  return {.queries = queries, .attributes = attributes, .lengths = true, .paged = true};
}

TEST(PagedAttention, PageSizesAndLengths) {
  for (const std::string target : {"host", "host-avx2"}) {
    for (const std::string& queries : kQueries) {
      const AttentionGroup options = paged(queries, "causal = \"bottom_right\"");
      const GroupRunner group(options.text(), KernelKind::Attention, target);
      for (const std::int64_t page_size : {1, 7, 16, 131, 1000}) {
        for (const std::int64_t keys : {0, 1, 97, 293, 600}) {
          SCOPED_TRACE(fmt::format("{} {} pages of {}, {} keys", target, queries, page_size, keys));
          const AttentionSizes sizes{
              .queries = count(queries), .keys = keys, .page_size = page_size};
          group.check(attention_inputs(group, options, sizes));
        }
      }
    }
  }
}

// A page size that is known, head sizes that are no multiples of a vector, half types, i32.
TEST(PagedAttention, KnownPageSizesAndOtherTypes) {
  using Known = std::pair<std::string, std::string>;  // dtype and page size
  for (const auto& [dtype, page_size] :
       {Known{"f32", "13"}, Known{"f16", "32"}, Known{"bf16", "1"}}) {
    for (const std::string& queries : kQueries) {
      AttentionGroup options = paged(queries, "causal = \"none\"");
      options.dtype = dtype;
      options.page_size = page_size;
      options.indices = "i32";
      options.lse = true;
      SCOPED_TRACE(options.text());
      const GroupRunner group(options.text(), KernelKind::Attention);
      group.check(attention_inputs(group, options,
                                   {.queries = count(queries),
                                    .keys = 211,
                                    .head = 7,
                                    .value_head = 33,
                                    .page_size = std::stoi(page_size)}));
    }
  }
}

TEST(PagedAttention, NothingInTheCache) {
  for (const std::string& queries : kQueries) {
    const AttentionGroup options = paged(queries, "causal = \"none\"");
    const GroupRunner group(options.text(), KernelKind::Attention);
    // Pages of no keys, sequences of no pages, a cache of no pages whose table is full of nonsense.
    struct Cache {
      std::int64_t pages, table, page_size;
    };
    for (const auto& [pages, table, page_size] :
         {Cache{4, 2, 0}, Cache{4, 0, 16}, Cache{0, 5, 16}}) {
      std::vector<Tensor> inputs = group.random_inputs({{"b", 2},
                                                        {"s", count(queries)},
                                                        {"d", 8},
                                                        {"e", 8},
                                                        {"n", pages},
                                                        {"w", table},
                                                        {"p", page_size}});
      for (int b = 0; b < 2; ++b) inputs[3].set_int(b, 0);
      group.check(inputs);
    }
  }
}

// The keys of paged inputs side by side, NaN past the length.
Tensor gathered(const std::vector<Tensor>& inputs, const AttentionGroup& options, char cache,
                std::int64_t keys) {
  const Tensor& from = inputs[options.place(cache)];
  const Tensor& lengths = inputs[options.place('n')];
  const Tensor& table = inputs[options.place('c')];
  const std::int64_t batch = lengths.num_elements();
  const std::int64_t heads = from.sizes()[1];
  const std::int64_t page_size = from.sizes()[2];
  const std::int64_t width = from.sizes()[3];
  Tensor result = Tensor::allocate(from.dtype(), {batch, heads, keys, width}).value();
  for (std::int64_t i = 0; i < result.num_elements(); ++i) {
    const std::int64_t t = i / width % keys;
    const std::int64_t head = i / width / keys % heads;
    const std::int64_t b = i / width / keys / heads;
    if (t >= lengths.get_int(b)) {
      result.set_double(i, std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const std::int64_t page = table.get_int(b * table.sizes()[1] + t / page_size);
    const std::int64_t row = (page * heads + head) * page_size + t % page_size;
    result.set_double(i, from.get_double(row * width + i % width));
  }
  return result;
}

TEST(PagedAttention, GivesTheBitsOfKeysSideBySide) {
  using Case = std::pair<std::string, std::string>;  // target and attributes
  for (const auto& [target, attributes] :
       {Case{"host", "causal = \"none\", softcap = 2.0"},
        Case{"host-avx2", "causal = \"bottom_right\", window_left = 70"}}) {
    for (const std::string& queries : kQueries) {
      AttentionGroup options = paged(queries, attributes);
      options.slopes = true;
      options.head = "16";
      options.value_head = "48";
      const GroupRunner pages(options.text(), KernelKind::Attention, target);
      const AttentionSizes sizes{
          .queries = count(queries), .keys = 420, .value_head = 48, .page_size = 20};
      std::vector<Tensor> inputs = attention_inputs(pages, options, sizes);
      const auto expected = pages.run(inputs);
      ASSERT_TRUE(expected) << expected.error().message;

      for (const char cache : {'k', 'v'}) {
        inputs[options.place(cache)] = gathered(inputs, options, cache, sizes.keys);
      }
      inputs.pop_back();
      options.paged = false;
      const GroupRunner side_by_side(options.text(), KernelKind::Attention, target);
      const auto actual = side_by_side.run(inputs);
      ASSERT_TRUE(actual) << actual.error().message;
      const auto bytes = static_cast<std::size_t>(expected->front().num_bytes());
      EXPECT_EQ(std::memcmp(actual->front().data(), expected->front().data(), bytes), 0)
          << target << " " << options.text();
    }
  }
}

// One query reads V where it lies, if its rows are whole vectors.
TEST(PagedAttention, OneQueryCopiesNoPages) {
  AttentionGroup options = paged("1", "causal = \"none\"");
  options.value_head = "32";
  EXPECT_EQ(GroupRunner(options.text(), KernelKind::Attention).program_text().find("vp"),
            std::string::npos);
  options.value_head = "33";
  EXPECT_NE(GroupRunner(options.text(), KernelKind::Attention).program_text().find("vp"),
            std::string::npos);
}

// NaN and infinity at the keys of a page that the window has left behind, and past the length.
TEST(PagedAttention, WhatHiddenKeysHoldDoesNotReachARow) {
  for (const std::string target : {"host", "host-avx2"}) {
    for (const std::string& queries : kQueries) {
      AttentionGroup options = paged(queries, "causal = \"bottom_right\", window_left = 5");
      options.head = "16";
      options.value_head = "16";
      const GroupRunner group(options.text(), KernelKind::Attention, target);
      const AttentionSizes sizes{.queries = count(queries), .keys = 300, .batch = 2};
      std::vector<Tensor> inputs = attention_inputs(group, options, sizes);
      const Tensor& table = inputs[options.place('c')];
      for (int b = 0; b < 2; ++b) {
        const std::int64_t length = inputs[options.place('n')].get_int(b);
        for (std::int64_t t = 0; t < sizes.pages() * 16; ++t) {
          const std::int64_t page = table.get_int(b * sizes.pages() + t / 16);
          const bool seen = t < length && t >= length - sizes.queries - 5;
          if (seen || page < 0 || page >= inputs[1].sizes()[0]) continue;
          for (std::int64_t d = 0; d < 16; ++d) {
            const std::int64_t at = (page * 2 * 16 + t % 16) * 16 + d;  // of head 0
            inputs[1].set_double(at, std::numeric_limits<double>::quiet_NaN());
            inputs[2].set_double(at, d % 2 == 0 ? std::numeric_limits<double>::quiet_NaN()
                                                : std::numeric_limits<double>::infinity());
          }
        }
      }
      group.check(inputs);
    }
  }
}

std::string failure(const GroupRunner& group, const std::vector<Tensor>& inputs) {
  const auto result = group.run(inputs);
  const auto expected = evaluate(group.graph(), inputs, {.in_f64 = true, .observer = {}});
  EXPECT_FALSE(result);
  EXPECT_FALSE(expected);
  if (result || expected) return "";
  // The reference says the same of it.
  const std::string& message = result.error().message;
  EXPECT_NE(expected.error().message.find(message.substr(message.find("': ") + 3)),
            std::string::npos)
      << expected.error().message;
  return message;
}

TEST(PagedAttention, WhatTheTableNamesMustExist) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const std::string& queries : kQueries) {
    const AttentionGroup options = paged(queries, "causal = \"none\"");
    const GroupRunner group(options.text(), KernelKind::Attention);
    const AttentionSizes sizes{.queries = count(queries), .keys = 320};
    const std::vector<Tensor> sound = attention_inputs(group, options, sizes);
    const std::int64_t cache = sound[1].sizes()[0];
    for (const std::int64_t page : {std::int64_t{-1}, cache, kHuge, -kHuge - 1}) {
      for (const std::int64_t entry : {0, 7, 13}) {  // 14 are in use
        std::vector<Tensor> inputs = attention_inputs(group, options, sizes);
        inputs[options.place('c')].set_int(20 + entry, page);
        EXPECT_EQ(failure(group, inputs),
                  fmt::format(
                      "attention 'attention_0': the block table names a block that does not exist "
                      "(sequence 1, entry {}, block {}, blocks {})",
                      entry, page, cache));
      }
    }
    for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{321}, kHuge, -kHuge - 1}) {
      std::vector<Tensor> inputs = attention_inputs(group, options, sizes);
      inputs[options.place('n')].set_int(2, length);
      EXPECT_EQ(
          failure(group, inputs),
          fmt::format(
              "attention 'attention_0': the length of a sequence is negative or more than its "
              "keys (sequence 2, length {}, keys 320)",
              length));
    }
  }
}

// Pages that the window has left behind, or that a causal mask has yet to reach, may be gone.
TEST(PagedAttention, PagesThatNoQuerySeesNeedNotExist) {
  for (const std::string& queries : kQueries) {
    struct Seen {
      std::string attributes;
      std::int64_t first, end;
    };
    const std::int64_t n = count(queries);
    for (const auto& [attributes, first, end] :
         {Seen{"causal = \"bottom_right\", window_left = 50", 320 - n - 50, 320},
          Seen{"causal = \"top_left\"", 0, n},
          Seen{"causal = \"none\", window_left = 3, window_right = 30", 0, n + 30}}) {
      const AttentionGroup options = paged(queries, attributes);
      const GroupRunner group(options.text(), KernelKind::Attention);
      const AttentionSizes sizes{.queries = count(queries), .keys = 320, .batch = 1};
      std::vector<Tensor> inputs = attention_inputs(group, options, sizes);
      Tensor& table = inputs[options.place('c')];
      for (int page = 0; page < 20; ++page) {
        const bool seen = page * 16 < end && page * 16 + 16 > first;
        if (!seen) table.set_int(page, page % 2 == 0 ? 100 : -1);
      }
      group.check(inputs);
      table.set_int(first / 16, 100);
      EXPECT_FALSE(group.run(inputs));
      EXPECT_FALSE(evaluate(group.graph(), inputs));
    }
  }
}

// Pages and tables that are computed in the same kernel.
TEST(PagedAttention, ViewsOfCacheAndTableAreAbsorbed) {
  const GroupRunner group(R"(graph g(%q: f32[2, 4, 1, 8], %c: f32[n, p, 2, 2, 8], %i: i32[3, 2],
                                     %l: i32[2]) {
    %kv = transpose(%c) {permutation = [2, 0, 3, 1, 4]}
    %k1 = slice(%kv) {starts = <0, 0, 0, 0, 0>, sizes = <1, n, 2, p, 8>, steps = [1, 1, 1, 1, 1]}
    %v1 = slice(%kv) {starts = <1, 0, 0, 0, 0>, sizes = <1, n, 2, p, 8>, steps = [1, 1, 1, 1, 1]}
    %k = reshape(%k1) {shape = <n, 2, p, 8>}
    %v = reshape(%v1) {shape = <n, 2, p, 8>}
    %t = transpose(%i) {permutation = [1, 0]}
    %y = attention(%q, %k, %v, _, %l, _, %t) {scale = 0.25}
    return %y as "y"
  })",
                          KernelKind::Attention);
  std::vector<Tensor> inputs = group.random_inputs({{"n", 7}, {"p", 40}});
  for (int i = 0; i < 6; ++i) inputs[2].set_int(i, 6 - i);
  inputs[3].set_int(0, 120);
  inputs[3].set_int(1, 61);
  group.check(inputs);
}

}  // namespace
}  // namespace opweld::testing
