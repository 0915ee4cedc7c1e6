// The scores of attention, from what the softmax reads down to the product of queries and keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace opweld {

struct AttentionScores {
  Node* product = nullptr;  // the matmul of queries and keys
  double scale = 1;
  double softcap = 0;
  std::string causal = "none";
  std::vector<Value*> added;           // float masks, added one after the other
  std::vector<const Value*> in_model;  // all that the model adds, causal or not, as it adds it
  Value* visible = nullptr;            // bool, true where a key is visible; null if there is none
};

// Follows the value through one softcap, scales by constants, masks, and casts between f32 and
// half types, each read by nothing else; the value itself must have that many readers. Nothing if
// another step is on the way.
//
// A mask is added, or selects between the score and -inf. Finite fills that are added (-10000,
// -1e9, the lowest number) stay what they are, added: in a row where all keys have one, the weights
// go by the scores still. A finite fill that takes the place of a score gives such a row equal
// weights, which attention cannot say, and so is refused. What says only that later keys are hidden
// becomes the attribute: with -inf always; with the lowest number, added or in place, if it is the
// only mask (biases by distance hide nothing, see match_alibi()), for then every row sees a key and
// the hidden ones have a weight of 0.
std::optional<AttentionScores> match_attention_scores(Value* value, std::size_t readers = 1);

// Takes scalar factors off a value, into `scale`.
Value* without_scale(Value* value, double& scale);

// The operand of a cast between f32 and a half type, in either direction; else null. Attention
// computes in f32 between its operands and its result, so that what such a cast rounds is rounded
// less there.
Value* half_cast_operand(const Value* value);

}  // namespace opweld
