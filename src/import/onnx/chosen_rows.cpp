#include "import/onnx/chosen_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <ranges>

#include "import/onnx/node_context.h"
#include "import/onnx/picked_index.h"
#include "ops/builder.h"
#include "ops/op.h"

namespace opweld {

namespace {

constexpr std::string_view kCountPrefix = "nonzero ";

std::size_t at(int axis) {
  return static_cast<std::size_t>(axis);
}

// A value that has a row for each place found, as what it is for all tokens.
struct Rows {
  Value* dense = nullptr;  // the value's shape, with tokens for the rows
  bool by_slot = false;    // with the slots as a first axis of its own
  int axis = 0;            // of the rows, in the value
};

Shape inserted(Shape shape, const Dim& first) {
  shape.insert(shape.begin(), first);
  return shape;
}

class ChosenRows {
 public:
  ChosenRows(Graph& graph, Node& nonzero)
      : graph_(graph),
        nonzero_(nonzero),
        count_(nonzero.attributes().shape("count")[0]),
        picked_(nonzero, count_) {}

  Status run() {
    const int rank = nonzero_.operand(0)->rank();
    if (rank > 2) return fail("its operand has rank {}, not 1 or 2", rank);
    const std::vector<Node*> order = graph_.nodes_in_order();
    for (Node* node : order) picked_.take(*node);
    OPWELD_CHECK(find_token_axis(order));
    for (Node* node : order) {
      if (reads_rows(*node)) OPWELD_CHECK(take(*node));
    }
    return sweep(order);
  }

 private:
  [[nodiscard]] Status refuse(const Node& node, std::string_view why) const {
    return fail("{} '{}', which reads what it picked, {}", node.op(), node.display_name(), why);
  }

  // ---- the mask ----

  [[nodiscard]] const Dim& tokens() const { return nonzero_.operand(0)->shape()[at(token_axis_)]; }
  [[nodiscard]] bool has_slots() const { return nonzero_.operand(0)->rank() == 2; }
  [[nodiscard]] Dim slots() const {
    return has_slots() ? nonzero_.operand(0)->shape()[at(1 - token_axis_)] : Dim(1);
  }

  // The axis of the mask whose index says where rows go.
  Status find_token_axis(std::span<Node* const> order) {
    std::optional<int> found;
    for (const Node* node : order) {
      if (node->op() != "scatter_elements" && node->op() != "scatter_nd") continue;
      const auto axis = picked_.coordinate(node->operand(1));
      if (!axis) continue;
      if (found && *found != *axis) return refuse(*node, "puts rows along another axis");
      found = axis;
    }
    if (!found) return fail("what it picks is never put back where it came from");
    token_axis_ = *found;
    return {};
  }

  // bool [slots, tokens], or [tokens].
  Value* mask(Builder& build) {
    Value* const chosen = build.cast(nonzero_.operand(0), DType::Bool);
    return has_slots() && token_axis_ == 0 ? build.transpose(chosen, {1, 0}) : chosen;
  }

  // ---- values with rows ----

  [[nodiscard]] bool reads_rows(const Node& node) const {
    return std::ranges::any_of(node.operands(), [&](const Value* operand) {
      return operand != nullptr && (rows_.contains(operand) || picked_.knows(operand));
    });
  }

  [[nodiscard]] const Rows* rows_of(const Value* value) const {
    const auto found = rows_.find(value);
    return found == rows_.end() ? nullptr : &found->second;
  }

  [[nodiscard]] Shape dense(const Shape& shape) const {
    const std::map<std::string, Dim, std::less<>> tokens_for_rows = {
        {count_.as_symbol()->name, tokens()}};
    Shape result;
    for (const Dim& size : shape) result.push_back(size.substitute(tokens_for_rows));
    return result;
  }

  [[nodiscard]] int rows_axis(const Shape& shape) const {
    const auto found = std::ranges::find(shape, count_);
    const bool once =
        found != shape.end() && std::find(found + 1, shape.end(), count_) == shape.end();
    return once ? static_cast<int>(found - shape.begin()) : -1;
  }

  Status take(Node& node) {
    if (std::ranges::all_of(std::views::iota(0, node.num_results()),
                            [&](int i) { return picked_.knows(node.result(i)); })) {
      return {};
    }
    const std::string& op = node.op();
    Builder build(graph_, &node, node.source());
    if (op == "gather") return take_gather(node, build);
    if (op == "gather_nd") return take_gather_nd(node, build);
    if (op == "scatter_elements") return take_scatter_elements(node, build);
    if (op == "scatter_nd") return take_scatter_nd(node, build);
    for (const Value* operand : node.operands()) {
      if (operand != nullptr && picked_.knows(operand)) {
        return refuse(node, "computes with the places themselves");
      }
    }
    const bool is_pointwise = op_def(node).trait == FusionTrait::Pointwise;
    if (is_pointwise || op == "gelu" || op == "matmul") return take_row_by_row(node, build);
    if (op == "reshape" || op == "expand") return take_shaped(node, build);
    if (op == "transpose" || op == "slice") return take_moved(node, build);
    return refuse(node, "may mix its rows");
  }

  Status keep(const Node& node, Builder& build, Value* dense, bool by_slot, int axis) {
    OPWELD_CHECK(build.status());
    rows_[node.result()] = {dense, by_slot, axis};
    return {};
  }

  // ---- where rows begin ----

  // data [before.., tokens or both, after..] becomes [slots, before.., tokens, after..] in `shape`.
  Value* slots_first(Builder& build, Value* data, const Shape& before, const Shape& after,
                     bool tokens_first, const Shape& shape) {
    Shape apart = before;
    apart.push_back(tokens_first ? tokens() : slots());
    apart.push_back(tokens_first ? slots() : tokens());
    apart.insert(apart.end(), after.begin(), after.end());
    Ints permutation(apart.size());
    std::iota(permutation.begin(), permutation.end(), 0);
    const auto slot = static_cast<std::ptrdiff_t>(before.size()) + (tokens_first ? 1 : 0);
    std::rotate(permutation.begin(), permutation.begin() + slot, permutation.begin() + slot + 1);
    return build.reshape(build.transpose(build.reshape(data, apart), permutation),
                         inserted(shape, slots()));
  }

  Status take_gather(Node& node, Builder& build) {
    Value* const data = node.operand(0);
    const PickedIndex* const index = picked_.index(node.operand(1));
    if (index == nullptr || reads_picked(data)) return refuse(node, "picks among rows");
    const auto axis = static_cast<int>(node.attributes().integer("axis"));
    const Shape& sizes = data->shape();
    const Shape shape = dense(node.result()->shape());
    const int rows = rows_axis(node.result()->shape());
    if (rows < 0) return refuse(node, "repeats its rows");
    const Dim& size = sizes[at(axis)];
    if (index->is_coordinate(token_axis_) && size == tokens()) {
      return keep(node, build, build.reshape(data, shape), false, rows);
    }
    if (!has_slots()) return refuse(node, "picks other rows");
    const bool tokens_first = index->is_pair(token_axis_, slots());
    if (size != tokens() * slots() ||
        (!tokens_first && !index->is_pair(1 - token_axis_, tokens()))) {
      return refuse(node, "picks other rows");
    }
    Value* const apart = slots_first(build, data, {sizes.begin(), sizes.begin() + axis},
                                     {sizes.begin() + axis + 1, sizes.end()}, tokens_first, shape);
    return keep(node, build, apart, true, rows);
  }

  Status take_gather_nd(Node& node, Builder& build) {
    Value* const data = node.operand(0);
    const auto coordinates = picked_.coordinates(node.operand(1));
    if (coordinates.empty() || reads_picked(data) ||
        node.attributes().integer("batch_dims", 0) != 0 ||
        coordinates.size() > data->shape().size()) {
      return refuse(node, "picks other rows");
    }
    const Shape& sizes = data->shape();
    const Shape shape = dense(node.result()->shape());
    const auto after = sizes.begin() + static_cast<std::ptrdiff_t>(coordinates.size());
    for (std::size_t i = 0; i < coordinates.size(); ++i) {
      if (sizes[i] != (coordinates[i] == token_axis_ ? tokens() : slots())) {
        return refuse(node, "picks other rows");
      }
    }
    if (coordinates == std::vector<int>{token_axis_}) {
      return keep(node, build, build.reshape(data, shape), false, 0);
    }
    if (coordinates.size() != 2 || coordinates[0] == coordinates[1]) {
      return refuse(node, "picks other rows");
    }
    Value* const apart =
        slots_first(build, data, {}, {after, sizes.end()}, coordinates[0] == token_axis_, shape);
    return keep(node, build, apart, true, 0);
  }

  [[nodiscard]] bool reads_picked(const Value* value) const {
    return rows_.contains(value) || picked_.knows(value);
  }

  // ---- what is computed with them ----

  // Pointwise operators, and products by a matrix that is the same for all rows.
  Status take_row_by_row(Node& node, Builder& build) {
    const int rank = node.result()->rank();
    const int axis = rows_axis(node.result()->shape());
    if (axis < 0) return refuse(node, "mixes its rows");
    const bool is_matmul = node.op() == "matmul";
    if (is_matmul && (rows_.contains(node.operand(1)) || axis == rank - 1)) {
      return refuse(node, "mixes its rows");
    }
    bool by_slot = false;
    for (const Value* operand : node.operands()) {
      const Rows* const rows = operand != nullptr ? rows_of(operand) : nullptr;
      if (rows == nullptr) continue;
      if (rows->axis - operand->rank() != axis - rank) return refuse(node, "mixes its rows");
      by_slot |= rows->by_slot;
    }
    if (is_matmul && node.operand(1)->rank() > 2) return refuse(node, "has a matrix for each row");
    std::vector<Value*> operands;
    for (Value* operand : node.operands()) {
      const Rows* const rows = operand != nullptr ? rows_of(operand) : nullptr;
      if (rows == nullptr) {
        operands.push_back(operand);
        continue;
      }
      Value* all = rows->dense;
      if (rows->by_slot && operand->rank() < rank && !is_matmul) {
        Shape shape(at(rank - operand->rank()), Dim(1));
        const Shape own(all->shape().begin() + 1, all->shape().end());
        shape.insert(shape.end(), own.begin(), own.end());
        all = build.reshape(all, inserted(std::move(shape), slots()));
      }
      operands.push_back(all);
    }
    return keep(node, build, build.op(node.op(), std::move(operands), node.attributes()), by_slot,
                axis);
  }

  Status take_shaped(Node& node, Builder& build) {
    const Rows& rows = *rows_of(node.operand(0));
    const Shape& before = node.operand(0)->shape();
    const Shape& shape = node.result()->shape();
    const int axis = rows_axis(shape);
    const bool is_reshape = node.op() == "reshape";
    const auto from_last = [](const Shape& sizes, int rows_at) {
      return static_cast<int>(sizes.size()) - rows_at;
    };
    if (axis < 0 ||
        (is_reshape && product(before, 0, at(rows.axis)) != product(shape, 0, at(axis))) ||
        (!is_reshape && from_last(before, rows.axis) != from_last(shape, axis))) {
      return refuse(node, "mixes its rows");
    }
    Shape wanted = dense(shape);
    Value* all = rows.dense;
    if (rows.by_slot) {
      if (!is_reshape) {
        Shape own(shape.size() - before.size(), Dim(1));
        own.insert(own.end(), all->shape().begin() + 1, all->shape().end());
        all = build.reshape(all, inserted(std::move(own), slots()));
      }
      wanted = inserted(std::move(wanted), slots());
    }
    Value* const shaped = is_reshape ? build.reshape(all, wanted) : build.expand(all, wanted);
    return keep(node, build, shaped, rows.by_slot, axis);
  }

  Status take_moved(Node& node, Builder& build) {
    const Rows& rows = *rows_of(node.operand(0));
    Attributes attributes = node.attributes();
    int axis = rows.axis;
    if (node.op() == "transpose") {
      Ints permutation = attributes.ints("permutation");
      axis = static_cast<int>(std::ranges::find(permutation, rows.axis) - permutation.begin());
      if (rows.by_slot) {
        for (std::int64_t& from : permutation) ++from;
        permutation.insert(permutation.begin(), 0);
      }
      attributes.set("permutation", permutation);
    } else {
      Shape starts = attributes.shape("starts");
      Ints steps = attributes.ints("steps");
      Shape sizes = attributes.shape("sizes");
      if (sizes[at(axis)] != count_ || steps[at(axis)] != 1) return refuse(node, "leaves rows out");
      sizes = dense(sizes);
      if (rows.by_slot) {
        starts = inserted(std::move(starts), 0);
        sizes = inserted(std::move(sizes), slots());
        steps.insert(steps.begin(), 1);
      }
      attributes.set("starts", starts);
      attributes.set("sizes", sizes);
      attributes.set("steps", steps);
    }
    return keep(node, build, build.op(node.op(), {rows.dense}, attributes), rows.by_slot, axis);
  }

  // ---- where rows end ----

  Status take_scatter_elements(Node& node, Builder& build) {
    const auto axis = static_cast<int>(node.attributes().integer("axis"));
    const PickedIndex* const index = picked_.index(node.operand(1));
    if (index == nullptr || !index->is_coordinate(token_axis_) || index->axis != axis) {
      return refuse(node, "puts rows elsewhere");
    }
    return take_scatter(node, build, axis);
  }

  Status take_scatter_nd(Node& node, Builder& build) {
    if (picked_.coordinates(node.operand(1)) != std::vector<int>{token_axis_}) {
      return refuse(node, "puts rows elsewhere");
    }
    return take_scatter(node, build, 0);
  }

  Status take_scatter(Node& node, Builder& build, int axis) {
    Value* const base = node.operand(0);
    const Value* const updates = node.operand(2);
    const Rows* const rows = rows_of(updates);
    const std::string& reduction = node.attributes().text("reduction");
    if (reads_picked(base) || rows == nullptr || rows->axis != axis) {
      return refuse(node, "puts rows elsewhere");
    }
    if (reduction != "none" && reduction != "add") return refuse(node, "combines rows");
    if (dense(updates->shape()) != base->shape()) return refuse(node, "writes a part of each row");
    Shape spread(at(base->rank()), Dim(1));
    spread[at(axis)] = tokens();
    if (has_slots()) spread = inserted(std::move(spread), slots());
    Value* const chosen = build.reshape(mask(build), spread);
    Value* added = build.op("select", {chosen, rows->dense, build.scalar(0, base->dtype())});
    const Attributes over_slots = {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}};
    if (has_slots()) added = build.op("reduce_sum", {added}, over_slots);
    if (reduction == "add") {
      added = build.binary("add", base, added);
    } else if (!is_zero(base)) {
      // Places that nothing is written to keep what they had.
      Value* any = chosen;
      if (has_slots()) {
        Value* const times = build.op("reduce_sum", {build.cast(chosen, DType::I64)}, over_slots);
        any = build.binary("gt", times, build.scalar(0, DType::I64));
      }
      added = build.op("select", {any, added, base});
    }
    OPWELD_CHECK(build.status());
    if (added->name().empty()) added->set_name(node.result()->name());
    graph_.replace_all_uses(node.result(), added);
    return {};
  }

  static bool is_zero(const Value* value) {
    const Node* const node = value->producer();
    if (node == nullptr) return false;
    if (node->op() == "expand" || node->op() == "reshape") return is_zero(node->operand(0));
    if (node->op() != "constant") return false;
    const Tensor& tensor = node->attributes().tensor("value");
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      const bool zero =
          is_float(tensor.dtype()) ? tensor.get_double(i) == 0 : tensor.get_int(i) == 0;
      if (!zero) return false;
    }
    return true;
  }

  // ---- what is left ----

  // Takes away what nothing reads any more, and makes sure that nothing is left that has rows.
  Status sweep(std::span<Node* const> order) {
    const auto is_unread = [](const Node& node) {
      for (int i = 0; i < node.num_results(); ++i) {
        const Value* const result = node.result(i);
        if (!result->uses().empty() || result->is_graph_output()) return false;
      }
      return true;
    };
    for (std::size_t i = order.size(); i-- > 0;) {
      Node* const node = order[i];
      if (!mentions_count(*node)) continue;
      if (!is_unread(*node)) return refuse(*node, "gives it to what is not put back");
      graph_.erase(node);
    }
    for (const SizeAssumption& assumed : graph_.assumptions()) {
      if (!mentions_count(assumed.left) && !mentions_count(assumed.right)) continue;
      return fail("the number of places would have to be known: {}", assumed.reason);
    }
    return {};
  }

  [[nodiscard]] bool mentions_count(const Dim& size) const {
    std::vector<std::shared_ptr<const SymbolInfo>> symbols;
    size.collect_symbols(symbols);
    return std::ranges::any_of(
        symbols, [&](const auto& symbol) { return symbol->name == count_.as_symbol()->name; });
  }

  [[nodiscard]] bool mentions_count(const Node& node) const {
    const auto in = [&](const Shape& shape) {
      return std::ranges::any_of(shape, [&](const Dim& size) { return mentions_count(size); });
    };
    for (const auto& [name, attribute] : node.attributes()) {
      const Shape* const shape = std::get_if<Shape>(&attribute);
      if (shape != nullptr && in(*shape)) return true;
    }
    for (int i = 0; i < node.num_results(); ++i) {
      const Value* const result = node.result(i);
      if (in(result->shape()) || (result->contents() && in(*result->contents()))) return true;
    }
    // A scatter has taken rows in, and shows none.
    return std::ranges::any_of(node.operands(), [&](const Value* operand) {
      return operand != nullptr && in(operand->shape());
    });
  }

  Graph& graph_;
  Node& nonzero_;
  Dim count_;
  PickedIndices picked_;
  int token_axis_ = 0;
  std::map<const Value*, Rows> rows_;
};

}  // namespace

Dim nonzero_count(std::size_t index) {
  return Dim::symbol(fmt::format("{}{}", kCountPrefix, index));
}

bool is_nonzero_count(const Dim& size) {
  const auto symbol = size.as_symbol();
  return symbol != nullptr && symbol->name.starts_with(kCountPrefix);
}

Status compute_chosen_rows(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    if (node->op() != "nonzero") continue;
    // What it belongs to has perhaps been swept with another.
    const std::string name = node->display_name();
    if (auto done = ChosenRows(graph, *node).run(); !done) {
      return fail("NonZero '{}': the shape of its result depends on the data, and {}", name,
                  done.error().message);
    }
  }
  return {};
}

}  // namespace opweld
