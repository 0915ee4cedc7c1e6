// What the operator library holds, for the level `ops`: one matmul or attention with the norm
// beside it and whatever pointwise operators and index maps stand before and behind, as its
// schedules take them for prologue and epilogue; or one norm or softmax with such. Several of them
// in one kernel, neighbours that have nothing to do with any, the search and siblings are what
// `auto` adds.
#include <algorithm>

#include "fusion/kernel_kind.h"
#include "fusion/legality/legality.h"
#include "ops/op.h"

namespace opweld {

namespace {

bool is_product(const Node& node) {
  const FusionTrait trait = op_def(node).trait;
  return trait == FusionTrait::Contract || trait == FusionTrait::Attention;
}

struct LibraryOperators {
  int products = 0;    // matmuls and attentions
  int reductions = 0;  // norms, softmax
  bool sorts = false;
};

LibraryOperators library_operators(const Kernel& kernel) {
  LibraryOperators found;
  for (const Node* node : kernel.nodes) {
    if (is_product(*node)) ++found.products;
    if (kind_of(*node) == KernelKind::Row) ++found.reductions;
    found.sorts = found.sorts || node->op() == "sort_by_group";
  }
  return found;
}

// An epilogue that is still apart: a gate of two slices of one matmul joins it as a whole only.
bool reads_a_product(const Kernel& kernel) {
  return std::ranges::any_of(kernel.inputs, [](const Value* value) {
    return value->producer() != nullptr && is_product(*value->producer());
  });
}

}  // namespace

Legality check_level(const MergeCandidate& candidate, const PlanOptions& options) {
  if (options.level == FusionLevel::Auto) return std::nullopt;
  const auto [products, reductions, sorts] = library_operators(candidate.merged);
  if (products + reductions == 0 && !reads_a_product(candidate.merged)) {
    return Refusal{ReasonCode::Level, "neither is an operator of the library"};
  }
  if (products > 1 || reductions > 1 || (sorts && products > 0)) {
    return Refusal{ReasonCode::Level, "each is an operator of the library"};
  }
  return std::nullopt;
}

}  // namespace opweld
