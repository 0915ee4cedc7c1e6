#include "tile/expansions.h"

#include <algorithm>
#include <utility>

#include "ops/op.h"
#include "tile/lower.h"

namespace opweld::tile {

namespace {

// Sizes that are computed in the graph are more than a type.
bool has_contents(const Node& node) {
  const auto knows = [](const Value* value) {
    return value != nullptr && value->contents().has_value();
  };
  return std::ranges::any_of(node.operands(), knows) || knows(node.result());
}

std::vector<std::optional<TensorType>> operand_types(const Node& node) {
  std::vector<std::optional<TensorType>> types;
  for (const Value* operand : node.operands()) {
    types.push_back(operand == nullptr ? std::nullopt : std::optional(operand->type()));
  }
  return types;
}

bool is_of(const std::vector<std::optional<TensorType>>& types, const Node& node) {
  return std::ranges::equal(types, node.operands(), [](const auto& type, const Value* operand) {
    return type.has_value() == (operand != nullptr) && (!type || *type == operand->type());
  });
}

// Copies the body's nodes in front of the node, to read what the node reads; returns what they
// make.
std::vector<Value*> inlined(const Graph& body, Graph& group, Node& node) {
  std::unordered_map<const Value*, Value*> copies;
  std::size_t input = 0;
  for (Value* operand : node.operands()) {
    if (operand != nullptr) copies.emplace(body.inputs()[input++], operand);
  }
  for (const auto& each : body.nodes()) {
    std::vector<Value*> operands;
    operands.reserve(each->operands().size());
    for (const Value* operand : each->operands()) {
      operands.push_back(operand == nullptr ? nullptr : copies.at(operand));
    }
    std::vector<TensorType> types;
    for (int i = 0; i < each->num_results(); ++i) types.push_back(each->result(i)->type());
    const Node* copy = group.add_node(each->op(), std::move(operands), each->attributes(),
                                      std::move(types), node.source(), &node);
    for (int i = 0; i < each->num_results(); ++i) {
      copy->result(i)->set_contents(each->result(i)->contents());
      copies.emplace(each->result(i), copy->result(i));
    }
  }
  std::vector<Value*> results;
  for (const Graph::Output& output : body.outputs()) results.push_back(copies.at(output.value));
  return results;
}

}  // namespace

Status Expansions::expand(Graph& group) {
  for (Node* node : group.nodes_in_order()) {
    if (op_def(*node).body == nullptr || has_contents(*node)) continue;
    OPWELD_TRY(const Body* const body, body_of(*node));
    const std::vector<Value*> replacements = inlined(body->graph, group, *node);
    for (int i = 0; i < node->num_results(); ++i) {
      group.replace_all_uses(node->result(i), replacements[static_cast<std::size_t>(i)]);
    }
    group.erase(node);
  }
  return expand_composites(group);  // those that are left
}

Expected<const Expansions::Body*> Expansions::body_of(const Node& node) {
  std::vector<std::unique_ptr<Body>>& known = bodies_[node.op()];
  for (const auto& body : known) {
    if (is_of(body->operands, node) && body->attributes == node.attributes()) return body.get();
  }
  auto body = std::make_unique<Body>(Body{node.attributes(), operand_types(node), Graph()});
  std::vector<Value*> operands;
  for (const auto& type : body->operands) {
    operands.push_back(type ? body->graph.add_input("", *type) : nullptr);
  }
  std::vector<TensorType> types;
  for (int i = 0; i < node.num_results(); ++i) types.push_back(node.result(i)->type());
  const Node* alone = body->graph.add_node(node.op(), std::move(operands), node.attributes(),
                                           std::move(types), node.source());
  for (int i = 0; i < node.num_results(); ++i) body->graph.add_output("", alone->result(i));
  OPWELD_CHECK(expand_composites(body->graph));
  return known.emplace_back(std::move(body)).get();
}

}  // namespace opweld::tile
