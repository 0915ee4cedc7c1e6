// In which pairs the elements of a head are read. Whatever operators turn pairs, they take them out
// of the head by slices: its halves, or every other element, of all of it or of some.
#include <algorithm>
#include <map>
#include <set>

#include "ops/op.h"
#include "tile/schedules/head_segments.h"

namespace opweld::tile {

namespace {

constexpr std::int64_t kPaired = 2;

// `count` elements of a head, `step` apart. In order, those of the fewest come first.
struct Taken {
  std::int64_t count;
  std::int64_t start;
  std::int64_t step;
  auto operator<=>(const Taken&) const = default;
};

// What the slice leaves of those elements; absent where it cuts another axis, too.
std::optional<Taken> taken_by(const Node& slice, std::size_t axis, const Taken& from) {
  const Shape& whole = slice.operand(0)->shape();
  const Shape& left = slice.result()->shape();
  const Shape& starts = slice.attributes().shape("starts");
  const std::int64_t step = slice.attributes().ints("steps")[axis];
  for (std::size_t other = 0; other < whole.size(); ++other) {
    if (other != axis && whole[other] != left[other]) return std::nullopt;
  }
  const auto start = starts[axis].constant();
  const auto count = left[axis].constant();
  if (!start || !count || *count < 1 || step < 1) return std::nullopt;
  return Taken{*count, from.start + *start * from.step, step * from.step};
}

class SliceFinder {
 public:
  SliceFinder(std::span<const Node* const> nodes, std::size_t axis)
      : nodes_(nodes.begin(), nodes.end()), axis_(axis) {}

  // All that is made of `value`, which holds those elements of the head.
  void follow(const Value* value, const Taken& elements) {
    if (!followed_.insert(value).second) return;
    for (const Use& use : value->uses()) {
      const Node& node = *use.node;
      if (!nodes_.contains(&node)) continue;
      if (node.op() == "slice") {
        const auto taken = taken_by(node, axis_, elements);
        if (!taken) continue;
        if (taken->count < elements.count) found_[node.result()] = *taken;
        follow(node.result(), *taken);
      } else if (op_def(node).trait == FusionTrait::Pointwise &&
                 node.result()->shape() == value->shape()) {
        follow(node.result(), elements);
      }
    }
  }

  // Those that the result is computed from.
  std::set<Taken> found_for(const Value* result) const {
    std::set<Taken> needed;
    std::set<const Value*> seen = {result};
    std::vector<const Value*> pending = {result};
    while (!pending.empty()) {
      const Value* const value = pending.back();
      pending.pop_back();
      if (const auto slice = found_.find(value); slice != found_.end()) {
        needed.insert(slice->second);
      }
      if (value->producer() == nullptr) continue;
      for (const Value* operand : value->producer()->operands()) {
        if (operand != nullptr && seen.insert(operand).second) pending.push_back(operand);
      }
    }
    return needed;
  }

 private:
  std::set<const Node*> nodes_;
  std::size_t axis_;
  std::set<const Value*> followed_;
  std::map<const Value*, Taken> found_;
};

// Stretches by the column they start at: of slices that make pairs, the shorter ones first, since a
// longer one may be what a shorter one was cut from.
std::map<std::int64_t, ColumnStretch> paired_stretches(const std::set<Taken>& slices,
                                                       std::int64_t head) {
  std::map<std::int64_t, ColumnStretch> stretches;
  std::vector<bool> covered(static_cast<std::size_t>(head), false);
  for (const Taken& first : slices) {
    const bool neighbours = first.step == kPaired;
    if (first.step != 1 && !neighbours) continue;
    const std::int64_t run = neighbours ? 1 : first.count;
    const std::int64_t columns = kPaired * first.count;
    if (!slices.contains({first.count, first.start + run, first.step})) continue;
    if (first.start + columns > head) continue;
    const auto begin = covered.begin() + first.start;
    if (std::find(begin, begin + columns, true) != begin + columns) continue;
    std::fill(begin, begin + columns, true);
    stretches[first.start] = {static_cast<int>(columns), static_cast<int>(run)};
  }
  return stretches;
}

}  // namespace

Expected<std::vector<ColumnStretch>> find_stretches(std::span<const Node* const> nodes,
                                                    const Value* heads, std::size_t axis,
                                                    const Value* result) {
  const std::int64_t head = heads->shape()[axis].constant().value_or(0);
  SliceFinder slices(nodes, axis);
  slices.follow(heads, {head, 0, 1});
  const auto paired = paired_stretches(slices.found_for(result), head);
  std::vector<ColumnStretch> stretches;
  if (paired.empty()) return stretches;
  // What passes between them goes by halves, which lie side by side.
  std::int64_t end = 0;
  const auto pass_until = [&](std::int64_t start) -> Status {
    const std::int64_t columns = start - end;
    if (columns % kPaired != 0) {
      return fail(
          "a head of {} columns has {} that no rotary embedding turns, which blocks of {} parts "
          "cannot share",
          head, columns, kPaired);
    }
    if (columns > 0) {
      stretches.push_back({static_cast<int>(columns), static_cast<int>(columns / kPaired)});
    }
    return {};
  };
  for (const auto& [start, stretch] : paired) {
    OPWELD_CHECK(pass_until(start));
    stretches.push_back(stretch);
    end = start + stretch.columns;
  }
  OPWELD_CHECK(pass_until(head));
  return stretches;
}

}  // namespace opweld::tile
