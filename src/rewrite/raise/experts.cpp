#include "rewrite/raise/experts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ops/builder.h"
#include "rewrite/dce.h"
#include "rewrite/match.h"
#include "rewrite/raise/expert_choice.h"
#include "rewrite/raise/expert_program.h"
#include "rewrite/raise/mixture.h"

namespace opweld {

namespace {

using Kind = Chosen::Kind;

// One summand: what an expert, or all in a batch, computed, times what the choice made of it.
struct Term {
  Value* result = nullptr;  // the summand; of a batch, the sum
  Value* computed = nullptr;
  Chosen share;  // of a batch without an expert
  // Of a batch, what the axes of what was computed stand for: tokens, experts, columns (kNoAxis).
  std::vector<int> axes = {};
};

// Summands that are added up in one tree of sums.
struct Sum {
  std::vector<Term> terms;
  std::vector<Value*> others;  // all else that is added, zeros left out
};

class Raiser {
 public:
  Raiser(Graph& graph, ExpertChoice& choice, std::vector<std::string>* notes)
      : graph_(graph), choice_(choice), notes_(notes) {}

  Status run() {
    std::map<Value*, std::vector<Term>> by_root;
    std::vector<Value*> roots;  // in order
    for (const Term& term : find_terms()) {
      if (!term.share.expert) {
        OPWELD_CHECK(raise_batch(term));
        continue;
      }
      Value* const root = top_of_sum(term.result);
      if (!by_root.contains(root)) roots.push_back(root);
      by_root[root].push_back(term);
    }
    for (Value* root : roots) {
      const std::vector<Term>& terms = by_root[root];
      if (terms.size() > 1) OPWELD_CHECK(raise_branches(root, terms));
    }
    return raise_gathered();
  }

 private:
  // ---- what reads the choice ----

  // From the indices on through all that can be said in terms of the choice, to what reads it.
  std::vector<Term> find_terms() {
    std::vector<Term> terms;
    std::set<const Node*> seen;
    std::vector<Value*> pending = {choice_.indices()};
    while (!pending.empty()) {
      Value* const value = pending.back();
      pending.pop_back();
      for (const Use& use : value->uses()) {
        if (!seen.insert(use.node).second || use.node->num_results() != 1) continue;
        const auto& chosen = choice_.describe(use.node->result());
        if (chosen && chosen->kind != Kind::Weight) {
          pending.push_back(use.node->result());
        } else if (auto term = match_term(*use.node)) {
          terms.push_back(*term);
        }
      }
    }
    return terms;
  }

  std::optional<Term> match_term(const Node& node) {
    if (node.op() == "mul") return match_product(node);
    if (node.op() == "matmul") return match_weighted_sum(node);
    if (node.op() != "select") return std::nullopt;
    auto by_rows = match_selected_rows(node);
    return by_rows ? by_rows : match_selection(node);
  }

  // expert(x) * share.
  std::optional<Term> match_product(const Node& product) {
    for (int side = 0; side < 2; ++side) {
      const auto share = choice_.describe(product.operand(side));
      if (!share || share->kind != Kind::Share) continue;
      Value* const computed = product.operand(1 - side);
      if (computed->rank() != product.operand(side)->rank() ||
          computed->type() != product.result()->type()) {
        return std::nullopt;
      }
      const std::size_t tokens = choice_.tokens().size();
      if (share->expert) {
        const bool fits = share->axes.size() == tokens + 1 && choice_.is_by_token(share->axes);
        return fits ? std::optional(Term{product.result(), computed, *share}) : std::nullopt;
      }
      const bool in_front = share->axes.size() == tokens + 2 && share->axes[0] == kExpertAxis &&
                            choice_.is_by_token(share->axes, 1);
      if (!in_front && share->axes != behind_tokens({kExpertAxis, kNoAxis})) return std::nullopt;
      Value* const sum = sum_over(product.result(), in_front ? 0 : tokens);
      return sum != nullptr ? std::optional(Term{sum, computed, *share, share->axes})
                            : std::nullopt;
    }
    return std::nullopt;
  }

  // tokens.., and these.
  [[nodiscard]] std::vector<int> behind_tokens(std::initializer_list<int> last) const {
    std::vector<int> axes;
    for (std::size_t i = 0; i < choice_.tokens().size(); ++i) axes.push_back(static_cast<int>(i));
    axes.insert(axes.end(), last);
    return axes;
  }

  // The sum over experts as a product with the shares, "te,ted->td": [tokens.., 1, experts] by
  // [tokens.., experts, N], or [tokens.., N, experts] by [tokens.., experts, 1].
  std::optional<Term> match_weighted_sum(const Node& product) {
    for (int side = 0; side < 2; ++side) {
      const auto share = choice_.describe(product.operand(side));
      if (!share || share->kind != Kind::Share || share->expert) continue;
      const auto axes =
          side == 0 ? behind_tokens({kNoAxis, kExpertAxis}) : behind_tokens({kExpertAxis, kNoAxis});
      if (share->axes != axes) return std::nullopt;
      Value* const computed = product.operand(1 - side);
      if (computed->rank() != product.operand(side)->rank()) return std::nullopt;
      return Term{product.result(), computed, *share,
                  side == 0 ? behind_tokens({kExpertAxis, kNoAxis})
                            : behind_tokens({kNoAxis, kExpertAxis})};
    }
    return std::nullopt;
  }

  // The sum over the axis, if that is all that becomes of the value.
  static Value* sum_over(const Value* value, std::size_t axis) {
    const Node* const sum = has_one_reader(value) ? only_reader(value) : nullptr;
    if (sum == nullptr || sum->op() != "reduce_sum" || !sum->attributes().has("axes")) {
      return nullptr;
    }
    const bool fits = sum->attributes().ints("axes") == Ints{static_cast<std::int64_t>(axis)} &&
                      sum->attributes().integer("keepdims", 1) == 0;
    return fits ? sum->result() : nullptr;
  }

  // A token that chose the expert ? expert(x) * share : 0.
  std::optional<Term> match_selected_rows(const Node& selection) {
    const auto mask = choice_.describe(selection.operand(0));
    const Node* const product = made_by(selection.operand(1), "mul");
    const bool is_masked = mask && mask->kind == Kind::Mask && mask->expert &&
                           !mask->has(kSlotAxis) && choice_.is_by_token(mask->axes) &&
                           product != nullptr && has_one_reader(product->result()) &&
                           uniform_value(selection.operand(2)) == 0.0;
    if (!is_masked || product->result()->type() != selection.result()->type()) return std::nullopt;
    if (mask->axes.size() != choice_.tokens().size() + 1) return std::nullopt;
    auto term = match_product(*product);
    if (!term || term->share.expert != mask->expert) return std::nullopt;
    term->result = selection.result();
    return term;
  }

  // Where there is one choice, any axis of one element may be that of the slots.
  [[nodiscard]] std::vector<int> placed(std::vector<int> axes) const {
    if (choice_.choices() == 1) std::ranges::replace(axes, kSlotAxis, kNoAxis);
    return axes;
  }

  // sum over j of (mask of an expert ? expert(x) * weight : 0), j being the first axis.
  std::optional<Term> match_selection(const Node& selection) {
    const auto mask = choice_.describe(selection.operand(0));
    const Node* const product = made_by(selection.operand(1), "mul");
    const bool is_masked = mask && mask->kind == Kind::Mask && mask->expert && product != nullptr &&
                           has_one_reader(product->result()) &&
                           uniform_value(selection.operand(2)) == 0.0;
    if (!is_masked) return std::nullopt;
    const std::vector<int> axes = placed(mask->axes);
    if (axes.front() != placed({kSlotAxis}).front() || !choice_.is_by_token(axes, 1)) {
      return std::nullopt;
    }
    Value* const sum = sum_over(selection.result(), 0);
    if (sum == nullptr) return std::nullopt;
    for (int side = 0; side < 2; ++side) {
      auto weight = choice_.describe(product->operand(side));
      Value* const computed = product->operand(1 - side);
      if (!weight || weight->kind != Kind::Weight || placed(weight->axes) != axes) continue;
      if (computed->type() != sum->type()) return std::nullopt;
      weight->expert = mask->expert;
      return Term{sum, computed, *weight};
    }
    return std::nullopt;
  }

  // ---- sums ----

  // Whether the node adds the value to another of its shape.
  static Node* sum_that_reads(const Value* value) {
    Node* const reader = has_one_reader(value) ? only_reader(value) : nullptr;
    const bool adds =
        reader != nullptr && reader->op() == "add" && reader->result()->type() == value->type();
    return adds ? reader : nullptr;
  }

  static Value* top_of_sum(Value* value) {
    while (const Node* const sum = sum_that_reads(value)) value = sum->result();
    return value;
  }

  void collect(Value* value, const std::vector<Term>& terms, bool is_top, Sum& sum) const {
    const auto term =
        std::ranges::find_if(terms, [&](const Term& each) { return each.result == value; });
    if (term != terms.end()) {
      sum.terms.push_back(*term);
      return;
    }
    const Node* const node = made_by(value, "add");
    const bool is_inner = node != nullptr && (is_top || has_one_reader(value)) &&
                          node->operand(0)->type() == node->operand(1)->type() &&
                          node->operand(0)->type() == value->type();
    if (is_inner) {
      collect(node->operand(0), terms, false, sum);
      collect(node->operand(1), terms, false, sum);
    } else if (uniform_value(value) != 0.0) {
      sum.others.push_back(value);
    }
  }

  // The lowest sum that all terms are in.
  Value* lowest(Value* root, const std::vector<Term>& terms) const {
    while (const Node* const node = made_by(root, "add")) {
      Value* next = nullptr;
      for (int side = 0; side < 2; ++side) {
        Sum sum;
        Value* const operand = node->operand(side);
        if (operand->type() != root->type()) continue;
        collect(operand, terms, false, sum);
        if (sum.terms.size() == terms.size()) next = operand;
      }
      if (next == nullptr) break;
      root = next;
    }
    return root;
  }

  // ---- what comes in place ----

  Status raise_branches(Value* top, const std::vector<Term>& terms) {
    Value* const root = lowest(top, terms);
    Sum sum;
    collect(root, terms, true, sum);
    auto order = in_order(sum);
    if (!order) return note(root, terms.size(), order.error());
    std::vector<Value*> computed;
    for (const Term& term : *order) {
      if (!has_one_reader(term.computed)) {
        return note(root, terms.size(),
                    {ErrorKind::Failure,
                     fmt::format("expert {} is read elsewhere as well", *term.share.expert)});
      }
      computed.push_back(term.computed);
    }
    auto program = program_of_branches(computed, choice_.tokens());
    if (!program) return note(root, terms.size(), program.error());
    return put(root, order->front().share, *program, sum.others);
  }

  Status raise_batch(const Term& term) {
    const auto experts = static_cast<std::size_t>(choice_.experts());
    if (!has_one_reader(term.computed)) {
      return note(term.result, experts,
                  {ErrorKind::Failure, "what they compute is read elsewhere as well"});
    }
    auto program = program_of(term);
    if (!program) return note(term.result, experts, program.error());
    return put(term.result, term.share, *program, {});
  }

  // Of experts that are computed in a batch, or one by one and put beside each other.
  Expected<ExpertProgram> program_of(const Term& term) const {
    const auto experts = static_cast<std::size_t>(choice_.experts());
    const Node* const together = made_by(term.computed, "concat");
    if (together == nullptr || static_cast<std::size_t>(together->num_operands()) != experts) {
      return program_of_batch(term.computed, term.axes, choice_.tokens(), choice_.experts());
    }
    Shape one = term.computed->shape();
    const auto axis = static_cast<std::size_t>(together->attributes().integer("axis"));
    if (term.axes[axis] != kExpertAxis || term.axes.back() != kNoAxis) {
      return fail("they are put beside each other along another axis");
    }
    one[axis] = 1;
    Shape rows = choice_.tokens();
    rows.push_back(term.computed->shape().back());
    std::vector<Value*> each;
    for (Value* operand : together->operands()) {
      Value* const made = behind_reshapes(operand);
      if (operand->shape() != one || made->shape() != rows || !has_one_reader(made)) {
        return fail("'{}' is no row for each token", operand->name());
      }
      each.push_back(made);
    }
    return program_of_branches(each, choice_.tokens());
  }

  Status put(Value* root, const Chosen& share, const ExpertProgram& program,
             const std::vector<Value*>& others) {
    Node& node = *root->producer();
    OPWELD_TRY(Value * mixture, build_mixture(graph_, node, choice_, share, program));
    Builder build(graph_, &node, node.source());
    for (Value* other : others) mixture = build.binary("add", other, mixture);
    OPWELD_CHECK(build.status());
    // Of a sum by a product, an axis of one more.
    if (mixture->shape() != root->shape()) mixture = build.reshape(mixture, root->shape());
    OPWELD_CHECK(build.status());
    replace_by_raised(graph_, root, mixture);
    // The weights that were stacked go at once, so that a large model is not in memory twice.
    return eliminate_dead_code(graph_);
  }

  // ---- matrices that are gathered for each choice ----

  Status raise_gathered() {
    if (!gathers_matrices(choice_.indices())) return {};
    // Whoever sums over the choices of a token.
    std::vector<Node*> sums;
    for (Node* node : graph_.nodes_in_order()) {
      if (node->op() == "reduce_sum" && sums_over_choices(*node)) sums.push_back(node);
    }
    for (Node* sum : sums) OPWELD_CHECK(raise_sum_of_choices(*sum));
    for (Node* node : graph_.nodes_in_order()) {
      if (node->op() != "matmul") continue;
      const auto summed = match_product_over_choices(*node);
      if (!summed) continue;
      // Other products go with the mixture.
      return raise_choices(*node, summed->computed, summed->share.weight);
    }
    return {};
  }

  // The sum over the choices as a product, "bec,be->bc": [tokens.., 1, k] by [tokens.., k, N], or
  // [tokens.., N, k] by [tokens.., k, 1].
  std::optional<Term> match_product_over_choices(const Node& product) const {
    for (int side = 0; side < 2; ++side) {
      Value* const weight = behind_reshapes(product.operand(side));
      if (weight->shape() != choice_.indices()->shape() || !is_float(weight->dtype())) continue;
      Shape form = choice_.indices()->shape();
      form.insert(side == 0 ? form.end() - 1 : form.end(), Dim(1));
      Value* computed = product.operand(1 - side);
      if (product.operand(side)->shape() != form || !has_one_reader(computed) ||
          computed->rank() != static_cast<int>(form.size())) {
        continue;
      }
      if (side == 1) {
        const Node* const turned = made_by(computed, "transpose");
        if (turned == nullptr || !swaps_last_axes(*turned)) continue;
        computed = turned->operand(0);
        if (!has_one_reader(computed)) continue;
      }
      if (!starts_with_choices(computed->shape())) continue;
      Term term{product.result(), computed, {}};
      term.share.weight = weight;
      return term;
    }
    return std::nullopt;
  }

  bool starts_with_choices(const Shape& shape) const {
    const Shape& indices = choice_.indices()->shape();
    return shape.size() == indices.size() + 1 &&
           std::equal(indices.begin(), indices.end(), shape.begin());
  }

  Status raise_choices(Node& sum, Value* computed, Value* weight) {
    auto program = program_of_choices(computed, choice_.indices(), choice_.experts());
    const auto experts = static_cast<std::size_t>(choice_.experts());
    if (!program) return note(sum.result(), experts, program.error());
    Chosen share;
    share.weight = weight;
    return put(sum.result(), share, *program, {});
  }

  // Whether somebody picks matrices by the indices, reshaped or not.
  static bool gathers_matrices(const Value* indices) {
    return std::ranges::any_of(indices->uses(), [](const Use& use) {
      const std::string& op = use.node->op();
      if (op == "reshape" || op == "cast") return gathers_matrices(use.node->result());
      return op == "gather" && use.index == 1 && use.node->operand(0)->rank() == 3;
    });
  }

  bool sums_over_choices(const Node& sum) const {
    const auto axis = static_cast<std::int64_t>(choice_.tokens().size());
    return sum.attributes().has("axes") && sum.attributes().ints("axes") == Ints{axis} &&
           sum.attributes().integer("keepdims", 1) == 0 &&
           starts_with_choices(sum.operand(0)->shape());
  }

  Status raise_sum_of_choices(Node& sum) {
    const Node* const product = made_by(behind_reshapes(sum.operand(0)), "mul");
    if (product == nullptr) return {};
    const Dim rows = choice_.indices()->type().num_elements();
    for (int side = 0; side < 2; ++side) {
      Value* const weight = behind_reshapes(product->operand(side));
      Value* const computed = product->operand(1 - side);
      if (weight->shape() != choice_.indices()->shape() || !is_float(weight->dtype()) ||
          computed->type() != product->result()->type() || !has_one_reader(computed) ||
          product->operand(side)->type().num_elements() != rows ||
          product->operand(side)->shape().back() != Dim(1)) {
        continue;
      }
      return raise_choices(sum, computed, weight);
    }
    return {};
  }

  // By expert, each once, all with one weight.
  Expected<std::vector<Term>> in_order(const Sum& sum) const {
    std::vector<std::vector<Term>> by_expert(static_cast<std::size_t>(choice_.experts()));
    const Chosen& first = sum.terms.front().share;
    for (const Term& term : sum.terms) {
      const std::int64_t expert = *term.share.expert;
      if (expert < 0 || expert >= choice_.experts()) {
        return fail("expert {} is none of {}", expert, choice_.experts());
      }
      if (term.share.weight != first.weight || term.share.steps != first.steps) {
        return fail("experts {} and {} count by different weights", *first.expert, expert);
      }
      by_expert[static_cast<std::size_t>(expert)].push_back(term);
    }
    std::vector<Term> result;
    std::vector<std::size_t> missing;
    for (std::size_t expert = 0; expert < by_expert.size(); ++expert) {
      if (by_expert[expert].size() > 1) return fail("expert {} is added twice", expert);
      if (by_expert[expert].empty()) missing.push_back(expert);
      if (!by_expert[expert].empty()) result.push_back(by_expert[expert].front());
    }
    if (!missing.empty()) {
      return fail("of {} that '{}' chooses among, the sum leaves out {}", choice_.experts(),
                  choice_.node().display_name(), fmt::join(missing, ", "));
    }
    return result;
  }

  Status note(const Value* root, std::size_t experts, const Error& why) {
    if (notes_ != nullptr) {
      notes_->push_back(fmt::format("{} experts that end in {} stay apart: {}", experts,
                                    root->producer()->display_name(), why.message));
    }
    return {};
  }

  Graph& graph_;
  ExpertChoice& choice_;
  std::vector<std::string>* notes_;
};

}  // namespace

Status raise_experts(Graph& graph, std::vector<std::string>* notes) {
  // These stay while what reads them goes.
  std::vector<Node*> choices;
  for (Node* node : graph.nodes_in_order()) {
    if (node->op() == "top_k") choices.push_back(node);
  }
  for (Node* node : choices) {
    auto choice = ExpertChoice::make(*node);
    if (choice) OPWELD_CHECK(Raiser(graph, *choice, notes).run());
  }
  return {};
}

}  // namespace opweld
