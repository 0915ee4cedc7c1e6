#include "runtime/example_inputs.h"

#include <algorithm>
#include <optional>
#include <random>

#include "runtime/oversize.h"

namespace opweld {

namespace {

// How many rows the table has that the value's elements look into, or places where an update fits
// that they say the place of; absent when they do neither.
std::optional<std::int64_t> index_limit(const Value* value, const Bindings& sizes) {
  std::optional<std::int64_t> limit;
  for (const Use& use : value->uses()) {
    std::optional<std::int64_t> found;
    if (use.node->op() == "gather" && use.index == 1) {
      const Value* table = use.node->operand(0);
      const std::int64_t axis = use.node->attributes().integer("axis", 0);
      found = table->shape()[static_cast<std::size_t>(axis < 0 ? axis + table->rank() : axis)]
                  .constant();
    } else if (use.node->op() == "tensor_scatter" && use.index == 2) {
      const auto axis = static_cast<std::size_t>(use.node->attributes().integer("axis"));
      const Dim rows = use.node->operand(1)->shape()[axis];
      const auto places = (use.node->result()->shape()[axis] - rows + 1).evaluate(sizes);
      if (places) found = *places;
    } else if (use.node->op() == "cast" || use.node->op() == "reshape") {
      found = index_limit(use.node->result(), sizes);
    }
    if (found) limit = std::min(limit.value_or(*found), *found);
  }
  return limit;
}

}  // namespace

Expected<Tensor> example_input(const Value* input, const Bindings& sizes, unsigned seed) {
  auto own = evaluate(input->shape(), sizes);
  if (!own || !checked_num_bytes(input->dtype(), *own)) return too_large(*input, sizes);
  const std::int64_t bytes = *checked_num_bytes(input->dtype(), *own);
  auto allocated = Tensor::allocate(input->dtype(), std::move(*own));
  if (!allocated) {
    return out_of_memory("the elements of an input", bytes, tensor_text(*input, sizes), sizes);
  }
  Tensor tensor = std::move(*allocated);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  const bool mask = input->name().find("mask") != std::string::npos;
  const std::int64_t limit = std::max<std::int64_t>(1, index_limit(input, sizes).value_or(2));
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (is_float(input->dtype())) {
      tensor.set_double(i, real(random));
    } else {
      tensor.set_int(
          i, mask ? 1 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit)));
    }
  }
  return tensor;
}

Expected<std::vector<Tensor>> example_inputs(const Graph& graph, const Bindings& sizes,
                                             unsigned seed) {
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    OPWELD_TRY(Tensor tensor, example_input(input, sizes, seed++));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace opweld
