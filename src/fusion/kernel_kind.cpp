#include "fusion/kernel_kind.h"

#include <algorithm>
#include <array>

#include "ops/few_elements.h"
#include "ops/op.h"

namespace opweld {

namespace {

using namespace std::string_view_literals;

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Views whose elements have an index expression; the rest (reflecting pads, gather_nd) is a call.
constexpr std::array kIndexMaps = {"reshape"sv, "transpose"sv, "expand"sv, "slice"sv,
                                   "concat"sv,  "tile"sv,      "gather"sv, "gather_elements"sv};

bool reduces_last_axis(const Node& node, const Ints& axes) {
  const std::int64_t last = node.operand(0)->rank() - 1;
  return std::any_of(axes.begin(), axes.end(),
                     [&](std::int64_t axis) { return axis == last || axis == -1; });
}

KernelKind reduction_kind(const Node& node) {
  const Attributes& attributes = node.attributes();
  if (node.operand(0)->rank() == 0) return KernelKind::Extern;
  if (node.op() == "cumsum") return KernelKind::Extern;
  if (attributes.has("axes")) {
    if (attributes.ints("axes").empty()) return KernelKind::Extern;
    return reduces_last_axis(node, attributes.ints("axes")) ? KernelKind::Row : KernelKind::Reduce;
  }
  if (attributes.has("axis")) {
    return reduces_last_axis(node, {attributes.integer("axis")}) ? KernelKind::Row
                                                                 : KernelKind::Reduce;
  }
  return KernelKind::Row;
}

// Composites by what their bodies do.
KernelKind composite_kind(const Node& node) {
  constexpr std::array kSoftmaxes = {"softmax"sv, "log_softmax"sv};
  constexpr std::array kNorms = {"layer_norm"sv, "rms_norm"sv};
  if (contains(kSoftmaxes, node.op())) {
    if (node.operand(0)->rank() == 0) return KernelKind::Extern;
    return reduces_last_axis(node, {node.attributes().integer("axis", -1)}) ? KernelKind::Row
                                                                            : KernelKind::Reduce;
  }
  if (contains(kNorms, node.op())) return KernelKind::Row;
  if (node.op() == "reduce_log_sum_exp") return reduction_kind(node);
  if (node.op() == "group_norm") return KernelKind::Extern;
  return KernelKind::Map;
}

}  // namespace

bool scatters_in_place(const Node& node) {
  return node.op() == "tensor_scatter" && node.attributes().integer("in_place", 0) != 0;
}

bool is_alias(const Node& node) {
  return node.op() == "reshape";
}

bool is_strided_view(const Node& node) {
  constexpr std::array kViews = {"reshape"sv, "transpose"sv, "slice"sv, "expand"sv};
  return contains(kViews, node.op());
}

KernelKind kind_of(const Node& node) {
  const OpDef& def = op_def(node);
  switch (def.trait) {
    case FusionTrait::Pointwise:
    case FusionTrait::Broadcast:
    case FusionTrait::Source:
      return KernelKind::Map;
    case FusionTrait::View:
      if (node.op() == "transpose") return KernelKind::Move;
      if (node.op() == "pad") {
        const bool constant = node.attributes().text("mode", "constant") == "constant";
        return constant ? KernelKind::Map : KernelKind::Extern;
      }
      return contains(kIndexMaps, node.op()) ? KernelKind::Map : KernelKind::Extern;
    case FusionTrait::Reduce:
      return combines_few(node) ? KernelKind::Map : reduction_kind(node);
    case FusionTrait::Contract:
      return is_float(node.result()->dtype()) ? KernelKind::Contract : KernelKind::Extern;
    case FusionTrait::Attention:
      return KernelKind::Attention;
    case FusionTrait::Composite:
      return composite_kind(node);
    case FusionTrait::Scatter:
      return scatters_in_place(node) ? KernelKind::Map : KernelKind::Extern;
    case FusionTrait::Opaque:
      if (chooses_few(node)) return KernelKind::Row;
      return node.op() == "sort_by_group" ? KernelKind::Reduce : KernelKind::Extern;
  }
  return KernelKind::Extern;
}

std::optional<KernelKind> merged_kind(KernelKind producer, KernelKind consumer,
                                      IndexMaps producer_maps) {
  // A transpose beside other work is an index map like any other.
  if (producer == KernelKind::Move) producer = KernelKind::Map;
  if (consumer == KernelKind::Move) consumer = KernelKind::Map;
  if (producer == KernelKind::Extern || consumer == KernelKind::Extern) return std::nullopt;
  const auto is_stage = [](KernelKind kind) {
    return kind == KernelKind::Row || kind == KernelKind::Contract || kind == KernelKind::Chain;
  };
  const bool goes_on = consumer == KernelKind::Contract || consumer == KernelKind::Chain;
  if (producer == KernelKind::Attention && goes_on) return KernelKind::Chain;
  const bool norms_alone = producer == KernelKind::Row && consumer == KernelKind::Row;
  if (is_stage(producer) && is_stage(consumer) && !norms_alone) return KernelKind::Chain;
  if (producer == consumer) {
    const bool stacks = producer == KernelKind::Map || producer == KernelKind::Row ||
                        producer == KernelKind::Reduce;
    return stacks ? std::optional(producer) : std::nullopt;
  }
  if (consumer == KernelKind::Map) return producer;
  if (producer == KernelKind::Map) {
    const bool takes_expressions = consumer == KernelKind::Row || consumer == KernelKind::Reduce;
    if (takes_expressions || producer_maps == IndexMaps::Strided) return consumer;
    // Rows of keys and values that are joined, and given out as they are read.
    const bool joins = producer_maps == IndexMaps::Joining;
    if (joins && consumer == KernelKind::Attention) return consumer;
  }
  return std::nullopt;
}

}  // namespace opweld
