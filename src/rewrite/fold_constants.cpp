#include "rewrite/fold_constants.h"

#include <algorithm>
#include <span>
#include <utility>

#include "ops/builder.h"
#include "ops/op.h"
#include "ops/reference.h"
#include "ops/stored_weights.h"
#include "rewrite/weights.h"
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

// As its evaluation gives it; weights, which are nearly always stored the other way around, in
// passing memory.
Expected<std::vector<Tensor>> evaluated(const Node& node, std::span<const Tensor> operands) {
  const bool is_matrix_transpose =
      node.op() == "transpose" && swaps_matrix_axes(node.attributes().ints("permutation"));
  if (!is_matrix_transpose || operands[0].num_bytes() <= kAlwaysFine) {
    return evaluate_node(node, operands, Bindings());
  }
  OPWELD_TRY(Tensor transposed, transposed_matrices(operands[0]));
  return std::vector<Tensor>{std::move(transposed)};
}

void fold(Graph& graph, Node& node) {
  std::int64_t bytes = 0;
  if (!has_known_size(node, bytes)) return;
  const auto operands = constant_operands(node, bytes);
  if (!operands) return;
  auto results = evaluated(node, *operands);
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

// Whether all that becomes of a value is the right operand of one matmul, behind views if any.
bool ends_in_matmul(const Value* value) {
  while (!value->is_graph_output() && value->uses().size() == 1) {
    const Use& use = value->uses().front();
    if (is_right_operand(use)) return value->rank() >= 2;
    if (op_def(*use.node).trait != FusionTrait::View || use.node->num_results() != 1) return false;
    value = use.node->result();
  }
  return false;
}

// Weights that a matmul widens as it reads them stay as narrow as they are stored.
bool is_kept(const Node& node) {
  if (!widens_constant(node)) return false;
  const auto bytes = node.result()->type().num_bytes().constant();
  return bytes && *bytes > kAlwaysFine && ends_in_matmul(node.result());
}

// view(cast(constant), ...) -> cast(view(constant, ...)): moving comes before widening. Where the
// operands are not all of one kind, they are folded, and the view with them.
void fold_view(Graph& graph, Node& view) {
  std::vector<Node*> casts;
  bool movable = true;
  std::vector<Value*> stored;
  for (Value* operand : view.operands()) {
    Node* const cast = operand != nullptr ? operand->producer() : nullptr;
    if (cast == nullptr || !widens_constant(*cast)) {
      // What says where to: the sizes of a reshape, the positions of a gather.
      movable = movable && (operand == nullptr || !is_float(operand->dtype()));
      stored.push_back(operand);
      continue;
    }
    casts.push_back(cast);
    movable = movable && cast->operand(0)->dtype() == casts.front()->operand(0)->dtype();
    stored.push_back(cast->operand(0));
  }
  if (casts.empty()) return fold(graph, view);
  if (movable) {
    Value* const old = view.result();
    Builder build(graph, &view, view.source());
    Value* const moved = build.op(view.op(), stored, view.attributes());
    Value* const widened = moved != nullptr ? build.cast(moved, old->dtype()) : nullptr;
    if (widened != nullptr) {
      widened->set_name(old->name());
      graph.replace_all_uses(old, widened);
      graph.erase(&view);
      fold(graph, *moved->producer());
    }
    movable = widened != nullptr;
  }
  for (Node* cast : casts) {
    if (!movable) {
      fold(graph, *cast);
    } else if (cast->result()->uses().empty()) {
      graph.erase(cast);
    }
  }
  if (!movable) fold(graph, view);
}

}  // namespace

Status fold_constants(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    if (node->op() == "constant" || node->op() == "iota") continue;
    if (fold_known_contents(graph, *node) || is_kept(*node)) continue;
    op_def(*node).trait == FusionTrait::View ? fold_view(graph, *node) : fold(graph, *node);
  }
  return {};
}

}  // namespace opweld
