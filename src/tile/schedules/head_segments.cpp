#include "tile/schedules/head_segments.h"

#include <algorithm>
#include <set>

namespace opweld::tile {

namespace {

constexpr int kHalves = 2;

bool contains(std::span<const Node* const> nodes, const Node* node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// Whether the slice takes neighbouring columns of all rows.
bool takes_columns(const Node& slice) {
  const Shape& starts = slice.attributes().shape("starts");
  const Ints& steps = slice.attributes().ints("steps");
  const Shape& whole = slice.operand(0)->shape();
  for (std::size_t axis = 0; axis + 1 < whole.size(); ++axis) {
    if (starts[axis] != Dim(0) || slice.result()->shape()[axis] != whole[axis]) return false;
  }
  return std::ranges::all_of(steps, [](auto step) { return step == 1; });
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

// The last axis of the reshape that splits columns into heads; 0 where there is none.
std::int64_t head_of(const Views& views) {
  for (const Node* view : views) {
    if (view->op() == "reshape") return view->result()->shape().back().constant().value_or(0);
  }
  return 0;
}

// The views behind which the result lies element by element. Those that split heads say how wide
// they are, although the slice alone may lie side by side in the result as well (of a single row);
// null: there are none.
const Views* path_to(const Value* result, const std::vector<Views>& paths) {
  const Views* found = nullptr;
  for (const Views& path : paths) {
    if (!output_over(result, path.back()->result()->shape())) continue;
    if (head_of(path) != 0) return &path;
    if (found == nullptr) found = &path;
  }
  return found;
}

}  // namespace

bool find_head_segments(std::span<const Node* const> nodes, std::span<const Value* const> results,
                        Contraction& contraction) {
  const auto columns = contraction.columns.constant();
  const bool one_matrix = contraction.b->rank() == 2 && !contraction.grouped;
  if (contraction.weights == nullptr || !one_matrix || !columns) return false;
  const Shape& whole = contraction.result->shape();
  std::vector<HeadSegment> segments;
  std::vector<DomainOutput> outputs;
  std::int64_t head = 0;
  for (const Value* result : results) {
    if (auto output = output_over(result, whole)) {
      outputs.push_back(std::move(*output));
      continue;
    }
    const ViewFinder views(nodes, result, contraction.result);
    const Views* const found = path_to(result, views.found());
    if (found == nullptr) return false;
    if (const std::int64_t size = head_of(*found); size != 0) {
      if (head != 0 && head != size) return false;
      head = size;
    }
    auto segment = std::ranges::find_if(
        segments, [&](const HeadSegment& other) { return other.views == *found; });
    if (segment == segments.end()) {
      segment = segments.insert(segment, {.views = *found, .outputs = {}});
    }
    segment->outputs.push_back(*output_over(result, found->back()->result()->shape()));
  }
  if (head == 0 || head % kHalves != 0 || *columns % head != 0) return false;
  for (const HeadSegment& segment : segments) {
    if (!segment.first().divisible_by(head) || !segment.columns().divisible_by(head)) return false;
  }
  contraction.head = head;
  contraction.segments = std::move(segments);
  contraction.outputs = std::move(outputs);
  contraction.parts = kHalves;
  contraction.columns = *columns / kHalves;
  return true;
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
