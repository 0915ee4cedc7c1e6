#include "tile/expansions.h"

#include <algorithm>
#include <utility>

#include "ops/op.h"
#include "support/pointer_map.h"
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

using Copies = PointerMap<Value, Value*>;

// Appends what the node is in one graph to another.
Node& copy_into(Graph& graph, const Node& node, const Source& source, Copies& copies) {
  std::vector<Value*> operands;
  operands.reserve(node.operands().size());
  for (const Value* operand : node.operands()) {
    operands.push_back(operand == nullptr ? nullptr : copies.at(operand));
  }
  std::vector<TensorType> types;
  types.reserve(static_cast<std::size_t>(node.num_results()));
  for (int i = 0; i < node.num_results(); ++i) types.push_back(node.result(i)->type());
  Node* const copy =
      graph.add_node(node.op(), std::move(operands), node.attributes(), std::move(types), source);
  for (int i = 0; i < node.num_results(); ++i) {
    copy->result(i)->set_contents(node.result(i)->contents());
    copies[node.result(i)] = copy->result(i);
  }
  return *copy;
}

// Appends the body's nodes instead of the node.
void inline_into(Graph& graph, const Node& node, const Graph& body, Copies& copies) {
  Copies inside;
  std::size_t input = 0;
  for (const Value* operand : node.operands()) {
    if (operand != nullptr) inside[body.inputs()[input++]] = copies.at(operand);
  }
  for (const auto& each : body.nodes()) copy_into(graph, *each, node.source(), inside);
  for (int i = 0; i < node.num_results(); ++i) {
    copies[node.result(i)] = inside.at(body.outputs()[static_cast<std::size_t>(i)].value);
  }
}

}  // namespace

Expected<Graph> Expansions::expanded(const Graph& group) {
  Graph primitives(group.name());
  Copies copies;
  for (const Value* input : group.inputs()) {
    Value* const copy = primitives.add_input(input->name(), input->type());
    copy->set_contents(input->contents());
    copies[input] = copy;
  }
  for (const auto& node : group.nodes()) {
    if (op_def(*node).body == nullptr || has_contents(*node)) {
      copy_into(primitives, *node, node->source(), copies);
    } else {
      OPWELD_TRY(const Body* const body, body_of(*node));
      inline_into(primitives, *node, body->graph, copies);
    }
  }
  for (const Graph::Output& output : group.outputs()) {
    primitives.add_output(output.name, copies.at(output.value));
  }
  OPWELD_CHECK(expand_composites(primitives));  // those that are left
  return primitives;
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
