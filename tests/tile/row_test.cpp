#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

TEST(RowSchedule, SoftmaxOverTheLastAxis) {
  const GroupRunner group(R"(graph g(%x: f32[a, n]) {
    %y = softmax(%x) {axis = 1}
    return %y as "y"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : kLengths) group.check({{"a", 3}, {"n", n}});
  group.check({{"a", 0}, {"n", 5}});
}

TEST(RowSchedule, ResidualAndLayerNormAreOneKernelWithTwoOutputs) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, n], %r: f32[a, b, n], %s: f32[n], %t: f32[n]) {
    %h = add(%x, %r)
    %y = layer_norm(%h, %s, %t) {axis = -1, epsilon = 1e-05}
    return %h as "h", %y as "y"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : kLengths) group.check({{"a", 2}, {"b", 3}, {"n", n}});
}

TEST(RowSchedule, RmsNormOfHalvesKeepsItsStatisticsInF32) {
  const GroupRunner group(R"(graph g(%x: f16[a, 768], %s: f16[768]) {
    %y = rms_norm(%x, %s) {axis = -1, epsilon = 1e-05}
    return %y as "y"
  })",
                          KernelKind::Row);
  std::vector<Tensor> inputs = group.random_inputs({{"a", 2}});
  for (std::int64_t i = 0; i < inputs[0].num_elements(); ++i) inputs[0].set_double(i, 8000);
  group.check(inputs);
}

TEST(RowSchedule, EveryReductionInOnePass) {
  const GroupRunner group(R"(graph g(%x: f32[a, n]) {
    %s = reduce_sum(%x) {axes = [1], keepdims = 0}
    %m = reduce_mean(%x) {axes = [1], keepdims = 1}
    %h = reduce_max(%x) {axes = [1], keepdims = 0}
    %l = reduce_min(%x) {axes = [1], keepdims = 0}
    %q = reduce_sum_square(%x) {axes = [1], keepdims = 0}
    %e = reduce_l2(%x) {axes = [1], keepdims = 0}
    %b = reduce_l1(%x) {axes = [1], keepdims = 0}
    return %s as "s", %m as "m", %h as "h", %l as "l", %q as "q", %e as "e", %b as "b"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : kLengths) group.check({{"a", 3}, {"n", n}});
}

TEST(RowSchedule, ReductionsOverSeveralAxesAndTheWholeTensor) {
  const GroupRunner outer(R"(graph g(%x: f32[a, b, n]) {
    %s = reduce_sum(%x) {axes = [0, 2], keepdims = 0}
    return %s as "s"
  })",
                          KernelKind::Row);
  const GroupRunner whole(R"(graph g(%x: f32[a, b, n]) {
    %s = reduce_max(%x) {axes = [0, 1, 2], keepdims = 0}
    return %s as "s"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : kLengths) {
    outer.check({{"a", 2}, {"b", 3}, {"n", n}});
    whole.check({{"a", 2}, {"b", 3}, {"n", n}});
  }
}

TEST(RowSchedule, ArgReductionsFindTheFirst) {
  const GroupRunner group(R"(graph g(%x: i32[a, n]) {
    %i = argmax(%x) {axis = 1, keepdims = 0, select_last = 0}
    %j = argmin(%x) {axis = 1, keepdims = 0, select_last = 1}
    return %i as "i", %j as "j"
  })",
                          KernelKind::Row);
  for (const std::int64_t n : {1, 3, 8, 17, 33, 640}) group.check({{"a", 4}, {"n", n}});
}

TEST(ReduceSchedule, OuterAndMiddleAxes) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, n]) {
    %s = reduce_sum(%x) {axes = [1], keepdims = 0}
    %m = reduce_max(%x) {axes = [1], keepdims = 1}
    return %s as "s", %m as "m"
  })",
                          KernelKind::Reduce);
  for (const std::int64_t n : kLengths) group.check({{"a", 2}, {"b", 5}, {"n", n}});
  group.check({{"a", 2}, {"b", 1}, {"n", 4}});
}

TEST(ReduceSchedule, SoftmaxOverAMiddleAxis) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, n]) {
    %y = softmax(%x) {axis = 1}
    return %y as "y"
  })",
                          KernelKind::Reduce);
  for (const std::int64_t n : kLengths) group.check({{"a", 2}, {"b", 5}, {"n", n}});
}

TEST(MoveSchedule, TransposesOfAnyShape) {
  const GroupRunner group(R"(graph g(%x: f32[a, b, n]) {
    %y = transpose(%x) {permutation = [0, 2, 1]}
    return %y as "y"
  })",
                          KernelKind::Move);
  for (const std::int64_t n : kLengths) {
    group.check({{"a", 2}, {"b", 37}, {"n", n}});
    group.check({{"a", 1}, {"b", n}, {"n", 5}});
  }
}

}  // namespace
}  // namespace opweld::testing
