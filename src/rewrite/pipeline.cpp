#include "rewrite/pipeline.h"

#include "rewrite/cse.h"
#include "rewrite/dce.h"
#include "rewrite/expand_custom.h"
#include "rewrite/find_layers.h"
#include "rewrite/fold_constants.h"
#include "rewrite/merge_projections.h"
#include "rewrite/raise/alibi.h"
#include "rewrite/raise/attention.h"
#include "rewrite/raise/attention_operands.h"
#include "rewrite/raise/experts.h"
#include "rewrite/raise/gelu.h"
#include "rewrite/raise/layer_norm.h"
#include "rewrite/raise/rms_norm.h"
#include "rewrite/raise/rope.h"
#include "rewrite/raise/silu.h"
#include "rewrite/raise/softmax.h"
#include "rewrite/raise/sorted_rows.h"
#include "rewrite/simplify.h"
#include "rewrite/sink_views.h"

namespace opweld {

std::vector<RewritePass> rewrite_passes(const RewriteOptions& options) {
  std::vector<RewritePass> passes = {
      {"expand-custom", expand_custom_operators},  // those with a body become it
      {"find-layers", find_layers},                // block 0, block 1 ... where names tell of none
      {"fold-constants", fold_constants},          // 2 + 3 -> 5
      {"simplify", simplify},                      // pow(x, 2) -> x * x
      {"cse", eliminate_common_subexpressions},    // one of each equal node stays
      {"dce", eliminate_dead_code},                // unread nodes go
  };
  if (options.raise && !options.strict) {
    passes.insert(
        passes.end(),
        {
            {"raise-softmax", raise_softmax},        // exp(x - max) / sum -> softmax
            {"raise-layer-norm", raise_layer_norm},  // before rms_norm, which is a part of it
            {"raise-rms-norm", raise_rms_norm},      // x / sqrt(mean(x^2) + e) * w -> rms_norm
            {"raise-gelu", raise_gelu},              // x (1 + erf(x / sqrt 2)) / 2 -> gelu
            {"raise-silu", raise_silu},              // x sigmoid(x) -> silu
            {"raise-rope", raise_rope},              // x cos + rotated(x) sin -> rope
            {"raise-attention", raise_attention},    // softmax(QK') V -> attention
            {"raise-alibi", raise_alibi},            // slope (t - s) in a mask -> slopes
            {"attention-operands",
             simplify_attention_operands},  // attention(c q, k, v, mask) -> scale, causal, window
            {"raise-experts",
             [notes = options.notes](Graph& graph) {  // branches of experts -> grouped_matmul
               return raise_experts(graph, notes);
             }},
            {"raise-sorted-rows",
             [notes = options.notes](Graph& graph) {  // sort, histogram, cumsum -> sort_by_group
               return raise_sorted_rows(graph, notes);
             }},
            {"sink-views", sink_views},     // gelu(transpose(x w)) -> transpose(gelu(x w))
            {"simplify-raised", simplify},  // transposes beside what was raised or moved meet
            {"cse-raised", eliminate_common_subexpressions},
            {"sweep", eliminate_dead_code},
        });
  }
  // Behind everything that takes equal nodes for one: each reader has a slice of its own.
  if (options.merge) passes.push_back({"merge-projections", merge_projections});  // Q, K, V -> QKV
  return passes;
}

}  // namespace opweld
