// attention: softmax(mask(scale q k^T)) v, for every head.
//
//   score(s, t) = scale * sum over d of q[b, h, s, d] k[b, g, t, d],  g = h / (Hq / Hkv)
//   score = softcap * tanh(score / softcap)         if softcap is not 0
//   score = score + mask[b, h, s, t]                a float mask
//   score = -inf                                    where a bool mask is false, or t is not visible
//   result[b, h, s, :] = sum over t of softmax(score)[t] v[b, g, t, :]
//
// Visibility. Query s stands at position p = s, or p = s + T - S if causal is "bottom_right" (the
// queries are the last S of T keys). If causal is not "none", t <= p; if window_left >= 0,
// t >= p - window_left; if window_right >= 0, t <= p + window_right.
//
// A row whose scores are all -inf, or that has no keys, gives zeros. A row with a NaN or +inf score
// gives NaN, as softmax does. What becomes of NaN and infinities in v at keys of weight 0 is not
// defined. Scores and weights are computed in the compute type; the result is rounded once.
// Meaning as in ONNX Attention (opsets 23 to 25).
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ops/broadcast.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// ---- shape rule ----

Status check_attention_attributes(const Attributes& attributes) {
  const std::string causal = attributes.text("causal", "none");
  if (causal != "none" && causal != "top_left" && causal != "bottom_right") {
    return fail("attribute 'causal' must be \"none\", \"top_left\" or \"bottom_right\", not \"{}\"",
                causal);
  }
  for (const std::string_view window : {"window_left", "window_right"}) {
    if (attributes.integer(window, -1) >= -1) continue;
    return fail("attribute '{}' must be -1 (no limit), 0 or more, not {}", window,
                attributes.integer(window));
  }
  return {};
}

// Every query head reads the key head h / (Hq / Hkv), so Hkv divides Hq.
Status check_heads(const OpContext& context, const Dim& query_heads, const Dim& key_heads) {
  if (query_heads == key_heads) return {};
  if (key_heads == Dim(0)) return fail("there are {} query heads but no key heads", query_heads);
  if (auto rest = unify_sizes(mod(query_heads, key_heads), 0, "query heads mod key heads, and 0,",
                              context.assumptions);
      !rest) {
    return fail("the {} query heads are no multiple of the {} key heads", query_heads, key_heads);
  }
  return {};
}

// The mask broadcasts to [B, Hq, S, T].
Status check_mask(const OpContext& context, const Shape& scores) {
  if (!context.has(3)) return {};
  const Shape& mask = context.type(3).shape;
  if (mask.size() > scores.size()) {
    return fail("operand 'mask' has rank {}, more than the scores {}", mask.size(),
                to_string(scores));
  }
  const std::size_t added = scores.size() - mask.size();
  for (std::size_t axis = 0; axis < mask.size(); ++axis) {
    if (mask[axis] == Dim(1)) continue;
    OPWELD_TRY([[maybe_unused]] const Dim size,
               unify_sizes(scores[added + axis], mask[axis],
                           fmt::format("axis {} of the scores {} and of the mask {}", added + axis,
                                       to_string(scores), to_string(mask)),
                           context.assumptions));
  }
  return {};
}

Expected<std::vector<TensorType>> infer_attention(const OpContext& context) {
  for (const int index : {0, 1, 2}) OPWELD_CHECK(require_rank(context, index, 4));
  OPWELD_CHECK(check_attention_attributes(context.attributes));
  const Shape& q = context.type(0).shape;
  const Shape& k = context.type(1).shape;
  const Shape& v = context.type(2).shape;
  const auto unify = [&](const Dim& a, const Dim& b, std::string_view what) {
    return unify_sizes(a, b, what, context.assumptions);
  };
  OPWELD_TRY(Dim batch, unify(q[0], k[0], "the batch of 'q' and 'k'"));
  OPWELD_TRY(batch, unify(batch, v[0], "the batch of 'q' and 'v'"));
  OPWELD_TRY(const Dim key_heads, unify(k[1], v[1], "the heads of 'k' and 'v'"));
  OPWELD_TRY(const Dim keys, unify(k[2], v[2], "the lengths of 'k' and 'v'"));
  OPWELD_TRY([[maybe_unused]] const Dim head, unify(q[3], k[3], "the head sizes of 'q' and 'k'"));
  OPWELD_CHECK(check_heads(context, q[1], key_heads));
  OPWELD_CHECK(check_mask(context, {batch, q[1], q[2], keys}));
  return std::vector<TensorType>{{context.type(0).dtype, {batch, q[1], q[2], v[3]}}};
}

// ---- evaluation ----

// Which keys a query sees, apart from the mask.
struct Visibility {
  bool causal;
  std::int64_t diagonal;  // position of query 0
  std::int64_t window_left, window_right;

  Visibility(const Attributes& attributes, std::int64_t queries, std::int64_t keys)
      : window_left(attributes.integer("window_left", -1)),
        window_right(attributes.integer("window_right", -1)) {
    const std::string alignment = attributes.text("causal", "none");
    causal = alignment != "none";
    diagonal = alignment == "bottom_right" ? keys - queries : 0;
  }

  [[nodiscard]] bool sees(std::int64_t query, std::int64_t key) const {
    const std::int64_t ahead = key - (query + diagonal);
    if (causal && ahead > 0) return false;
    if (window_left >= 0 && ahead < -window_left) return false;
    return window_right < 0 || ahead <= window_right;
  }
};

// Elements of one matrix [rows, columns] inside a tensor, as doubles.
struct Matrix {
  std::vector<double> values;
  std::int64_t columns;

  Matrix(const Tensor& tensor, std::int64_t index) : columns(tensor.sizes()[3]) {
    const std::int64_t count = tensor.sizes()[2] * columns;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(tensor.get_double(index * count + i));
  }

  [[nodiscard]] const double* row(std::int64_t r) const { return values.data() + r * columns; }
};

double score_of(const double* q, const double* k, std::int64_t head, const Attributes& attributes) {
  double dot = 0;
  for (std::int64_t d = 0; d < head; ++d) dot += q[d] * k[d];
  const double score = attributes.real("scale", 1) * dot;
  const double softcap = attributes.real("softcap", 0);
  return softcap == 0 ? score : softcap * std::tanh(score / softcap);
}

double masked(double score, const Tensor* mask, std::int64_t at) {
  if (mask == nullptr) return score;
  if (mask->dtype() == DType::Bool) return mask->get_int(at) != 0 ? score : kMinusInfinity;
  return score + mask->get_double(at);
}

// exp(score - maximum), not yet divided by its sum, which is returned; 0 if all scores are -inf.
double to_weights(std::vector<double>& scores) {
  double maximum = kMinusInfinity;
  for (const double score : scores) {
    if (score > maximum || std::isnan(score)) maximum = score;
  }
  if (maximum == kMinusInfinity) return 0;
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - maximum);
  return sum;
}

void store_weighted_sum(const std::vector<double>& weights, double sum, const Matrix& v,
                        Tensor& result, std::int64_t first) {
  std::vector<double> row(static_cast<std::size_t>(v.columns), 0.0);
  for (std::size_t t = 0; t < weights.size(); ++t) {
    const double* values = v.row(static_cast<std::int64_t>(t));
    for (std::size_t d = 0; d < row.size(); ++d) row[d] += weights[t] * values[d];
  }
  for (std::size_t d = 0; d < row.size(); ++d) {
    result.set_double(first + static_cast<std::int64_t>(d), row[d] / sum);
  }
}

// Positions in the mask of all scores [B, Hq, S, T], in row-major order.
std::vector<std::int64_t> mask_positions(const Tensor* mask, const Sizes& scores) {
  std::vector<std::int64_t> positions;
  if (mask == nullptr) return positions;
  const Sizes* operand = &mask->sizes();
  for (BroadcastWalk walk(scores, {&operand, 1}); !walk.done(); walk.advance()) {
    positions.push_back(walk.offsets()[0]);
  }
  return positions;
}

Status evaluate_attention(const EvalContext& context) {
  const Tensor& q = *context.operands[0];
  const Tensor& k = *context.operands[1];
  const Tensor* mask = context.operands[3];
  Tensor& result = context.results[0];
  const std::int64_t query_heads = q.sizes()[1];
  const std::int64_t key_heads = k.sizes()[1];
  const std::int64_t queries = q.sizes()[2];
  const std::int64_t keys = k.sizes()[2];
  const Visibility visibility(context.attributes, queries, keys);
  const auto mask_at = mask_positions(mask, {q.sizes()[0], query_heads, queries, keys});
  std::vector<double> scores(static_cast<std::size_t>(keys));

  for (std::int64_t bh = 0; bh < q.sizes()[0] * query_heads; ++bh) {
    const std::int64_t group = bh % query_heads / (query_heads / key_heads);
    const std::int64_t key_matrix = bh / query_heads * key_heads + group;
    const Matrix queries_of_head(q, bh);
    const Matrix keys_of_head(k, key_matrix);
    const Matrix values_of_head(*context.operands[2], key_matrix);
    for (std::int64_t s = 0; s < queries; ++s) {
      for (std::int64_t t = 0; t < keys; ++t) {
        double score =
            score_of(queries_of_head.row(s), keys_of_head.row(t), q.sizes()[3], context.attributes);
        if (mask != nullptr) {
          const auto place = static_cast<std::size_t>((bh * queries + s) * keys + t);
          score = masked(score, mask, mask_at[place]);
        }
        scores[static_cast<std::size_t>(t)] = visibility.sees(s, t) ? score : kMinusInfinity;
      }
      const double sum = to_weights(scores);
      const std::int64_t first = (bh * queries + s) * values_of_head.columns;
      if (sum != 0) store_weighted_sum(scores, sum, values_of_head, result, first);
    }
  }
  return {};
}

}  // namespace

std::span<const OpDef> attention_ops() {
  using Arity = OperandDef::Arity;
  static const OpDef defs[] = {
      {
          .name = "attention",
          .summary = "q[B, Hq, S, D], k[B, Hkv, T, D], v[B, Hkv, T, Dv], mask? -> [B, Hq, S, Dv]; "
                     "see the head of ops/attention.cpp",
          .trait = FusionTrait::Attention,
          .operands = {{"q", kFloats, 1},
                       {"k", kFloats, 1},
                       {"v", kFloats, 1},
                       {"mask", kFloats | kBool, 0, Arity::Optional}},
          .attributes = {{"scale", AttributeKind::Real, false},
                         {"causal", AttributeKind::Text, false},
                         {"window_left", AttributeKind::Integer, false},
                         {"window_right", AttributeKind::Integer, false},
                         {"softcap", AttributeKind::Real, false}},
          .infer = infer_attention,
          .evaluate = evaluate_attention,
      },
  };
  return defs;
}

}  // namespace opweld
