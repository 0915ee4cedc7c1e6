// numpy's broadcasting over elements, for reference evaluation and shape values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "graph/tensor.h"
#include "ops/op.h"

namespace opweld {

// Walks a result in row-major order together with the operands that broadcast to it.
class BroadcastWalk {
 public:
  // Operands whose sizes broadcast to `result`; an absent one has offset 0.
  BroadcastWalk(const Sizes& result, std::span<const Sizes* const> operands);

  // Linear element index of the result, and of each operand at the same place.
  [[nodiscard]] std::int64_t position() const { return position_; }
  [[nodiscard]] std::span<const std::int64_t> offsets() const { return offsets_; }
  [[nodiscard]] bool done() const { return position_ == count_; }
  void advance();

 private:
  Sizes sizes_;
  Sizes index_;
  std::vector<Sizes> strides_;  // of each operand along the result's axes; 0 where it repeats
  std::vector<std::int64_t> offsets_;
  std::int64_t position_ = 0;
  std::int64_t count_;
};

// Calls visit(position in result 0, offsets in the operands) for every element of result 0.
template <typename Visit>
void for_each_broadcast(const EvalContext& context, const Visit& visit) {
  std::vector<const Sizes*> operands;
  operands.reserve(context.operands.size());
  for (const Tensor* operand : context.operands) {
    operands.push_back(operand != nullptr ? &operand->sizes() : nullptr);
  }
  for (BroadcastWalk walk(context.results[0].sizes(), operands); !walk.done(); walk.advance()) {
    visit(walk.position(), walk.offsets());
  }
}

// The contents of a pointwise result: `rule` applied to the elements of all operands, when the
// contents of every operand are known; nothing when `rule` gives nothing for some element.
std::optional<std::vector<Dim>> pointwise_contents(
    const OpContext& context, const std::function<std::optional<Dim>(std::span<const Dim>)>& rule);

}  // namespace opweld
