#include "rewrite/raise/alibi.h"

#include <cmath>
#include <limits>

#include "ops/builder.h"
#include "rewrite/dce.h"
#include "rewrite/match.h"
#include "rewrite/raise/alibi_bias.h"
#include "rewrite/raise/causal_mask.h"

namespace opweld {

namespace {

constexpr int kMask = 3;
constexpr int kLengths = 4;
constexpr int kSlopes = 5;
constexpr int kBlockTable = 6;

bool has(const Node& node, int operand) {
  return node.num_operands() > operand && node.operand(operand) != nullptr;
}

// A mask as the terms of a sum, those of -inf where a bool hides among them.
struct Terms {
  std::vector<Value*> added;
  std::vector<Value*> visible;  // bools
};

// Terms of a selection's kept side only if the other is -inf: that hides whatever is added.
void collect_terms(Value* mask, Terms& terms) {
  const Node* const node = mask->producer();
  if (node != nullptr && node->op() == "add") {
    collect_terms(node->operand(0), terms);
    collect_terms(node->operand(1), terms);
    return;
  }
  if (node != nullptr && node->op() == "select" && uniform_value(node->operand(1)) != 0.0 &&
      uniform_value(node->operand(2)) == -std::numeric_limits<double>::infinity()) {
    terms.visible.push_back(node->operand(0));
    collect_terms(node->operand(1), terms);
    return;
  }
  terms.added.push_back(mask);
}

class Raiser {
 public:
  Raiser(Graph& graph, Node& attention)
      : graph_(graph),
        attention_(attention),
        builder_(graph, &attention, raised_source(attention, "Slopes")),
        queries_(attention.operand(0)->shape()[2]),
        heads_(attention.operand(0)->shape()[1]),
        keys_(attention.operand(1)->shape()[2]),
        causal_(attention.attributes().text("causal", "none")) {}

  Status raise() {
    collect_terms(attention_.operand(kMask), terms_);
    take_causal();
    const auto bias = take_bias();
    if (!bias) return {};
    take_finite_causal();
    std::vector<Value*> operands(attention_.operands().begin(), attention_.operands().end());
    operands.resize(kSlopes + 1, nullptr);
    operands[kMask] = rest_of_mask();
    operands[kSlopes] = alibi_slopes(builder_, *bias, heads_);
    Attributes attributes = attention_.attributes();
    attributes.set("causal", causal_);
    Value* const raised = builder_.op("attention", std::move(operands), std::move(attributes));
    if (!builder_.status()) return builder_.status();
    replace_by_raised(graph_, attention_.result(), raised);
    return {};
  }

 private:
  // Masks that hide later keys by -inf, if the attention can say so itself.
  void take_causal() {
    const auto take = [&](std::vector<Value*>& from) {
      std::erase_if(from, [&](const Value* mask) {
        const auto causal = match_causal_mask(mask, false, queries_, keys_);
        return causal && !causal->is_finite && set_causal(*causal);
      });
    };
    take(terms_.added);
    take(terms_.visible);
  }

  // One that does so by the lowest number, where it is all that hides.
  void take_finite_causal() {
    if (terms_.added.size() != 1 || !terms_.visible.empty()) return;
    const auto causal = match_causal_mask(terms_.added[0], false, queries_, keys_);
    if (causal && set_causal(*causal)) terms_.added.clear();
  }

  bool set_causal(const CausalMask& mask) {
    if (!can_be_causal(mask)) return false;
    causal_ = mask.alignment;
    return true;
  }

  // Whether the attention can say of itself what the mask does.
  [[nodiscard]] bool can_be_causal(const CausalMask& mask) const {
    if (causal_ != "none") return causal_ == mask.alignment;
    // At the bottom right, the attribute moves windows along, and counts from the last valid key.
    const Attributes& attributes = attention_.attributes();
    const bool counts_keys = has(attention_, kLengths) ||
                             attributes.integer("window_left", -1) >= 0 ||
                             attributes.integer("window_right", -1) >= 0;
    return mask.alignment == "top_left" || !counts_keys;
  }

  // Beside other masks, only by -inf.
  bool can_hide(const CausalMask& hidden) {
    const bool alone = terms_.added.size() == 1 && terms_.visible.empty();
    if (hidden.is_finite && !alone) return false;
    return can_be_causal(hidden);
  }

  std::optional<AlibiBias> take_bias() {
    for (auto term = terms_.added.begin(); term != terms_.added.end(); ++term) {
      const auto bias = match_alibi(*term, causal_, queries_, keys_);
      if (!bias || (bias->hidden && !can_hide(*bias->hidden))) continue;
      if (bias->hidden) set_causal(*bias->hidden);
      terms_.added.erase(term);
      return bias;
    }
    return std::nullopt;
  }

  // What is left, as one mask; null if there is nothing.
  Value* rest_of_mask() {
    Value* mask = nullptr;
    for (Value* const added : terms_.added) {
      mask = mask == nullptr ? added : builder_.binary("add", mask, added);
    }
    Value* visible = nullptr;
    for (Value* const each : terms_.visible) {
      visible = visible == nullptr ? each : builder_.binary("and", visible, each);
    }
    if (mask == nullptr || visible == nullptr) return mask == nullptr ? visible : mask;
    Value* const hidden = builder_.scalar(-std::numeric_limits<double>::infinity(), mask->dtype());
    return builder_.op("select", {visible, mask, hidden});
  }

  Graph& graph_;
  Node& attention_;
  Builder builder_;
  Dim queries_, heads_, keys_;
  std::string causal_;
  Terms terms_;
};

bool may_have_alibi(const Node& node) {
  return node.op() == "attention" && node.num_results() == 1 && has(node, kMask) &&
         is_float(node.operand(kMask)->dtype()) && !has(node, kSlopes) && !has(node, kBlockTable);
}

}  // namespace

Status raise_alibi(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    if (may_have_alibi(*node)) OPWELD_CHECK(Raiser(graph, *node).raise());
  }
  return eliminate_dead_code(graph);
}

}  // namespace opweld
