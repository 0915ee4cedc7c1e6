#include "ops/few_elements.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "ops/builder.h"

namespace opweld {

namespace {

bool is_few(const Dim& size) {
  const auto known = size.constant();
  return known && *known >= 1 && *known <= kFewElements;
}

// The operator that combines two elements as the reduction does; empty if there is none.
std::string_view combiner_of(const Node& node) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kCombiners = {
      {{"reduce_sum", "add"},
       {"reduce_max", "max"},
       {"reduce_max_number", "max"},
       {"reduce_min", "min"}}};
  const auto* const found = std::ranges::find(
      kCombiners, node.op(), &std::pair<std::string_view, std::string_view>::first);
  return found == kCombiners.end() ? std::string_view() : found->second;
}

// The one axis that the node combines elements along.
std::optional<std::int64_t> combined_axis(const Node& node) {
  if (combiner_of(node).empty() || !node.attributes().has("axes")) return std::nullopt;
  const Ints& axes = node.attributes().ints("axes");
  if (axes.size() != 1) return std::nullopt;
  return axes[0] < 0 ? axes[0] + node.operand(0)->rank() : axes[0];
}

bool combines_few_columns(const Node& node) {
  const auto axis = combined_axis(node);
  return axis && *axis + 1 == node.operand(0)->rank() && is_few(node.operand(0)->shape().back());
}

// ---- a choice as reductions ----

// The least number of the dtype.
Tensor least_number(DType dtype) {
  Tensor tensor = Tensor::allocate(dtype, {}).value();
  if (is_float(dtype)) {
    tensor.set_double(0, -std::numeric_limits<double>::infinity());
  } else {
    const int bits = 8 * static_cast<int>(byte_size(dtype));
    const bool has_sign = dtype != DType::U8;
    tensor.set_int(0, has_sign ? std::numeric_limits<std::int64_t>::min() >> (64 - bits) : 0);
  }
  return tensor;
}

class Choices {
 public:
  Choices(Graph& graph, Node& top_k)
      : b_(graph, &top_k, top_k.source()),
        x_(top_k.operand(0)),
        last_(x_->rank() - 1),
        count_(*top_k.result()->shape().back().constant()) {}

  // Values and indices, in place of those of the top_k.
  Expected<std::array<Value*, 2>> build() {
    least_ = b_.constant(least_number(x_->dtype()));
    Tensor past = Tensor::allocate(DType::I64, {}).value();
    past.set_int(0, std::numeric_limits<std::int64_t>::max());
    past_ = b_.constant(std::move(past));
    positions_ = b_.op(
        "iota", {},
        {{"shape", Shape{x_->shape().back()}}, {"axis", std::int64_t{0}}, {"dtype", DType::I64}});
    std::vector<Value*> values;
    std::vector<Value*> indices;
    for (std::int64_t choice = 0; choice < count_; ++choice) {
      Value* const rest = taken_ == nullptr ? x_ : b_.op("select", {taken_, least_, x_});
      values.push_back(reduce("reduce_max", rest));
      indices.push_back(index_of(rest, values.back()));
      OPWELD_CHECK(b_.status());
      Value* const here = b_.binary("eq", positions_, indices.back());
      taken_ = taken_ == nullptr ? here : b_.binary("or", taken_, here);
    }
    const std::array<Value*, 2> results = {beside(values), beside(indices)};
    OPWELD_CHECK(b_.status());
    return results;
  }

 private:
  Value* reduce(std::string_view op, Value* x) {
    return b_.op(op, {x}, {{"axes", Ints{last_}}, {"keepdims", std::int64_t{1}}});
  }

  // Where all that is left is the least number, it is equal to what stands for those taken.
  Value* index_of(Value* rest, Value* value) {
    Value* const greatest =
        b_.op("argmax", {rest}, {{"axis", last_}, {"keepdims", std::int64_t{1}}});
    if (taken_ == nullptr) return greatest;
    Value* const first = reduce("reduce_min", b_.op("select", {taken_, past_, positions_}));
    return b_.op("select", {b_.binary("eq", value, least_), first, greatest});
  }

  Value* beside(const std::vector<Value*>& columns) {
    return columns.size() == 1 ? columns.front() : b_.op("concat", columns, {{"axis", last_}});
  }

  Builder b_;
  Value* x_;
  std::int64_t last_;
  std::int64_t count_;
  Value* least_ = nullptr;      // of the dtype
  Value* past_ = nullptr;       // more than any position
  Value* positions_ = nullptr;  // along the last axis
  Value* taken_ = nullptr;      // whether a position was chosen; null: none was
};

Status expand_choice(Graph& group, Node& top_k) {
  OPWELD_TRY(const auto replacements, Choices(group, top_k).build());
  for (int i = 0; i < 2; ++i) {
    group.replace_all_uses(top_k.result(i), replacements[static_cast<std::size_t>(i)]);
  }
  group.erase(&top_k);
  return {};
}

// ---- a few elements, one by one ----

class Combination {
 public:
  Combination(Graph& graph, Node& node)
      : b_(graph, &node, node.source()),
        node_(node),
        x_(node.operand(0)),
        axis_(static_cast<std::size_t>(*combined_axis(node))) {}

  Expected<Value*> build() {
    const bool is_last = axis_ + 1 == x_->shape().size();
    std::vector<Value*> elements;
    for (std::int64_t i = 0; i < *x_->shape()[axis_].constant(); ++i) {
      elements.push_back(element(i));
    }
    OPWELD_CHECK(b_.status());
    Value* const total = is_last ? by_halves(std::move(elements)) : one_by_one(elements);
    // As the model declares it: in between nothing is rounded.
    Value* const result = b_.cast(total, node_.result()->dtype());
    OPWELD_CHECK(b_.status());
    return result;
  }

 private:
  Value* element(std::int64_t i) {
    Shape starts(x_->shape().size(), Dim(0));
    Shape sizes = x_->shape();
    starts[axis_] = i;
    sizes[axis_] = 1;
    Value* const slice = b_.op(
        "slice", {x_}, {{"starts", starts}, {"sizes", sizes}, {"steps", Ints(starts.size(), 1)}});
    Value* const here = slice == nullptr ? nullptr : b_.reshape(slice, node_.result()->shape());
    if (here == nullptr) return nullptr;  // an error that status() has
    const bool half = here->dtype() == DType::F16 || here->dtype() == DType::BF16;
    Value* const number = half ? b_.cast(here, DType::F32) : here;
    return node_.op() == "reduce_max_number" ? less_where_nan(number) : number;
  }

  // -inf where the element is NaN, which then no maximum is.
  Value* less_where_nan(Value* x) {
    Value* const least = b_.constant(least_number(x->dtype()));
    Value* const is_more = b_.binary("gt", x, least);
    return is_more == nullptr ? nullptr : b_.op("select", {is_more, x, least});
  }

  Value* combined(Value* a, Value* b) { return b_.binary(combiner_of(node_), a, b); }

  Value* one_by_one(const std::vector<Value*>& elements) {
    Value* total = elements.front();
    for (std::size_t i = 1; i < elements.size(); ++i) total = combined(total, elements[i]);
    return total;
  }

  // In the order in which the lanes of a reduction over so few columns are combined, from where it
  // starts: zero for a sum, which makes -0.0 a zero.
  Value* by_halves(std::vector<Value*> lanes) {
    if (combiner_of(node_) == "add" && lanes.front() != nullptr) {
      Value* const zero = b_.scalar(0, lanes.front()->dtype());
      for (Value*& lane : lanes) lane = combined(zero, lane);
    }
    for (std::size_t half = kFewElements / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half && lane + half < lanes.size(); ++lane) {
        lanes[lane] = combined(lanes[lane], lanes[lane + half]);
      }
      lanes.resize(std::min(lanes.size(), half));
    }
    return lanes.front();
  }

  Builder b_;
  const Node& node_;
  Value* x_;
  std::size_t axis_;
};

// Nodes that something of a choice reaches.
std::set<const Node*> behind_choices(const Graph& group) {
  std::set<const Node*> behind;
  for (const auto& node : group.nodes()) {
    const bool follows = std::ranges::any_of(node->operands(), [&](const Value* operand) {
      const Node* const made_by = operand == nullptr ? nullptr : operand->producer();
      return made_by != nullptr && (behind.contains(made_by) || chooses_few(*made_by));
    });
    if (follows) behind.insert(node.get());
  }
  return behind;
}

}  // namespace

bool chooses_few(const Node& node) {
  return node.op() == "top_k" && node.attributes().integer("largest", 1) != 0 &&
         node.operand(0)->rank() >= 1 &&
         node.attributes().integer("axis") + 1 == node.operand(0)->rank() &&
         is_few(node.result()->shape().back());
}

std::optional<std::int64_t> combines_few(const Node& node) {
  const auto axis = combined_axis(node);
  if (!axis || *axis + 1 >= node.operand(0)->rank()) return std::nullopt;
  const Dim& size = node.operand(0)->shape()[static_cast<std::size_t>(*axis)];
  return is_few(size) ? size.constant() : std::nullopt;
}

Status expand_few_elements(Graph& group) {
  const std::set<const Node*> behind = behind_choices(group);
  for (Node* node : group.nodes_in_order()) {
    if (chooses_few(*node)) {
      OPWELD_CHECK(expand_choice(group, *node));
    } else if (combines_few(*node) || (behind.contains(node) && combines_few_columns(*node))) {
      OPWELD_TRY(Value* const total, Combination(group, *node).build());
      group.replace_all_uses(node->result(), total);
      group.erase(node);
    }
  }
  return {};
}

}  // namespace opweld
