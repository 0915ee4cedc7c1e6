// Slice: bounds as numpy understands them, in terms of sizes that may be unknown.
#include <algorithm>
#include <numeric>

#include "import/onnx/operators/table.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

// Exporters write the greatest integers for "to the end". No axis is longer than this, and sums
// with it do not overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 40;

Dim bounded(const Dim& bound) {
  const auto value = bound.constant();
  if (!value) return bound;
  return std::clamp(*value, -kFar, kFar);
}

// One axis of a slice.
struct AxisSlice {
  Dim start;
  Dim size;
  std::int64_t step = 1;
};

// Whether a bound counts from the end. Of an unknown one it is taken for granted, and checked when
// a run binds the sizes.
bool counts_from_end(Graph& graph, const Dim& bound) {
  if (bound.lower_bound() >= 0) return false;
  if (bound.upper_bound() < 0) return true;
  constexpr const char* kReason = "whether a bound of Slice counts from the end is certain";
  const bool negative = bound.upper_bound() <= 0;
  if (negative) {
    graph.assume_equal(max(-bound, 1), -bound, kReason);
  } else {
    graph.assume_equal(max(bound, 0), bound, kReason);
  }
  return negative;
}

Dim between(const Dim& value, const Dim& low, const Dim& high) {
  return min(max(value, low), high);
}

Expected<AxisSlice> slice_of_axis(Graph& graph, const Dim& extent, const Dim& given_start,
                                  const Dim& given_end, std::int64_t given_step) {
  if (given_step == 0) return fail("a step is 0");
  const std::int64_t step = std::clamp(given_step, -kFar, kFar);
  Dim start = bounded(given_start);
  Dim end = bounded(given_end);
  if (counts_from_end(graph, start)) start += extent;
  if (counts_from_end(graph, end)) end += extent;
  const bool forward = step > 0;
  start = forward ? between(start, 0, extent) : between(start, 0, extent - 1);
  end = forward ? between(end, 0, extent) : between(end, -1, extent - 1);
  const Dim length = forward ? end - start : start - end;
  return AxisSlice{start, max(ceil_div(length, forward ? step : -step), 0), step};
}

struct Bounds {
  std::vector<Dim> starts, ends;
  std::vector<int> axes;
  Ints steps;
};

// All are attributes before opset 10, without steps.
Expected<Bounds> bounds_of(NodeContext& c, int rank) {
  Bounds bounds;
  std::optional<Ints> axes;
  std::optional<Ints> steps;
  if (c.opset() >= 10) {
    OPWELD_TRY(bounds.starts, c.dims(1, "starts"));
    OPWELD_TRY(bounds.ends, c.dims(2, "ends"));
    if (c.has(3)) {
      OPWELD_TRY(axes, c.integers(3, "axes"));
    }
    if (c.has(4)) {
      OPWELD_TRY(steps, c.integers(4, "steps"));
    }
  } else {
    const auto starts = c.integers_attribute("starts");
    const auto ends = c.integers_attribute("ends");
    if (!starts || !ends) return fail("attributes 'starts' and 'ends' are needed");
    bounds.starts.assign(starts->begin(), starts->end());
    bounds.ends.assign(ends->begin(), ends->end());
    axes = c.integers_attribute("axes");
  }
  if (!axes) {
    axes.emplace(bounds.starts.size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  bounds.steps = steps.value_or(Ints(bounds.starts.size(), 1));
  const std::size_t count = bounds.starts.size();
  if (bounds.ends.size() != count || axes->size() != count || bounds.steps.size() != count) {
    return fail("{} starts, {} ends, {} axes and {} steps are given", count, bounds.ends.size(),
                axes->size(), bounds.steps.size());
  }
  for (const std::int64_t axis : *axes) {
    OPWELD_TRY(const int normal, normalize_axis(axis, rank));
    if (std::find(bounds.axes.begin(), bounds.axes.end(), normal) != bounds.axes.end()) {
      return fail("axis {} is named twice", normal);
    }
    bounds.axes.push_back(normal);
  }
  return bounds;
}

Expected<Values> slice(NodeContext& c) {
  Value* x = c.operand(0);
  OPWELD_TRY(const Bounds bounds, bounds_of(c, x->rank()));
  Shape starts(x->shape().size(), 0);
  Shape sizes = x->shape();
  Ints steps(sizes.size(), 1);
  for (std::size_t i = 0; i < bounds.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(bounds.axes[i]);
    OPWELD_TRY(const AxisSlice part,
               slice_of_axis(c.builder().graph(), sizes[axis], bounds.starts[i], bounds.ends[i],
                             bounds.steps[i]));
    starts[axis] = part.start;
    sizes[axis] = part.size;
    steps[axis] = part.step;
  }
  return one(c.builder().op(
      "slice", {x},
      {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", steps}}));
}

constexpr OperatorRule kRules[] = {{"Slice", slice, "", 1, 5}};

}  // namespace

std::span<const OperatorRule> slice_operators() {
  return kRules;
}

}  // namespace opweld
