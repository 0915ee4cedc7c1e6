#include "rewrite/raise/expert_choice.h"

#include <algorithm>

#include "rewrite/match.h"
#include "rewrite/ramp.h"

namespace opweld {

namespace {

using Kind = Chosen::Kind;

std::size_t at(std::int64_t axis) {
  return static_cast<std::size_t>(axis);
}

// The axes of two values that broadcast, aligned at the last; nothing where they disagree.
std::optional<std::vector<int>> aligned(const std::vector<int>& a, const std::vector<int>& b) {
  const std::vector<int>& longer = a.size() >= b.size() ? a : b;
  const std::vector<int>& shorter = a.size() >= b.size() ? b : a;
  std::vector<int> result = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    int& axis = result[offset + i];
    if (axis == kNoAxis) axis = shorter[i];
    if (shorter[i] != kNoAxis && shorter[i] != axis) return std::nullopt;
  }
  return result;
}

bool is_zero(const Value* value) {
  return uniform_value(value) == 0.0;
}

// The axis along which the elements are 0, 1, 2 .., the same along all others.
std::optional<int> counting_axis(const Value* value) {
  if (!is_integer(value->dtype())) return std::nullopt;
  if (const Node* const constant = made_by(value, "constant")) {
    const Tensor& tensor = constant->attributes().tensor("value");
    int axis = -1;
    for (int i = 0; i < value->rank(); ++i) {
      if (tensor.sizes()[at(i)] == 1) continue;
      if (axis >= 0) return std::nullopt;
      axis = i;
    }
    if (axis < 0) return std::nullopt;
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      if (tensor.get_int(i) != i) return std::nullopt;
    }
    return axis;
  }
  const auto ramp = integer_ramp(value);
  if (!ramp || ramp->offset != Dim(0)) return std::nullopt;
  std::optional<int> found;
  for (std::size_t i = 0; i < ramp->steps.size(); ++i) {
    if (ramp->steps[i] == 0) continue;
    if (found || ramp->steps[i] != 1) return std::nullopt;
    found = static_cast<int>(ramp->steps.size() - 1 - i);
  }
  return found;
}

}  // namespace

bool Chosen::has(int axis) const {
  return std::ranges::find(axes, axis) != axes.end();
}

ExpertChoice::ExpertChoice(const Node& choice, Value* indices)
    : choice_(choice),
      indices_(indices),
      tokens_(indices->shape().begin(), indices->shape().end() - 1) {}

std::optional<ExpertChoice> ExpertChoice::make(Node& top_k) {
  if (top_k.op() != "top_k" || top_k.attributes().integer("largest", 1) == 0) return std::nullopt;
  Value* const indices = top_k.result(1);
  const int rank = indices->rank();
  if (rank < 2 || top_k.attributes().integer("axis") != rank - 1) return std::nullopt;
  const auto experts = top_k.operand(0)->shape().back().constant();
  const auto choices = indices->shape().back().constant();
  if (!experts || !choices || *choices < 1 || *experts < 2) return std::nullopt;
  ExpertChoice result(top_k, indices);
  result.experts_ = *experts;
  result.choices_ = *choices;
  return result;
}

bool ExpertChoice::is_by_token(const std::vector<int>& axes, std::size_t before) const {
  if (axes.size() < before + tokens_.size()) return false;
  for (std::size_t i = before; i < axes.size(); ++i) {
    const std::size_t token = i - before;
    const bool is_one = token < tokens_.size() && tokens_[token] == Dim(1) && axes[i] == kNoAxis;
    const int wanted = token < tokens_.size() ? static_cast<int>(token) : kNoAxis;
    if (axes[i] != wanted && !is_one) return false;
  }
  return true;
}

const std::optional<Chosen>& ExpertChoice::describe(Value* value) {
  if (const auto known = known_.find(value); known != known_.end()) return known->second;
  Found found = find(value);
  return known_[value] = std::move(found);
}

ExpertChoice::Found ExpertChoice::find(Value* value) {
  if (value == indices_) {
    Chosen chosen;
    chosen.kind = Kind::Indices;
    for (std::size_t i = 0; i < tokens_.size(); ++i) chosen.axes.push_back(static_cast<int>(i));
    chosen.axes.push_back(kSlotAxis);
    return chosen;
  }
  const Node* const node = value->producer();
  if (node != nullptr && stays_on_its_stream(value)) {
    if (Found made = find_made(*node)) return made;
  }
  return as_weight(value);
}

// Any float [tokens.., k] may be a weight.
ExpertChoice::Found ExpertChoice::as_weight(Value* value) const {
  if (!is_float(value->dtype()) || value->shape() != indices_->shape()) return std::nullopt;
  Chosen chosen;
  chosen.weight = value;
  for (std::size_t i = 0; i < tokens_.size(); ++i) chosen.axes.push_back(static_cast<int>(i));
  chosen.axes.push_back(kSlotAxis);
  return chosen;
}

ExpertChoice::Found ExpertChoice::find_made(const Node& node) {
  const std::string& op = node.op();
  if (op == "one_hot") return from_one_hot(node);
  if (op == "eq") return from_comparison(node);
  if (op == "gt") return from_threshold(node);
  if (op == "matmul") return from_matmul(node);
  if (op == "mul" || op == "div") return from_product(node);
  if (op == "select") return from_selection(node);
  if (op == "scatter_elements") return from_scatter(node);
  if (op == "reduce_sum" || op == "reduce_max") return from_sum(node);
  if (op == "cast") return from_cast(node);
  if (op == "reshape" || op == "transpose" || op == "expand") return from_view(node);
  if (op == "slice") return from_slice(node);
  if (op == "gather") return from_gather(node);
  return std::nullopt;
}

ExpertChoice::Found ExpertChoice::from_one_hot(const Node& node) {
  Found chosen = describe(node.operand(0));
  const Node* const values = made_by(node.operand(1), "constant");
  if (!chosen || chosen->kind != Kind::Indices || values == nullptr) return std::nullopt;
  const Tensor& pair = values->attributes().tensor("value");
  const auto value = [&](std::int64_t i) {
    return is_float(pair.dtype()) ? pair.get_double(i) : static_cast<double>(pair.get_int(i));
  };
  if (pair.num_elements() != 2 || value(0) != 0 || value(1) != 1) return std::nullopt;
  if (node.attributes().shape("depth")[0] != Dim(experts_)) return std::nullopt;
  chosen->kind = Kind::Mask;
  chosen->axes.insert(chosen->axes.begin() + node.attributes().integer("axis"), kExpertAxis);
  return chosen;
}

ExpertChoice::Found ExpertChoice::from_comparison(const Node& node) {
  for (int side = 0; side < 2; ++side) {
    Found chosen = describe(node.operand(side));
    if (!chosen || chosen->kind != Kind::Indices) continue;
    const Value* const other = node.operand(1 - side);
    chosen->kind = Kind::Mask;
    if (const auto number = scalar_constant(other)) {
      const auto rank = at(node.result()->rank());
      chosen->axes.insert(chosen->axes.begin(), rank - chosen->axes.size(), kNoAxis);
      chosen->expert = static_cast<std::int64_t>(*number);
      return chosen;
    }
    const auto counted = counting_axis(other);
    if (!counted || other->shape()[at(*counted)] != Dim(experts_)) return std::nullopt;
    std::vector<int> axes(at(other->rank()), kNoAxis);
    axes[at(*counted)] = kExpertAxis;
    const auto both = aligned(chosen->axes, axes);
    if (!both) return std::nullopt;
    chosen->axes = *both;
    return chosen;
  }
  return std::nullopt;
}

// More than zero of ones and zeros.
ExpertChoice::Found ExpertChoice::from_threshold(const Node& node) {
  const Found chosen = describe(node.operand(0));
  const auto least = scalar_constant(node.operand(1));
  const bool is_mask = chosen && chosen->kind == Kind::Mask && least == 0.0;
  return is_mask && node.result()->rank() == node.operand(0)->rank() ? chosen : std::nullopt;
}

ExpertChoice::Found ExpertChoice::weighted(const Chosen& mask, const Chosen& weight) const {
  if (mask.kind != Kind::Mask || weight.kind != Kind::Weight) return std::nullopt;
  // Of the only choice there is no sum.
  const bool is_only = choices_ == 1;
  if (!mask.has(kSlotAxis) && !is_only) return std::nullopt;
  const auto axes = aligned(mask.axes, weight.axes);
  if (!axes) return std::nullopt;
  Chosen result = mask;
  result.kind = Kind::Weighted;
  result.axes = *axes;
  result.weight = weight.weight;
  result.steps = weight.steps;
  if (is_only) {
    result.kind = Kind::Share;
    std::ranges::replace(result.axes, kSlotAxis, kNoAxis);
  }
  return result;
}

// A sum over the choices as a product: [tokens.., experts, k] by [tokens.., k, 1], or [tokens.., 1,
// k] by [tokens.., k, experts].
ExpertChoice::Found ExpertChoice::from_matmul(const Node& node) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < tokens_.size(); ++i) axes.push_back(static_cast<int>(i));
  const auto with = [&](int first, int second) {
    std::vector<int> result = axes;
    result.insert(result.end(), {first, second});
    return result;
  };
  const Found left = describe(node.operand(0));
  const Found right = describe(node.operand(1));
  if (!left || !right) return std::nullopt;
  const bool by_column = left->kind == Kind::Mask && right->kind == Kind::Weight &&
                         left->axes == with(kExpertAxis, kSlotAxis) &&
                         right->axes == with(kSlotAxis, kNoAxis);
  const bool by_row = left->kind == Kind::Weight && right->kind == Kind::Mask &&
                      left->axes == with(kNoAxis, kSlotAxis) &&
                      right->axes == with(kSlotAxis, kExpertAxis);
  if (!by_column && !by_row) return std::nullopt;
  Chosen share = by_column ? *right : *left;
  share.kind = Kind::Share;
  share.axes = by_column ? with(kExpertAxis, kNoAxis) : with(kNoAxis, kExpertAxis);
  return share;
}

// A share times or divided by a number for each token: zero stays zero, but for 0 / 0.
ExpertChoice::Found ExpertChoice::scaled(const Chosen& share, const Node& node,
                                         Value* other) const {
  const bool by_number = scalar_constant(other).has_value();
  Shape by_token = tokens_;
  by_token.emplace_back(1);
  // The expert's axis is where the weight has its slots, so that the same broadcasts to both.
  std::vector<int> axes;
  for (std::size_t i = 0; i < tokens_.size(); ++i) axes.push_back(static_cast<int>(i));
  axes.push_back(kExpertAxis);
  const bool alike = share.axes == axes && other->shape() == by_token;
  if ((!by_number && !alike) || node.result()->dtype() != other->dtype()) return std::nullopt;
  if (by_number && other->rank() > node.result()->rank()) return std::nullopt;
  Chosen result = share;
  result.steps.push_back({node.op(), other, node.result()->dtype()});
  return result;
}

ExpertChoice::Found ExpertChoice::from_product(const Node& node) {
  for (int side = 0; side < 2; ++side) {
    const Found& chosen = describe(node.operand(side));
    if (!chosen) continue;
    const Found first = chosen;
    if (first->kind == Kind::Share && (node.op() == "mul" || side == 0)) {
      if (Found result = scaled(*first, node, node.operand(1 - side))) return result;
    }
    if (node.op() != "mul" || first->kind != Kind::Mask) continue;
    const Found second = describe(node.operand(1 - side));
    if (!second) continue;
    return weighted(*first, *second);
  }
  return std::nullopt;
}

ExpertChoice::Found ExpertChoice::from_selection(const Node& node) {
  if (!is_zero(node.operand(2))) return std::nullopt;
  const Found mask = describe(node.operand(0));
  const Found weight = describe(node.operand(1));
  if (!mask || !weight) return std::nullopt;
  return weighted(*mask, *weight);
}

ExpertChoice::Found ExpertChoice::from_scatter(const Node& node) {
  const auto rank = static_cast<std::int64_t>(tokens_.size()) + 1;
  const std::string& reduction = node.attributes().text("reduction");
  if (node.attributes().integer("axis") != rank - 1 || !is_zero(node.operand(0))) {
    return std::nullopt;
  }
  if (reduction != "none" && reduction != "add") return std::nullopt;
  Shape shape = tokens_;
  shape.emplace_back(experts_);
  const Found indices = describe(node.operand(1));
  const Found weight = describe(node.operand(2));
  if (node.result()->shape() != shape || !indices || !weight) return std::nullopt;
  if (indices->kind != Kind::Indices || weight->kind != Kind::Weight) return std::nullopt;
  if (indices->axes != weight->axes || node.operand(1)->shape() != indices_->shape()) {
    return std::nullopt;
  }
  Chosen share = *weight;
  share.kind = Kind::Share;
  share.axes.back() = kExpertAxis;
  return share;
}

ExpertChoice::Found ExpertChoice::from_sum(const Node& node) {
  const Found chosen = describe(node.operand(0));
  if (!chosen || !node.attributes().has("axes")) return std::nullopt;
  const bool is_mask = chosen->kind == Kind::Mask;
  const bool is_share = chosen->kind == Kind::Share;
  const bool is_sum = (chosen->kind == Kind::Weighted || is_share) && node.op() == "reduce_sum";
  if (!is_mask && !is_sum) return std::nullopt;
  const Ints& axes = node.attributes().ints("axes");
  if (axes.size() != 1) return std::nullopt;
  const std::int64_t axis = axes[0] < 0 ? axes[0] + node.operand(0)->rank() : axes[0];
  // Of the only choice the sum has one element.
  const bool is_one = is_share && node.operand(0)->shape()[at(axis)] == Dim(1);
  if (chosen->axes[at(axis)] != kSlotAxis && !is_one) return std::nullopt;
  Chosen result = *chosen;
  if (is_sum) result.kind = Kind::Share;
  if (node.attributes().integer("keepdims", 1) != 0) {
    result.axes[at(axis)] = kNoAxis;
  } else {
    result.axes.erase(result.axes.begin() + axis);
  }
  return result;
}

ExpertChoice::Found ExpertChoice::from_cast(const Node& node) {
  Found chosen = describe(node.operand(0));
  if (!chosen) return std::nullopt;
  const DType to = node.result()->dtype();
  if (chosen->kind == Kind::Mask) return chosen;  // 0 and 1 are in every dtype
  if (chosen->kind == Kind::Indices) {
    const bool holds = to == DType::I64 || to == DType::I32;
    return holds ? chosen : std::nullopt;
  }
  if (!is_float(to)) return std::nullopt;
  // A weight that was cast is a weight of its own as long as nothing else came of it.
  if (chosen->kind == Kind::Weight && node.result()->shape() == indices_->shape()) {
    return as_weight(node.result());
  }
  chosen->steps.push_back({"cast", nullptr, to});
  return chosen;
}

ExpertChoice::Found ExpertChoice::from_view(const Node& node) {
  Found chosen = describe(node.operand(0));
  if (!chosen) return std::nullopt;
  const Shape& from = node.operand(0)->shape();
  const Shape& to = node.result()->shape();
  std::vector<int> axes;
  if (node.op() == "transpose") {
    for (const std::int64_t axis : node.attributes().ints("permutation")) {
      axes.push_back(chosen->axes[at(axis)]);
    }
  } else if (node.op() == "expand") {
    axes.assign(to.size() - from.size(), kNoAxis);
    axes.insert(axes.end(), chosen->axes.begin(), chosen->axes.end());
  } else {
    // Axes of one element come and go.
    std::size_t next = 0;
    for (const Dim& size : to) {
      while (size != Dim(1) && next < from.size() && from[next] == Dim(1)) ++next;
      if (next < from.size() && from[next] == size) {
        axes.push_back(chosen->axes[next++]);
      } else if (size == Dim(1)) {
        axes.push_back(kNoAxis);
      } else {
        return std::nullopt;
      }
    }
    while (next < from.size() && from[next] == Dim(1)) ++next;
    if (next != from.size()) return std::nullopt;
  }
  chosen->axes = std::move(axes);
  return chosen;
}

// One expert of all; its axis stays.
ExpertChoice::Found ExpertChoice::from_slice(const Node& node) {
  Found chosen = describe(node.operand(0));
  if (!chosen) return std::nullopt;
  const Shape& starts = node.attributes().shape("starts");
  const Shape& sizes = node.attributes().shape("sizes");
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const bool is_whole =
        sizes[axis] == node.operand(0)->shape()[axis] && node.attributes().ints("steps")[axis] == 1;
    if (is_whole) continue;
    const auto start = starts[axis].constant();
    if (chosen->axes[axis] != kExpertAxis || sizes[axis] != Dim(1) || !start) return std::nullopt;
    chosen->expert = *start;
    chosen->axes[axis] = kNoAxis;
  }
  return chosen;
}

// The same by a number.
ExpertChoice::Found ExpertChoice::from_gather(const Node& node) {
  Found chosen = describe(node.operand(0));
  const auto number = scalar_constant(node.operand(1));
  const std::int64_t axis = node.attributes().integer("axis");
  if (!chosen || !number || chosen->axes[at(axis)] != kExpertAxis) return std::nullopt;
  const auto expert = static_cast<std::int64_t>(*number);
  chosen->expert = expert < 0 ? expert + experts_ : expert;
  const auto place = chosen->axes.erase(chosen->axes.begin() + axis);
  chosen->axes.insert(place, at(node.operand(1)->rank()), kNoAxis);
  return chosen;
}

}  // namespace opweld
