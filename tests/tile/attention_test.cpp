#include <cstring>

#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

std::string attention(const std::string& attributes, const std::string& mask_type = "") {
  const std::string mask_input = mask_type.empty() ? "" : ", %m: " + mask_type;
  const std::string mask = mask_type.empty() ? "" : ", %m";
  return "graph g(%q: f32[b, 4, s, d], %k: f32[b, 2, t, d], %v: f32[b, 2, t, e]" + mask_input +
         ") { %y = attention(%q, %k, %v" + mask + ") {" + attributes + "}\n return %y as \"y\" }";
}

TEST(AttentionSchedule, LengthsAndHeadSizes) {
  const GroupRunner group(attention("scale = 0.3, causal = \"none\""), KernelKind::Attention);
  for (const std::int64_t n : {1, 3, 7, 16, 33, 100, 200}) {
    group.check({{"b", 2}, {"s", n}, {"t", 17}, {"d", 8}, {"e", 8}});
    group.check({{"b", 1}, {"s", 9}, {"t", n}, {"d", 5}, {"e", 3}});
    group.check({{"b", 1}, {"s", 50}, {"t", 97}, {"d", 32}, {"e", n}});
  }
}

TEST(AttentionSchedule, NothingToAttendToGivesZeros) {
  const GroupRunner group(attention("scale = 0.3, causal = \"none\""), KernelKind::Attention);
  group.check({{"b", 2}, {"s", 3}, {"t", 0}, {"d", 8}, {"e", 8}});
  group.check({{"b", 2}, {"s", 0}, {"t", 4}, {"d", 8}, {"e", 8}});
}

TEST(AttentionSchedule, CausalMasksOfBothAlignments) {
  for (const std::string causal : {"top_left", "bottom_right"}) {
    const GroupRunner group(attention("scale = 0.5, causal = \"" + causal + "\""),
                            KernelKind::Attention);
    for (const std::int64_t s : {1, 5, 49, 130}) {
      for (const std::int64_t t : {1, 5, 96, 150}) {
        group.check({{"b", 1}, {"s", s}, {"t", t}, {"d", 8}, {"e", 8}});
      }
    }
  }
}

TEST(AttentionSchedule, BooleanAndAdditiveMasks) {
  for (const std::string type :
       {"bool[b, 1, s, t]", "f32[b, 1, 1, t]", "f32[s, t]", "bool[b, 4, s, t]"}) {
    const GroupRunner group(attention("scale = 0.5, causal = \"none\"", type),
                            KernelKind::Attention);
    for (const std::int64_t t : {1, 17, 130}) {
      group.check({{"b", 2}, {"s", 20}, {"t", t}, {"d", 8}, {"e", 8}});
    }
  }
}

TEST(AttentionSchedule, WindowAndSoftCap) {
  const GroupRunner group(
      attention("scale = 1.0, causal = \"bottom_right\", window_left = 4, softcap = 2.0"),
      KernelKind::Attention);
  for (const std::int64_t s : {1, 20, 60}) {
    group.check({{"b", 1}, {"s", s}, {"t", 110}, {"d", 8}, {"e", 8}});
  }
}

TEST(AttentionSchedule, ViewsAroundItAreAbsorbed) {
  const GroupRunner group(R"(graph g(%q: f32[b, s, 64], %k: f32[b, t, 64], %v: f32[b, t, 64]) {
    %q4 = reshape(%q) {shape = <b, s, 4, 16>}
    %qt = transpose(%q4) {permutation = [0, 2, 1, 3]}
    %k4 = reshape(%k) {shape = <b, t, 4, 16>}
    %kt = transpose(%k4) {permutation = [0, 2, 1, 3]}
    %v4 = reshape(%v) {shape = <b, t, 4, 16>}
    %vt = transpose(%v4) {permutation = [0, 2, 1, 3]}
    %a = attention(%qt, %kt, %vt) {scale = 0.25, causal = "none"}
    %at = transpose(%a) {permutation = [0, 2, 1, 3]}
    %y = reshape(%at) {shape = <b, s, 64>}
    return %y as "y"
  })",
                          KernelKind::Attention);
  for (const std::int64_t s : {1, 16, 50}) group.check({{"b", 2}, {"s", s}, {"t", 23}});
}

// Few queries: `rows` of them share K and V (query heads of a group times queries).
std::string decode(int group, int queries, const std::string& attributes,
                   const std::string& dtype = "f32", const std::string& mask_type = "") {
  const auto tensor = [&](int heads, const std::string& rest) {
    return fmt::format("{}[b, {}, {}]", dtype, heads, rest);
  };
  const std::string mask_input = mask_type.empty() ? "" : ", %m: " + mask_type;
  return fmt::format(
      "graph g(%q: {}, %k: {}, %v: {}{}) {{ %y = attention(%q, %k, %v{}) {{{}}}\n"
      " return %y as \"y\" }}",
      tensor(2 * group, fmt::format("{}, d", queries)), tensor(2, "t, d"), tensor(2, "t, e"),
      mask_input, mask_type.empty() ? "" : ", %m", attributes);
}

TEST(AttentionSchedule, FewRowsSplitTheirKeys) {
  // Forms for up to four rows, for a vector of them, for more; chunks are of 192 and 256 keys.
  const std::pair<int, int> kRows[] = {{1, 1}, {1, 2}, {3, 1}, {4, 1},
                                       {1, 7}, {8, 1}, {8, 3}, {40, 1}};
  for (const std::string target : {"host", "host-avx2"}) {
    for (const auto& [heads, queries] : kRows) {
      const GroupRunner group(decode(heads, queries, "scale = 0.3, causal = \"none\""),
                              KernelKind::Attention, target);
      for (const std::int64_t keys : {0, 1, 95, 128, 256, 257, 1000}) {
        group.check({{"b", 2}, {"t", keys}, {"d", 8}, {"e", 8}});
      }
      for (const std::int64_t size : {1, 5, 32, 80, 131}) {
        group.check({{"b", 1}, {"t", 300}, {"d", size}, {"e", 24}});
        group.check({{"b", 1}, {"t", 300}, {"d", 24}, {"e", size}});
      }
    }
  }
}

TEST(AttentionSchedule, FewRowsKeepToMasks) {
  const std::string attributes[] = {"causal = \"none\"", "causal = \"top_left\"",
                                    "causal = \"bottom_right\", softcap = 1.5",
                                    "causal = \"bottom_right\", window_left = 130",
                                    "causal = \"none\", window_left = 0, window_right = 1"};
  constexpr int kMasks = 5;
  int turn = 0;  // both forms of inner loops meet every mask and all attributes
  for (const std::string& rule : attributes) {
    for (int mask = 0; mask < kMasks; ++mask) {
      const auto& [heads, queries] = ++turn % 2 == 0 ? std::pair{2, 2} : std::pair{4, 3};
      const std::string sizes = std::to_string(queries) + ", t]";
      const std::string all = "b, " + std::to_string(2 * heads) + ", " + sizes;
      const std::string masks[kMasks] = {"", "bool[b, 1, " + sizes, "f32[" + all, "bool[" + all,
                                         "f32[b, 1, 1, t]"};
      const GroupRunner group(decode(heads, queries, rule, "f32", masks[mask]),
                              KernelKind::Attention);
      for (const std::int64_t keys : {1, 100, 700}) {
        group.check({{"b", 2}, {"t", keys}, {"d", 16}, {"e", 16}});
      }
    }
  }
}

TEST(AttentionSchedule, FewRowsOfHalfTypes) {
  for (const std::string dtype : {"f16", "bf16"}) {
    for (const auto& [heads, queries] : {std::pair{1, 1}, std::pair{8, 2}}) {
      const GroupRunner group(decode(heads, queries, "scale = 0.125, causal = \"none\"", dtype),
                              KernelKind::Attention);
      group.check({{"b", 1}, {"t", 600}, {"d", 64}, {"e", 64}});
      group.check({{"b", 1}, {"t", 300}, {"d", 13}, {"e", 9}});
    }
  }
}

// Which task is the last to arrive at a row's counter must not show.
TEST(AttentionSchedule, ChunksCombineToTheSameBitsInAnyOrder) {
  const GroupRunner group(decode(2, 1, "scale = 0.3, causal = \"none\""), KernelKind::Attention);
  const std::vector<Tensor> inputs =
      group.random_inputs({{"b", 2}, {"t", 1500}, {"d", 16}, {"e", 16}});
  const Tensor forwards = std::move(group.run(inputs)->front());
  const Tensor backwards = std::move(group.run(inputs, GroupRunner::Order::LastTaskFirst)->front());
  ASSERT_EQ(forwards.num_bytes(), backwards.num_bytes());
  EXPECT_EQ(std::memcmp(forwards.data(), backwards.data(),
                        static_cast<std::size_t>(forwards.num_bytes())),
            0);
}

// With a free number of queries, which are few is known when it runs.
TEST(AttentionSchedule, FewQueriesOfAFreeNumberSplitTheirKeys) {
  for (const int heads : {1, 2, 7}) {
    for (const std::string attributes :
         {"causal = \"none\"", "causal = \"bottom_right\", window_left = 400"}) {
      const std::string text = fmt::format(
          "graph g(%q: f32[b, {}, s, d], %k: f32[b, 3, t, d], %v: f32[b, 3, t, d]) {{\n"
          "%y, %l = attention(%q, %k, %v) {{scale = 0.3, {}, lse = 1}}\n"
          "return %y as \"y\", %l as \"l\" }}",
          3 * heads, attributes);
      const GroupRunner group(text, KernelKind::Attention, heads == 2 ? "host-avx2" : "host");
      for (const std::int64_t queries : {0, 1, 2, 5, 13, 16, 17}) {
        for (const std::int64_t keys : {0, 1, 191, 577}) {
          SCOPED_TRACE(fmt::format("{} queries of {} heads, {} keys", queries, heads, keys));
          group.check({{"b", 2}, {"s", queries}, {"t", keys}, {"d", 11}});
        }
      }
    }
  }
}

// Chunks are cut by the number of keys, and what they hand over takes memory only where there are
// any.
TEST(AttentionSchedule, ChunksOfFewQueries) {
  const GroupRunner group(attention("causal = \"none\""), KernelKind::Attention, "host-avx2");
  const Dim tasks = num_tasks(group.program());
  const auto count = [&](std::int64_t queries) {
    const Bindings sizes = {{"b", 3}, {"s", queries}, {"t", 1000}, {"d", 16}, {"e", 16}};
    std::int64_t shared = 0;
    for (const tile::Param& param : group.program().params) {
      shared += shared_bytes(param).evaluate(sizes).value();
    }
    return std::pair(tasks.evaluate(sizes).value(), shared > 0);
  };
  // Three batch elements of two key heads: 4 chunks of 256 keys, 6 of 192.
  EXPECT_EQ(count(1), std::pair(std::int64_t{3 * 2 * 4}, true));
  EXPECT_EQ(count(2), std::pair(std::int64_t{3 * 2 * 6}, true));
  EXPECT_EQ(count(16), std::pair(std::int64_t{3 * 2 * 6}, true));
  // Of four heads each, a block of rows.
  EXPECT_EQ(count(17), std::pair(std::int64_t{3 * 4}, false));
  EXPECT_EQ(count(0), std::pair(std::int64_t{0}, false));
}

using Range = std::pair<std::int64_t, std::int64_t>;

// Keys come through a gather that refuses indices out of range, so that a run that succeeds did not
// look at the keys whose indices are.
class SkippedKeys {
 public:
  SkippedKeys(const std::string& queries, const std::string& attributes, bool lengths = false)
      : lengths_(lengths),
        group_(fmt::format("graph g(%q: f32[1, 1, {}, 8], %i: i64[2000], %x: f32[4, 8]{}) {{\n"
                           "%g = gather(%x, %i) {{axis = 0}}\n"
                           "%k = reshape(%g) {{shape = <1, 1, 2000, 8>}}\n"
                           "%y = attention(%q, %k, %k{}) {{{}}}\n"
                           "return %y as \"y\" }}",
                           queries, lengths ? ", %n: i64[1]" : "", lengths ? ", _, %n" : "",
                           attributes),
               KernelKind::Attention) {
    EXPECT_EQ(group_.error(), "");
  }

  // The first and one past the last key that is looked at.
  Range looked_at(std::int64_t queries, std::int64_t length = 2000) const {
    std::int64_t first = 0;
    std::int64_t end = 2000;
    while (first < end && runs_without(queries, length, 0, first + 1)) ++first;
    while (end > first && runs_without(queries, length, end - 1, 2000)) --end;
    return first < end ? Range(first, end) : Range(0, 0);
  }

 private:
  // Whether it runs with no indices for keys [begin, end).
  bool runs_without(std::int64_t queries, std::int64_t length, std::int64_t begin,
                    std::int64_t end) const {
    std::vector<Tensor> inputs = group_.random_inputs({{"s", queries}});
    for (std::int64_t t = 0; t < 2000; ++t) {
      inputs[1].set_int(t, t >= begin && t < end ? 1000 : t % 4);
    }
    if (lengths_) inputs[3].set_int(0, length);
    return static_cast<bool>(group_.run(inputs));
  }

  bool lengths_;
  GroupRunner group_;
};

TEST(AttentionSchedule, BlocksOfHiddenKeysAreSkipped) {
  // Blocks are of 96 keys for many rows and of 128 for few.
  const SkippedKeys causal("s", "causal = \"top_left\"");
  EXPECT_EQ(causal.looked_at(20), Range(0, 96));
  const SkippedKeys last("s", "causal = \"bottom_right\", window_left = 100");
  EXPECT_EQ(last.looked_at(20), Range(1824, 2000));  // of 1880, the first in sight, its block
  const SkippedKeys window("s", "causal = \"none\", window_left = 5, window_right = 100");
  EXPECT_EQ(window.looked_at(20), Range(0, 192));
  const SkippedKeys decode("1", "causal = \"bottom_right\", window_left = 300");
  EXPECT_EQ(decode.looked_at(1), Range(1664, 2000));
  const SkippedKeys nothing("1", "causal = \"top_left\"");
  EXPECT_EQ(nothing.looked_at(1), Range(0, 128));
}

TEST(AttentionSchedule, KeysBeyondTheLengthAreSkipped) {
  const SkippedKeys many("s", "causal = \"none\"", true);
  EXPECT_EQ(many.looked_at(20, 500), Range(0, 500));
  EXPECT_EQ(many.looked_at(20, 0), Range(0, 0));
  const SkippedKeys decode("1", "causal = \"bottom_right\", window_left = 200", true);
  EXPECT_EQ(decode.looked_at(1, 700), Range(384, 700));
}

// The window of a query behind the last key, where there are more queries than keys.
TEST(AttentionSchedule, WindowsBehindTheLastKey) {
  const GroupRunner group(attention("causal = \"top_left\", window_left = 4"),
                          KernelKind::Attention);
  for (const std::int64_t keys : {0, 1, 10, 97}) {
    group.check({{"b", 1}, {"s", 500}, {"t", keys}, {"d", 8}, {"e", 8}});
  }
}

}  // namespace
}  // namespace opweld::testing
