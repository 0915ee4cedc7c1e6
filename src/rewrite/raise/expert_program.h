// What an expert computes from the row of a token, said once for all experts.
//
// An expert is row by row: matmuls by matrices of its own, pointwise operators, with numbers, with
// rows of its own (biases) and with each other, and slices of columns. Experts that were written as
// branches of their own are held beside each other and must be equal but for their constants;
// experts that were written as batched matmuls, or as products by matrices that are gathered for
// each choice, have their constants stacked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/builder.h"
#include "support/expected.h"

namespace opweld {

// The constants of one place in the program, a matrix [K, N] or a row [N] of each expert.
struct ExpertConstants {
  std::vector<Value*> each;  // of each expert; or one, where they are stacked along a first axis
  bool is_matrix = false;
  bool is_transposed = false;  // a matrix [N, K]
  bool is_beside = false;      // the matrices are columns of one [K, experts * N]
};

struct ExpertOperand {
  enum class Kind : std::uint8_t {
    Absent,
    Token,      // the row of x
    Step,       // the result of an earlier step
    Number,     // a scalar constant
    Constants,  // of the expert
  };
  Kind kind = Kind::Absent;
  std::size_t index = 0;   // of the step or of the constants
  Value* value = nullptr;  // of a number
};

struct ExpertStep {
  const Node* node = nullptr;  // that computes it for the first expert, or for all
  std::vector<ExpertOperand> operands;
  Dim columns;  // of the result
};

struct ExpertProgram {
  Value* x = nullptr;             // tokens.. rows
  std::vector<ExpertStep> steps;  // the last is the result
  std::vector<ExpertConstants> constants;
  std::vector<Node*> nodes;  // of the model: all that it replaces
};

// Of the results of all experts, [tokens.., N] each, in their order. The error says where the
// branches differ or what in them is not row by row.
Expected<ExpertProgram> program_of_branches(const std::vector<Value*>& results,
                                            const Shape& tokens);

// Of one result of all experts. What its axes stand for is said as in expert_choice.h: those of the
// tokens in order, kExpertAxis, and kNoAxis for columns; [experts, tokens.., N] or any other order.
Expected<ExpertProgram> program_of_batch(Value* result, const std::vector<int>& axes,
                                         const Shape& tokens, std::int64_t experts);

// Of one result with a row for each choice, [tokens.., k, N], its axes of rows perhaps made one and
// axes of one element between. `indices` [tokens.., k] say which matrices [experts, K, N] are
// gathered.
Expected<ExpertProgram> program_of_choices(Value* result, Value* indices, std::int64_t experts);

// What the value is behind reshapes and casts of integers, which leave elements in their order.
Value* behind_reshapes(Value* value);

}  // namespace opweld
