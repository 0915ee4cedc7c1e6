#include "rewrite/find_layers.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ops/op.h"

namespace opweld {

namespace {

constexpr std::size_t kLeastNodes = 4;
// Longer blocks are not looked for: each length is one pass over the nodes.
constexpr std::size_t kMostNodes = 2000;

// What nodes of equal layers have in common, as text. Tensors stand for their types: layers differ
// in their weights.
std::string looks_of(const Node& node) {
  std::string text = node.op();
  for (const auto& [name, attribute] : node.attributes()) {
    text += fmt::format("|{}=", name);
    if (const auto* integer = std::get_if<std::int64_t>(&attribute))
      text += fmt::format("{}", *integer);
    if (const auto* real = std::get_if<double>(&attribute)) text += fmt::format("{}", *real);
    if (const auto* word = std::get_if<std::string>(&attribute)) text += *word;
    if (const auto* list = std::get_if<Ints>(&attribute)) {
      for (const std::int64_t each : *list) text += fmt::format("{},", each);
    }
    if (const auto* shape = std::get_if<Shape>(&attribute)) {
      for (const Dim& dim : *shape) text += fmt::format("{},", dim);
    }
  }
  for (const Value* operand : node.operands()) {
    text += operand == nullptr ? "|_" : "|" + to_string(operand->type());
  }
  for (int i = 0; i < node.num_results(); ++i) text += ">" + to_string(node.result(i)->type());
  return text;
}

// Nodes with equal looks have equal numbers.
std::vector<int> numbered(const std::vector<Node*>& nodes) {
  std::map<std::string, int> numbers;
  std::vector<int> result;
  result.reserve(nodes.size());
  for (const Node* node : nodes) {
    result.push_back(
        numbers.try_emplace(looks_of(*node), static_cast<int>(numbers.size())).first->second);
  }
  return result;
}

struct Blocks {
  std::size_t begin = 0;
  std::size_t length = 0;  // of one
  std::size_t count = 0;

  [[nodiscard]] std::size_t nodes() const { return length * count; }
};

class Search {
 public:
  explicit Search(const std::vector<Node*>& nodes) : looks_(numbered(nodes)) {
    products_.push_back(0);
    for (const Node* node : nodes) {
      const FusionTrait trait = op_def(*node).trait;
      const bool is_product = trait == FusionTrait::Contract || trait == FusionTrait::Attention;
      products_.push_back(products_.back() + (is_product ? 1 : 0));
    }
  }

  // Those that take up the most nodes; among equals the shortest, since two layers are one block,
  // too.
  Blocks run() {
    const std::size_t longest = std::min(kMostNodes, looks_.size() / 2);
    for (std::size_t length = kLeastNodes; length <= longest; ++length) {
      std::size_t equal = 0;  // nodes before `i` that are what the node `length` later is
      for (std::size_t i = 0; i + length < looks_.size(); ++i) {
        equal = looks_[i] == looks_[i + length] ? equal + 1 : 0;
        if (equal >= length) consider({i + 1 - equal, length, equal / length + 1});
      }
    }
    return best_;
  }

 private:
  void consider(const Blocks& blocks) {
    const bool has_product = products_[blocks.begin + blocks.length] > products_[blocks.begin];
    if (has_product && blocks.nodes() > best_.nodes()) best_ = blocks;
  }

  std::vector<int> looks_;
  std::vector<int> products_;  // among the nodes before each
  Blocks best_;
};

}  // namespace

Status find_layers(Graph& graph) {
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) {
    if (node->op() == "constant") continue;
    if (!node->source().scope.empty()) return {};
    nodes.push_back(node.get());
  }
  const Blocks blocks = Search(nodes).run();
  if (2 * blocks.nodes() < nodes.size()) return {};
  for (std::size_t i = 0; i < blocks.nodes(); ++i) {
    Node& node = *nodes[blocks.begin + i];
    Source source = node.source();
    source.scope = fmt::format("block {}", i / blocks.length);
    node.set_source(std::move(source));
  }
  return {};
}

}  // namespace opweld
