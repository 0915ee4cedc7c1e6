// Biases that weigh keys by their distance: attention with linear biases, ALiBi (Press et al.,
// 2022).
#pragma once

#include <optional>
#include <string_view>

#include "graph/graph.h"
#include "graph/tensor.h"
#include "ops/builder.h"
#include "rewrite/raise/causal_mask.h"

namespace opweld {

// slopes[h] * factor * t + f(h, s) for key t, head h and query s. A softmax over the keys does not
// see f.
struct AlibiBias {
  Value* slopes = nullptr;  // [.., H, 1, 1] or one for all heads, the leading axes of one element
  double factor = 1;
  std::optional<Tensor> numbers = std::nullopt;  // [H or 1], in place of slopes, of a constant
  // What a constant hides besides, its elements there being -inf or the lowest number.
  std::optional<CausalMask> hidden = std::nullopt;
};

// The bias, if it is that for all sizes: a product of slopes, of numbers and of positions (see
// real_ramp()) that go by whole numbers from key to key, negated, divided by numbers, cast between
// floats, reshaped, expanded; or a constant. Positions may stand in an absolute value, as in
// -|s - t|, if `causal` (as attention has it) hides where that is no even slope.
std::optional<AlibiBias> match_alibi(Value* bias, std::string_view causal, const Dim& queries,
                                     const Dim& keys);

// Of a constant [1.., H or 1, S or 1, T] alone, whose visible elements are multiples of the slopes
// by whole numbers, rounded once to the dtype; a row must pass through 0.
std::optional<AlibiBias> match_constant_alibi(const Value* bias, const Dim& queries,
                                              const Dim& keys);

// The slopes [heads] as attention has them, built by `builder`.
Value* alibi_slopes(Builder& builder, const AlibiBias& bias, const Dim& heads);

}  // namespace opweld
