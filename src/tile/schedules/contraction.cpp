#include "tile/schedules/contraction.h"

#include <algorithm>

#include "ops/op.h"
#include "ops/stored_weights.h"
#include "tile/schedules/head_segments.h"

namespace opweld::tile {

Expected<Contraction> find_contraction(const Graph& group) {
  const Node* matmul = nullptr;
  for (const auto& node : group.nodes()) {
    if (op_def(*node).trait != FusionTrait::Contract) continue;
    if (matmul != nullptr) return fail("it has two matmuls");
    matmul = node.get();
  }
  if (matmul == nullptr) return fail("it has no matmul");
  return contraction_of(*matmul);
}

Contraction contraction_of(const Node& node) {
  Contraction found;
  found.node = &node;
  found.grouped = found.node->op() == "grouped_matmul";
  if (found.grouped && found.node->num_operands() > 3) found.bias = found.node->operand(3);
  found.a = found.node->operand(0);
  found.b = found.node->operand(1);
  found.result = found.node->result();
  const Node* const stored = stored_weights(found.b);
  // A constant of one element is a number of the program, and no param that could be packed.
  const bool is_param = stored != nullptr && found.b->type().num_elements() != Dim(1);
  if (is_param && stored->result()->uses().size() == 1) found.weights = stored->result();
  const Shape& shape = found.result->shape();
  const auto rank = shape.size();
  found.columns = shape[rank - 1];
  found.depth = found.a->shape().back();
  found.batch.assign(shape.begin(), shape.end() - 2);
  found.rows = shape[rank - 2];
  const bool plain_weights = found.b->rank() == 2 && found.a->rank() == found.result->rank();
  if (plain_weights && !found.batch.empty()) {
    found.merges_rows = true;
    found.rows *= num_elements(found.batch);
    found.batch.clear();
  }
  return found;
}

namespace {

constexpr int kMostParts = 2;

// Whether the slice takes columns [i * width, (i + 1) * width) of a value of that shape, for
// some i.
bool takes_part(const Node& slice, const Shape& shape, const Dim& width) {
  const Shape& starts = slice.attributes().shape("starts");
  const Ints& steps = slice.attributes().ints("steps");
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) {
    if (starts[axis] != Dim(0) || slice.result()->shape()[axis] != shape[axis]) return false;
  }
  return std::ranges::all_of(steps, [](auto step) { return step == 1; }) &&
         slice.result()->shape().back() == width && mod(starts.back(), width) == Dim(0);
}

// The shape of what is stored where the matmul's result is read in parts; empty where it is not.
Shape shape_of_parts(std::span<const Node* const> nodes, const Contraction& contraction) {
  const auto columns = contraction.columns.constant();
  const bool one_matrix = contraction.b->rank() == 2 || contraction.grouped;
  if (contraction.weights == nullptr || !one_matrix || !columns) return {};
  if (*columns % kMostParts != 0) return {};
  Shape shape = contraction.result->shape();
  const Dim width = *columns / kMostParts;
  bool found = false;
  for (const Node* node : nodes) {
    if (node->op() != "slice" || node->operand(0)->shape() != shape) continue;
    if (!takes_part(*node, shape, width)) return {};
    found = true;
  }
  if (!found) return {};
  shape.back() = width;
  return shape;
}

}  // namespace

Status find_results(std::span<const Node* const> nodes, std::span<const Value* const> results,
                    Contraction& contraction) {
  if (auto outputs = outputs_over(results, contraction.result->shape(), kNotOverResult)) {
    contraction.outputs = std::move(*outputs);
    return {};
  }
  if (const Shape shape = shape_of_parts(nodes, contraction); !shape.empty()) {
    if (auto outputs = outputs_over(results, shape, kNotOverResult)) {
      contraction.parts = kMostParts;
      contraction.columns = shape.back();
      contraction.outputs = std::move(*outputs);
      return {};
    }
  }
  return find_head_segments(nodes, results, contraction);
}

std::string contract_class(const Contraction& contraction, const ContractSizes& sizes) {
  const Value* const right = contraction.weights != nullptr ? contraction.weights : contraction.b;
  std::string text =
      fmt::format("{} {} x {} . {} {} x {}", to_string(contraction.a->dtype()),
                  rounded_text(sizes.rows), rounded_text(sizes.depth), to_string(right->dtype()),
                  rounded_text(sizes.depth), rounded_text(sizes.columns));
  if (!contraction.batch.empty()) {
    text = fmt::format("{} of {}", rounded_text(num_elements(contraction.batch)), text);
  }
  if (contraction.grouped) text += ", in groups";
  if (sizes.parts > 1) text += fmt::format(", {} parts", sizes.parts);
  if (sizes.packs_rows) text += ", left packed";
  if (contraction.weights == nullptr) text += ", right packed";
  if (sizes.on_matrix_unit) text += ", matrix unit";
  return text;
}

}  // namespace opweld::tile
