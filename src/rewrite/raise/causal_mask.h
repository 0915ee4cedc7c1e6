// Masks that say no more than that a query does not see later keys.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace opweld {

// Whether an element of this value, as a score or added to one, hides a key: -inf, or the lowest
// number of the dtype, which exporters write for it. Added to a score, the lowest number is not
// quite -inf: the weight of the key is 0 as long as another key of the row has a score that is not
// as low, which holds for scores of less than half the range in rows with a visible key.
bool hides_keys(double fill, DType dtype);

// A mask over [.., queries, keys] that lets every query see a key and those before it.
struct CausalMask {
  std::string alignment;   // as `causal` of attention calls it: "top_left" or "bottom_right"
  bool is_finite = false;  // it hides by adding a finite number, not -inf
};

// Nothing if the mask is not provably that for all sizes. It is one of
//   bool    true where a key is visible (or, with `true_hides`, where it is hidden)
//   float   0 where it is visible, and where it is not a number that hides_keys()
// as a comparison of positions counted by iota or range, shifted by sizes, negated, reshaped,
// expanded, as a selection by one, or as a constant or a window of a constant that is triangular.
// Every row sees at least one key.
std::optional<CausalMask> match_causal_mask(const Value* mask, bool true_hides, const Dim& queries,
                                            const Dim& keys);

// Of a bool mask over [.., queries, keys]: for query s, the keys t > s + offset are `is_true`, and
// the others are not.
struct Diagonal {
  bool is_true = false;
  Dim offset = 0;
};

// Nothing if the mask is not provably that for all sizes; in any spelling of match_causal_mask().
std::optional<Diagonal> match_diagonal(const Value* mask);

}  // namespace opweld
