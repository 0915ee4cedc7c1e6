#include "report/layers.h"

#include <fmt/format.h>

#include <map>

namespace opweld {

namespace {

// All that a kernel has in common with one of an equal layer.
std::string looks_of(const Kernel& kernel) {
  std::string text = fmt::format("{} {}", to_string(kernel.kind), kernel.label);
  for (const auto* values : {&kernel.inputs, &kernel.constants, &kernel.outputs}) {
    text += '|';
    for (const Value* value : *values) text += to_string(value->type()) + ' ';
  }
  return text + '\n';
}

}  // namespace

Expected<std::vector<EqualLayers>> equal_layers(const FusionPlan& plan, const Bindings& bindings) {
  std::map<std::string, std::string, std::less<>> looks;  // by layer
  for (const Kernel& kernel : plan.kernels) {
    looks[std::string(layer_of(kernel))] += looks_of(kernel);
  }
  OPWELD_TRY(const std::vector<LayerTraffic> layers, layer_traffic(plan, bindings));
  std::vector<EqualLayers> ranges;
  const LayerTraffic* before = nullptr;
  for (const LayerTraffic& layer : layers) {
    const bool is_equal = before != nullptr && !before->scope.empty() && !layer.scope.empty() &&
                          before->traffic == layer.traffic &&
                          looks.at(before->scope) == looks.at(layer.scope);
    if (is_equal) {
      ranges.back().last = layer.scope;
      ++ranges.back().count;
    } else {
      ranges.push_back({layer.scope, layer.scope, 1, layer.traffic});
    }
    before = &layer;
  }
  return ranges;
}

std::string to_string(const EqualLayers& layers) {
  if (layers.first.empty()) return "(no layer)";
  if (layers.count == 1) return layers.first;
  return fmt::format("{} .. {} ({} equal)", layers.first, layers.last, layers.count);
}

}  // namespace opweld
