#include "rewrite/raise/rope.h"

#include <algorithm>
#include <optional>

#include "ops/builder.h"
#include "rewrite/dce.h"
#include "rewrite/match.h"
#include "rewrite/raise/rotary_angles.h"

namespace opweld {

namespace {

// ---- the parts of a head ----

// One element of every pair of x: the first ones or the second ones.
struct Part {
  Value* x = nullptr;
  bool is_second = false;
  RotaryLayout layout = RotaryLayout::Halves;
  std::vector<Node*> nodes;
};

// Whether the slice takes everything but along the last axis.
bool slices_last_axis_only(const Node& slice) {
  const Shape& from = slice.operand(0)->shape();
  for (std::size_t axis = 0; axis + 1 < from.size(); ++axis) {
    if (slice.result()->shape()[axis] != from[axis]) return false;
    if (slice.attributes().ints("steps")[axis] != 1) return false;
  }
  return !from.empty();
}

// Which of the two elements of the last axis of its operand the node takes.
std::optional<std::int64_t> taken_of_two(const Node& node) {
  const Value* const from = node.operand(0);
  if (from->rank() == 0 || from->shape().back() != Dim(2)) return std::nullopt;
  if (node.op() == "slice") {
    const bool one = slices_last_axis_only(node) && node.result()->shape().back() == Dim(1);
    return one ? node.attributes().shape("starts").back().constant() : std::nullopt;
  }
  const auto index = node.op() == "gather" ? scalar_constant(node.operand(1)) : std::nullopt;
  if (!index || node.attributes().integer("axis") != from->rank() - 1) return std::nullopt;
  return static_cast<std::int64_t>(*index < 0 ? *index + 2 : *index);
}

// x [..., 2 P], of which the value is [..., P, 2].
Value* unpaired(const Value* value) {
  const Node* const node = made_by(value, "reshape");
  if (node == nullptr || value->rank() < 2) return nullptr;
  if (value->rank() != node->operand(0)->rank() + 1) return nullptr;
  Shape joined = value->shape();
  joined.pop_back();
  joined.back() *= 2;
  return node->operand(0)->shape() == joined ? node->operand(0) : nullptr;
}

// From pairs: x as [..., P, 2], one element of each taken, perhaps reshaped to [..., P].
std::optional<Part> match_part_of_pairs(Node& last) {
  Part part{.layout = RotaryLayout::Interleaved, .nodes = {&last}};
  Node* taking = &last;
  if (last.op() == "reshape") {
    taking = last.operand(0)->producer();
    if (taking == nullptr) return std::nullopt;
    part.nodes.push_back(taking);
  }
  if (taking->op() != "slice" && taking->op() != "gather") return std::nullopt;
  const auto taken = taken_of_two(*taking);
  part.x = taken ? unpaired(taking->operand(0)) : nullptr;
  if (part.x == nullptr || *taken < 0 || *taken > 1) return std::nullopt;
  part.is_second = *taken == 1;
  Shape shape = part.x->shape();
  shape.back() = floor_div(shape.back(), 2);
  return last.result()->shape() == shape ? std::optional(part) : std::nullopt;
}

std::optional<Part> match_part(const Value* value) {
  Node* const node = value->producer();
  if (node == nullptr || value->rank() == 0) return std::nullopt;
  if (node->op() != "slice" || node->operand(0)->shape().back() == Dim(2)) {
    if (auto part = match_part_of_pairs(*node)) return part;
  }
  if (node->op() != "slice" || !slices_last_axis_only(*node)) return std::nullopt;
  Part part{.x = node->operand(0), .nodes = {node}};
  const Dim pairs = value->shape().back();
  if (pairs * 2 != part.x->shape().back()) return std::nullopt;
  const Dim start = node->attributes().shape("starts").back();
  const std::int64_t step = node->attributes().ints("steps").back();
  if (step == 1) {
    part.is_second = start == pairs;
    return part.is_second || start == Dim(0) ? std::optional(part) : std::nullopt;
  }
  part.layout = RotaryLayout::Interleaved;
  part.is_second = start == Dim(1);
  return step == 2 && (part.is_second || start == Dim(0)) ? std::optional(part) : std::nullopt;
}

// first and second, put together again as a head: concatenated, or woven by way of [..., P, 2].
struct Woven {
  Value* first = nullptr;
  Value* second = nullptr;
  RotaryLayout layout = RotaryLayout::Halves;
  std::vector<Node*> nodes;
};

bool joins_two_along_last_axis(const Node* node) {
  return node != nullptr && node->op() == "concat" && node->num_operands() == 2 &&
         node->attributes().integer("axis") == node->result()->rank() - 1;
}

// [..., P], of which the value is [..., P, 1].
Value* without_column(const Value* value, std::vector<Node*>& nodes) {
  Node* const node = made_by(value, "reshape");
  if (node == nullptr) return nullptr;
  Shape column = node->operand(0)->shape();
  column.push_back(1);
  nodes.push_back(node);
  return value->shape() == column ? node->operand(0) : nullptr;
}

std::optional<Woven> match_woven(const Value* value) {
  Node* const node = value->producer();
  if (joins_two_along_last_axis(node)) {
    return Woven{node->operand(0), node->operand(1), RotaryLayout::Halves, {node}};
  }
  if (node == nullptr || node->op() != "reshape") return std::nullopt;
  Node* const joined = node->operand(0)->producer();
  if (!joins_two_along_last_axis(joined) || joined->result()->shape().back() != Dim(2)) {
    return std::nullopt;
  }
  Woven woven{.layout = RotaryLayout::Interleaved, .nodes = {node, joined}};
  woven.first = without_column(joined->operand(0), woven.nodes);
  woven.second = without_column(joined->operand(1), woven.nodes);
  if (woven.first == nullptr || woven.second == nullptr) return std::nullopt;
  if (woven.first->rank() == 0) return std::nullopt;
  Shape shape = woven.first->shape();
  shape.back() *= 2;
  return value->shape() == shape ? std::optional(woven) : std::nullopt;
}

// ---- the turn ----

struct Turn {
  Node* root = nullptr;
  Value* x = nullptr;
  Value* cos = nullptr;
  Value* sin = nullptr;
  RotaryLayout layout = RotaryLayout::Halves;
  bool has_angles_twice = false;
  std::vector<Node*> nodes;

  void add(const std::vector<Node*>& more) { nodes.insert(nodes.end(), more.begin(), more.end()); }
};

// x of rotated(x): the second elements negated before the first ones.
Value* rotated_operand(const Value* value, Turn& turn) {
  const auto woven = match_woven(value);
  Node* const negation = woven ? made_by(woven->first, "neg") : nullptr;
  if (negation == nullptr) return nullptr;
  const auto second = match_part(negation->operand(0));
  const auto first = match_part(woven->second);
  const bool matches = first && second && !first->is_second && second->is_second &&
                       first->x == second->x && first->layout == woven->layout &&
                       second->layout == woven->layout;
  if (!matches) return nullptr;
  turn.layout = woven->layout;
  for (const auto& nodes : {woven->nodes, first->nodes, second->nodes}) turn.add(nodes);
  turn.nodes.push_back(negation);
  return first->x;
}

// x * cos + rotated(x) * sin
std::optional<Turn> match_whole(Node& root) {
  if (root.op() != "add") return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    Node* const straight = made_by(root.operand(side), "mul");
    Node* const turned = made_by(root.operand(1 - side), "mul");
    if (straight == nullptr || turned == nullptr) return std::nullopt;
    for (int index = 0; index < 2; ++index) {
      Turn turn{.root = &root, .has_angles_twice = true, .nodes = {&root, straight, turned}};
      turn.x = rotated_operand(turned->operand(index), turn);
      turn.cos = turn.x == nullptr ? nullptr : other_operand(*straight, turn.x);
      turn.sin = turned->operand(1 - index);
      if (turn.cos != nullptr && turn.x->type() == root.result()->type()) return turn;
    }
  }
  return std::nullopt;
}

// A product of a part of x and something else.
struct Weighted {
  Part part;
  Value* weight = nullptr;
};

std::optional<Weighted> match_weighted(const Value* value) {
  Node* const product = made_by(value, "mul");
  if (product == nullptr) return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    auto part = match_part(product->operand(side));
    if (!part || part->x->shape().back() != value->shape().back() * 2) continue;
    part->nodes.push_back(product);
    return Weighted{std::move(*part), product->operand(1 - side)};
  }
  return std::nullopt;
}

// x1 * cos - x2 * sin beside x2 * cos + x1 * sin
std::optional<Turn> match_parted(Node& root) {
  const auto woven = match_woven(root.result());
  Node* const difference = woven ? made_by(woven->first, "sub") : nullptr;
  Node* const sum = woven ? made_by(woven->second, "add") : nullptr;
  if (difference == nullptr || sum == nullptr) return std::nullopt;
  auto first_cos = match_weighted(difference->operand(0));
  auto second_sin = match_weighted(difference->operand(1));
  auto one = match_weighted(sum->operand(0));
  auto other = match_weighted(sum->operand(1));
  if (!first_cos || !second_sin || !one || !other) return std::nullopt;
  if (!one->part.is_second) std::swap(one, other);
  const bool places = !first_cos->part.is_second && second_sin->part.is_second &&
                      one->part.is_second && !other->part.is_second;
  const bool angles = first_cos->weight == one->weight && second_sin->weight == other->weight;
  Turn turn{.root = &root,
            .x = first_cos->part.x,
            .cos = one->weight,
            .sin = other->weight,
            .layout = woven->layout,
            .nodes = {difference, sum}};
  turn.add(woven->nodes);
  for (const auto* each : {&first_cos, &second_sin, &one, &other}) {
    const Part& part = (*each)->part;
    if (part.x != turn.x || part.layout != turn.layout) return std::nullopt;
    turn.add(part.nodes);
  }
  const bool whole = places && angles && turn.x->type() == root.result()->type();
  return whole ? std::optional(turn) : std::nullopt;
}

// ---- what takes its place ----

class Raiser {
 public:
  explicit Raiser(Graph& graph)
      : graph_(graph),
        halves_(graph, RotaryLayout::Halves),
        interleaved_(graph, RotaryLayout::Interleaved) {}

  Status raise_at(Node& node) {
    auto turn = match_whole(node);
    if (!turn) turn = match_parted(node);
    if (!turn || turn->x->rank() != 4 || !is_closed(turn->nodes, turn->root)) return {};
    // Heads at axis 1, as the operator has them, or positions there and heads at axis 2.
    for (const bool heads_first : {true, false}) {
      Value* const cos = angles(*turn, turn->cos, heads_first);
      Value* const sin = cos == nullptr ? nullptr : angles(*turn, turn->sin, heads_first);
      if (sin != nullptr) return replace(*turn, cos, sin, heads_first);
    }
    return {};
  }

 private:
  // [B or 1, S, P] for the operator; null if the value varies from head to head, or has no known
  // pairs.
  Value* angles(const Turn& turn, Value* value, bool heads_first) {
    const Shape& x = turn.x->shape();
    Shape shape = value->shape();
    if (shape.size() > 4) return nullptr;
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    const std::size_t heads = heads_first ? 1 : 2;
    const std::size_t positions = heads_first ? 2 : 1;
    const Dim width = turn.has_angles_twice ? x[3] : floor_div(x[3], 2);
    const bool batch_fits = shape[0] == Dim(1) || shape[0] == x[0];
    if (!batch_fits || shape[heads] != Dim(1) || shape[positions] != x[positions] ||
        shape[3] != width) {
      return nullptr;
    }
    if (turn.has_angles_twice) {
      auto& pairs = turn.layout == RotaryLayout::Halves ? halves_ : interleaved_;
      value = pairs.of_pairs(value, turn.root);
      if (value == nullptr) return nullptr;
    }
    Builder builder(graph_, turn.root, raised_source(*turn.root, "Reshape"));
    return builder.reshape(value, {shape[0], x[positions], floor_div(x[3], 2)});
  }

  Status replace(const Turn& turn, Value* cos, Value* sin, bool heads_first) {
    Value* x = turn.x;
    Value* const result = take_in_casts(x, turn.root->result());
    Node* const before = result->producer();
    Builder builder(graph_, before, raised_source(*turn.root, "RotaryEmbedding"));
    Builder helper(graph_, before, raised_source(*turn.root, "Transpose"));
    if (!heads_first) x = helper.transpose(x, {0, 2, 1, 3});
    const std::int64_t interleaved = turn.layout == RotaryLayout::Interleaved ? 1 : 0;
    Value* raised = builder.op("rope", {x, cos, sin}, {{"interleaved", interleaved}});
    if (!heads_first) raised = helper.transpose(raised, {0, 2, 1, 3});
    OPWELD_CHECK(builder.status());
    OPWELD_CHECK(helper.status());
    replace_by_raised(graph_, result, raised);
    return {};
  }

  Graph& graph_;
  RotaryAngles halves_;
  RotaryAngles interleaved_;
};

// The operand of a transpose that exchanges heads and positions.
Value* exchanged_operand(const Value* value) {
  const Node* const transpose = made_by(value, "transpose");
  const bool matches =
      transpose != nullptr && transpose->attributes().ints("permutation") == Ints{0, 2, 1, 3};
  return matches ? transpose->operand(0) : nullptr;
}

// Whether the slice takes a run of the last axis that begins there.
bool begins_at(const Node& slice, const Dim& start) {
  return slices_last_axis_only(slice) && slice.attributes().ints("steps").back() == 1 &&
         slice.attributes().shape("starts").back() == start;
}

// The first elements of a head turned, the rest as it is: the operator passes it on by itself.
Status raise_partial_at(Graph& graph, Node& root) {
  if (!joins_two_along_last_axis(&root) || root.result()->rank() != 4) return {};
  Value* const moved = exchanged_operand(root.operand(0));
  Value* const turned_result = moved == nullptr ? root.operand(0) : moved;
  const Node* const rope = made_by(turned_result, "rope");
  if (rope == nullptr || !has_one_reader(root.operand(0)) || !has_one_reader(turned_result)) {
    return {};
  }
  const Value* const part =
      moved == nullptr ? rope->operand(0) : exchanged_operand(rope->operand(0));
  const Node* const turned = part == nullptr ? nullptr : made_by(part, "slice");
  const Node* const rest = made_by(root.operand(1), "slice");
  if (turned == nullptr || rest == nullptr || turned->operand(0) != rest->operand(0)) return {};
  Value* x = turned->operand(0);
  const Dim& size = part->shape()[3];
  const bool is_all =
      begins_at(*turned, 0) && begins_at(*rest, size) && x->type() == root.result()->type();
  const bool turns_all_of_it = rope->operand(1)->shape().back() * 2 == size;
  if (!is_all || !turns_all_of_it) return {};
  Builder builder(graph, &root, raised_source(root, "RotaryEmbedding"));
  Builder helper(graph, &root, raised_source(root, "Transpose"));
  if (moved != nullptr) x = helper.transpose(x, {0, 2, 1, 3});
  Value* raised = builder.op("rope", {x, rope->operand(1), rope->operand(2)}, rope->attributes());
  if (moved != nullptr) raised = helper.transpose(raised, {0, 2, 1, 3});
  OPWELD_CHECK(builder.status());
  OPWELD_CHECK(helper.status());
  replace_by_raised(graph, root.result(), raised);
  return {};
}

}  // namespace

Status raise_rope(Graph& graph) {
  Raiser raiser(graph);
  for (Node* node : graph.nodes_in_order()) OPWELD_CHECK(raiser.raise_at(*node));
  OPWELD_CHECK(eliminate_dead_code(graph));
  for (Node* node : graph.nodes_in_order()) OPWELD_CHECK(raise_partial_at(graph, *node));
  return eliminate_dead_code(graph);
}

}  // namespace opweld
