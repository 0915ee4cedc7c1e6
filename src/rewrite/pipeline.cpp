#include "rewrite/pipeline.h"

#include "rewrite/cse.h"
#include "rewrite/dce.h"
#include "rewrite/fold_constants.h"
#include "rewrite/raise/attention.h"
#include "rewrite/simplify.h"

namespace opweld {

std::vector<RewritePass> rewrite_passes(const RewriteOptions& options) {
  std::vector<RewritePass> passes = {
      {"fold-constants", fold_constants},        // 2 + 3 -> 5
      {"simplify", simplify},                    // pow(x, 2) -> x * x
      {"cse", eliminate_common_subexpressions},  // one of each equal node stays
      {"dce", eliminate_dead_code},              // unread nodes go
  };
  if (options.raise && !options.strict) {
    passes.push_back({"raise-attention", raise_attention});  // softmax(QK')V -> attention
    passes.push_back({"sweep", eliminate_dead_code});        // what was raised is read no more
  }
  return passes;
}

}  // namespace opweld
