#include "rewrite/raise/numbered_rows.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ops/builder.h"
#include "ops/reference.h"
#include "rewrite/match.h"

namespace opweld {

namespace {

// A graph of its own, in which the numbers are an input of a known size.
class NumberedRows {
 public:
  NumberedRows(const Value* numbers, std::int64_t count) : count_(count), build_(graph_) {
    copies_[numbers] = {graph_.add_input("numbers", {numbers->dtype(), {Dim(count)}}), true};
  }

  std::optional<Tensor> rows_of(const Value* value) {
    const Copy rows = copy_of(value);
    if (!rows.by_row) return std::nullopt;
    graph_.add_output("rows", rows.value);
    auto numbers = Tensor::allocate(graph_.inputs().front()->dtype(), {count_});
    if (!numbers) return std::nullopt;
    for (std::int64_t i = 0; i < count_; ++i) numbers->set_int(i, i);
    auto results = evaluate(graph_, std::vector<Tensor>{std::move(*numbers)});
    return results ? std::optional(std::move(results->front())) : std::nullopt;
  }

 private:
  struct Copy {
    Value* value = nullptr;  // null: there is none
    bool by_row = false;     // its first axis is that of the rows
  };

  Copy copy_of(const Value* value) {
    if (const auto known = copies_.find(value); known != copies_.end()) return known->second;
    const Node* const node = value->producer();
    Copy copy;
    if (node != nullptr && node->num_results() == 1 && stays_on_its_stream(value)) {
      copy = copy_made_by(*node);
    }
    if (copy.value == nullptr) copy = {};
    return copies_[value] = copy;
  }

  Copy copy_made_by(const Node& node) {
    const FusionTrait trait = op_def(node).trait;
    const bool is_view = node.op() == "reshape" || node.op() == "expand";
    if (trait != FusionTrait::Pointwise && trait != FusionTrait::Source && !is_view) return {};
    std::vector<Copy> operands;
    for (const Value* operand : node.operands()) {
      operands.push_back(operand == nullptr ? Copy{} : copy_of(operand));
      if (operands.back().value == nullptr) return {};
    }
    const bool by_row = std::ranges::any_of(operands, &Copy::by_row);
    if (by_row && is_view) return {copy_of_view(node, operands.front()), true};
    if (by_row ? !leaves_rows_apart(node, operands) : !has_known_size(node)) return {};
    std::vector<Value*> values;
    for (const Copy& operand : operands) values.push_back(operand.value);
    return {build_.op(node.op(), std::move(values), node.attributes()), by_row};
  }

  // Whether each row of the result is made of that row, and of what is the same for all.
  static bool leaves_rows_apart(const Node& node, const std::vector<Copy>& operands) {
    const int rank = node.result()->rank();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Value* const operand = node.operand(static_cast<int>(i));
      const bool spreads = operand->rank() < rank || operand->shape().front() == Dim(1);
      if (operands[i].by_row ? operand->rank() != rank : !spreads) return false;
    }
    return true;
  }

  static bool has_known_size(const Node& node) {
    return std::ranges::all_of(node.result()->shape(),
                               [](const Dim& size) { return size.constant().has_value(); });
  }

  // Null where rows do not stay as they are.
  Value* copy_of_view(const Node& view, const Copy& operand) {
    const Shape& from = view.operand(0)->shape();
    Shape to = view.result()->shape();
    if (to.empty() || to.front() != from.front()) return nullptr;
    to.front() = count_;
    if (view.op() == "expand") {
      return to.size() == from.size() ? build_.expand(operand.value, std::move(to)) : nullptr;
    }
    const bool fits = num_elements(to) == operand.value->type().num_elements();
    return fits ? build_.reshape(operand.value, std::move(to)) : nullptr;
  }

  std::int64_t count_;
  Graph graph_;
  Builder build_;
  std::map<const Value*, Copy> copies_;
};

}  // namespace

std::optional<Tensor> rows_by_number(const Value* value, const Value* numbers, std::int64_t count) {
  return NumberedRows(numbers, count).rows_of(value);
}

}  // namespace opweld
