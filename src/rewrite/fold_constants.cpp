#include "rewrite/fold_constants.h"

#include <algorithm>

#include "ops/reference.h"
#include "support/shape.h"

namespace opweld {

namespace {

// A folded result may take this many bytes, or this many times those of the operands.
constexpr std::int64_t kAlwaysFine = 1 << 16;
constexpr std::int64_t kGrowth = 2;

const Tensor* constant_of(const Value* value) {
  if (value == nullptr || value->producer() == nullptr) return nullptr;
  const Node& node = *value->producer();
  return node.op() == "constant" ? &node.attributes().tensor("value") : nullptr;
}

// The operands, if all are constants of a size that is worth folding; empty where absent.
std::optional<std::vector<Tensor>> constant_operands(const Node& node, std::int64_t result_bytes) {
  std::vector<Tensor> operands;
  std::int64_t operand_bytes = 0;
  for (const Value* operand : node.operands()) {
    const Tensor* constant = constant_of(operand);
    if (constant == nullptr && operand != nullptr) return std::nullopt;
    operands.push_back(constant != nullptr ? *constant : Tensor());
    if (constant != nullptr) operand_bytes += constant->num_bytes();
  }
  if (result_bytes > std::max(kAlwaysFine, kGrowth * operand_bytes)) return std::nullopt;
  return operands;
}

bool has_known_size(const Node& node, std::int64_t& bytes) {
  bytes = 0;
  for (int i = 0; i < node.num_results(); ++i) {
    const auto size = node.result(i)->type().num_bytes().constant();
    if (!size) return false;
    bytes += *size;
  }
  return true;
}

void fold(Graph& graph, Node& node) {
  std::int64_t bytes = 0;
  if (!has_known_size(node, bytes)) return;
  const auto operands = constant_operands(node, bytes);
  if (!operands) return;
  auto results = evaluate_node(node, *operands, Bindings());
  if (!results) return;
  for (int i = 0; i < node.num_results(); ++i) {
    Value* old = node.result(i);
    Attributes attributes{{"value", std::move((*results)[static_cast<std::size_t>(i)])}};
    Value* folded =
        graph.add_node("constant", {}, std::move(attributes), {old->type()}, node.source(), &node)
            ->result();
    folded->set_contents(old->contents());
    folded->set_name(old->name());
    graph.replace_all_uses(old, folded);
  }
  graph.erase(&node);
}

// A shape tensor, or one computed from such, whose elements turned out to be numbers.
bool fold_known_contents(Graph& graph, Node& node) {
  Value* const old = node.result();
  const auto& contents = old->contents();
  if (node.num_results() != 1 || !contents || is_float(old->dtype())) return false;
  const auto sizes = evaluate(old->shape(), Bindings());
  auto tensor = sizes ? Tensor::allocate(old->dtype(), *sizes) : fail("not known");
  if (!tensor || tensor->num_elements() != static_cast<std::int64_t>(contents->size())) {
    return false;
  }
  for (std::size_t i = 0; i < contents->size(); ++i) {
    const auto value = (*contents)[i].constant();
    if (!value) return false;
    tensor->set_int(static_cast<std::int64_t>(i), *value);
  }
  Value* folded = graph
                      .add_node("constant", {}, {{"value", std::move(*tensor)}}, {old->type()},
                                node.source(), &node)
                      ->result();
  folded->set_contents(contents);
  folded->set_name(old->name());
  graph.replace_all_uses(old, folded);
  graph.erase(&node);
  return true;
}

}  // namespace

Status fold_constants(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    if (node->op() == "constant" || node->op() == "iota") continue;
    if (!fold_known_contents(graph, *node)) fold(graph, *node);
  }
  return {};
}

}  // namespace opweld
