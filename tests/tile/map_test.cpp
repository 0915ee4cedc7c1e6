#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

TEST(MapSchedule, PointwiseChainsOfAnyLength) {
  const GroupRunner group(R"(graph g(%x: f32[n], %y: f32[n]) {
    %a = mul(%x, %y)
    %b = add(%a, %x)
    %c = tanh(%b)
    return %c as "c", %b as "b"
  })",
                          KernelKind::Map);
  for (const std::int64_t n : kLengths) group.check({{"n", n}});
}

TEST(MapSchedule, BroadcastsOverEveryAxis) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, c], %y: f32[b, 1], %z: f32[c], %w: f32[]) {
    %p = add(%x, %y)
    %q = mul(%p, %z)
    %r = sub(%q, %w)
    return %r as "r"
  })",
                          KernelKind::Map);
  for (const std::int64_t n : kLengths) group.check({{"a", 2}, {"b", 3}, {"c", n}});
  group.check({{"a", 0}, {"b", 3}, {"c", 5}});
  group.check({{"a", 5}, {"b", 0}, {"c", 5}});
}

TEST(MapSchedule, IndexMapsBetweenOperators) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, 12]) {
    %t = transpose(%x) {permutation = [1, 0, 2]}
    %r = reshape(%t) {shape = <b, a, 3, 4>}
    %u = transpose(%r) {permutation = [0, 2, 1, 3]}
    %e = exp(%u)
    return %e as "e"
  })",
                          KernelKind::Map);
  for (const std::int64_t n : kLengths) group.check({{"a", n}, {"b", 3}});
}

TEST(MapSchedule, ConcatSliceAndPadReadOnlyWhatIsThere) {
  const GroupRunner group(R"(graph g(%x: f32[n, 6], %y: f32[n, 3]) {
    %c = concat(%x, %y) {axis = 1}
    %s = slice(%c) {starts = <0, 8>, sizes = <n, 4>, steps = [1, -2]}
    %m = neg(%s)
    %p = pad(%m) {before = <1, 2>, after = <0, 1>, mode = "constant"}
    return %p as "p"
  })",
                          KernelKind::Map);
  for (const std::int64_t n : kLengths) group.check({{"n", n}});
}

TEST(MapSchedule, GatherCountsFromTheEndAndRefusesWhatIsOutside) {
  const GroupRunner group(R"(graph g(%x: f32[5, n], %i: i64[m]) {
    %g = gather(%x, %i) {axis = 0}
    %y = add(%g, %g)
    return %y as "y"
  })",
                          KernelKind::Map);
  for (const std::int64_t n : kLengths) group.check({{"n", n}, {"m", 4}});
  std::vector<Tensor> inputs = group.random_inputs({{"n", 9}, {"m", 3}});
  inputs[1].set_int(1, -5);
  group.check(inputs);
  inputs[1].set_int(1, 5);
  const auto outside = group.run(inputs);
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().message.find("out of range"), std::string::npos);
}

TEST(MapSchedule, IntegersAndBoolsOfEveryWidth) {
  for (const std::string dtype : {"i64", "i32", "i16", "i8", "u8"}) {
    const GroupRunner group("graph g(%x: " + dtype + "[n], %y: " + dtype + R"([n]) {
      %a = mul(%x, %y)
      %b = sub(%a, %y)
      %m = mod(%b, %y)
      %l = lt(%m, %x)
      return %b as "b", %m as "m", %l as "l"
    })",
                            KernelKind::Map);
    for (const std::int64_t n : kLengths) group.check({{"n", n}});
  }
}

TEST(MapSchedule, HalvesComputeInF32) {
  for (const std::string dtype : {"f16", "bf16", "f64"}) {
    const GroupRunner group("graph g(%x: " + dtype + "[n], %y: " + dtype + R"([n]) {
      %a = mul(%x, %y)
      %b = sigmoid(%a)
      return %b as "b"
    })",
                            KernelKind::Map);
    for (const std::int64_t n : kLengths) group.check({{"n", n}});
  }
}

TEST(MapSchedule, ScalarsAreOneTask) {
  const GroupRunner group(R"(graph g(%x: f32[], %y: f32[]) {
    %a = add(%x, %y)
    return %a as "a"
  })",
                          KernelKind::Map);
  group.check(Bindings());
}

}  // namespace
}  // namespace opweld::testing
