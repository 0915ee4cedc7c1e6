// Weights that are stored in fewer bits than they are multiplied in.
//
// The right operand of a matmul may be a constant behind a prologue: what makes the numbers that
// are multiplied out of those that are stored, here a cast from f16 or bf16 to f32. It is no work
// of its own, and counts as no operator. At every level of fusion it belongs to the matmul that
// reads it, whose kernel reads the weights as they are stored and widens them on the way, which is
// exact.
#pragma once

#include "graph/graph.h"

namespace opweld {

// The constant of a matmul's right operand, be it the operand itself or behind a prologue; null
// where it is neither.
Node* stored_weights(const Value* operand);

// Whether the node is such a prologue: one matmul reads its result, as its right operand, and
// nothing else does.
bool is_weight_prologue(const Node& node);

// Whether the node widens a constant from f16 or bf16 to f32.
bool widens_constant(const Node& node);

// Bytes of all constants that are multiplied by, as they are stored, each once.
std::int64_t stored_weight_bytes(const Graph& graph);

// Whether the value is the right operand of that use's matmul.
bool is_right_operand(const Use& use);

}  // namespace opweld
