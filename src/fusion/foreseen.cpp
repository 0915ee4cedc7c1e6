#include "fusion/foreseen.h"

#include <algorithm>
#include <array>

#include "ops/op.h"

namespace opweld {

namespace {

bool is_pointwise(const Node& node) {
  return op_def(node).trait == FusionTrait::Pointwise;
}

// Whether the node reduces rows of its operand: as a norm or softmax does, of which a row comes
// out, or to a number each.
bool reduces_rows(const Node& node) {
  constexpr std::array<std::string_view, 4> kOfRows = {"softmax", "log_softmax", "rms_norm",
                                                       "layer_norm"};
  const Attributes& attributes = node.attributes();
  const std::int64_t last = node.operand(0)->rank() - 1;
  const auto is_last = [last](std::int64_t axis) { return axis == -1 || axis == last; };
  if (std::ranges::find(kOfRows, node.op()) != kOfRows.end()) {
    return is_last(attributes.integer("axis", -1));
  }
  constexpr std::array<std::string_view, 6> kToNumbers = {"reduce_sum", "reduce_mean",
                                                          "reduce_max", "reduce_max_number",
                                                          "reduce_min", "reduce_sum_square"};
  if (std::ranges::find(kToNumbers, node.op()) == kToNumbers.end()) return false;
  const bool keeps = attributes.integer("keepdims", 1) != 0;
  return keeps && attributes.has("axes") && attributes.ints("axes").size() == 1 &&
         is_last(attributes.ints("axes").front());
}

// Whether the shape has as many rows, of one number each.
bool is_number_of_each_row(const Shape& shape, const Shape& rows) {
  return shape.size() == rows.size() && shape.back() == Dim(1) &&
         std::equal(shape.begin(), shape.end() - 1, rows.begin());
}

// Whether so many values of whole rows have room on the chip, for all that operators are made of.
bool have_room(std::size_t values, const Shape& rows, const PlanOptions& options) {
  constexpr double kMadeOf = 4;
  constexpr double kBytes = 4;
  const auto width = rows.back().constant();
  if (!width || *width < 2) return false;
  const double bytes = kMadeOf * kBytes * static_cast<double>(values) * static_cast<double>(*width);
  return bytes <= static_cast<double>(options.target->on_chip_bytes);
}

bool is_plain(const Kernel& kernel, const PlanOptions& options) {
  const Value* const made = kernel.nodes.back()->result();
  // Of the last node, which has whole rows unless it reduces them.
  const Shape& rows =
      reduces_rows(*kernel.nodes.back()) ? kernel.nodes.back()->operand(0)->shape() : made->shape();
  if (rows.empty() || !have_room(kernel.nodes.size(), rows, options)) return false;
  return std::ranges::all_of(kernel.nodes, [&](const Node* node) {
    if (node->num_results() != 1) return false;
    const Shape& shape = node->result()->shape();
    if (is_pointwise(*node)) {
      return shape == rows ||
             (kernel.kind == KernelKind::Row && is_number_of_each_row(shape, rows));
    }
    return kernel.kind == KernelKind::Row && reduces_rows(*node) &&
           node->operand(0)->shape() == rows;
  });
}

// Whether the consumer is nothing but a pointwise operator over what the producer makes.
bool appends_pointwise(const MergeCandidate& candidate) {
  if (candidate.consumer.nodes.size() != 1) return false;
  const Node& node = *candidate.consumer.nodes.front();
  return is_pointwise(node) && node.result()->shape() == candidate.value->shape();
}

}  // namespace

bool is_foreseen(const MergeCandidate& candidate, const PlanOptions& options) {
  switch (candidate.merged.kind) {
    case KernelKind::Map:
    case KernelKind::Row:
      return is_plain(candidate.merged, options);
    case KernelKind::Chain:
      return candidate.producer.kind == KernelKind::Chain && appends_pointwise(candidate);
    case KernelKind::Contract: {
      // Of whole rows: a gate reads halves of them, and heads are parts.
      const auto is_whole = [&](const Node* node) {
        const bool is_product = op_def(*node).trait == FusionTrait::Contract;
        return (is_product || is_pointwise(*node)) && node->num_results() == 1 &&
               node->result()->shape() == candidate.value->shape();
      };
      return candidate.producer.kind == KernelKind::Contract && appends_pointwise(candidate) &&
             std::ranges::all_of(candidate.producer.nodes, is_whole);
    }
    default:
      return false;
  }
}

bool is_as_foreseen(const Group& group, const PlanOptions& options) {
  const Kernel kernel = kernel_of(group);
  const auto estimate = options.oracle(kernel);
  if (!estimate || !fits_on_chip(estimate->pressure, options)) return false;
  return kernel.kind != KernelKind::Chain || has_rows_that_pay(kernel, *estimate, options);
}

}  // namespace opweld
