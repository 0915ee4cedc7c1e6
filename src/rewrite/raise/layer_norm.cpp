#include "rewrite/raise/layer_norm.h"

#include <algorithm>

#include "rewrite/dce.h"
#include "rewrite/match.h"
#include "rewrite/raise/root_mean_square.h"

namespace opweld {

namespace {

// x, if the value is x - mean(x) over the axes from `axis` and nobody else reads the mean.
Value* centred_operand(const Value* value, int axis) {
  const Node* const difference = made_by(value, "sub");
  if (difference == nullptr) return nullptr;
  Value* const x = difference->operand(0);
  Value* const mean = difference->operand(1);
  return has_one_reader(mean) && mean_operand(mean, axis) == x ? x : nullptr;
}

bool is_read_only_by(const Value* value, std::initializer_list<const Node*> nodes) {
  if (value->is_graph_output()) return false;
  return std::all_of(value->uses().begin(), value->uses().end(), [&](const Use& use) {
    return std::find(nodes.begin(), nodes.end(), use.node) != nodes.end();
  });
}

Status raise_at(Graph& graph, Node& node) {
  const auto division = match_rms_division(node);
  if (!division) return {};
  Value* const x = centred_operand(division->x, division->axis);
  if (x == nullptr || !is_read_only_by(division->x, {division->squares, &node})) return {};
  Node* root = &node;
  Value* scale = division->scale;
  Value* bias = nullptr;
  const auto take_in = [&](std::string_view op, Value*& parameter) {
    Node* const step = parameter_step(root->result(), op, x, division->axis, parameter);
    if (step != nullptr) root = step;
  };
  if (scale == nullptr) take_in("mul", scale);
  take_in("add", bias);
  return raise_norm(graph, *root, "layer_norm", "LayerNormalization", {x, scale, bias},
                    division->axis, division->epsilon);
}

}  // namespace

Status raise_layer_norm(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) OPWELD_CHECK(raise_at(graph, *node));
  return eliminate_dead_code(graph);
}

}  // namespace opweld
