#include "fusion/cost.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "fusion/boundary.h"
#include "ops/few_elements.h"
#include "ops/op.h"

namespace opweld {

namespace {

std::int64_t nominal_size_of(const SymbolInfo& symbol, std::int64_t nominal_size) {
  const SymbolRange& range = symbol.range;
  std::int64_t size = std::clamp(nominal_size, range.min, range.max);
  size -= size % range.divisor;
  return std::max(size, range.divisor);
}

}  // namespace

namespace {

using Symbols = std::vector<std::shared_ptr<const SymbolInfo>>;

Bindings nominal_bindings(const Symbols& symbols, std::int64_t nominal_size) {
  Bindings bindings;
  for (const auto& symbol : symbols) {
    bindings.set(symbol->name, nominal_size_of(*symbol, nominal_size));
  }
  return bindings;
}

void collect_symbols(const Shape& shape, Symbols& symbols) {
  for (const Dim& dim : shape) dim.collect_symbols(symbols);
}

}  // namespace

Bindings nominal_bindings(std::span<const Dim> dims, std::int64_t nominal_size) {
  Symbols symbols;
  for (const Dim& dim : dims) dim.collect_symbols(symbols);
  return nominal_bindings(symbols, nominal_size);
}

Bindings kernel_bindings(const Kernel& kernel, std::int64_t nominal_size) {
  Symbols symbols;
  for (const auto* values : {&kernel.inputs, &kernel.constants, &kernel.outputs}) {
    for (const Value* value : *values) collect_symbols(value->shape(), symbols);
  }
  for (const Node* node : kernel.nodes) collect_symbols(node->result()->shape(), symbols);
  return nominal_bindings(symbols, nominal_size);
}

double nominal_value(const Dim& dim, std::int64_t nominal_size) {
  const auto value = dim.evaluate(nominal_bindings({&dim, 1}, nominal_size));
  return value ? static_cast<double>(*value) : HUGE_VAL;
}

double nominal_elements(const Shape& shape, std::int64_t nominal_size) {
  double elements = 1;
  for (const Dim& dim : shape) {
    // Most sizes are numbers or symbols by themselves.
    if (const auto known = dim.constant()) {
      elements *= static_cast<double>(*known);
    } else if (const auto symbol = dim.as_symbol(); symbol != nullptr) {
      elements *= static_cast<double>(nominal_size_of(*symbol, nominal_size));
    } else {
      const auto size = dim.evaluate(nominal_bindings({&dim, 1}, nominal_size));
      elements *= static_cast<double>(size ? *size : nominal_size);
    }
  }
  return elements;
}

namespace {

// Whole rows that a gather looks up are read where they lie: an index is read for each row, not for
// each element.
bool looks_up_rows(const Node& node) {
  return node.op() == "gather" && node.attributes().integer("axis") + 1 < node.operand(0)->rank();
}

// So is what makes of something else which rows these are.
bool numbers_rows(const Node& node) {
  const auto& uses = node.result()->uses();
  return !uses.empty() && std::ranges::all_of(uses, [](const Use& use) {
    return use.index == 1 && looks_up_rows(*use.node);
  });
}

}  // namespace

double flops_per_element(const Node& node) {
  static const std::set<std::string, std::less<>> kDear = {
      "exp", "log", "tanh", "erf", "sigmoid", "sin", "cos", "pow", "gelu", "silu", "softplus"};
  constexpr double kDearFlops = 20;
  if (is_strided_view(node) || looks_up_rows(node) || numbers_rows(node)) return 0;
  if (const auto elements = combines_few(node)) return static_cast<double>(*elements);
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

double nominal_boundary_bytes(const Kernel& kernel, std::int64_t nominal) {
  double bytes = 0;
  for (const auto* list : {&kernel.inputs, &kernel.constants, &kernel.outputs}) {
    for (const Value* value : *list) {
      bytes += nominal_elements(value->shape(), nominal) * byte_size(value->dtype());
    }
  }
  return bytes;
}

// A group of reshapes alone is no kernel: nothing crosses its edge.
double nominal_boundary_bytes(const Group& group, std::int64_t nominal) {
  if (group.only_aliases()) return 0;
  Kernel kernel;
  kernel.nodes = group.nodes;
  find_boundary(kernel);
  return nominal_boundary_bytes(kernel, nominal);
}

}  // namespace

namespace {

// Sizes of the index spaces that groups walk: a few shapes, which many nodes have.
class Spaces {
 public:
  Dim elements(const Value* value) {
    const Shape& shape = value->shape();
    const auto known = std::ranges::find(known_, shape, &std::pair<Shape, Dim>::first);
    if (known != known_.end()) return known->second;
    return known_.emplace_back(shape, value->type().num_elements()).second;
  }

  // Of all spaces that the group walks, each size once: the largest is the maximum of these.
  std::vector<Dim> sizes_of(const Group& group) {
    std::vector<Dim> sizes;
    const auto add = [&](const Value* value) {
      const Dim size = elements(value);
      if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
    };
    for (const Node* node : group.nodes) {
      add(scatters_in_place(*node) ? node->operand(1) : node->result());
      if (op_def(*node).trait == FusionTrait::Reduce) add(node->operand(0));
    }
    return sizes;
  }

 private:
  std::vector<std::pair<Shape, Dim>> known_;
};

}  // namespace

Dim flops_added(const Group& producer, const Group& consumer) {
  if (producer.kind != KernelKind::Map) return 0;
  Spaces spaces;
  const std::vector<Dim> sizes = spaces.sizes_of(consumer);
  Dim flops = 0;
  for (const Node* node : producer.nodes) {
    const auto each = static_cast<std::int64_t>(flops_per_element(*node));
    if (each == 0) continue;
    const Dim elements = spaces.elements(node->result());
    Dim most = elements;
    for (const Dim& size : sizes) most = max(most, size);
    flops += (most - elements) * Dim(each);
  }
  return flops;
}

namespace {

// Only a producer of kind map is computed anew for every element that reads it; what a reduction or
// a contraction made is at hand.
double nominal_flops_added(const MergeCandidate& candidate, std::int64_t nominal) {
  if (candidate.producer.kind != KernelKind::Map) return 0;
  double flops = 0;
  const double space = largest_space(candidate.consumer.nodes, nominal);
  for (const Node* node : candidate.producer.nodes) {
    const double elements = std::max(1.0, nominal_elements(node->result()->shape(), nominal));
    flops += std::max(0.0, space - elements) * flops_per_element(*node);
  }
  return flops;
}

}  // namespace

std::optional<FusionGain> estimate_loss(const MergeCandidate& candidate,
                                        const PlanOptions& options) {
  const std::int64_t nominal = options.nominal_size;
  FusionGain gain;
  gain.flops_added = nominal_flops_added(candidate, nominal);
  const bool two_kernels = !candidate.producer.only_aliases() && !candidate.consumer.only_aliases();
  // What crosses the edge of both together crosses that of one of them: no bytes need be counted.
  if (two_kernels && gain.flops_added == 0) return std::nullopt;
  const bool no_kernel = candidate.producer.only_aliases() && candidate.consumer.only_aliases();
  gain.bytes_saved = nominal_boundary_bytes(candidate.producer, nominal) +
                     nominal_boundary_bytes(candidate.consumer, nominal) -
                     (no_kernel ? 0 : nominal_boundary_bytes(candidate.merged, nominal));
  const Target& target = *options.target;
  gain.seconds = gain.bytes_saved / target.bandwidth + (two_kernels ? target.launch_seconds : 0) -
                 gain.flops_added / target.peak_flops;
  return gain.seconds < 0 ? std::optional(gain) : std::nullopt;
}

namespace {

// Where all that is multiplied is f16 or bf16.
bool multiplies_halves(const Kernel& kernel) {
  const auto is_half = [](const Value* operand) {
    return operand->dtype() == DType::F16 || operand->dtype() == DType::BF16;
  };
  return std::ranges::all_of(kernel.nodes, [&](const Node* node) {
    const FusionTrait trait = op_def(*node).trait;
    const bool multiplies = trait == FusionTrait::Contract || trait == FusionTrait::Attention;
    return !multiplies || is_half(node->operand(0));
  });
}

// A matrix unit that takes whatever product has the right types does the vector units' as well.
Work on_units_of(const Target& target, const Kernel& kernel, Work work) {
  if (target.matrix_unit_takes_halves && multiplies_halves(kernel)) {
    work.matrix_multiply_adds += std::exchange(work.vector_multiply_adds, 0);
  }
  return work;
}

double compute_seconds(const Work& work, const Target& target, int cores) {
  constexpr double kFlopsPerMultiplyAdd = 2;
  const double instruction_flops = kFlopsPerMultiplyAdd * target.lanes(byte_size(DType::F32));
  double seconds =
      work.vector_multiply_adds * kFlopsPerMultiplyAdd / (kReachedOfFlops * target.peak_flops) +
      work.instructions * instruction_flops / (kReachedOfIssue * target.peak_flops);
  if (work.matrix_multiply_adds > 0) {
    // What kernels reach of AMX was measured; of units that are not here nothing was.
    const double reached = target.planned_only ? kReachedOfFlops : kReachedOfMatrixFlops;
    seconds += work.matrix_multiply_adds * kFlopsPerMultiplyAdd / (reached * target.matrix_flops);
  }
  // The cores that have one task more than others tell when all is done.
  const double rounds = std::ceil(work.tasks / cores);
  return work.tasks > 0 ? seconds * rounds / work.tasks : 0;
}

double room_in_caches(const Target& target, int cores) {
  return target.passed_on_bytes > 0 ? static_cast<double>(target.passed_on_bytes)
                                    : static_cast<double>(target.l2_bytes) * cores;
}

}  // namespace

Expected<KernelCost> kernel_cost(const Kernel& kernel, const Work& work, const Target& target,
                                 const Bindings& sizes, int threads) {
  const int cores = threads > 0 ? threads : target.cores;
  OPWELD_TRY(const BoundaryBytes bytes, boundary_bytes(kernel, sizes));
  // Of a constant a kernel may read but slices.
  const double from_memory = std::min(bytes.constants, bytes.read);
  const double passed_on = bytes.read + bytes.written - from_memory;
  const bool in_cache = passed_on <= room_in_caches(target, cores);
  KernelCost cost;
  cost.memory_seconds = from_memory / target.bandwidth +
                        passed_on / (in_cache ? target.cache_bandwidth * cores : target.bandwidth);
  cost.compute_seconds = compute_seconds(on_units_of(target, kernel, work), target, cores);
  // A single task is nobody else's to wait for.
  cost.launch_seconds = work.tasks > 1 ? target.launch_seconds : 0;
  return cost;
}

double weight_seconds(const Work& work, double model_bytes, const Target& target) {
  const bool in_cache = target.planned_only || model_bytes <= room_in_caches(target, target.cores);
  return work.streamed_weight_bytes /
         (in_cache ? target.cache_bandwidth * target.cores : target.bandwidth);
}

}  // namespace opweld
