// Schedule `move`: transposes and copies that no neighbour could absorb.
//
//   grid other axes..., r in R step block, c in C step block
//     for i in min(block, R - r)                 R: the axis along which the input is contiguous
//       for j in min(block, C - c) vector        C: the axis along which the output is contiguous
//         store y[.., r + i, .., c + j] <- x[...]
//
// One block of the input stays in the first-level cache while it is read across its rows.
#include "tile/schedules/group_lowering.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

namespace {

constexpr std::int64_t kBlock = 32;

// The axis of the output along which the only input has stride one; absent when the group is not a
// strided view of one input.
std::optional<std::size_t> contiguous_source_axis(const Graph& group) {
  if (group.inputs().size() != 1 || group.outputs().size() != 1) return std::nullopt;
  const Value* output = group.outputs()[0].value;
  const auto view = view_of(output, group.inputs()[0]);
  if (!view) return std::nullopt;
  for (std::size_t axis = 0; axis < view->strides.size(); ++axis) {
    if (view->strides[axis] == Dim(1) && !(output->shape()[axis] == Dim(1))) return axis;
  }
  return std::nullopt;
}

}  // namespace

Expected<LoweredKernel> lower_move(const Graph& group, const LowerOptions& options,
                                   std::string name) {
  const auto source_axis = contiguous_source_axis(group);
  const Shape& domain = group.outputs().front().value->shape();
  if (!source_axis || *source_axis + 1 == domain.size()) {
    return lower_map(group, options, std::move(name));
  }
  const std::size_t rows = *source_axis;
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  ProgramBuilder& program = lowering.program();
  IndexMath& math = lowering.math();
  Index index(domain.size(), math.constant(0));
  for (std::size_t axis = 0; axis + 1 < domain.size(); ++axis) {
    if (axis != rows) index[axis] = lowering.grid(fmt::format("i{}", axis), domain[axis]);
  }
  const Expr first_row = lowering.grid("r", domain[rows], kBlock);
  const Expr row_count = program.min(program.sub(domain[rows], first_row), kBlock);
  const auto output = output_over(group.outputs()[0].value, domain);
  OPWELD_CHECK(lowering.chunked_vector(
      "j", domain.back(), kBlock, 1,
      [&](const GroupLowering::Body& inner) {
        return lowering.serial("i", row_count, Dim(kBlock), [&](Expr row) {
          index[rows] = math.add(first_row, row);
          math.set_bound(index[rows], domain[rows]);
          return inner();
        });
      },
      [&](Expr position) {
        index.back() = position;
        return lowering.store(*output, index);
      }));
  return lowering.finish();
}

}  // namespace opweld::tile
