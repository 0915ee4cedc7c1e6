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

}  // namespace
}  // namespace opweld::testing
