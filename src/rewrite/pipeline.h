// The rewrites in the order they run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

struct RewriteOptions {
  // Only rewrites that leave every value bit-identical.
  bool strict = false;
  // Find the library's operators (norms, softmax, activations, rotary embedding, attention) in
  // primitive spellings: at the levels `ops` and `auto`. At `none` the model runs as it is spelled,
  // which is what the others are compared with. Raising changes roundings, so strict leaves it out.
  bool raise = true;
  // Make one matmul of several that read the same operand: at the levels `ops` and `auto`.
  bool merge = true;
  // Receives what was nearly found, and why it is not: a sentence each. May be null.
  std::vector<std::string>* notes = nullptr;
};

struct RewritePass {
  std::string name;
  std::function<Status(Graph&)> run;
};

std::vector<RewritePass> rewrite_passes(const RewriteOptions& options);

}  // namespace opweld
