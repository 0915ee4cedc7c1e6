#include "runtime/memory_plan.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <numeric>

namespace opweld {

namespace {

// Values chained by in-place reuse are one block with the lifetime of all of them.
struct Block {
  std::int64_t bytes = 0;
  int first_step = std::numeric_limits<int>::max();
  int last_step = 0;
  std::int64_t offset = 0;
};

bool live_together(const Block& a, const Block& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

}  // namespace

Expected<MemoryPlan> plan_memory(std::span<const Lifetime> values) {
  std::vector<std::size_t> block_of(values.size());
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Lifetime& value = values[i];
    assert(value.last_step >= value.first_step);
    if (value.in_place_of >= 0) {
      assert(static_cast<std::size_t>(value.in_place_of) < i);
      block_of[i] = block_of[static_cast<std::size_t>(value.in_place_of)];
    } else {
      block_of[i] = blocks.size();
      blocks.emplace_back();
    }
    constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max() / 4;
    if (value.bytes > kLargest) return fail("an intermediate tensor has {} bytes", value.bytes);
    Block& block = blocks[block_of[i]];
    const std::int64_t rounded =
        (value.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    block.bytes = std::max(block.bytes, rounded);
    block.first_step = std::min(block.first_step, value.first_step);
    block.last_step = std::max(block.last_step, value.last_step);
  }
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  MemoryPlan plan;
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t index : order) {
    Block& block = blocks[index];
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      if (!live_together(block, blocks[other])) continue;
      if (blocks[other].offset >= offset + block.bytes) break;
      offset = std::max(offset, blocks[other].offset + blocks[other].bytes);
    }
    if (offset > std::numeric_limits<std::int64_t>::max() - block.bytes) {
      return fail("the intermediate tensors do not fit in memory");
    }
    block.offset = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + block.bytes);
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), index,
        [&](std::size_t a, std::size_t b) { return blocks[a].offset < blocks[b].offset; });
    placed.insert(at, index);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    plan.offsets.push_back(blocks[block_of[i]].offset);
  }
  return plan;
}

std::int64_t most_live_bytes(std::span<const Lifetime> values) {
  std::map<int, std::int64_t> change;  // by step
  for (const Lifetime& value : values) {
    // In the step in which it takes over a place, that is still the other's.
    const int first = value.first_step + (value.in_place_of >= 0 ? 1 : 0);
    if (first > value.last_step) continue;
    change[first] += value.bytes;
    change[value.last_step + 1] -= value.bytes;
  }
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const auto& [step, bytes] : change) {
    live += bytes;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace opweld
