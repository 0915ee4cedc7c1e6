#include "import/onnx/picked_index.h"

#include <algorithm>

namespace opweld {

namespace {

std::size_t at(std::int64_t axis) {
  return static_cast<std::size_t>(axis);
}

// The one number of a value that is known in terms of sizes.
std::optional<Dim> known_number(const Value* value) {
  const auto& contents = value->contents();
  return contents && contents->size() == 1 ? std::optional(contents->front()) : std::nullopt;
}

}  // namespace

bool PickedIndex::is_coordinate(int wanted) const {
  if (offset != Dim(0)) return false;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] != Dim(i == at(wanted) ? 1 : 0)) return false;
  }
  return true;
}

bool PickedIndex::is_pair(int outer, const Dim& inner_size) const {
  return factors.size() == 2 && offset == Dim(0) && factors[at(outer)] == inner_size &&
         factors[at(1 - outer)] == Dim(1);
}

PickedIndices::PickedIndices(const Node& nonzero, Dim count) : count_(std::move(count)) {
  List list;
  const auto rank = at(nonzero.operand(0)->rank());
  for (std::size_t axis = 0; axis < rank; ++axis) {
    PickedIndex index;
    index.factors.assign(rank, Dim(0));
    index.factors[axis] = 1;
    list.entries.push_back(std::move(index));
  }
  lists_.emplace(nonzero.result(), std::move(list));
}

const PickedIndex* PickedIndices::index(const Value* value) const {
  const auto found = indices_.find(value);
  return found == indices_.end() ? nullptr : &found->second;
}

std::optional<int> PickedIndices::coordinate(const Value* value) const {
  const PickedIndex* const single = index(value);
  if (single == nullptr) {
    const std::vector<int> all = coordinates(value);
    return all.size() == 1 ? std::optional(all.front()) : std::nullopt;
  }
  for (std::size_t axis = 0; axis < single->factors.size(); ++axis) {
    if (single->is_coordinate(static_cast<int>(axis))) return static_cast<int>(axis);
  }
  return std::nullopt;
}

std::vector<int> PickedIndices::coordinates(const Value* value) const {
  std::vector<PickedIndex> entries;
  if (const auto found = lists_.find(value); found != lists_.end() && found->second.axis == 0) {
    entries = found->second.entries;
  } else if (const PickedIndex* const single = index(value);
             single != nullptr && single->axis == 0 && value->rank() == 2 &&
             value->shape()[1] == Dim(1)) {
    entries = {*single};
  }
  std::vector<int> axes;
  for (const PickedIndex& entry : entries) {
    for (std::size_t axis = 0; axis < entry.factors.size(); ++axis) {
      if (entry.is_coordinate(static_cast<int>(axis))) axes.push_back(static_cast<int>(axis));
    }
  }
  if (axes.size() != entries.size()) axes.clear();
  return axes;
}

void PickedIndices::keep(const Value* value, const PickedIndex& index) {
  const Shape& shape = value->shape();
  const auto found = std::ranges::find(shape, count_);
  if (found == shape.end() || std::find(found + 1, shape.end(), count_) != shape.end()) return;
  PickedIndex moved = index;
  moved.axis = static_cast<int>(found - shape.begin());
  indices_.emplace(value, std::move(moved));
}

void PickedIndices::take(const Node& node) {
  const std::string& op = node.op();
  if (op == "add" || op == "sub" || op == "mul") return take_arithmetic(node);
  if (op == "concat") return take_concat(node);
  if (node.num_operands() == 0 || node.operand(0) == nullptr) return;
  if (const auto list = lists_.find(node.operand(0)); list != lists_.end()) {
    take_of_list(node, list->second);
  } else if (const PickedIndex* const index = this->index(node.operand(0))) {
    take_of_index(node, *index);
  }
}

void PickedIndices::take_of_list(const Node& node, const List& list) {
  const std::string& op = node.op();
  const int beside = 1 - list.axis;
  const Value* const result = node.result();
  if (op == "cast" && is_integer(result->dtype())) {
    lists_.emplace(result, list);
  } else if (op == "transpose" && node.attributes().ints("permutation") == Ints{1, 0}) {
    lists_.emplace(result, List{list.entries, beside});
  } else if (op == "slice") {
    const auto start = node.attributes().shape("starts")[at(beside)].constant();
    const Shape& sizes = node.attributes().shape("sizes");
    if (start && sizes[at(beside)] == Dim(1) && sizes[at(list.axis)] == count_) {
      keep(result, list.entries[at(*start)]);
    }
  } else if (op == "gather" && node.attributes().integer("axis") == beside) {
    const auto which = known_number(node.operand(1));
    const auto entry = which ? which->constant() : std::nullopt;
    const auto entries = static_cast<std::int64_t>(list.entries.size());
    if (entry && *entry >= -entries && *entry < entries) {
      keep(result, list.entries[at(*entry < 0 ? *entry + entries : *entry)]);
    }
  } else if (op == "reshape" && list.entries.size() == 1) {
    keep(result, list.entries.front());
  }
}

void PickedIndices::take_of_index(const Node& node, const PickedIndex& index) {
  const std::string& op = node.op();
  const bool is_view = op == "reshape" || op == "transpose" || op == "expand";
  if (is_view || (op == "cast" && is_integer(node.result()->dtype()))) keep(node.result(), index);
}

// With one that lies alike, or with a number.
void PickedIndices::take_arithmetic(const Node& node) {
  const PickedIndex* const left = index(node.operand(0));
  const PickedIndex* const right = index(node.operand(1));
  if (left == nullptr && right == nullptr) return;
  const auto left_number = known_number(node.operand(0));
  const auto right_number = known_number(node.operand(1));
  PickedIndex result = left != nullptr ? *left : *right;
  const std::size_t axes = result.factors.size();
  if (node.op() == "mul") {
    const auto& number = left != nullptr ? right_number : left_number;
    if (!number) return;
    for (Dim& factor : result.factors) factor = factor * *number;
    result.offset = result.offset * *number;
    return keep(node.result(), result);
  }
  const Dim sign = node.op() == "sub" ? -1 : 1;
  if ((left == nullptr && !left_number) || (right == nullptr && !right_number)) return;
  for (std::size_t i = 0; i < axes; ++i) {
    const Dim own = left != nullptr ? left->factors[i] : Dim(0);
    result.factors[i] = right != nullptr ? own + sign * right->factors[i] : own;
  }
  result.offset = (left != nullptr ? left->offset : *left_number) +
                  sign * (right != nullptr ? right->offset : *right_number);
  keep(node.result(), result);
}

// [places, 1] beside each other.
void PickedIndices::take_concat(const Node& node) {
  List list;
  list.axis = 0;
  if (node.result()->rank() != 2 || node.attributes().integer("axis") != 1) return;
  for (const Value* operand : node.operands()) {
    const PickedIndex* const entry = index(operand);
    if (entry == nullptr || entry->axis != 0 || operand->shape()[1] != Dim(1)) return;
    list.entries.push_back(*entry);
  }
  lists_.emplace(node.result(), std::move(list));
}

}  // namespace opweld
