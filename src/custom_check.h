// Holds the code of custom operators to what they declare of themselves.
#pragma once

#include <span>
#include <string>

#include "graph/graph.h"
#include "graph/tensor.h"
#include "support/expected.h"

namespace opweld {

// A node whose operator has both code and an expression or a body, by which it fuses: the two must
// say the same.
struct CustomCheck {
  int compared = 0;
  int differ = 0;
  // "'/act' (com.example.Squash of plugin 'mine'): compute() gives result 'y': 2 of 8 elements
  // differ ..."; empty if none does.
  std::string first_fault;
};

// Runs the model's operators one by one and compares wherever there are two answers, on the
// operands that the operator has in this model.
Expected<CustomCheck> check_custom_operators(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace opweld
