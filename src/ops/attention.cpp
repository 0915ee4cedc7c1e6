// attention: softmax(mask(scale q k^T)) v, for every head.
//
//   score(s, t) = scale * sum over d of q[b, h, s, d] k[b, g, t, d],  g = h / (Hq / Hkv)
//   score = softcap * tanh(score / softcap)         if softcap is not 0
//   score = score + slopes[h] (t - p)               if there are slopes (ALiBi: Press et al., 2022)
//   score = score + mask[b, h, s, t]                if it is a float mask
//   score = -inf                                    where t is hidden
//   result[b, h, s, :] = sum over t of softmax(score)[t] v[b, g, t, :]
//   lse[b, h, s] = log(sum over t of exp(score))    a second result, if asked for
//
// Hidden. Of the T keys, n = lengths[b] are valid (0 <= n <= T, else an error), all of them where
// there are no lengths. Query s stands at position p = s, or p = s + n - S if causal is
// "bottom_right" (the queries are the last S of n keys). A key is hidden where t >= n, a bool mask
// is false or a float mask -inf; if causal is not "none", where t > p; if window_left >= 0, where
// t < p - window_left; if window_right >= 0, where t > p + window_right.
//
// Paged. With a block_table [B, W], k is [N, Hkv, P, D] and v [N, Hkv, P, Dv]: key t of batch
// element b is row t % P of block block_table[b, t / P], and T = W P (see block_table.h). It needs
// lengths. Only ids of blocks with a key that lengths, causal and the window let a query see are
// looked at; each of them must be in [0, N), else it is an error. What other entries hold, and what
// blocks hold beyond the length, does not matter.
//
// A row whose scores are all -inf, or that has no keys, gives zeros, and -inf for lse. A row with a
// NaN or +inf score gives NaN, as softmax does, or zeros if zero_nan_rows is 1. Hidden keys have no
// part in a row, whatever k and v hold there. What becomes of NaN and infinities in v at other keys
// is not defined where their weight is too small for the compute type. Scores and weights are
// computed in the compute type, lse is of that type; the result is rounded once. Meaning as in ONNX
// Attention (opsets 23 to 25), whose nonpad_kv_seqlen are the lengths.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "graph/convert.h"
#include "ops/block_table.h"
#include "ops/broadcast.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

constexpr int kMask = 3;
constexpr int kLengths = 4;
constexpr int kSlopes = 5;
constexpr int kBlockTable = 6;

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

// What the shapes of k and v, and of the block table, say of a sequence.
struct KeySizes {
  Dim batch, heads, keys;
};

Expected<KeySizes> infer_keys(const OpContext& context) {
  const Shape& q = context.type(0).shape;
  const Shape& k = context.type(1).shape;
  const Shape& v = context.type(2).shape;
  const auto unify = [&](const Dim& a, const Dim& b, std::string_view what) {
    return unify_sizes(a, b, what, context.assumptions);
  };
  KeySizes sizes;
  OPWELD_TRY(sizes.heads, unify(k[1], v[1], "the heads of 'k' and 'v'"));
  if (!context.has(kBlockTable)) {
    OPWELD_TRY(sizes.batch, unify(q[0], k[0], "the batch of 'q' and 'k'"));
    OPWELD_TRY(sizes.batch, unify(sizes.batch, v[0], "the batch of 'q' and 'v'"));
    OPWELD_TRY(sizes.keys, unify(k[2], v[2], "the lengths of 'k' and 'v'"));
    return sizes;
  }
  if (!context.has(kLengths)) return fail("'block_table' needs 'lengths'");
  OPWELD_CHECK(require_rank(context, kBlockTable, 2));
  const Shape& table = context.type(kBlockTable).shape;
  OPWELD_TRY(sizes.batch, unify(q[0], table[0], "the batch of 'q' and 'block_table'"));
  OPWELD_CHECK(unify(k[0], v[0], "the blocks of 'k' and 'v'"));
  OPWELD_TRY(const Dim block, unify(k[2], v[2], "the block sizes of 'k' and 'v'"));
  sizes.keys = table[1] * block;
  if (sizes.keys.is_overflow()) return fail("'block_table' has places for too many keys");
  return sizes;
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
  OPWELD_TRY(const KeySizes of, infer_keys(context));
  OPWELD_CHECK(require_same_size(context, q[3], k[3], "the head sizes of 'q' and 'k'"));
  OPWELD_CHECK(require_multiple(context, q[1], of.heads, "the number of query heads"));
  OPWELD_CHECK(require_broadcast_to(context, kMask, "mask", {of.batch, q[1], q[2], of.keys}));
  if (context.has(kLengths)) {
    OPWELD_CHECK(require_rank(context, kLengths, 1));
    OPWELD_CHECK(
        unify(of.batch, context.type(kLengths).shape[0], "the batch of 'q' and 'lengths'"));
  }
  if (context.has(kSlopes)) {
    OPWELD_CHECK(require_rank(context, kSlopes, 1));
    OPWELD_CHECK(unify(q[1], context.type(kSlopes).shape[0], "the heads of 'q' and the slopes"));
  }
  const DType dtype = context.type(0).dtype;
  std::vector<TensorType> types = {{dtype, {of.batch, q[1], q[2], v[3]}}};
  if (context.attributes.integer("lse", 0) != 0) {
    types.push_back({compute_dtype(dtype), {of.batch, q[1], q[2]}});
  }
  return types;
}

// ---- evaluation ----

// What attributes and operands but the mask say of a score, for one head of one batch element.
struct ScoreRule {
  double scale;
  double softcap;
  double slope;
  bool causal;
  std::int64_t length;    // valid keys
  std::int64_t diagonal;  // position of query 0
  std::int64_t window_left, window_right;

  ScoreRule(const Attributes& attributes, std::int64_t queries, std::int64_t valid_keys,
            double slope_of_head)
      : scale(attributes.real("scale", 1)),
        softcap(attributes.real("softcap", 0)),
        slope(slope_of_head),
        length(valid_keys),
        window_left(attributes.integer("window_left", -1)),
        window_right(attributes.integer("window_right", -1)) {
    const std::string alignment = attributes.text("causal", "none");
    causal = alignment != "none";
    diagonal = alignment == "bottom_right" ? length - queries : 0;
  }

  [[nodiscard]] bool sees(std::int64_t query, std::int64_t key) const {
    const std::int64_t ahead = key - (query + diagonal);
    if (key >= length) return false;
    if (causal && ahead > 0) return false;
    if (window_left >= 0 && ahead < -window_left) return false;
    return window_right < 0 || ahead <= window_right;
  }

  // Of the product of a query and a key.
  [[nodiscard]] double score(double product, std::int64_t query, std::int64_t key) const {
    double score = scale * product;
    if (softcap != 0) score = softcap * std::tanh(score / softcap);
    if (slope != 0) score += slope * static_cast<double>(key - (query + diagonal));
    return score;
  }
};

// A matrix of rows of a tensor [.., .., .., columns], as doubles.
struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;

  // Matrix number `index`.
  Matrix(const Tensor& tensor, std::int64_t index)
      : rows(tensor.sizes()[2]), columns(tensor.sizes()[3]) {
    const std::int64_t count = rows * columns;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(tensor.get_double(index * count + i));
  }

  // The rows at these places, counted over all matrices; zeros where there is no place.
  Matrix(const Tensor& tensor, const std::vector<std::optional<std::int64_t>>& places)
      : rows(static_cast<std::int64_t>(places.size())), columns(tensor.sizes()[3]) {
    for (const auto& place : places) {
      for (std::int64_t d = 0; d < columns; ++d) {
        values.push_back(place ? tensor.get_double(*place * columns + d) : 0);
      }
    }
  }

  [[nodiscard]] const double* row(std::int64_t r) const { return values.data() + r * columns; }
};

// The mask operand, element by element of the scores [B, Hq, S, T] in row-major order.
struct Mask {
  bool is_bool = false;
  std::vector<double> elements;  // empty without a mask

  Mask(const Tensor* mask, const Sizes& scores) {
    if (mask == nullptr) return;
    is_bool = mask->dtype() == DType::Bool;
    const Sizes* operand = &mask->sizes();
    for (BroadcastWalk walk(scores, {&operand, 1}); !walk.done(); walk.advance()) {
      elements.push_back(mask->get_double(walk.offsets()[0]));
    }
  }

  [[nodiscard]] double apply(double score, std::int64_t at) const {
    if (elements.empty()) return score;
    const double element = elements[static_cast<std::size_t>(at)];
    if (is_bool) return element != 0 ? score : kMinusInfinity;
    return element == kMinusInfinity ? element : score + element;
  }
};

// The scores of query `s`; the mask's elements for it begin at `mask_at`.
std::vector<double> scores_of(const Matrix& q, const Matrix& k, std::int64_t s, const Mask& mask,
                              std::int64_t mask_at, const ScoreRule& rule) {
  std::vector<double> scores;
  for (std::int64_t t = 0; t < k.rows; ++t) {
    double product = 0;
    for (std::int64_t d = 0; d < q.columns; ++d) product += q.row(s)[d] * k.row(t)[d];
    const double score = mask.apply(rule.score(product, s, t), mask_at + t);
    scores.push_back(rule.sees(s, t) ? score : kMinusInfinity);
  }
  return scores;
}

struct Normalizer {
  double maximum = kMinusInfinity;
  double sum = 0;  // of exp(score - maximum); 0 when all scores are -inf
};

// Scores become exp(score - maximum), not yet divided by their sum.
Normalizer to_weights(std::vector<double>& scores) {
  double maximum = kMinusInfinity;
  for (const double score : scores) {
    if (score > maximum || std::isnan(score)) maximum = score;
  }
  if (maximum == kMinusInfinity) return {};
  double sum = 0;
  for (double& score : scores) {
    score = std::exp(score - maximum);
    sum += score;
  }
  return {maximum, sum};
}

// The weights of such scores where so many keys are taken at a time: shifted by the maximum so far,
// rounded to bf16, and corrected by what later keys raise the maximum to.
std::vector<double> bf16_weights(const std::vector<double>& scores, double maximum,
                                 std::int64_t keys_at_a_time) {
  std::vector<double> weights(scores.size(), 0.0);
  double so_far = kMinusInfinity;
  const auto step = static_cast<std::size_t>(keys_at_a_time);
  for (std::size_t first = 0; first < scores.size(); first += step) {
    const std::size_t end = std::min(first + step, scores.size());
    for (std::size_t t = first; t < end; ++t) {
      if (scores[t] > so_far || std::isnan(scores[t])) so_far = scores[t];
    }
    if (so_far == kMinusInfinity) continue;
    const double correction = std::exp(so_far - maximum);
    for (std::size_t t = first; t < end; ++t) {
      weights[t] = round_to_float(std::exp(scores[t] - so_far), DType::BF16) * correction;
    }
  }
  return weights;
}

void store_weighted_sum(const std::vector<double>& weights, double sum, const Matrix& v,
                        Tensor& result, std::int64_t first) {
  std::vector<double> row(static_cast<std::size_t>(v.columns), 0.0);
  for (std::int64_t t = 0; t < v.rows; ++t) {
    const double weight = weights[static_cast<std::size_t>(t)];
    if (weight == 0) continue;  // 0 * NaN would be NaN
    for (std::size_t d = 0; d < row.size(); ++d) row[d] += weight * v.row(t)[d];
  }
  for (std::size_t d = 0; d < row.size(); ++d) {
    result.set_double(first + static_cast<std::int64_t>(d), row[d] / sum);
  }
}

// Valid keys of a batch element.
Expected<std::int64_t> length_of(const Tensor* lengths, std::int64_t batch, std::int64_t keys) {
  if (lengths == nullptr) return keys;
  const std::int64_t length = lengths->get_int(batch);
  if (length >= 0 && length <= keys) return length;
  return fail("{} (sequence {}, length {}, keys {})", kLengthOutOfRange, batch, length, keys);
}

// The places of a batch element's keys in a paged tensor [N, Hkv, P, ..], for one key head; none
// for keys that no query sees.
Expected<std::vector<std::optional<std::int64_t>>> paged_places(
    const Tensor& table, std::int64_t batch, const Sizes& paged, std::int64_t key_head,
    std::int64_t queries, const ScoreRule& rule) {
  const std::int64_t block_size = paged[2];
  std::vector<std::optional<std::int64_t>> places;
  for (std::int64_t t = 0; t < table.sizes()[1] * block_size; ++t) {
    places.emplace_back();
    bool seen = false;
    for (std::int64_t s = 0; s < queries && !seen; ++s) seen = rule.sees(s, t);
    if (!seen) continue;
    const std::int64_t entry = t / block_size;
    const std::int64_t block = table.get_int(batch * table.sizes()[1] + entry);
    if (block < 0 || block >= paged[0]) {
      return fail("{} (sequence {}, entry {}, block {}, blocks {})", kBlockOutOfRange, batch, entry,
                  block, paged[0]);
    }
    places.back() = (block * paged[1] + key_head) * block_size + t % block_size;
  }
  return places;
}

Status evaluate_attention(const EvalContext& context) {
  const Tensor& q = *context.operands[0];
  const Tensor& k = *context.operands[1];
  const Tensor& v = *context.operands[2];
  const Tensor* const table = context.operands[kBlockTable];
  const Tensor* const slopes = context.operands[kSlopes];
  const std::int64_t query_heads = q.sizes()[1];
  const std::int64_t key_heads = k.sizes()[1];
  const std::int64_t queries = q.sizes()[2];
  const std::int64_t keys = table == nullptr ? k.sizes()[2] : table->sizes()[1] * k.sizes()[2];
  const bool zero_nan_rows = context.attributes.integer("zero_nan_rows", 0) != 0;
  const Mask mask(context.operands[kMask], {q.sizes()[0], query_heads, queries, keys});

  for (std::int64_t matrix = 0; matrix < q.sizes()[0] * query_heads; ++matrix) {
    const std::int64_t head = matrix % query_heads;
    const std::int64_t batch = matrix / query_heads;
    OPWELD_TRY(const std::int64_t length, length_of(context.operands[kLengths], batch, keys));
    const ScoreRule rule(context.attributes, queries, length,
                         slopes == nullptr ? 0 : slopes->get_double(head));
    const std::int64_t key_head = head / (query_heads / key_heads);
    const auto of_key_head = [&](const Tensor& tensor) -> Expected<Matrix> {
      if (table == nullptr) return Matrix(tensor, batch * key_heads + key_head);
      OPWELD_TRY(const auto places,
                 paged_places(*table, batch, tensor.sizes(), key_head, queries, rule));
      return Matrix(tensor, places);
    };
    const Matrix queries_of_head(q, matrix);
    OPWELD_TRY(const Matrix keys_of_head, of_key_head(k));
    OPWELD_TRY(const Matrix values_of_head, of_key_head(v));
    for (std::int64_t s = 0; s < queries; ++s) {
      const std::int64_t row = matrix * queries + s;
      auto scores = scores_of(queries_of_head, keys_of_head, s, mask, row * keys, rule);
      const std::vector<double> exact_scores =
          context.bf16_weight_keys > 0 ? scores : std::vector<double>();
      const auto [maximum, sum] = to_weights(scores);
      if (context.results.size() > 1) context.results[1].set_double(row, maximum + std::log(sum));
      if (sum == 0) continue;  // the result is zero from the start
      if (zero_nan_rows && !std::isfinite(sum)) continue;
      // What they are divided by is the sum before that rounding.
      if (context.bf16_weight_keys > 0) {
        scores = bf16_weights(exact_scores, maximum, context.bf16_weight_keys);
      }
      store_weighted_sum(scores, sum, values_of_head, context.results[0],
                         row * values_of_head.columns);
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
          .summary = "q[B, Hq, S, D], k[B, Hkv, T, D], v[B, Hkv, T, Dv], mask?, lengths[B]?, "
                     "slopes[Hq]?, block_table[B, W]? -> [B, Hq, S, Dv] and, if asked for, the "
                     "log-sum-exp [B, Hq, S]; see the head of ops/attention.cpp",
          .trait = FusionTrait::Attention,
          .operands = {{"q", kFloats, 1},
                       {"k", kFloats, 1},
                       {"v", kFloats, 1},
                       {"mask", kFloats | kBool, 0, Arity::Optional},
                       {"lengths", kIndices, 0, Arity::Optional},
                       {"slopes", kFloats, 0, Arity::Optional},
                       {"block_table", kIndices, 0, Arity::Optional}},
          .attributes = {{"scale", AttributeKind::Real, false},
                         {"causal", AttributeKind::Text, false},
                         {"window_left", AttributeKind::Integer, false},
                         {"window_right", AttributeKind::Integer, false},
                         {"softcap", AttributeKind::Real, false},
                         {"lse", AttributeKind::Integer, false},
                         {"zero_nan_rows", AttributeKind::Integer, false}},
          .infer = infer_attention,
          .evaluate = evaluate_attention,
      },
  };
  return defs;
}

}  // namespace opweld
