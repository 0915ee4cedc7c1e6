#include "tile/schedules/head_segments.h"

#include <algorithm>
#include <set>

namespace opweld::tile {

namespace {

constexpr int kPaired = 2;

bool contains(std::span<const Node* const> nodes, const Node* node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// Values that the result is computed from, itself among them.
std::set<const Value*> ancestors(const Value* result) {
  std::set<const Value*> found = {result};
  std::vector<const Value*> pending = {result};
  while (!pending.empty()) {
    const Node* const node = pending.back()->producer();
    pending.pop_back();
    if (node == nullptr) continue;
    for (const Value* operand : node->operands()) {
      if (operand != nullptr && found.insert(operand).second) pending.push_back(operand);
    }
  }
  return found;
}

// The views of columns, or of all, that the result is computed from and that are computed from the
// product, each as the nodes that lead to it.
using Views = std::vector<const Node*>;

class ViewFinder {
 public:
  ViewFinder(std::span<const Node* const> nodes, const Value* result, const Value* product)
      : nodes_(nodes), needed_(ancestors(result)) {
    for (const Node* node : nodes) {
      if (node->op() != "slice" && node->op() != "reshape") continue;
      if (node->operand(0)->shape() != product->shape()) continue;
      if (!needed_.contains(node->result())) continue;
      if (node->op() == "slice" && !takes_columns(*node)) continue;
      if (ancestors(node->operand(0)).contains(product)) follow({node});
    }
  }

  [[nodiscard]] const std::vector<Views>& found() const { return found_; }

 private:
  void follow(const Views& views) {
    found_.push_back(views);
    for (const Use& use : views.back()->result()->uses()) {
      const Node* const node = use.node;
      const bool moves = node->op() == "reshape" || node->op() == "transpose";
      if (!moves || !contains(nodes_, node) || !needed_.contains(node->result())) continue;
      Views longer = views;
      longer.push_back(node);
      follow(longer);
    }
  }

  std::span<const Node* const> nodes_;
  std::set<const Value*> needed_;
  std::vector<Views> found_;
};

// Adds those that the result is read in to those of other results, which must be the same: one
// order of columns serves them all.
Status add_stretches(std::span<const Node* const> nodes, const Value* heads, std::size_t axis,
                     const Value* result, std::vector<ColumnStretch>& stretches) {
  OPWELD_TRY(std::vector<ColumnStretch> found, find_stretches(nodes, heads, axis, result));
  if (found.empty() || found == stretches) return {};
  if (!stretches.empty()) return fail("its heads are turned in different pairs of columns");
  stretches = std::move(found);
  return {};
}

// The views behind which the result lies element by element. Those that split heads say how wide
// they are, although the slice alone may lie side by side in the result as well (of a single row);
// of those, all that keep a head's elements side by side, since what turns them comes behind. Null:
// there are none.
const Views* path_to(const Value* result, const std::vector<Views>& paths) {
  const auto rank = [](const Views& path) {
    return head_of(path) == 0 ? 0 : head_axis_of(path) ? 1 + path.size() : 1;
  };
  const Views* found = nullptr;
  for (const Views& path : paths) {
    if (!output_over(result, path.back()->result()->shape())) continue;
    if (found == nullptr || rank(path) > rank(*found)) found = &path;
  }
  return found;
}

}  // namespace

bool takes_columns(const Node& slice) {
  const Shape& starts = slice.attributes().shape("starts");
  const Ints& steps = slice.attributes().ints("steps");
  const Shape& whole = slice.operand(0)->shape();
  for (std::size_t axis = 0; axis + 1 < whole.size(); ++axis) {
    if (starts[axis] != Dim(0) || slice.result()->shape()[axis] != whole[axis]) return false;
  }
  return std::ranges::all_of(steps, [](auto step) { return step == 1; });
}

std::int64_t head_of(std::span<const Node* const> views) {
  for (const Node* view : views) {
    if (view->op() == "reshape") return view->result()->shape().back().constant().value_or(0);
  }
  return 0;
}

std::optional<std::size_t> head_axis_of(std::span<const Node* const> views) {
  std::optional<std::size_t> axis;
  for (const Node* view : views) {
    const Shape& shape = view->result()->shape();
    if (view->op() == "reshape") {
      const bool stays = !axis || (*axis + 1 == view->operand(0)->shape().size() &&
                                   view->operand(0)->shape().back() == shape.back());
      if (!stays || shape.empty()) return std::nullopt;
      axis = shape.size() - 1;
    } else if (view->op() == "transpose" && axis) {
      const Ints& permutation = view->attributes().ints("permutation");
      const auto moved = std::ranges::find(permutation, static_cast<std::int64_t>(*axis));
      axis = static_cast<std::size_t>(moved - permutation.begin());
    }
  }
  return axis;
}

Status find_head_segments(std::span<const Node* const> nodes, std::span<const Value* const> results,
                          Contraction& contraction) {
  const auto columns = contraction.columns.constant();
  const bool one_matrix = contraction.b->rank() == 2 && !contraction.grouped;
  if (!one_matrix || !columns) return fail("{}", kNotOverResult);
  const Shape& whole = contraction.result->shape();
  std::vector<HeadSegment> segments;
  std::vector<DomainOutput> outputs;
  std::vector<ColumnStretch> stretches;
  std::int64_t head = 0;
  for (const Value* result : results) {
    if (auto output = output_over(result, whole)) {
      outputs.push_back(std::move(*output));
      continue;
    }
    const ViewFinder views(nodes, result, contraction.result);
    const Views* const found = path_to(result, views.found());
    if (found == nullptr) return fail("{}", kNotOverResult);
    const Value* const heads = found->back()->result();
    const auto axis = head_axis_of(*found);
    if (const std::int64_t size = head_of(*found); size != 0) {
      if (head != 0 && head != size) {
        return fail("heads of {} columns stand beside heads of {}", size, head);
      }
      head = size;
      if (axis) OPWELD_CHECK(add_stretches(nodes, heads, *axis, result, stretches));
    }
    auto segment = std::ranges::find_if(
        segments, [&](const HeadSegment& other) { return other.views == *found; });
    if (segment == segments.end()) {
      segment = segments.insert(segment, {.views = *found, .head_axis = axis, .outputs = {}});
    }
    segment->outputs.push_back(*output_over(result, heads->shape()));
  }
  if (head == 0) return fail("{}", kNotOverResult);
  for (const HeadSegment& segment : segments) {
    if (!segment.first().divisible_by(head) || !segment.columns().divisible_by(head)) {
      return fail("columns {} to {} do not make heads of {}", segment.first(),
                  segment.first() + segment.columns(), head);
    }
  }
  if (*columns % head != 0) return fail("{} columns do not make heads of {}", *columns, head);
  if (!stretches.empty() && contraction.weights == nullptr) {
    return fail("only constant weights are packed by the pairs of a head of {} columns", head);
  }
  contraction.parts = stretches.empty() ? 1 : kPaired;
  contraction.columns = *columns / contraction.parts;
  if (stretches.empty()) stretches = {{static_cast<int>(head), static_cast<int>(head)}};
  contraction.head = head;
  contraction.stretches = std::move(stretches);
  contraction.segments = std::move(segments);
  contraction.outputs = std::move(outputs);
  return {};
}

Index index_behind(IndexMath& math, const HeadSegment& segment, Index index, Expr column) {
  index.back() = column;
  for (const Node* view : segment.views) {
    if (view->op() != "slice") index = index_behind_view(math, *view, index);
  }
  return index;
}

Index index_before(ElementBuilder& elements, const HeadSegment& segment, Index index) {
  for (auto view = segment.views.rbegin(); view != segment.views.rend(); ++view) {
    index = elements.index_into_operand(**view, index);
  }
  return index;
}

}  // namespace opweld::tile
