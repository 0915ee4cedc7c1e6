// Attention and RotaryEmbedding (opsets 23 and later).
#include <cmath>
#include <limits>

#include "import/onnx/operators/table.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

// ---- heads ----

// [batch, length, heads * size] -> [batch, heads, length, size]
Expected<Value*> split_heads(Builder& b, Value* x, std::int64_t heads) {
  const Shape& shape = x->shape();
  if (heads < 1) return fail("the number of heads must be given for operands of rank 3");
  if (shape[2].is_constant() && !shape[2].divisible_by(heads)) {
    return fail("{} elements cannot be divided among {} heads", shape[2], heads);
  }
  Value* split = b.reshape(x, {shape[0], shape[1], heads, floor_div(shape[2], heads)});
  Value* moved = b.transpose(split, {0, 2, 1, 3});
  OPWELD_CHECK(b.status());
  return moved;
}

// The inverse.
Value* join_heads(Builder& b, Value* x) {
  if (x == nullptr) return nullptr;
  const Shape shape = x->shape();
  return b.reshape(b.transpose(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

// [B, Hkv, T, D] -> [B, Hq, T, D]: each head repeated for the queries that share it.
Value* repeat_heads(Builder& b, Value* x, const Dim& heads) {
  const Shape shape = x->shape();
  if (shape[1] == heads) return x;
  const Dim repeats = floor_div(heads, shape[1]);
  Value* column = b.reshape(x, {shape[0], shape[1], 1, shape[2], shape[3]});
  Value* repeated = b.expand(column, {shape[0], shape[1], repeats, shape[2], shape[3]});
  return b.reshape(repeated, {shape[0], heads, shape[2], shape[3]});
}

// ---- Attention ----

struct Operands {
  Value* q = nullptr;        // [B, Hq, S, D]
  Value* k = nullptr;        // [B, Hkv, T, D], past keys first
  Value* v = nullptr;        // [B, Hkv, T, Dv]
  Value* mask = nullptr;     // bool or float, broadcasts to [B, Hq, S, T]; may be null
  Value* lengths = nullptr;  // valid keys of each sequence, i64 [B]; may be null
  Dim past = 0;              // how many of the keys are past
  bool joined = false;       // heads came side by side in one axis and go out so
};

Expected<Operands> read_operands(NodeContext& c) {
  Builder& b = c.builder();
  Operands o{c.operand(0), c.operand(1), c.operand(2)};
  o.joined = o.q->rank() == 3;
  for (Value* x : {o.q, o.k, o.v}) {
    if (x->rank() != (o.joined ? 3 : 4)) return fail("Q, K and V must all have rank 3, or all 4");
  }
  if (o.joined) {
    OPWELD_TRY(o.q, split_heads(b, o.q, c.integer("q_num_heads", 0)));
    OPWELD_TRY(o.k, split_heads(b, o.k, c.integer("kv_num_heads", 0)));
    OPWELD_TRY(o.v, split_heads(b, o.v, c.integer("kv_num_heads", 0)));
  }
  if (c.has(4) != c.has(5)) return fail("past_key and past_value must be given together");
  if (c.has(4)) {
    if (c.operand(4)->rank() != 4) return fail("past_key must have rank 4");
    if (c.has(6)) return fail("nonpad_kv_seqlen cannot be combined with past_key");
    o.past = c.operand(4)->shape()[2];
    o.k = b.op("concat", {c.operand(4), o.k}, {{"axis", std::int64_t{2}}});
    o.v = b.op("concat", {c.operand(5), o.v}, {{"axis", std::int64_t{2}}});
  }
  if (c.has(6)) {
    if (c.operand(6)->rank() != 1) return fail("nonpad_kv_seqlen must have rank 1");
    o.lengths = b.cast(c.operand(6), DType::I64);
  }
  o.mask = c.operand(3);
  OPWELD_CHECK(c.status());
  return o;
}

double minus_infinity() {
  return -std::numeric_limits<double>::infinity();
}

// Keys that a mask shorter than the keys leaves out are not attended to.
Value* padded_mask(Builder& b, Value* mask, const Dim& keys) {
  if (mask == nullptr || mask->rank() == 0) return mask;
  const Dim& given = mask->shape().back();
  const bool shorter = provably_lt(given, keys) || (given == Dim(1) && keys != Dim(1));
  if (!shorter) return mask;
  Shape before(mask->shape().size(), 0);
  Shape after = before;
  after.back() = keys - given;
  const double outside = mask->dtype() == DType::Bool ? 0 : minus_infinity();
  return b.op("pad", {mask, b.scalar(outside, mask->dtype())},
              {{"before", before}, {"after", after}, {"mode", "constant"}});
}

Value* counted(Builder& b, const Dim& count, bool down) {
  const Shape shape = down ? Shape{count, 1} : Shape{1, count};
  return b.op("iota", {},
              {{"shape", shape}, {"axis", std::int64_t{down ? 0 : 1}}, {"dtype", DType::I64}});
}

struct Window {
  bool causal;
  std::int64_t left, right;  // -1: no limit

  [[nodiscard]] bool limits() const { return causal || left >= 0 || right >= 0; }
};

// Which keys a query may see, bool [S, T] or [B, 1, S, T]: query i stands at position i + offset.
Value* visible_keys(Builder& b, const Window& window, Value* offset, const Dim& queries,
                    const Dim& keys) {
  Value* position = b.binary("add", counted(b, queries, true), offset);
  Value* ahead = b.binary("sub", counted(b, keys, false), position);
  Value* visible = nullptr;
  const auto require = [&](std::string_view comparison, std::int64_t bound) {
    Value* holds = b.binary(comparison, ahead, b.scalar(static_cast<double>(bound), DType::I64));
    visible = visible == nullptr ? holds : b.binary("and", visible, holds);
  };
  if (window.causal) require("le", 0);
  if (window.left >= 0) require("ge", -window.left);
  if (window.right >= 0) require("le", window.right);
  return visible;
}

// `mask` where `visible` holds, nothing attended to elsewhere.
Value* combined_mask(Builder& b, Value* mask, Value* visible) {
  if (mask == nullptr) return visible;
  if (mask->dtype() == DType::Bool) return b.binary("and", mask, visible);
  return b.op("select", {visible, mask, b.scalar(minus_infinity(), mask->dtype())});
}

// Which keys of a cache a query may see: the queries are the last of the valid keys.
Value* visible_in_cache(Builder& b, const Window& window, const Operands& o) {
  const Dim queries = o.q->shape()[2];
  const Dim keys = o.k->shape()[2];
  Value* lengths = b.reshape(o.lengths, {o.lengths->shape()[0], 1, 1, 1});
  Value* filled = b.binary("lt", counted(b, keys, false), lengths);
  if (!window.limits()) return filled;
  Value* count = b.reshape(sizes_value(b, {queries}), {});
  Value* offset = b.binary("sub", lengths, count);
  return b.binary("and", filled, visible_keys(b, window, offset, queries, keys));
}

// The attributes of attention that say which keys are visible, where it can say so itself; what it
// cannot goes into the mask.
Expected<Attributes> apply_visibility(NodeContext& c, Operands& o, const Window& window) {
  Builder& b = c.builder();
  const Dim queries = o.q->shape()[2];
  const Dim keys = o.k->shape()[2];
  o.mask = padded_mask(b, o.mask, keys);
  if (o.lengths != nullptr && window.limits() && !window.causal) {
    // Only causal attention counts its windows from the last valid key.
    o.mask = combined_mask(b, o.mask, visible_in_cache(b, window, o));
    OPWELD_CHECK(c.status());
    return Attributes{};
  }
  const bool aligned = o.past == Dim(0) || (window.causal && keys - queries == o.past);
  if (!aligned && window.limits()) {
    Value* offset = b.reshape(sizes_value(b, {o.past}), {});
    o.mask = combined_mask(b, o.mask, visible_keys(b, window, offset, queries, keys));
    OPWELD_CHECK(c.status());
    return Attributes{};
  }
  Attributes attributes;
  const bool from_the_start = o.past == Dim(0) && o.lengths == nullptr;
  if (window.causal) attributes.set("causal", from_the_start ? "top_left" : "bottom_right");
  if (window.left >= 0) attributes.set("window_left", window.left);
  if (window.right >= 0) attributes.set("window_right", window.right);
  return attributes;
}

// ---- the scores as a result of their own ----

struct ScoreRule {
  double scale;
  double softcap;
  Window window;
};

// What qk_matmul_output asks for.
enum class Scores : std::uint8_t { Product = 0, Capped = 1, Masked = 2, Weights = 3 };

// Softmax with zeros, not NaN, in rows of which every score is -inf.
Value* guarded_softmax(Builder& b, Value* scores, DType dtype) {
  const Attributes last{{"axes", Ints{3}}, {"keepdims", std::int64_t{1}}};
  Value* greatest = b.op("reduce_max", {scores}, last);
  Value* hidden = b.binary("eq", greatest, b.scalar(minus_infinity(), dtype));
  Value* weights = b.op("softmax", {scores}, {{"axis", std::int64_t{3}}});
  return b.op("select", {hidden, b.scalar(0, dtype), weights});
}

// Scores [B, Hq, S, T] at that stage, with all masking in `mask`.
Value* scores_at(Builder& b, const Operands& o, const ScoreRule& rule, Scores stage) {
  const DType dtype = compute_dtype(o.q->dtype());
  Value* keys = repeat_heads(b, o.k, o.q->shape()[1]);
  Value* scores =
      b.binary("matmul", b.cast(o.q, dtype), b.transpose(b.cast(keys, dtype), {0, 1, 3, 2}));
  scores = b.binary("mul", scores, b.scalar(rule.scale, dtype));
  if (stage != Scores::Product && rule.softcap != 0) {
    Value* cap = b.scalar(rule.softcap, dtype);
    scores = b.binary("mul", b.op("tanh", {b.binary("div", scores, cap)}), cap);
  }
  if (stage == Scores::Masked || stage == Scores::Weights) {
    if (o.mask != nullptr && o.mask->dtype() == DType::Bool) {
      scores = b.op("select", {o.mask, scores, b.scalar(minus_infinity(), dtype)});
    } else if (o.mask != nullptr) {
      scores = b.binary("add", scores, b.cast(o.mask, dtype));
    }
  }
  if (stage == Scores::Weights) scores = guarded_softmax(b, scores, dtype);
  return b.cast(scores, o.q->dtype());
}

Expected<Value*> score_result(NodeContext& c, Operands o, const ScoreRule& rule) {
  Builder& b = c.builder();
  const std::int64_t mode = c.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) return fail("qk_matmul_output_mode {} is none of 0 to 3", mode);
  // Visibility that attention would see to itself, as a mask.
  if (o.lengths != nullptr) {
    o.mask = combined_mask(b, o.mask, visible_in_cache(b, rule.window, o));
  } else if (rule.window.limits()) {
    Value* offset = b.reshape(sizes_value(b, {o.past}), {});
    o.mask = combined_mask(b, o.mask,
                           visible_keys(b, rule.window, offset, o.q->shape()[2], o.k->shape()[2]));
  }
  OPWELD_CHECK(c.status());
  return scores_at(b, o, rule, static_cast<Scores>(mode));
}

Expected<double> scale_of(NodeContext& c, const Operands& o) {
  if (c.has_attribute("scale")) return c.real("scale", 1);
  const auto head = o.q->shape()[3].constant();
  if (!head) return fail("the head size must be known, but is {}", o.q->shape()[3]);
  return 1 / std::sqrt(static_cast<double>(*head));
}

Expected<Values> attention(NodeContext& c) {
  Builder& b = c.builder();
  OPWELD_TRY(Operands o, read_operands(c));
  OPWELD_TRY(const double scale, scale_of(c, o));
  const Window window{c.integer("is_causal", 0) != 0, c.integer("left_window_size", -1),
                      c.integer("right_window_size", -1)};
  const ScoreRule rule{scale, c.real("softcap", 0), window};
  OPWELD_TRY(Attributes attributes, apply_visibility(c, o, window));
  attributes.set("scale", rule.scale);
  if (rule.softcap != 0) attributes.set("softcap", rule.softcap);
  Value* y = b.op("attention", {o.q, o.k, o.v, o.mask, o.lengths}, std::move(attributes));
  OPWELD_CHECK(c.status());
  if (o.joined) y = join_heads(b, y);
  Values results{y, o.k, o.v};
  if (c.wants(3)) {
    OPWELD_TRY(Value * scores, score_result(c, o, rule));
    results.push_back(scores);
  }
  return results;
}

// ---- RotaryEmbedding ----

// cos or sin for each position of each sequence, [B, S, P]: rows of a table where positions are
// given.
Expected<Value*> angles_of(NodeContext& c, int operand) {
  Value* table = c.operand(operand);
  const bool rows = c.has(3);
  if (table->rank() != (rows ? 2 : 3)) {
    return fail("operand {} has rank {}; it must have 2 with position ids, 3 without", operand,
                table->rank());
  }
  if (!rows) return table;
  return c.builder().op("gather", {table, c.operand(3)}, {{"axis", std::int64_t{0}}});
}

Expected<Values> rotary_embedding(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  if (x->rank() != 3 && x->rank() != 4) return fail("x has rank {}; it must be 3 or 4", x->rank());
  const bool joined = x->rank() == 3;
  if (joined) {
    OPWELD_TRY(x, split_heads(b, x, c.integer("num_heads", 0)));
  }
  OPWELD_TRY(Value * cos, angles_of(c, 1));
  OPWELD_TRY(Value * sin, angles_of(c, 2));
  OPWELD_CHECK(c.status());
  const std::int64_t part = c.integer("rotary_embedding_dim", 0);
  const Dim rotated = part == 0 ? x->shape()[3] : Dim(part);
  for (const Value* angles : {cos, sin}) {
    std::vector<SizeAssumption> assumptions;
    OPWELD_CHECK(unify_sizes(2 * angles->shape().back(), rotated,
                             "twice the angles and the elements they turn", &assumptions));
    for (SizeAssumption& a : assumptions) b.graph().assume_equal(a.left, a.right, a.reason);
  }
  Value* y = b.op("rope", {x, cos, sin}, {{"interleaved", c.integer("interleaved", 0)}});
  return one(joined ? join_heads(b, y) : y);
}

constexpr OperatorRule kRules[] = {
    {"Attention", attention, "", 3, 7},
    {"RotaryEmbedding", rotary_embedding, "", 3, 4},
};

}  // namespace

std::span<const OperatorRule> attention_operators() {
  return kRules;
}

}  // namespace opweld
