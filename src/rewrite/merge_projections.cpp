#include "rewrite/merge_projections.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "ops/builder.h"
#include "ops/op.h"
#include "ops/stored_weights.h"
#include "rewrite/match.h"
#include "rewrite/weights.h"

namespace opweld {

namespace {

// matmul(x, weights), with a bias behind it or none.
struct Projection {
  Node* matmul = nullptr;
  Node* sum = nullptr;    // adds the bias; null if there is none
  Value* bias = nullptr;  // a constant of as many elements as columns
  Value* result = nullptr;

  [[nodiscard]] Value* x() const { return matmul->operand(0); }
  [[nodiscard]] const Tensor& weights() const {
    return stored_weights(matmul->operand(1))->attributes().tensor("value");
  }
  [[nodiscard]] std::int64_t depth() const { return weights().sizes()[0]; }
  [[nodiscard]] std::int64_t columns() const { return weights().sizes()[1]; }
  // The node whose operator makes the result.
  [[nodiscard]] const Node& root() const { return sum != nullptr ? *sum : *matmul; }
};

using Projections = std::vector<Projection>;

// A constant row of that many elements, whatever axes of one element precede it.
bool is_constant_row(const Value* value, std::int64_t columns, int most_axes) {
  if (made_by(value, "constant") == nullptr || value->rank() < 1) return false;
  return value->rank() <= most_axes && value->shape().back() == Dim(columns) &&
         value->type().num_elements() == Dim(columns);
}

std::optional<Projection> match_projection(Node& node) {
  if (node.op() != "matmul" || !is_float(node.result()->dtype())) return std::nullopt;
  const Value* const weights = node.operand(1);
  if (stored_weights(weights) == nullptr || weights->rank() != 2) return std::nullopt;
  if (!has_one_reader(weights)) return std::nullopt;
  Projection found{&node, nullptr, nullptr, node.result()};
  if (found.depth() == 0 || found.columns() == 0) return std::nullopt;
  Node* const reader = only_reader(node.result());
  if (reader == nullptr || reader->op() != "add") return found;
  Value* const bias = other_operand(*reader, node.result());
  if (!is_constant_row(bias, found.columns(), node.result()->rank())) return found;
  found.sum = reader;
  found.bias = bias;
  found.result = reader->result();
  return found;
}

// ---- who may read a slice instead ----

// Whether the operator begins a kernel that reads this operand wherever it lies.
bool reads_in_place(const Use& use) {
  constexpr std::array<std::string_view, 7> kReaders = {
      "matmul", "rope", "softmax", "log_softmax", "layer_norm", "rms_norm", "concat"};
  const Node& node = *use.node;
  if (node.op() == "attention") {
    // Attention in double precision is a call, which reads dense tensors.
    return use.index < 3 && compute_dtype(node.result()->dtype()) == DType::F32;
  }
  return std::find(kReaders.begin(), kReaders.end(), node.op()) != kReaders.end();
}

// A value with several readers would have to be copied for all but one of the kernels.
bool is_read_in_place(const Value* value) {
  while (has_one_reader(value)) {
    const Use& use = value->uses().front();
    if (use.node->op() != "reshape" && use.node->op() != "transpose") return reads_in_place(use);
    value = use.node->result();
  }
  return false;
}

// Columns of a head, where a reshape that splits the last axis is all that reads the value; else 0.
std::int64_t head_of(const Value* value) {
  const Node* const reader = only_reader(value);
  if (reader == nullptr || reader->op() != "reshape") return 0;
  const Shape& split = reader->result()->shape();
  const Shape& whole = value->shape();
  if (split.size() != whole.size() + 1) return 0;
  if (!std::equal(whole.begin(), whole.end() - 1, split.begin())) return 0;
  return split.back().constant().value_or(0);
}

// Whether they are split into heads of one size.
bool are_heads(const Projections& projections) {
  const std::int64_t head = head_of(projections.front().result);
  if (head == 0) return false;
  return std::ranges::all_of(projections,
                             [&](const Projection& each) { return head_of(each.result) == head; });
}

// The pointwise operators that compute from the two results and from numbers alone.
std::set<const Node*> pointwise_readers(const Value* left, const Value* right) {
  std::set<const Value*> values = {left, right};
  std::set<const Node*> nodes;
  std::vector<const Value*> pending = {left, right};
  while (!pending.empty()) {
    const Value* const value = pending.back();
    pending.pop_back();
    for (const Use& use : value->uses()) {
      const Node* const node = use.node;
      const auto at_hand = [&](const Value* operand) {
        return operand == nullptr || values.contains(operand) || scalar_constant(operand);
      };
      const bool joins = op_def(*node).trait == FusionTrait::Pointwise &&
                         node->result()->shape() == left->shape() &&
                         std::ranges::all_of(node->operands(), at_hand);
      if (!joins || !nodes.insert(node).second) continue;
      values.insert(node->result());
      pending.push_back(node->result());
    }
  }
  return nodes;
}

// Whether pointwise operators bring the two together, and nothing else reads either.
bool is_gate_pair(const Projection& left, const Projection& right) {
  if (left.columns() != right.columns()) return false;
  const std::set<const Node*> readers = pointwise_readers(left.result, right.result);
  for (const Value* value : {left.result, right.result}) {
    const bool inside = std::ranges::all_of(
        value->uses(), [&](const Use& use) { return readers.contains(use.node); });
    if (value->is_graph_output() || value->uses().empty() || !inside) return false;
  }
  // What depends on both is what the readers of one alone leave out.
  const auto alone = [&](const Value* value) { return pointwise_readers(value, value).size(); };
  return alone(left.result) + alone(right.result) < readers.size();
}

// ---- what comes in place ----

// [columns], -0.0 for projections without a bias.
Expected<Tensor> merged_bias(const Projections& projections) {
  std::vector<Tensor> rows;
  for (const Projection& projection : projections) {
    const Sizes row = {1, projection.columns()};
    if (projection.bias != nullptr) {
      rows.push_back(projection.bias->producer()->attributes().tensor("value").reshaped(row));
      continue;
    }
    OPWELD_TRY(Tensor zeros, Tensor::allocate(projection.result->dtype(), row));
    for (std::int64_t i = 0; i < zeros.num_elements(); ++i) zeros.set_double(i, -0.0);
    rows.push_back(std::move(zeros));
  }
  OPWELD_TRY(Tensor joined, side_by_side(rows));
  return joined.reshaped({joined.num_elements()});
}

// The weights that were merged go at once, so that a large model is not in memory twice.
void erase(Graph& graph, const Projection& projection) {
  const auto erase_unread = [&](Node* node) {
    if (node != nullptr && node->result()->uses().empty()) graph.erase(node);
  };
  Node* const weights = projection.matmul->operand(1)->producer();
  Node* const stored = stored_weights(projection.matmul->operand(1));
  Node* const bias = projection.bias != nullptr ? projection.bias->producer() : nullptr;
  erase_unread(projection.sum);
  erase_unread(projection.matmul);
  erase_unread(weights);
  if (stored != weights) erase_unread(stored);
  erase_unread(bias);
}

Status merge(Graph& graph, const Projections& projections) {
  Node* const before = projections.front().matmul;
  std::vector<const Node*> matmuls;
  std::vector<const Node*> sums;
  std::vector<Tensor> weights;
  for (const Projection& projection : projections) {
    matmuls.push_back(projection.matmul);
    if (projection.sum != nullptr) sums.push_back(projection.sum);
    weights.push_back(projection.weights());
  }
  OPWELD_TRY(Tensor joined, side_by_side(weights));
  weights.clear();
  Builder build(graph, before, joined_source(matmuls));
  Value* const columns = build.constant(std::move(joined));
  Value* merged = build.binary("matmul", projections.front().x(),
                               build.cast(columns, projections.front().result->dtype()));
  if (!sums.empty()) {
    OPWELD_TRY(Tensor bias, merged_bias(projections));
    Builder adding(graph, before, joined_source(sums));
    merged = adding.binary("add", merged, adding.constant(std::move(bias)));
    OPWELD_CHECK(adding.status());
  }
  OPWELD_CHECK(build.status());
  std::int64_t column = 0;
  for (const Projection& projection : projections) {
    const Shape& sizes = projection.result->shape();
    Shape starts(sizes.size(), Dim(0));
    starts.back() = column;
    column += projection.columns();
    Source source = raised_source(projection.root(), "Slice");
    source.operators = 0;
    Builder slicing(graph, before, std::move(source));
    Value* const slice =
        slicing.op("slice", {merged},
                   {{"starts", starts}, {"sizes", sizes}, {"steps", Ints(sizes.size(), 1)}});
    OPWELD_CHECK(slicing.status());
    replace_by_raised(graph, projection.result, slice);
  }
  for (const Projection& projection : projections) erase(graph, projection);
  return {};
}

// Takes pairs out of the projections and merges each.
Status merge_gate_pairs(Graph& graph, Projections& projections) {
  for (auto left = projections.begin(); left != projections.end();) {
    const auto right = std::find_if(left + 1, projections.end(), [&](const Projection& other) {
      return is_gate_pair(*left, other);
    });
    if (right == projections.end()) {
      ++left;
      continue;
    }
    OPWELD_CHECK(merge(graph, {*left, *right}));
    projections.erase(right);
    left = projections.erase(left);
  }
  return {};
}

}  // namespace

Status merge_projections(Graph& graph) {
  // In the order of the model, so that the result is the same from run to run.
  std::vector<Projections> by_operand;
  for (Node* node : graph.nodes_in_order()) {
    const auto projection = match_projection(*node);
    if (!projection) continue;
    auto siblings = std::ranges::find_if(by_operand, [&](const Projections& others) {
      return others.front().x() == projection->x() &&
             others.front().depth() == projection->depth() &&
             others.front().weights().dtype() == projection->weights().dtype() &&
             others.front().matmul->source().stream == projection->matmul->source().stream;
    });
    if (siblings == by_operand.end()) siblings = by_operand.insert(siblings, Projections());
    siblings->push_back(*projection);
  }
  for (Projections& siblings : by_operand) {
    OPWELD_CHECK(merge_gate_pairs(graph, siblings));
    if (!are_heads(siblings)) {
      std::erase_if(siblings,
                    [](const Projection& each) { return !is_read_in_place(each.result); });
    }
    if (siblings.size() > 1) OPWELD_CHECK(merge(graph, siblings));
  }
  return {};
}

}  // namespace opweld
