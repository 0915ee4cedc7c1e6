#include "rewrite/pipeline.h"

#include "rewrite/cse.h"
#include "rewrite/dce.h"
#include "rewrite/fold_constants.h"

namespace opweld {

std::vector<RewritePass> rewrite_passes(const RewriteOptions&) {
  return {
      {"fold-constants", fold_constants},        // 2 + 3 -> 5
      {"cse", eliminate_common_subexpressions},  // one of each equal node stays
      {"dce", eliminate_dead_code},              // unread nodes go
  };
}

}  // namespace opweld
