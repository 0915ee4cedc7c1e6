#include "rewrite/raise/attention_scores.h"

#include <algorithm>
#include <cmath>

#include "rewrite/match.h"
#include "rewrite/raise/alibi_bias.h"
#include "rewrite/raise/causal_mask.h"

namespace opweld {

namespace {

// The scores, and what is known of them only on the way.
struct Found {
  AttentionScores scores;
  bool hides_finitely = false;  // the causal mask is a finite number
};

using Maybe = std::optional<Found>;

Maybe follow(Value* value, std::size_t readers = 1);

std::optional<CausalMask> causal_over(const Value* mask, bool true_hides, const Value* scores) {
  const Shape& shape = scores->shape();
  return match_causal_mask(mask, true_hides, shape[shape.size() - 2], shape.back());
}

bool set_causal(Found& found, const CausalMask& mask) {
  if (found.scores.causal != "none" && found.scores.causal != mask.alignment) return false;
  found.scores.causal = mask.alignment;
  found.hides_finitely = found.hides_finitely || mask.is_finite;
  return true;
}

// A mask that is added; where it is a sum itself, of a causal one of -inf and another, these.
bool add_float_mask(Found& found, Value* mask, const Value* scores) {
  if (!is_float(mask->dtype()) || !spreads_over(mask, scores->shape())) return false;
  if (uniform_value(mask) == 0.0) return true;
  if (const auto causal = causal_over(mask, false, scores)) return set_causal(found, *causal);
  if (const Node* const sum = made_by(mask, "add")) {
    for (int side = 0; side < 2; ++side) {
      const auto causal = causal_over(sum->operand(side), false, scores);
      if (!causal || causal->is_finite) continue;
      return set_causal(found, *causal) && add_float_mask(found, sum->operand(1 - side), scores);
    }
  }
  found.scores.added.push_back(mask);
  return true;
}

// A mask that selects between a score and -inf; likewise.
bool add_bool_mask(Found& found, Value* mask, bool true_hides, const Value* scores) {
  if (!spreads_over(mask, scores->shape())) return false;
  if (const auto causal = causal_over(mask, true_hides, scores)) return set_causal(found, *causal);
  if (true_hides || found.scores.visible != nullptr) return false;
  if (const Node* const both = made_by(mask, "and")) {
    for (int side = 0; side < 2; ++side) {
      const auto causal = causal_over(both->operand(side), false, scores);
      if (!causal) continue;
      return set_causal(found, *causal) &&
             add_bool_mask(found, both->operand(1 - side), false, scores);
    }
  }
  found.scores.visible = mask;
  return true;
}

// scores + mask
Maybe follow_sum(const Node& sum) {
  for (int side = 0; side < 2; ++side) {
    if (sum.operand(side)->shape() != sum.result()->shape()) continue;
    Maybe found = follow(sum.operand(side));
    if (!found) continue;
    found->scores.in_model.push_back(sum.operand(1 - side));
    const bool added = add_float_mask(*found, sum.operand(1 - side), sum.result());
    return added ? found : std::nullopt;
  }
  return std::nullopt;
}

// select(visible, scores, fill) or select(hidden, fill, scores)
Maybe follow_selection(const Node& selection) {
  for (const int kept : {1, 2}) {
    if (selection.operand(kept)->shape() != selection.result()->shape()) continue;
    const auto fill = uniform_value(selection.operand(3 - kept));
    if (!fill || !hides_keys(*fill, selection.result()->dtype())) continue;
    Maybe found = follow(selection.operand(kept));
    if (!found) continue;
    Value* const condition = selection.operand(0);
    const bool true_hides = kept == 2;
    if (std::isfinite(*fill)) {
      auto causal = causal_over(condition, true_hides, selection.result());
      if (!causal) return std::nullopt;
      causal->is_finite = true;
      return set_causal(*found, *causal) ? found : std::nullopt;
    }
    const bool added = add_bool_mask(*found, condition, true_hides, selection.result());
    return added ? found : std::nullopt;
  }
  return std::nullopt;
}

// Neither masked nor capped: a factor or a cap around these would go for them as well.
bool is_bare(const AttentionScores& scores) {
  return scores.added.empty() && scores.visible == nullptr && scores.causal == "none" &&
         scores.softcap == 0;
}

// factor * scores, or factor * tanh(scores)
Maybe follow_scaled(Value* operand, double factor) {
  const Node* const bent = made_by(operand, "tanh");
  const bool is_cap = bent != nullptr && has_one_reader(operand) && factor > 0;
  Maybe found = follow(is_cap ? bent->operand(0) : operand);
  if (!found || !is_bare(found->scores)) return std::nullopt;
  // The operator divides by the cap what it takes the tanh of.
  found->scores.scale *= factor;
  if (is_cap) found->scores.softcap = factor;
  return found;
}

Maybe follow(Value* value, std::size_t readers) {
  Node* const node = value->producer();
  if (node == nullptr || value->rank() < 2) return std::nullopt;
  if (value->is_graph_output() || value->uses().size() != readers) return std::nullopt;
  if (!stays_on_its_stream(value)) return std::nullopt;
  if (node->op() == "matmul") {
    Found found;
    found.scores.product = node;
    return found;
  }
  if (Value* const operand = half_cast_operand(value)) return follow(operand);
  double factor = 1;
  if (Value* const scaled = scaled_operand(*node, factor)) return follow_scaled(scaled, factor);
  if (node->op() == "add") return follow_sum(*node);
  if (node->op() == "select") return follow_selection(*node);
  return std::nullopt;
}

}  // namespace

std::optional<AttentionScores> match_attention_scores(Value* value, std::size_t readers) {
  const Maybe found = follow(value, readers);
  if (!found) return std::nullopt;
  const AttentionScores& scores = found->scores;
  const Shape& shape = scores.product->result()->shape();
  const bool hides_nothing = std::ranges::all_of(scores.added, [&](Value* added) {
    const auto bias = match_alibi(added, scores.causal, shape[shape.size() - 2], shape.back());
    return bias && !bias->hidden;
  });
  const bool is_only_mask = hides_nothing && scores.visible == nullptr;
  return is_only_mask || !found->hides_finitely ? std::optional(scores) : std::nullopt;
}

Value* without_scale(Value* value, double& scale) {
  for (;;) {
    Node* const node = value->producer();
    double factor = 1;
    const bool is_near = node != nullptr && stays_on_its_stream(value);
    Value* const inner = is_near ? scaled_operand(*node, factor) : nullptr;
    if (inner == nullptr || inner->shape() != value->shape()) return value;
    scale *= factor;
    value = inner;
  }
}

Value* half_cast_operand(const Value* value) {
  const Node* const cast = made_by(value, "cast");
  if (cast == nullptr) return nullptr;
  const auto is_f32_or_half = [](DType dtype) {
    return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
  };
  Value* const operand = cast->operand(0);
  return is_f32_or_half(operand->dtype()) && is_f32_or_half(value->dtype()) ? operand : nullptr;
}

}  // namespace opweld
