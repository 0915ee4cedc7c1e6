// Calls of a plugin's own code, with what may go wrong in them taken care of: a value other than 0,
// an exception, sizes other than declared, writes beside the results.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "ops/op.h"
#include "plugin/declaration.h"
#include "support/expected.h"

namespace opweld {

// Of an operand as a plugin sees it: its type, and its elements where there are any to show.
struct PluginOperand {
  DType dtype;
  Sizes sizes;
  const std::byte* data = nullptr;
};

// What shapes() says; absent operands are null. Only for declarations that have it.
Expected<std::vector<Sizes>> ask_shapes(const Declaration& declaration,
                                        std::span<const PluginOperand* const> operands,
                                        const Attributes& attributes);

// Has compute() fill the results, which have the sizes that the shape rule gives. Calls of one
// operator wait for each other at `turn`, unless it is reentrant. Only for declarations that have
// it.
Status call_compute(const Declaration& declaration, std::span<const Tensor* const> operands,
                    const Attributes& attributes, std::span<Tensor> results, std::mutex& turn);

}  // namespace opweld
