// Biases that weigh keys by their distance: attention with linear biases, ALiBi (Press et al.,
// 2022).
#pragma once

#include <optional>
#include <string_view>

#include "graph/graph.h"
#include "ops/builder.h"

namespace opweld {

// slopes[h] * factor * t + f(h, s) for key t, head h and query s. A softmax over the keys does not
// see f.
struct AlibiBias {
  Value* slopes = nullptr;  // [.., H, 1, 1] or one for all heads, the leading axes of one element
  double factor = 1;
};

// The bias, if it is that for all sizes: a product of slopes, of numbers and of positions (see
// real_ramp()) that go by whole numbers from key to key, negated, divided by numbers, cast between
// floats, reshaped, expanded. Positions may stand in an absolute value, as in -|s - t|, if `causal`
// (as attention has it) hides where that is no even slope.
std::optional<AlibiBias> match_alibi(Value* bias, std::string_view causal, const Dim& queries,
                                     const Dim& keys);

// The slopes [heads] as attention has them, built by `builder`.
Value* alibi_slopes(Builder& builder, const AlibiBias& bias, const Dim& heads);

}  // namespace opweld
