#include "rewrite/raise/attention.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ops/builder.h"
#include "rewrite/dce.h"
#include "rewrite/match.h"
#include "rewrite/raise/attention_scores.h"
#include "rewrite/raise/repeated_heads.h"

namespace opweld {

namespace {

// A softmax over the keys, and what its rows are guarded by.
struct Weights {
  Node* softmax = nullptr;
  const Value* guard = nullptr;  // rows where this is -inf throughout have weights of 0
  bool zero_nan_rows = false;    // so have rows that are NaN
};

// x, if the value tells whether all of a row of x is -inf.
const Value* hidden_rows_of(const Value* value) {
  const Node* const equal = made_by(value, "eq");
  const Node* const maximum = equal == nullptr ? nullptr : made_by(equal->operand(0), "reduce_max");
  const bool is_over_rows = maximum != nullptr && maximum->operand(0)->rank() > 0 &&
                            first_reduced_axis(*maximum) == maximum->operand(0)->rank() - 1;
  const bool matches =
      is_over_rows && uniform_value(equal->operand(1)) == -std::numeric_limits<double>::infinity();
  return matches ? maximum->operand(0) : nullptr;
}

// Of a selection between 0 and x by whether x is NaN, that x; else null. Nothing else may read x
// nor what is asked of it.
Value* guarded_against_nan(const Node& selection) {
  const Value* condition = selection.operand(0);
  int kept = 2;
  if (const Node* const negation = made_by(condition, "not"); negation != nullptr) {
    if (!has_one_reader(condition)) return nullptr;
    condition = negation->operand(0);
    kept = 1;
  }
  Value* const x = selection.operand(kept);
  const Node* const is_nan = made_by(condition, "is_nan");
  const bool asks_x = is_nan != nullptr && is_nan->operand(0) == x && has_one_reader(condition);
  const bool is_read_here = x->uses().size() == 2 && !x->is_graph_output();
  const bool gives_zero = uniform_value(selection.operand(3 - kept)) == 0.0;
  return asks_x && is_read_here && gives_zero && stays_on_its_stream(x) ? x : nullptr;
}

// A softmax over the keys, in whose place nothing else is.
std::optional<Weights> softmax_over_keys(const Value* value) {
  Node* const softmax = made_by(value, "softmax");
  if (softmax == nullptr) return std::nullopt;
  const std::int64_t axis = softmax->attributes().integer("axis", -1);
  const bool is_over_keys = axis == -1 || axis == value->rank() - 1;
  return is_over_keys ? std::optional(Weights{.softmax = softmax}) : std::nullopt;
}

// The softmax whose result, perhaps cast and guarded, is the value; nothing else may read it.
std::optional<Weights> match_weights(Value* value) {
  if (!has_one_reader(value)) return std::nullopt;
  if (Value* const operand = half_cast_operand(value)) return match_weights(operand);
  if (const Node* const selection = made_by(value, "select")) {
    if (Value* const guarded = guarded_against_nan(*selection)) {
      Value* const operand = half_cast_operand(guarded);
      if (operand != nullptr && !has_one_reader(operand)) return std::nullopt;
      auto weights = softmax_over_keys(operand != nullptr ? operand : guarded);
      if (weights) weights->zero_nan_rows = true;
      return weights;
    }
    const Value* const guard = hidden_rows_of(selection->operand(0));
    if (guard == nullptr || uniform_value(selection->operand(1)) != 0.0) return std::nullopt;
    auto weights = match_weights(selection->operand(2));
    if (!weights || weights->guard != nullptr) return std::nullopt;
    weights->guard = guard;
    return weights;
  }
  return softmax_over_keys(value);
}

// The scores below the softmax, if the guard of its rows is that of attention: the scores
// themselves are -inf, or what is added to them.
std::optional<AttentionScores> match_scores(const Weights& weights) {
  Value* const top = weights.softmax->operand(0);
  const bool guards_scores = weights.guard == top;
  auto scores = match_attention_scores(top, guards_scores ? 2 : 1);
  if (!scores || weights.guard == nullptr || guards_scores) return scores;
  const auto& masks = scores->in_model;
  const bool guards_mask = std::ranges::find(masks, weights.guard) != masks.end();
  return guards_mask ? scores : std::nullopt;
}

// Batch and heads, apart where the model has them together.
struct Heads {
  Dim batch, heads;
};

// From a value of rank 3 that came from one of rank 4 by joining its first two axes.
std::optional<Heads> joined_heads(const Value* value) {
  const Node* const node = made_by(value, "reshape");
  if (node == nullptr || node->operand(0)->rank() != 4) return std::nullopt;
  const Shape& apart = node->operand(0)->shape();
  const Shape joined = {apart[0] * apart[1], apart[2], apart[3]};
  return value->shape() == joined ? std::optional(Heads{apart[0], apart[1]}) : std::nullopt;
}

class Raiser {
 public:
  Raiser(Graph& graph, Node& output, AttentionScores scores, bool zero_nan_rows)
      : graph_(graph),
        output_(output),
        scores_(std::move(scores)),
        zero_nan_rows_(zero_nan_rows),
        attention_(graph, &output, raised_source(output, "Attention")),
        transposes_(graph, &output, raised_source(output, "Transpose")),
        reshapes_(graph, &output, raised_source(output, "Reshape")),
        casts_(graph, &output, raised_source(output, "Cast")),
        masks_(graph, &output, raised_source(output, "Mask")) {}

  Status raise() {
    if (!fits()) return {};
    find_heads();
    double scale = scores_.scale;
    Value* const q = apart(without_scale(scores_.product->operand(0), scale));
    Value* const keys = without_scale(scores_.product->operand(1), scale);
    Value* const v_full = apart(output_.operand(1));
    double scale_of_k = 1;
    Value* k = transposed_keys(keys, scale_of_k);
    Value* v = without_repeated_heads(v_full);
    // Heads are repeated on both or on neither.
    if (k->shape()[1] == v->shape()[1]) {
      scale *= scale_of_k;
    } else {
      v = v_full;
      k = transposes_.transpose(apart(keys), {0, 1, 3, 2});
    }
    if (!has_status_of_all() || k->shape()[1] != v->shape()[1]) return {};
    return replace(q, k, v, scale);
  }

 private:
  // Ranks and sizes are those of attention, and masks spread over the scores.
  bool fits() const {
    const int rank = output_.result()->rank();
    if (rank != 3 && rank != 4) return false;
    const Value* const q = scores_.product->operand(0);
    const Value* const k = scores_.product->operand(1);
    const Value* const v = output_.operand(1);
    const Shape& shape = scores_.product->result()->shape();
    for (const Value* operand : {q, k, v}) {
      if (operand->rank() != rank || operand->shape()[0] != shape[0]) return false;
    }
    if (rank == 3) return true;
    // One head of keys and values may serve all queries.
    const bool own_heads = k->shape()[1] == shape[1] && v->shape()[1] == shape[1];
    const bool one_head = k->shape()[1] == Dim(1) && v->shape()[1] == Dim(1);
    return q->shape()[1] == shape[1] && (own_heads || one_head);
  }

  void find_heads() {
    if (output_.result()->rank() == 4) return;
    heads_ = {output_.result()->shape()[0], 1};
    const Value* const sources[] = {scores_.product->operand(0), scores_.product->operand(1),
                                    output_.operand(1)};
    for (const Value* value : sources) {
      if (const auto found = joined_heads(value)) {
        heads_ = *found;
        return;
      }
    }
  }

  // [B * H, S, D] as [B, H, S, D].
  Value* apart(Value* value) {
    if (value->rank() != 3) return value;
    const Shape& shape = value->shape();
    const Shape wanted = {heads_.batch, heads_.heads, shape[1], shape[2]};
    const Node* const node = made_by(value, "reshape");
    if (node != nullptr && node->operand(0)->shape() == wanted) return node->operand(0);
    return reshapes_.reshape(value, wanted);
  }

  // [B, H, T, D] of keys that were transposed with the heads joined to the batch,
  // [B * H, T, D] -> [B * H, D, T] -> [B, H, D, T]; null if they were not.
  Value* keys_transposed_jointly(const Value* keys) {
    const Node* const split = made_by(keys, "reshape");
    if (split == nullptr || keys->rank() != 4 || split->operand(0)->rank() != 3) return nullptr;
    const Node* const transpose = made_by(split->operand(0), "transpose");
    if (transpose == nullptr || !swaps_last_axes(*transpose)) return nullptr;
    const Shape& joined = transpose->operand(0)->shape();
    const Shape& shape = keys->shape();
    if (shape[2] != joined[2] || shape[3] != joined[1]) return nullptr;
    const Shape apart = {shape[0], shape[1], joined[1], joined[2]};
    const Node* const joining = made_by(transpose->operand(0), "reshape");
    if (joining != nullptr && joining->operand(0)->shape() == apart) return joining->operand(0);
    return reshapes_.reshape(transpose->operand(0), apart);
  }

  // K [B, Hkv, T, D] of which `keys` is the transpose; factors found on the way go into `scale`.
  Value* transposed_keys(Value* keys, double& scale) {
    if (Value* const k = keys_transposed_jointly(keys)) {
      return without_repeated_heads(without_scale(k, scale));
    }
    const Node* const transpose = made_by(keys, "transpose");
    if (transpose == nullptr || !swaps_last_axes(*transpose)) {
      Value* const k = apart(keys);
      const Node* const inner = made_by(k, "transpose");
      if (inner == nullptr || !swaps_last_axes(*inner)) {
        return transposes_.transpose(k, {0, 1, 3, 2});
      }
      return without_repeated_heads(without_scale(inner->operand(0), scale));
    }
    return without_repeated_heads(apart(without_scale(transpose->operand(0), scale)));
  }

  bool has_status_of_all() const {
    return std::ranges::all_of(
        std::array{&attention_, &transposes_, &reshapes_, &casts_, &masks_},
        [](const Builder* builder) { return builder->status().has_value(); });
  }

  // [B * H, S, T] as [B, H, S, T]; what has fewer axes broadcasts as it is.
  Value* mask_apart(Value* mask) {
    if (output_.result()->rank() == 4 || mask->rank() < 3) return mask;
    const Shape& shape = mask->shape();
    if (shape[0] == Dim(1)) return reshapes_.reshape(mask, {1, 1, shape[1], shape[2]});
    return apart(mask);
  }

  // All masks as one; null if there is none.
  Value* combined_mask() {
    Value* mask = nullptr;
    for (Value* added : scores_.added) {
      added = mask_apart(added);
      mask = mask == nullptr ? added : masks_.binary("add", mask, added);
    }
    if (scores_.visible == nullptr) return mask;
    Value* const visible = mask_apart(scores_.visible);
    if (mask == nullptr) return visible;
    Value* const hidden = masks_.scalar(-std::numeric_limits<double>::infinity(), mask->dtype());
    return masks_.op("select", {visible, mask, hidden});
  }

  // Where Q, K and V were all widened from one half type and the result goes back to it, the casts
  // are taken in. Else all are widened to the widest of them. Returns what is replaced.
  Value* unify_dtypes(std::array<Value*, 3>& qkv) {
    Value* result = output_.result();
    std::array<Value*, 3> narrow = qkv;
    bool all_narrow = true;
    for (Value*& operand : narrow) {
      Value* const narrowed = take_in_casts(operand, result);
      all_narrow = all_narrow && narrowed != result;
    }
    const bool same =
        narrow[0]->dtype() == narrow[1]->dtype() && narrow[1]->dtype() == narrow[2]->dtype();
    if (all_narrow && same) {
      qkv = narrow;
      return only_reader(result)->result();
    }
    DType widest = qkv[0]->dtype();
    for (const Value* operand : qkv) {
      if (operand->dtype() != widest) widest = DType::F32;
    }
    for (Value*& operand : qkv) operand = casts_.cast(operand, widest);
    return result;
  }

  Status replace(Value* q, Value* k, Value* v, double scale) {
    std::array<Value*, 3> qkv = {q, k, v};
    Value* const replaced = unify_dtypes(qkv);
    std::vector<Value*> operands(qkv.begin(), qkv.end());
    if (Value* const mask = combined_mask()) operands.push_back(mask);
    Attributes attributes = {{"scale", scale}, {"causal", scores_.causal}};
    if (scores_.softcap != 0) attributes.set("softcap", scores_.softcap);
    if (zero_nan_rows_) attributes.set("zero_nan_rows", std::int64_t{1});
    Value* raised = attention_.op("attention", std::move(operands), std::move(attributes));
    if (!attention_.status()) return attention_.status();
    raised = casts_.cast(raised, replaced->dtype());
    if (replaced->rank() == 3) raised = reshapes_.reshape(raised, replaced->shape());
    if (!has_status_of_all()) return {};
    replace_by_raised(graph_, replaced, raised);
    return {};
  }

  Graph& graph_;
  Node& output_;
  AttentionScores scores_;
  bool zero_nan_rows_;
  Heads heads_;  // of operands of rank 3
  Builder attention_, transposes_, reshapes_, casts_, masks_;
};

}  // namespace

Status raise_attention(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    if (node->op() != "matmul") continue;
    const auto weights = match_weights(node->operand(0));
    auto scores = weights ? match_scores(*weights) : std::nullopt;
    if (!scores) continue;
    OPWELD_CHECK(Raiser(graph, *node, std::move(*scores), weights->zero_nan_rows).raise());
  }
  return eliminate_dead_code(graph);
}

}  // namespace opweld
