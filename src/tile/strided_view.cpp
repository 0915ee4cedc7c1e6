#include "tile/strided_view.h"

#include <algorithm>
#include <cassert>

namespace opweld::tile {
namespace {

bool has_no_elements(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), Dim(0)) != shape.end();
}

// Neighbouring axes that together step through the buffer at one stride.
struct Run {
  Dim size;
  Dim stride;
};

// The axes of a view, those of size one left out, merged as far as can be proven.
std::vector<Run> merged_runs(const StridedView& view) {
  std::vector<Run> runs;
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    const Dim& size = view.shape[axis];
    const Dim& stride = view.strides[axis];
    if (size == Dim(1)) continue;
    if (!runs.empty() && runs.back().stride == stride * size) {
      runs.back() = {runs.back().size * size, stride};
    } else {
      runs.push_back({size, stride});
    }
  }
  return runs;
}

// Strides of the axes [begin, end) of `target`, which divide up one run.
void split_run(const Dim& run_stride, const Shape& target, std::size_t begin, std::size_t end,
               std::vector<Dim>& strides) {
  Dim stride = run_stride;
  for (std::size_t axis = end; axis-- > begin;) {
    strides[axis] = stride;
    stride *= target[axis];
  }
}

// The end of the axes from `begin` on whose sizes multiply to `size`; nothing if none provably do.
std::optional<std::size_t> end_of_run(const Dim& size, const Shape& target, std::size_t begin) {
  Dim product = 1;
  for (std::size_t axis = begin; axis < target.size(); ++axis) {
    product *= target[axis];
    if (product == size) return axis + 1;
  }
  return std::nullopt;
}

// The view nodes from `base` (left out) to `value`, the first one first.
std::optional<std::vector<const Node*>> nodes_between(const Value* base, const Value* value) {
  std::vector<const Node*> nodes;
  while (value != base) {
    const Node* node = value->producer();
    if (node == nullptr || node->num_operands() != 1) return std::nullopt;
    nodes.push_back(node);
    value = node->operand(0);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

std::optional<StridedView> apply(const StridedView& view, const Node& node) {
  const Attributes& attributes = node.attributes();
  if (node.op() == "reshape") return view.reshape(attributes.shape("shape"));
  if (node.op() == "transpose") return view.transpose(attributes.ints("permutation"));
  if (node.op() == "expand") return view.expand(attributes.shape("shape"));
  if (node.op() == "slice") {
    return view.slice(attributes.shape("starts"), attributes.shape("sizes"),
                      attributes.ints("steps"));
  }
  return std::nullopt;
}

bool has_overflow(const StridedView& view) {
  return view.offset.is_overflow() || opweld::has_overflow(view.strides);
}

// A view indexed by the node's result, indexed by its operand instead.
std::optional<StridedView> apply_inverse(const StridedView& view, const Node& node) {
  if (node.op() == "reshape") return view.reshape(node.operand(0)->shape());
  if (node.op() != "transpose") return std::nullopt;
  const Ints& permutation = node.attributes().ints("permutation");
  Ints inverse(permutation.size());
  for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
    inverse[static_cast<std::size_t>(permutation[axis])] = static_cast<std::int64_t>(axis);
  }
  return view.transpose(inverse);
}

}  // namespace

StridedView StridedView::contiguous(Shape shape) {
  std::vector<Dim> strides = row_major_strides(shape);
  return {std::move(shape), std::move(strides), 0};
}

StridedView StridedView::transpose(const Ints& permutation) const {
  assert(permutation.size() == shape.size());
  StridedView result{{}, {}, offset};
  for (const std::int64_t axis : permutation) {
    result.shape.push_back(shape[static_cast<std::size_t>(axis)]);
    result.strides.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  return result;
}

StridedView StridedView::slice(const Shape& starts, const Shape& sizes, const Ints& steps) const {
  assert(starts.size() == shape.size() && sizes.size() == shape.size());
  StridedView result{sizes, strides, offset};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    result.offset += starts[axis] * strides[axis];
    // A step that is never taken may be of any size.
    result.strides[axis] = provably_le(sizes[axis], 1) ? Dim(0) : strides[axis] * steps[axis];
  }
  return result;
}

StridedView StridedView::expand(const Shape& target) const {
  assert(target.size() >= shape.size());
  const std::size_t added = target.size() - shape.size();
  StridedView result{target, std::vector<Dim>(target.size(), 0), offset};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool repeats = shape[axis] == Dim(1) && target[added + axis] != Dim(1);
    if (!repeats) result.strides[added + axis] = strides[axis];
  }
  return result;
}

std::optional<StridedView> StridedView::reshape(const Shape& target) const {
  StridedView result{target, row_major_strides(target), offset};
  if (has_no_elements(shape) || has_no_elements(target)) return result;
  const std::vector<Run> runs = merged_runs(*this);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    // The last run takes all that is left: the numbers of elements agree.
    const bool is_last = i + 1 == runs.size();
    const auto end =
        is_last ? std::optional(target.size()) : end_of_run(runs[i].size, target, begin);
    if (!end) return std::nullopt;
    split_run(runs[i].stride, target, begin, *end, result.strides);
    begin = *end;
  }
  return result;
}

bool StridedView::is_contiguous() const {
  if (offset != Dim(0)) return false;
  const std::vector<Run> runs = merged_runs(*this);
  return runs.empty() || (runs.size() == 1 && runs[0].stride == Dim(1));
}

std::optional<StridedView> view_of(const Value* value, const Value* base) {
  const auto nodes = nodes_between(base, value);
  if (!nodes) return std::nullopt;
  std::optional<StridedView> view = StridedView::contiguous(base->shape());
  for (const Node* node : *nodes) {
    view = apply(*view, *node);
    if (!view || has_overflow(*view)) return std::nullopt;
  }
  return view;
}

std::optional<StridedView> store_view(const Value* from, const Value* to) {
  return store_view(from, to, StridedView::contiguous(to->shape()));
}

std::optional<StridedView> store_view(const Value* from, const Value* to, StridedView place) {
  const auto nodes = nodes_between(from, to);
  if (!nodes) return std::nullopt;
  std::optional<StridedView> view = std::move(place);
  for (auto node = nodes->rbegin(); node != nodes->rend(); ++node) {
    view = apply_inverse(*view, **node);
    if (!view) return std::nullopt;
  }
  return view;
}

}  // namespace opweld::tile
