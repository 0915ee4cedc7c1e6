// The everyday operators as functions of graph tensors. All others: GraphBuilder::op.
//
// Operands broadcast as numpy's do: axes are aligned at the end, and an axis of size 1 fits any.
// Negative axes count from the end. Operands of one operator have one dtype unless it says
// otherwise; nothing is converted silently. What does not fit is an error of the builder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "opweld/dtype.h"
#include "opweld/export.h"
#include "opweld/graph_builder.h"
#include "opweld/size.h"

namespace opweld {

// Any operator by name; one operand at least must be present.
OPWELD_API GraphTensor apply(std::string_view op, const std::vector<GraphTensor>& operands,
                             const AttributeList& attributes = {});

// ---- arithmetic: numbers of any dtype ----

OPWELD_API GraphTensor add(const GraphTensor& a, const GraphTensor& b);
OPWELD_API GraphTensor sub(const GraphTensor& a, const GraphTensor& b);
OPWELD_API GraphTensor mul(const GraphTensor& a, const GraphTensor& b);
// Integers truncate towards zero, and x / 0 is 0.
OPWELD_API GraphTensor div(const GraphTensor& a, const GraphTensor& b);
OPWELD_API GraphTensor pow(const GraphTensor& a, const GraphTensor& b);
// NaN where either is NaN.
OPWELD_API GraphTensor minimum(const GraphTensor& a, const GraphTensor& b);
OPWELD_API GraphTensor maximum(const GraphTensor& a, const GraphTensor& b);
OPWELD_API GraphTensor negate(const GraphTensor& x);
OPWELD_API GraphTensor abs(const GraphTensor& x);

OPWELD_API GraphTensor operator+(const GraphTensor& a, const GraphTensor& b);
OPWELD_API GraphTensor operator-(const GraphTensor& a, const GraphTensor& b);
OPWELD_API GraphTensor operator*(const GraphTensor& a, const GraphTensor& b);
OPWELD_API GraphTensor operator/(const GraphTensor& a, const GraphTensor& b);
OPWELD_API GraphTensor operator-(const GraphTensor& x);
// A number takes the dtype of the tensor.
OPWELD_API GraphTensor operator+(const GraphTensor& a, double b);
OPWELD_API GraphTensor operator-(const GraphTensor& a, double b);
OPWELD_API GraphTensor operator*(const GraphTensor& a, double b);
OPWELD_API GraphTensor operator/(const GraphTensor& a, double b);
OPWELD_API GraphTensor operator+(double a, const GraphTensor& b);
OPWELD_API GraphTensor operator-(double a, const GraphTensor& b);
OPWELD_API GraphTensor operator*(double a, const GraphTensor& b);
OPWELD_API GraphTensor operator/(double a, const GraphTensor& b);

// ---- elementary functions and activations: floats ----

OPWELD_API GraphTensor exp(const GraphTensor& x);
OPWELD_API GraphTensor log(const GraphTensor& x);
OPWELD_API GraphTensor sqrt(const GraphTensor& x);
OPWELD_API GraphTensor rsqrt(const GraphTensor& x);  // 1 / sqrt(x)
OPWELD_API GraphTensor sin(const GraphTensor& x);
OPWELD_API GraphTensor cos(const GraphTensor& x);
OPWELD_API GraphTensor tanh(const GraphTensor& x);
OPWELD_API GraphTensor erf(const GraphTensor& x);
OPWELD_API GraphTensor sigmoid(const GraphTensor& x);  // 1 / (1 + e^-x)
OPWELD_API GraphTensor relu(const GraphTensor& x);     // max(x, 0)
OPWELD_API GraphTensor silu(const GraphTensor& x);     // x sigmoid(x) (Elfwing et al. 2017)
// x (1 + erf(x / sqrt 2)) / 2 (Hendrycks and Gimpel 2016); or its approximation by tanh,
// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
enum class GeluForm : std::uint8_t { Erf, Tanh };
OPWELD_API GraphTensor gelu(const GraphTensor& x, GeluForm form = GeluForm::Erf);

// ---- comparison and choice ----

OPWELD_API GraphTensor equal(const GraphTensor& a, const GraphTensor& b);    // bool
OPWELD_API GraphTensor less(const GraphTensor& a, const GraphTensor& b);     // bool
OPWELD_API GraphTensor greater(const GraphTensor& a, const GraphTensor& b);  // bool
// a where the condition (bool) holds, else b.
OPWELD_API GraphTensor select(const GraphTensor& condition, const GraphTensor& a,
                              const GraphTensor& b);
// Floats to integers truncate and saturate, NaN gives 0.
OPWELD_API GraphTensor cast(const GraphTensor& x, DType dtype);

// ---- contractions ----

// a[..., M, K] b[..., K, N] -> [..., M, N]; ranks >= 2, the batch axes broadcast.
OPWELD_API GraphTensor matmul(const GraphTensor& a, const GraphTensor& b);
// x[..., K] w[K, N] (+ b[N]) -> [..., N].
OPWELD_API GraphTensor linear(const GraphTensor& x, const GraphTensor& weight,
                              const GraphTensor& bias = {});

enum class RowBounds : std::uint8_t {
  Counts,  // the rows of each group
  Ends,    // the row that each group ends before: cumulative counts
};

// Each group of rows of x[T, K] times its own matrix, the experts of a mixture of experts:
// x[T, K], weights[E, K, N], bounds[E] (i64 or i32) (+ bias[E, N]) -> [T, N]. The groups' rows lie
// one after the other; groups may be empty. Bounds that do not share out the T rows exactly are an
// error of the run. Lists of matrices: concat the x, stack the weights.
OPWELD_API GraphTensor grouped_matmul(const GraphTensor& x, const GraphTensor& weights,
                                      const GraphTensor& bounds, const GraphTensor& bias = {},
                                      RowBounds kind = RowBounds::Counts);

enum class Causal : std::uint8_t {
  None,
  TopLeft,      // query s sees keys t <= s
  BottomRight,  // the queries are the last S of T keys: query s sees keys t <= s + T - S
};

struct AttentionOptions {
  std::optional<double> scale =
      std::nullopt;  // 1 / sqrt(head size) if absent, which must then be a number
  Causal causal = Causal::None;
  // Keys that a query at position p sees besides: t >= p - left, t <= p + right; -1: no limit.
  // p = s for query s, or p = s + T - S with Causal::BottomRight (n for T where there are lengths).
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  double softcap = 0;  // c: scores become c tanh(score / c); 0: they stay
  // Bool (false hides a key) or float (added to the scores); broadcasts to [B, Hq, S, T].
  GraphTensor mask = {};
  // [B] of i64 or i32: only the first n = lengths[b] keys of a sequence are valid, 0 <= n <= T, and
  // what lies behind them does not matter. With Causal::BottomRight the queries are the last S of
  // the n. A length out of range is an error of the run that names the sequence.
  GraphTensor lengths = {};
  // [Hq] of floats: slopes[h] (t - p) is added to the scores (ALiBi: Press et al. 2022).
  GraphTensor slopes = {};
  // [B, W] of i64 or i32: K and V are a paged cache (Kwon et al. 2023) of N blocks of P keys,
  // k[N, Hkv, P, D] and v[N, Hkv, P, E]. Key t of sequence b is row t % P of block
  // block_table[b, t / P], and T = W P. It needs lengths. Entries for blocks in which no query sees
  // a key by lengths, causal and window may hold anything; any other that is not in [0, N) is an
  // error of the run that names the sequence, the entry and the block.
  GraphTensor block_table = {};
};

// softmax(scale q k^T + mask) v for every head (Vaswani et al. 2017; grouped heads as in Ainslie
// et al. 2023): q[B, Hq, S, D], k[B, Hkv, T, D], v[B, Hkv, T, E] -> [B, Hq, S, E]. Hq is a multiple
// of Hkv: query head h reads key head h / (Hq / Hkv). A query that sees no key gives zeros. Sizes
// that disagree, and options that do not fit, are errors of the builder.
OPWELD_API GraphTensor attention(const GraphTensor& q, const GraphTensor& k, const GraphTensor& v,
                                 const AttentionOptions& options = {});

// The same, with the logarithm of each softmax's denominator, by which results over parts of the
// keys combine: lse[B, Hq, S] = log(sum over t of exp(score)), f32 (f64 for f64); -inf for a query
// that sees no key. Both are invalid after an error.
struct AttentionWithLse {
  GraphTensor result;
  GraphTensor lse;
};
OPWELD_API AttentionWithLse attention_with_lse(const GraphTensor& q, const GraphTensor& k,
                                               const GraphTensor& v,
                                               const AttentionOptions& options = {});

// Rotary position embedding (Su et al. 2021) of x[B, H, S, D] by cos and sin, [S, P] or [B, S, P],
// P <= D / 2. Pair p is elements (p, p + P) of a head, or (2 p, 2 p + 1) if interleaved:
// first' = first cos - second sin, second' = first sin + second cos. Elements from 2 P on stay.
OPWELD_API GraphTensor rotary_embedding(const GraphTensor& x, const GraphTensor& cos,
                                        const GraphTensor& sin, bool interleaved = false);

// ---- normalisation: floats, computed in f32 for f16 and bf16 and rounded once ----

// e^(x - max) / sum of e^(x - max) along the axis.
OPWELD_API GraphTensor softmax(const GraphTensor& x, std::int64_t axis = -1);
OPWELD_API GraphTensor log_softmax(const GraphTensor& x, std::int64_t axis = -1);
// x / sqrt(mean(x^2) + epsilon) scale over the axes from `axis` on (Zhang and Sennrich 2019).
OPWELD_API GraphTensor rms_norm(const GraphTensor& x, const GraphTensor& scale = {},
                                double epsilon = 1e-5, std::int64_t axis = -1);
// (x - mean) / sqrt(variance + epsilon) scale + bias, likewise (Ba et al. 2016).
OPWELD_API GraphTensor layer_norm(const GraphTensor& x, const GraphTensor& scale = {},
                                  const GraphTensor& bias = {}, double epsilon = 1e-5,
                                  std::int64_t axis = -1);

// ---- reductions: without axes, over all; integer results wrap ----

OPWELD_API GraphTensor reduce_sum(const GraphTensor& x, const std::vector<std::int64_t>& axes = {},
                                  bool keep_axes = true);
OPWELD_API GraphTensor reduce_mean(const GraphTensor& x, const std::vector<std::int64_t>& axes = {},
                                   bool keep_axes = true);
OPWELD_API GraphTensor reduce_max(const GraphTensor& x, const std::vector<std::int64_t>& axes = {},
                                  bool keep_axes = true);
OPWELD_API GraphTensor reduce_min(const GraphTensor& x, const std::vector<std::int64_t>& axes = {},
                                  bool keep_axes = true);

// ---- views ----

// The same elements in row-major order; the number of elements must not change.
OPWELD_API GraphTensor reshape(const GraphTensor& x, const std::vector<Size>& sizes);
// Axis i of the result is axis permutation[i] of x; without a permutation, axes are reversed.
OPWELD_API GraphTensor transpose(const GraphTensor& x,
                                 const std::vector<std::int64_t>& permutation = {});
// Axes of size 1, and axes in front that x lacks, repeated to these sizes.
OPWELD_API GraphTensor expand(const GraphTensor& x, const std::vector<Size>& sizes);
// sizes[i] elements from starts[i] on along every axis i, all of them within x.
OPWELD_API GraphTensor slice(const GraphTensor& x, const std::vector<Size>& starts,
                             const std::vector<Size>& sizes);
OPWELD_API GraphTensor concat(const std::vector<GraphTensor>& parts, std::int64_t axis);
// Rows of x by indices (i64 or i32) along an axis: an embedding. Negative ones count from the end;
// one that is out of range is an error of the run.
OPWELD_API GraphTensor gather(const GraphTensor& x, const GraphTensor& indices,
                              std::int64_t axis = 0);

}  // namespace opweld
