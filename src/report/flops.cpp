#include "report/flops.h"

#include "fusion/cost.h"
#include "fusion/kernel_kind.h"
#include "ops/op.h"
#include "ops/stored_weights.h"
#include "tile/lower.h"

namespace opweld {

namespace {

Expected<double> elements(const Shape& shape, const Bindings& bindings) {
  double product = 1;
  for (const Dim& dim : shape) {
    OPWELD_TRY(const std::int64_t size, dim.evaluate(bindings));
    product *= static_cast<double>(size);
  }
  return product;
}

Expected<double> size_of(const Value& value, int axis, const Bindings& bindings) {
  OPWELD_TRY(const std::int64_t size,
             value.shape()[static_cast<std::size_t>(axis)].evaluate(bindings));
  return static_cast<double>(size);
}

// Each element of the result is a sum over the last axis of the left operand.
Expected<double> product_flops(const Node& node, const Bindings& bindings) {
  const Value& left = *node.operand(0);
  OPWELD_TRY(const double results, elements(node.result()->shape(), bindings));
  OPWELD_TRY(const double depth, size_of(left, left.rank() - 1, bindings));
  return 2 * results * depth;
}

// The keys of a paged cache, k[blocks, Hkv, block, D], are as many as its table [B, W] can name.
Expected<double> keys_of(const Node& node, const Bindings& bindings) {
  constexpr int kBlockTable = 6;
  OPWELD_TRY(double keys, size_of(*node.operand(1), 2, bindings));
  if (node.num_operands() > kBlockTable && node.operand(kBlockTable) != nullptr) {
    OPWELD_TRY(const double blocks, size_of(*node.operand(kBlockTable), 1, bindings));
    keys *= blocks;
  }
  return keys;
}

Expected<double> attention_flops(const Node& node, const Bindings& bindings) {
  OPWELD_TRY(const double queries, elements(node.operand(0)->shape(), bindings));
  OPWELD_TRY(const double results, elements(node.result()->shape(), bindings));
  OPWELD_TRY(const double keys, keys_of(node, bindings));
  return 2 * keys * (queries + results);
}

Expected<double> node_flops(const Node& node, const Bindings& bindings) {
  if (node.op() == "constant" || is_strided_view(node) || widens_constant(node)) return 0.0;
  switch (op_def(node).trait) {
    case FusionTrait::Contract:
      return product_flops(node, bindings);
    case FusionTrait::Attention:
      return attention_flops(node, bindings);
    case FusionTrait::Reduce:
      return elements(node.operand(0)->shape(), bindings);
    case FusionTrait::Pointwise: {
      OPWELD_TRY(const double results, elements(node.result()->shape(), bindings));
      return results * flops_per_element(node);
    }
    default:
      return 0.0;
  }
}

}  // namespace

Expected<double> flops_of(const Kernel& kernel, const Bindings& bindings) {
  Graph group = extract_group(kernel);
  OPWELD_CHECK(tile::expand_composites(group));
  double total = 0;
  for (const auto& node : group.nodes()) {
    OPWELD_TRY(const double flops, node_flops(*node, bindings));
    total += flops;
  }
  return total;
}

}  // namespace opweld
