#include "fusion/cost.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "ops/op.h"

namespace opweld {

namespace {

// Every symbol at the nominal size, as far as its range and divisibility allow that.
Bindings nominal_bindings(std::span<const Dim> dims, std::int64_t nominal_size) {
  std::vector<std::shared_ptr<const SymbolInfo>> symbols;
  for (const Dim& dim : dims) dim.collect_symbols(symbols);
  Bindings bindings;
  for (const auto& symbol : symbols) {
    const SymbolRange& range = symbol->range;
    std::int64_t size = std::clamp(nominal_size, range.min, range.max);
    size -= size % range.divisor;
    bindings.set(symbol->name, std::max(size, range.divisor));
  }
  return bindings;
}

}  // namespace

double nominal_value(const Dim& dim, std::int64_t nominal_size) {
  const auto value = dim.evaluate(nominal_bindings({&dim, 1}, nominal_size));
  return value ? static_cast<double>(*value) : HUGE_VAL;
}

double nominal_elements(const Shape& shape, std::int64_t nominal_size) {
  const Bindings bindings = nominal_bindings(shape, nominal_size);
  double elements = 1;
  for (const Dim& dim : shape) {
    const auto size = dim.evaluate(bindings);
    elements *= static_cast<double>(size ? *size : nominal_size);
  }
  return elements;
}

double flops_per_element(const Node& node) {
  static const std::set<std::string, std::less<>> kDear = {
      "exp", "log", "tanh", "erf", "sigmoid", "sin", "cos", "pow", "gelu", "silu", "softplus"};
  constexpr double kDearFlops = 20;
  if (is_strided_view(node)) return 0;
  return kDear.contains(node.op()) ? kDearFlops : 1;
}

namespace {

// The largest index space that the group walks.
double largest_space(const std::vector<Node*>& nodes, std::int64_t nominal) {
  double largest = 1;
  for (const Node* node : nodes) {
    const Value* const made = scatters_in_place(*node) ? node->operand(1) : node->result();
    largest = std::max(largest, nominal_elements(made->shape(), nominal));
    if (op_def(*node).trait != FusionTrait::Reduce) continue;
    largest = std::max(largest, nominal_elements(node->operand(0)->shape(), nominal));
  }
  return largest;
}

double boundary_bytes(const Kernel& kernel, std::int64_t nominal) {
  double bytes = 0;
  for (const auto* list : {&kernel.inputs, &kernel.constants, &kernel.outputs}) {
    for (const Value* value : *list) {
      bytes += nominal_elements(value->shape(), nominal) * byte_size(value->dtype());
    }
  }
  return bytes;
}

// A group of reshapes alone is no kernel: nothing crosses its edge.
double boundary_bytes(const Group& group, std::int64_t nominal) {
  return group.only_aliases() ? 0 : boundary_bytes(kernel_of(group), nominal);
}

}  // namespace

FusionGain estimate_gain(const MergeCandidate& candidate, const PlanOptions& options) {
  const std::int64_t nominal = options.nominal_size;
  FusionGain gain;
  const bool two_kernels = !candidate.producer.only_aliases() && !candidate.consumer.only_aliases();
  const bool no_kernel = candidate.producer.only_aliases() && candidate.consumer.only_aliases();
  gain.bytes_saved = boundary_bytes(candidate.producer, nominal) +
                     boundary_bytes(candidate.consumer, nominal) -
                     (no_kernel ? 0 : boundary_bytes(candidate.merged, nominal));
  // Only a producer of kind map is computed anew for every element that reads it; what a reduction
  // or a contraction made is at hand.
  const bool inlined = candidate.producer.kind == KernelKind::Map;
  if (inlined) {
    const double space = largest_space(candidate.consumer.nodes, nominal);
    for (const Node* node : candidate.producer.nodes) {
      const double elements = std::max(1.0, nominal_elements(node->result()->shape(), nominal));
      gain.flops_added += std::max(0.0, space - elements) * flops_per_element(*node);
    }
  }
  const Target& target = *options.target;
  gain.seconds = gain.bytes_saved / target.bandwidth + (two_kernels ? target.launch_seconds : 0) -
                 gain.flops_added / target.peak_flops;
  return gain;
}

}  // namespace opweld
