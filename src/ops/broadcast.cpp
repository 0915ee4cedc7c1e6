#include "ops/broadcast.h"

#include <algorithm>
#include <cassert>

namespace opweld {
namespace {

// Row-major strides of an operand, aligned with the result's axes; 0 where the operand repeats.
Sizes aligned_strides(const Sizes& operand, const Sizes& result) {
  assert(operand.size() <= result.size());
  Sizes strides(result.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t from_end = 1; from_end <= operand.size(); ++from_end) {
    const std::int64_t size = operand[operand.size() - from_end];
    assert(size == 1 || size == result[result.size() - from_end]);
    if (size != 1) strides[result.size() - from_end] = stride;
    stride *= size;
  }
  return strides;
}

std::optional<Sizes> constant_sizes(const Shape& shape) {
  Sizes sizes;
  for (const Dim& size : shape) {
    if (!size.is_constant()) return std::nullopt;
    sizes.push_back(*size.constant());
  }
  return sizes;
}

// The sizes that constant sizes broadcast to; the shape rule has seen to it that they do.
Sizes broadcast_sizes(std::span<const Sizes> operands) {
  std::size_t rank = 0;
  for (const Sizes& sizes : operands) rank = std::max(rank, sizes.size());
  Sizes result(rank, 1);
  for (const Sizes& sizes : operands) {
    for (std::size_t from_end = 1; from_end <= sizes.size(); ++from_end) {
      const std::int64_t size = sizes[sizes.size() - from_end];
      if (size != 1) result[rank - from_end] = size;
    }
  }
  return result;
}

}  // namespace

BroadcastWalk::BroadcastWalk(const Sizes& result, std::span<const Sizes* const> operands)
    : sizes_(result),
      index_(result.size(), 0),
      offsets_(operands.size(), 0),
      count_(num_elements(result)) {
  strides_.reserve(operands.size());
  for (const Sizes* operand : operands) {
    strides_.push_back(operand != nullptr ? aligned_strides(*operand, result)
                                          : Sizes(result.size(), 0));
  }
}

void BroadcastWalk::advance() {
  ++position_;
  for (std::size_t axis = sizes_.size(); axis-- > 0;) {  // an odometer: the last axis turns fastest
    const bool carry = ++index_[axis] == sizes_[axis];
    const std::int64_t steps = carry ? 1 - sizes_[axis] : 1;
    for (std::size_t i = 0; i < offsets_.size(); ++i) offsets_[i] += steps * strides_[i][axis];
    if (!carry) return;
    index_[axis] = 0;
  }
}

std::optional<std::vector<Dim>> pointwise_contents(
    const OpContext& context, const std::function<std::optional<Dim>(std::span<const Dim>)>& rule) {
  std::vector<Sizes> sizes;
  for (const Value* operand : context.operands) {
    if (operand == nullptr || !operand->contents()) return std::nullopt;
    auto constant = constant_sizes(operand->shape());
    if (!constant) return std::nullopt;
    sizes.push_back(std::move(*constant));
  }
  std::vector<const Sizes*> pointers;
  pointers.reserve(sizes.size());
  for (const Sizes& each : sizes) pointers.push_back(&each);

  std::vector<Dim> contents;
  std::vector<Dim> arguments(sizes.size());
  for (BroadcastWalk walk(broadcast_sizes(sizes), pointers); !walk.done(); walk.advance()) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto offset = static_cast<std::size_t>(walk.offsets()[i]);
      arguments[i] = (*context.operands[i]->contents())[offset];
    }
    auto element = rule(arguments);
    if (!element || element->is_overflow()) return std::nullopt;
    contents.push_back(std::move(*element));
  }
  return contents;
}

}  // namespace opweld
