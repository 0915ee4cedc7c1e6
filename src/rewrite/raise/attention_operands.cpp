#include "rewrite/raise/attention_operands.h"

#include <cmath>

#include "ops/builder.h"
#include "rewrite/dce.h"
#include "rewrite/match.h"
#include "rewrite/raise/attention_mask.h"
#include "rewrite/raise/repeated_heads.h"

namespace opweld {

namespace {

constexpr int kMask = 3;
constexpr int kBlockTable = 6;

bool has(const Node& node, int operand) {
  return node.num_operands() > operand && node.operand(operand) != nullptr;
}

// The product with a constant that the value is, behind views that nothing else reads; null if it
// is none. `factor` receives the constant.
Node* scaled_behind_views(const Value* value, double& factor) {
  while (has_one_reader(value) && stays_on_its_stream(value)) {
    Node* const node = value->producer();
    if (node == nullptr) return nullptr;
    if (node->op() != "reshape" && node->op() != "transpose") {
      const Value* const inner = scaled_operand(*node, factor);
      return inner != nullptr && inner->type() == value->type() ? node : nullptr;
    }
    value = node->operand(0);
  }
  return nullptr;
}

class Simplifier {
 public:
  Simplifier(Graph& graph, Node& attention)
      : graph_(graph),
        attention_(attention),
        operands_(attention.operands().begin(), attention.operands().end()),
        attributes_(attention.attributes()) {}

  Status run() {
    take_scales();
    take_repeated_heads();
    if (has(attention_, kMask)) {
      OPWELD_TRY(const bool taken, take_mask(graph_, attention_, attributes_, operands_[kMask]));
      changed_ = changed_ || taken;
    }
    if (!changed_) return {};
    OPWELD_TRY(Node* const simpler, build_node(graph_, "attention", operands_, attributes_,
                                               attention_.source(), &attention_));
    for (int i = 0; i < attention_.num_results(); ++i) {
      replace_by_raised(graph_, attention_.result(i), simpler->result(i));
    }
    return {};
  }

 private:
  void take_scales() {
    double scale = attributes_.real("scale", 1.0);
    for (const int index : {0, 1}) {
      double factor = 1;
      Node* const product = scaled_behind_views(attention_.operand(index), factor);
      if (product == nullptr || !std::isfinite(factor)) continue;
      double unused = 1;
      Value* const inner = scaled_operand(*product, unused);
      graph_.replace_all_uses(product->result(), inner);
      operands_[static_cast<std::size_t>(index)] = attention_.operand(index);
      scale *= factor;
      changed_ = true;
    }
    attributes_.set("scale", scale);
  }

  // On both or on neither.
  void take_repeated_heads() {
    if (has(attention_, kBlockTable)) return;
    Value* const k = without_repeated_heads(operands_[1]);
    Value* const v = without_repeated_heads(operands_[2]);
    if (k == operands_[1] || v == operands_[2] || k->shape()[1] != v->shape()[1]) return;
    operands_[1] = k;
    operands_[2] = v;
    changed_ = true;
  }

  Graph& graph_;
  Node& attention_;
  std::vector<Value*> operands_;
  Attributes attributes_;
  bool changed_ = false;
};

}  // namespace

Status simplify_attention_operands(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    if (node->op() == "attention") OPWELD_CHECK(Simplifier(graph, *node).run());
  }
  return eliminate_dead_code(graph);
}

}  // namespace opweld
