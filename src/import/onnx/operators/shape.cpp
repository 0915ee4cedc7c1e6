// Operators that rearrange or describe shapes: Reshape, Transpose, Concat, Expand and their kin.
#include <algorithm>
#include <numeric>

#include "import/onnx/chosen_rows.h"
#include "import/onnx/operators/table.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

// Axes from an attribute, or from the operand from that opset on; nothing where absent.
Expected<std::optional<Ints>> axes_of(NodeContext& c, int operand, std::int64_t operand_since) {
  if (c.opset() < operand_since) return c.integers_attribute("axes");
  if (!c.has(operand)) return std::nullopt;
  OPWELD_TRY(Ints axes, c.integers(operand, "axes"));
  return axes;
}

// ---- shapes as values ----

// The index that a bound of Shape stands for, within [0, rank].
std::int64_t shape_bound(std::int64_t bound, std::int64_t rank) {
  return std::clamp<std::int64_t>(bound < 0 ? bound + rank : bound, 0, rank);
}

Expected<Values> shape(NodeContext& c) {
  const Shape& sizes = c.operand(0)->shape();
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const std::int64_t start = shape_bound(c.integer("start", 0), rank);
  const std::int64_t end = std::max(start, shape_bound(c.integer("end", rank), rank));
  return one(sizes_value(c.builder(), {sizes.begin() + start, sizes.begin() + end}));
}

Expected<Values> size(NodeContext& c) {
  Builder& b = c.builder();
  return one(b.reshape(sizes_value(b, {num_elements(c.operand(0)->shape())}), {}));
}

// ---- the same elements under another shape ----

// 0 stands for the size of x on that axis, -1 for whatever is left.
Expected<Shape> resolve_shape(const Shape& x, std::vector<Dim> wanted, bool zero_is_zero) {
  std::optional<std::size_t> open;
  for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
    Dim& size = wanted[axis];
    if (size == Dim(0) && !zero_is_zero) {
      if (axis >= x.size()) {
        return fail("the new shape keeps the size of axis {}, but x has rank {}", axis, x.size());
      }
      size = x[axis];
    } else if (size == Dim(-1)) {
      if (open) return fail("the new shape leaves two sizes open, axes {} and {}", *open, axis);
      open = axis;
    } else if (size.upper_bound() < 0) {
      return fail("the new shape has the size {} on axis {}", size, axis);
    }
  }
  if (!open) return wanted;
  wanted[*open] = 1;
  const Dim others = num_elements(wanted);
  if (others == Dim(0))
    return fail("the size of axis {} follows from nothing: others are 0", *open);
  wanted[*open] = floor_div(num_elements(x), others);
  return wanted;
}

Expected<Values> reshape(NodeContext& c) {
  Value* x = c.operand(0);
  OPWELD_TRY(auto wanted, c.dims(1, "the new shape"));
  OPWELD_TRY(Shape shape,
             resolve_shape(x->shape(), std::move(wanted), c.integer("allowzero", 0) != 0));
  return one(c.builder().reshape(x, std::move(shape)));
}

Expected<Values> flatten(NodeContext& c) {
  const Shape& sizes = c.operand(0)->shape();
  const auto rank = static_cast<std::int64_t>(sizes.size());
  std::int64_t axis = c.integer("axis", 1);
  if (axis < -rank || axis > rank) return fail("axis {} is outside of rank {}", axis, rank);
  if (axis < 0) axis += rank;
  const auto split = static_cast<std::size_t>(axis);
  return one(c.builder().reshape(c.operand(0),
                                 {product(sizes, 0, split), product(sizes, split, sizes.size())}));
}

Expected<Values> squeeze(NodeContext& c) {
  const Shape& sizes = c.operand(0)->shape();
  OPWELD_TRY(const auto axes, axes_of(c, 1, 13));
  std::vector<bool> dropped(sizes.size(), false);
  if (axes) {
    OPWELD_TRY(const auto normal, normalize_axes(*axes, c.operand(0)->rank()));
    for (const int axis : normal) {
      const Dim& size = sizes[static_cast<std::size_t>(axis)];
      if (size.is_constant() && size != Dim(1)) {
        return fail("axis {} has size {}, so it cannot be squeezed", axis, size);
      }
      dropped[static_cast<std::size_t>(axis)] = true;
    }
  } else {
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) dropped[axis] = sizes[axis] == Dim(1);
  }
  Shape kept;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (!dropped[axis]) kept.push_back(sizes[axis]);
  }
  return one(c.builder().reshape(c.operand(0), std::move(kept)));
}

Expected<Values> unsqueeze(NodeContext& c) {
  Shape sizes = c.operand(0)->shape();
  OPWELD_TRY(const auto axes, axes_of(c, 1, 13));
  if (!axes) return fail("the axes are missing");
  const auto rank = sizes.size() + axes->size();
  OPWELD_TRY(const auto normal, normalize_axes(*axes, static_cast<int>(rank)));
  for (const int axis : normal) sizes.insert(sizes.begin() + axis, 1);
  return one(c.builder().reshape(c.operand(0), std::move(sizes)));
}

// ---- order of axes ----

Expected<Values> transpose(NodeContext& c) {
  const auto rank = static_cast<std::size_t>(c.operand(0)->rank());
  auto permutation = c.integers_attribute("perm");
  if (!permutation) {
    permutation.emplace(rank);
    std::iota(permutation->rbegin(), permutation->rend(), 0);
  }
  return one(c.builder().transpose(c.operand(0), std::move(*permutation)));
}

struct SpaceBlock {
  std::int64_t size = 0;
  // How a block's elements are stored in the channels: block first ("DCR"), or channel first
  // ("CRD").
  bool block_first = true;
};

// Of an image x [N, C, H, W].
Expected<SpaceBlock> space_block(NodeContext& c) {
  const std::int64_t size = c.integer("blocksize", 0);
  const std::string mode = c.text("mode", "DCR");
  if (c.operand(0)->rank() != 4 || size < 1) {
    return fail("wants x of rank 4 and a blocksize of 1 or more");
  }
  if (mode != "DCR" && mode != "CRD") return fail("mode '{}' is neither DCR nor CRD", mode);
  return SpaceBlock{size, mode == "DCR"};
}

Expected<Values> depth_to_space(NodeContext& c) {
  Builder& b = c.builder();
  const Shape x = c.operand(0)->shape();
  OPWELD_TRY(const SpaceBlock space, space_block(c));
  const std::int64_t block = space.size;
  const Dim channels = floor_div(x[1], Dim(block) * block);
  Value* y = space.block_first
                 ? b.reshape(c.operand(0), {x[0], block, block, channels, x[2], x[3]})
                 : b.reshape(c.operand(0), {x[0], channels, block, block, x[2], x[3]});
  y = b.transpose(y, space.block_first ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3});
  return one(b.reshape(y, {x[0], channels, x[2] * block, x[3] * block}));
}

Expected<Values> space_to_depth(NodeContext& c) {
  Builder& b = c.builder();
  const Shape x = c.operand(0)->shape();
  OPWELD_TRY(const SpaceBlock space, space_block(c));
  const std::int64_t block = space.size;
  const Dim height = floor_div(x[2], block);
  const Dim width = floor_div(x[3], block);
  Value* y = b.reshape(c.operand(0), {x[0], x[1], height, block, width, block});
  y = b.transpose(y, space.block_first ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4});
  return one(b.reshape(y, {x[0], x[1] * block * block, height, width}));
}

// ---- joining and dividing ----

Expected<Values> concat(NodeContext& c) {
  for (int i = 0; i < c.num_operands(); ++i) {
    if (!c.has(i)) return fail("operand {} is missing", i);
  }
  if (!c.has_attribute("axis")) return fail("attribute 'axis' is missing");
  OPWELD_TRY(const int axis, c.axis("axis", 0, c.operand(0)->rank()));
  return one(c.builder().op("concat", c.operands(), {{"axis", std::int64_t{axis}}}));
}

// Equal parts; from opset 18 on the last may be smaller.
Expected<std::vector<Dim>> equal_parts(NodeContext& c, const Dim& size) {
  const std::int64_t count = c.integer("num_outputs", c.num_results());
  if (count < 1 || count != c.num_results()) {
    return fail("has {} results, but is to be split into {} parts", c.num_results(), count);
  }
  const Dim part = c.opset() >= 18 ? ceil_div(size, count) : floor_div(size, count);
  if (c.opset() < 18 && size.is_constant() && !size.divisible_by(count)) {
    return fail("an axis of size {} cannot be split into {} equal parts", size, count);
  }
  std::vector<Dim> parts(static_cast<std::size_t>(count), part);
  parts.back() = size - part * (count - 1);
  return parts;
}

Expected<std::vector<Dim>> split_sizes(NodeContext& c, const Dim& size) {
  if (c.opset() >= 13 && c.has(1)) return c.dims(1, "the sizes of the parts");
  if (c.opset() < 13) {
    if (const auto sizes = c.integers_attribute("split")) {
      return std::vector<Dim>(sizes->begin(), sizes->end());
    }
  }
  return equal_parts(c, size);
}

Expected<Values> split(NodeContext& c) {
  Value* x = c.operand(0);
  OPWELD_TRY(const int axis, c.axis("axis", 0, x->rank()));
  const Dim size = x->shape()[static_cast<std::size_t>(axis)];
  OPWELD_TRY(const auto parts, split_sizes(c, size));
  if (static_cast<int>(parts.size()) != c.num_results()) {
    return fail("has {} results, but {} sizes of parts", c.num_results(), parts.size());
  }
  const Dim total = std::accumulate(parts.begin(), parts.end(), Dim(0));
  std::vector<SizeAssumption> assumptions;
  OPWELD_CHECK(
      unify_sizes(total, size, "the sum of the parts and the size of the axis", &assumptions));
  for (SizeAssumption& a : assumptions) c.builder().graph().assume_equal(a.left, a.right, a.reason);
  Values results;
  Dim start = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool wanted = c.wants(static_cast<int>(i));
    results.push_back(wanted ? slice_axis(c.builder(), x, axis, start, parts[i]) : nullptr);
    start += parts[i];
  }
  return results;
}

// ---- repeating and extending ----

// Both shapes broadcast: a 1 in the target leaves the size of x.
Expected<Values> expand(NodeContext& c) {
  const Shape& x = c.operand(0)->shape();
  OPWELD_TRY(auto target, c.dims(1, "the target shape"));
  if (target.size() < x.size()) target.insert(target.begin(), x.size() - target.size(), Dim(1));
  const std::size_t added = target.size() - x.size();
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    Dim& size = target[added + axis];
    // At most 1, and not known to be: 0 asks that x has no elements there either, as what was
    // picked from no rows has none.
    if (size.upper_bound() <= 1 && size != Dim(1) && x[axis] != Dim(1)) {
      if (!is_nonzero_count(x[axis])) {
        c.builder().graph().assume_equal(
            x[axis] * (1 - size), 0,
            fmt::format("axis {} of Expand, where the target is {}, is empty or as x", axis, size));
      }
      size = 1;
    }
    if (size == Dim(1)) size = x[axis];
  }
  return one(c.builder().expand(c.operand(0), std::move(target)));
}

Expected<Values> tile(NodeContext& c) {
  OPWELD_TRY(auto repeats, c.dims(1, "the repeats"));
  return one(c.builder().op("tile", {c.operand(0)}, {{"repeats", Shape(std::move(repeats))}}));
}

// Amounts for all axes, those at the beginnings first.
Expected<std::vector<Dim>> pad_amounts(NodeContext& c, std::size_t rank) {
  std::vector<Dim> given;
  if (c.opset() >= 11) {
    OPWELD_TRY(given, c.dims(1, "the amounts of padding"));
  } else {
    const auto attribute = c.integers_attribute("pads");
    if (!attribute) return fail("attribute 'pads' is missing");
    given.assign(attribute->begin(), attribute->end());
  }
  std::vector<int> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has(3)) {
    OPWELD_TRY(const Ints listed, c.integers(3, "axes"));
    axes.clear();
    for (const std::int64_t axis : listed) {
      OPWELD_TRY(const int normal, normalize_axis(axis, static_cast<int>(rank)));
      axes.push_back(normal);
    }
  }
  if (given.size() != 2 * axes.size()) {
    return fail("{} amounts of padding are given for {} axes", given.size(), axes.size());
  }
  std::vector<Dim> amounts(2 * rank, Dim(0));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    amounts[axis] = given[i];
    amounts[rank + axis] = given[axes.size() + i];
  }
  return amounts;
}

Expected<Values> pad(NodeContext& c) {
  Builder& b = c.builder();
  Value* x = c.operand(0);
  const auto rank = static_cast<std::size_t>(x->rank());
  OPWELD_TRY(const auto amounts, pad_amounts(c, rank));
  Value* value = nullptr;
  if (c.opset() >= 11) {
    value = c.operand(2);
    if (value != nullptr && value->rank() != 0) value = b.reshape(value, {});
  } else if (c.has_attribute("value")) {
    value = b.scalar(c.real("value", 0), x->dtype());
  }
  const auto middle = amounts.begin() + static_cast<std::ptrdiff_t>(rank);
  return one(b.op("pad", {x, value},
                  {{"before", Shape(amounts.begin(), middle)},
                   {"after", Shape(middle, amounts.end())},
                   {"mode", c.text("mode", "constant")}}));
}

constexpr OperatorRule kRules[] = {
    {"Concat", concat, "", 1, kAny},
    {"DepthToSpace", depth_to_space},
    {"Expand", expand, "", 2, 2},
    {"Flatten", flatten},
    {"Pad", pad, "", 1, 4},
    {"Reshape", reshape, "", 2, 2},
    {"Shape", shape},
    {"Size", size},
    {"SpaceToDepth", space_to_depth},
    {"Split", split, "", 1, 2},
    {"Squeeze", squeeze, "", 1, 2},
    {"Tile", tile, "", 2, 2},
    {"Transpose", transpose},
    {"Unsqueeze", unsqueeze, "", 1, 2},
};

}  // namespace

std::span<const OperatorRule> shape_operators() {
  return kRules;
}

}  // namespace opweld
