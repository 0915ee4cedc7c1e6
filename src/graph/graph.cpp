#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <unordered_map>
#include <utility>

namespace opweld {
namespace {

void remove_use(std::vector<Use>& uses, Use use) {
  const auto found = std::find(uses.begin(), uses.end(), use);
  assert(found != uses.end());
  uses.erase(found);
}

}  // namespace

void Node::set_operand(int index, Value* value) {
  Value*& slot = operands_[static_cast<std::size_t>(index)];
  if (slot == value) return;
  if (slot != nullptr) remove_use(slot->uses_, {this, index});
  if (value != nullptr) value->uses_.push_back({this, index});
  slot = value;
}

std::string Node::display_name() const {
  return source_.name.empty() ? fmt::format("{}_{}", op_, id_) : source_.name;
}

Graph::Graph(std::string name) : name_(std::move(name)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Value* Graph::add_input(std::string name, TensorType type) {
  auto value = std::make_unique<Value>();
  value->name_ = std::move(name);
  value->type_ = std::move(type);
  value->result_index_ = static_cast<int>(inputs_.size());
  inputs_.push_back(std::move(value));
  input_pointers_.push_back(inputs_.back().get());
  return input_pointers_.back();
}

Node* Graph::add_node(std::string op, std::vector<Value*> operands, Attributes attributes,
                      std::vector<TensorType> result_types, Source source, Node* before) {
  auto owned = std::make_unique<Node>();
  Node* node = owned.get();
  node->op_ = std::move(op);
  node->attributes_ = std::move(attributes);
  node->source_ = std::move(source);
  node->id_ = next_id_++;
  node->operands_ = std::move(operands);
  for (int index = 0; index < node->num_operands(); ++index) {
    if (Value* operand = node->operand(index)) operand->uses_.push_back({node, index});
  }
  node->results_.reserve(result_types.size());
  for (TensorType& type : result_types) {
    auto result = std::make_unique<Value>();
    result->type_ = std::move(type);
    result->producer_ = node;
    result->result_index_ = node->num_results();
    node->results_.push_back(std::move(result));
  }
  node->position_ =
      nodes_.insert(before != nullptr ? before->position_ : nodes_.end(), std::move(owned));
  return node;
}

void Graph::add_output(std::string name, Value* value) {
  assert(value != nullptr);
  ++value->output_count_;
  outputs_.push_back({.name = std::move(name), .value = value});
}

void Graph::set_output(int index, Value* value) {
  assert(value != nullptr);
  Output& output = outputs_[static_cast<std::size_t>(index)];
  --output.value->output_count_;
  ++value->output_count_;
  output.value = value;
}

void Graph::set_in_place(int output, Value* input) {
  assert(input == nullptr || input->is_graph_input());
  outputs_[static_cast<std::size_t>(output)].in_place_of = input;
}

std::vector<Node*> Graph::nodes_in_order() const {
  std::vector<Node*> order;
  order.reserve(nodes_.size());
  for (const auto& node : nodes_) order.push_back(node.get());
  return order;
}

void Graph::replace_all_uses(Value* from, Value* to) {
  assert(from != nullptr && to != nullptr);
  if (from == to) return;
  for (const Use& use : from->uses_) {
    use.node->operands_[static_cast<std::size_t>(use.index)] = to;
    to->uses_.push_back(use);
  }
  from->uses_.clear();
  if (!from->is_graph_output()) return;
  for (int index = 0; index < static_cast<int>(outputs_.size()); ++index) {
    if (outputs_[static_cast<std::size_t>(index)].value == from) set_output(index, to);
  }
}

void Graph::erase(Node* node) {
  for ([[maybe_unused]] const auto& result : node->results_) {
    assert(result->uses_.empty() && "a node that is still read cannot be erased");
    assert(!result->is_graph_output() && "a node that makes an output cannot be erased");
  }
  for (int index = 0; index < node->num_operands(); ++index) {
    if (Value* operand = node->operand(index)) remove_use(operand->uses_, {node, index});
  }
  nodes_.erase(node->position_);
}

bool Graph::sort_topologically() {
  // Depth first from every node in the present order, on a stack of our own: chains may be long.
  enum class State : std::uint8_t { Open, Done };
  std::unordered_map<const Node*, State> states;
  states.reserve(nodes_.size());
  struct Visit {
    Node* node;
    int next_operand;
  };
  std::vector<Visit> stack;
  std::vector<Node*> order;
  order.reserve(nodes_.size());

  for (const auto& root : nodes_) {
    if (!states.emplace(root.get(), State::Open).second) continue;
    stack.push_back({root.get(), 0});
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next_operand == visit.node->num_operands()) {
        states[visit.node] = State::Done;
        order.push_back(visit.node);
        stack.pop_back();
        continue;
      }
      const Value* operand = visit.node->operand(visit.next_operand++);
      Node* producer = operand != nullptr ? operand->producer() : nullptr;
      if (producer == nullptr) continue;
      const auto [entry, fresh] = states.emplace(producer, State::Open);
      if (fresh) {
        stack.push_back({producer, 0});
      } else if (entry->second == State::Open) {
        return false;
      }
    }
  }
  for (Node* node : order) nodes_.splice(nodes_.end(), nodes_, node->position_);
  return true;
}

void Graph::assume_equal(Dim left, Dim right, std::string reason) {
  if (left == right) return;
  for (const SizeAssumption& known : assumptions_) {
    if (known.left == left && known.right == right) return;
  }
  assumptions_.push_back({std::move(left), std::move(right), std::move(reason)});
}

std::vector<Dim> Graph::symbols() const {
  std::vector<std::shared_ptr<const SymbolInfo>> found;
  for (const Value* input : input_pointers_) {
    for (const Dim& size : input->shape()) size.collect_symbols(found);
  }
  std::vector<Dim> symbols;
  symbols.reserve(found.size());
  for (auto& symbol : found) symbols.push_back(Dim::symbol(std::move(symbol)));
  return symbols;
}

Graph Graph::clone(std::map<const Value*, Value*>* mapping) const {
  Graph copy(name_);
  std::unordered_map<const Value*, Value*> copies;
  const auto record = [&copies](const Value& from, Value* to) {
    to->name_ = from.name_;
    to->contents_ = from.contents_;
    copies.emplace(&from, to);
  };
  for (const Value* input : input_pointers_) {
    record(*input, copy.add_input(input->name_, input->type_));
  }
  for (const auto& node : nodes_) {
    std::vector<Value*> operands;
    operands.reserve(node->operands_.size());
    for (const Value* operand : node->operands_) {
      operands.push_back(operand != nullptr ? copies.at(operand) : nullptr);
    }
    std::vector<TensorType> types;
    types.reserve(node->results_.size());
    for (const auto& result : node->results_) types.push_back(result->type_);
    Node* twin = copy.add_node(node->op_, std::move(operands), node->attributes_, std::move(types),
                               node->source_);
    twin->id_ = node->id_;  // so that both graphs call it by the same name
    for (int index = 0; index < node->num_results(); ++index) {
      record(*node->result(index), twin->result(index));
    }
  }
  copy.next_id_ = next_id_;
  for (const Output& output : outputs_) {
    copy.add_output(output.name, copies.at(output.value));
    if (output.in_place_of != nullptr) {
      copy.outputs_.back().in_place_of = copies.at(output.in_place_of);
    }
  }
  copy.assumptions_ = assumptions_;
  if (mapping != nullptr) mapping->insert(copies.begin(), copies.end());
  return copy;
}

}  // namespace opweld
