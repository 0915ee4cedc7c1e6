// Cosines and sines of rotary embeddings that are given for every element of a head, once more for
// the pairs alone.
#pragma once

#include <map>

#include "graph/graph.h"

namespace opweld {

// Which elements of a head belong together: (p, p + P), or (2 p, 2 p + 1).
enum class RotaryLayout : std::uint8_t { Halves, Interleaved };

// Values of which the last axis holds each angle twice, as the layout has it, are computed again
// with each angle once. What is computed stays in the graph, before the node that asked first.
class RotaryAngles {
 public:
  RotaryAngles(Graph& graph, RotaryLayout layout) : graph_(graph), layout_(layout) {}

  // [..., 2 P] -> [..., P] for `before`; null unless both elements of every pair are provably the
  // same: made of constants that are, of concatenations, tiles and repetitions of one value, and of
  // steps that treat both alike (pointwise functions, gathers of rows, reshapes and expansions that
  // leave the last axis, slices and transposes of the others).
  Value* of_pairs(Value* angles, Node* before);

 private:
  Value* compute(Value* angles, Node* before);
  Value* pairs_of_constant(const Value* angles, Node* before);
  Value* repeated(const Node& node, Node* before);
  Value* through(const Node& node, Node* before);
  Value* through_pointwise(const Node& node, Node* before);

  Graph& graph_;
  RotaryLayout layout_;
  std::map<const Value*, Value*> known_;  // null: no
};

}  // namespace opweld
