// Views move elements and compute nothing: a rule is exact if every element of the result comes
// from the same place as before.
#include <algorithm>

#include "rewrite/match.h"
#include "rewrite/simplify_rules.h"

namespace opweld {

namespace {

bool is_identity(const Ints& permutation) {
  for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
    if (permutation[axis] != static_cast<std::int64_t>(axis)) return false;
  }
  return true;
}

// transpose that moves nothing -> x
Value* transpose_of_nothing(Builder&, Node& node) {
  return is_identity(node.attributes().ints("permutation")) ? node.operand(0) : nullptr;
}

// transpose(transpose(x)) -> one transpose, or x
Value* transpose_of_transpose(Builder& build, Node& node) {
  const Node* const inner = made_by(node.operand(0), "transpose");
  if (inner == nullptr) return nullptr;
  const Ints& first = inner->attributes().ints("permutation");
  Ints both;
  for (const std::int64_t axis : node.attributes().ints("permutation")) {
    both.push_back(first[static_cast<std::size_t>(axis)]);
  }
  return is_identity(both) ? inner->operand(0) : build.transpose(inner->operand(0), both);
}

// transpose that moves axes of one element only -> reshape, which moves nothing in memory
Value* transpose_of_single_elements(Builder& build, Node& node) {
  const Shape& shape = node.operand(0)->shape();
  std::int64_t last = -1;
  for (const std::int64_t axis : node.attributes().ints("permutation")) {
    if (shape[static_cast<std::size_t>(axis)] == Dim(1)) continue;
    if (axis < last) return nullptr;
    last = axis;
  }
  return build.reshape(node.operand(0), node.result()->shape());
}

// A stretch of axes of one shape and the stretch of another that has as many elements.
struct Stretch {
  std::size_t from = 0, from_end = 0;  // axes of the operand of a reshape
  std::size_t to = 0, to_end = 0;      // and of its result
};

// Up to where the axes from `begin` on have as many elements as `size`; 0: nowhere.
std::size_t end_of(const Dim& size, const Shape& shape, std::size_t begin) {
  Dim product = 1;
  for (std::size_t axis = begin; axis < shape.size(); ++axis) {
    product = product * shape[axis];
    if (product == size) return axis + 1;
  }
  return 0;
}

// How the axes of a reshape's operand become those of its result, each stretch having one axis on
// the one side or on the other; empty where that is not known.
std::vector<Stretch> stretches_of(const Shape& from, const Shape& to) {
  std::vector<Stretch> stretches;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < from.size() && j < to.size()) {
    if (const std::size_t end = end_of(from[i], to, j); end != 0) {
      stretches.push_back({i, i + 1, j, end});
    } else if (const std::size_t joined = end_of(to[j], from, i); joined != 0) {
      stretches.push_back({i, joined, j, j + 1});
    } else {
      return {};
    }
    i = stretches.back().from_end;
    j = stretches.back().to_end;
  }
  return i == from.size() && j == to.size() ? stretches : std::vector<Stretch>();
}

// The axes of every stretch in the order of the permutation, if they are beside each other there,
// as the places of the stretches; else empty.
Ints order_of(const std::vector<std::pair<std::size_t, std::size_t>>& stretches,
              const Ints& permutation) {
  Ints order;
  for (std::size_t place = 0; place < permutation.size();) {
    const auto axis = static_cast<std::size_t>(permutation[place]);
    const auto found =
        std::ranges::find(stretches, axis, [](const auto& each) { return each.first; });
    if (found == stretches.end()) return {};
    for (std::size_t next = found->first; next < found->second; ++next, ++place) {
      const bool follows =
          place < permutation.size() && permutation[place] == static_cast<std::int64_t>(next);
      if (!follows) return {};
    }
    order.push_back(found - stretches.begin());
  }
  return order;
}

// transpose(reshape(transpose(x))) that puts stretches of axes back where they were -> reshape(x):
// [n, h w, c] -> [n, c, h w] -> [n, c, h, w] -> [n, h, w, c], as channels go to the front behind a
// convolution and back.
Value* transpose_back(Builder& build, Node& node) {
  const Node* const reshape = made_by(node.operand(0), "reshape");
  const Node* const first =
      reshape == nullptr ? nullptr : made_by(reshape->operand(0), "transpose");
  if (first == nullptr) return nullptr;
  std::vector<std::pair<std::size_t, std::size_t>> before;
  std::vector<std::pair<std::size_t, std::size_t>> after;
  for (const Stretch& each :
       stretches_of(reshape->operand(0)->shape(), reshape->result()->shape())) {
    before.emplace_back(each.from, each.from_end);
    after.emplace_back(each.to, each.to_end);
  }
  // Where the stretches of the reshape's operand lie in x.
  const Ints& there = first->attributes().ints("permutation");
  Ints inverse(there.size());
  for (std::size_t axis = 0; axis < there.size(); ++axis) {
    inverse[static_cast<std::size_t>(there[axis])] = static_cast<std::int64_t>(axis);
  }
  const Ints in_x = order_of(before, inverse);
  if (in_x.empty() || in_x != order_of(after, node.attributes().ints("permutation"))) {
    return nullptr;
  }
  return build.reshape(first->operand(0), node.result()->shape());
}

// reshape or expand to the shape that is there -> x
Value* same_type(Builder&, Node& node) {
  return node.operand(0)->type() == node.result()->type() ? node.operand(0) : nullptr;
}

// reshape(reshape(x)) -> reshape(x): the elements keep their order in both.
Value* reshape_of_reshape(Builder& build, Node& node) {
  const Node* const inner = made_by(node.operand(0), "reshape");
  if (inner == nullptr) return nullptr;
  Value* const x = inner->operand(0);
  return x->type() == node.result()->type() ? x : build.reshape(x, node.result()->shape());
}

// reshape(reduce(x) without the reduced axes) that puts them back with size 1 -> reduce(x) that
// keeps them
Value* reshape_of_reduction(Builder& build, Node& node) {
  const Node* const reduction = node.operand(0)->producer();
  if (reduction == nullptr || !reduction->op().starts_with("reduce_")) return nullptr;
  const Attributes& attributes = reduction->attributes();
  if (attributes.integer("keepdims", 1) != 0 || !attributes.has("axes")) return nullptr;
  if (!has_one_reader(node.operand(0)) || reduction->num_operands() != 1) return nullptr;
  Shape kept = reduction->operand(0)->shape();
  const auto rank = static_cast<std::int64_t>(kept.size());
  for (const std::int64_t axis : attributes.ints("axes")) {
    kept[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = 1;
  }
  if (kept != node.result()->shape()) return nullptr;
  Attributes keeping = attributes;
  keeping.set("keepdims", std::int64_t{1});
  return build.op(reduction->op(), {reduction->operand(0)}, std::move(keeping));
}

// How many of the leading axes of `shape` have `rows` elements together, more than one axis; 0:
// none.
std::ptrdiff_t axes_of_rows(const Shape& shape, const Dim& rows) {
  Dim product = 1;
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) {
    product *= shape[axis];
    if (axis > 0 && product == rows) return static_cast<std::ptrdiff_t>(axis) + 1;
  }
  return 0;
}

// reshape(reshape(x) [M, K] w [K, N] + c [N]) [.., N] -> reshape(x) [.., K] w + c, where the outer
// one takes the rows apart, and perhaps the columns: what a product with joined rows is written as.
// So the rows are those of whatever else there is, such as a residual, and what joined them goes.
Value* reshape_of_joined_product(Builder& build, Node& node) {
  Value* rows = node.operand(0);
  Value* bias = nullptr;
  if (const Node* const sum = made_by(rows, "add"); sum != nullptr && has_one_reader(rows)) {
    for (int side = 0; side < 2 && bias == nullptr; ++side) {
      if (sum->operand(side)->rank() > 1 || sum->operand(1 - side)->rank() != 2) continue;
      bias = sum->operand(side);
      rows = sum->operand(1 - side);
    }
  }
  const Node* const product = made_by(rows, "matmul");
  if (product == nullptr || !has_one_reader(rows) || product->operand(1)->rank() != 2) {
    return nullptr;
  }
  const Node* const joined = made_by(product->operand(0), "reshape");
  if (joined == nullptr || product->operand(0)->rank() != 2) return nullptr;
  const Shape& shape = node.result()->shape();
  const Shape& joint = product->operand(0)->shape();
  const std::ptrdiff_t leading = axes_of_rows(shape, joint[0]);
  if (leading == 0) return nullptr;
  Shape apart(shape.begin(), shape.begin() + leading);
  apart.push_back(joint[1]);
  Value* const x = build.reshape(joined->operand(0), std::move(apart));
  Value* result = build.op("matmul", {x, product->operand(1)}, product->attributes());
  if (bias != nullptr && result != nullptr) result = build.binary("add", result, bias);
  return result == nullptr ? nullptr : build.reshape(result, shape);
}

// expand(expand(x)) -> expand(x): an axis of one element that the first repeats, the second leaves.
Value* expand_of_expand(Builder& build, Node& node) {
  const Node* const inner = made_by(node.operand(0), "expand");
  return inner == nullptr ? nullptr : build.expand(inner->operand(0), node.result()->shape());
}

// slice of everything in order -> x
Value* slice_of_all(Builder&, Node& node) {
  const Ints& steps = node.attributes().ints("steps");
  const bool in_order =
      std::all_of(steps.begin(), steps.end(), [](auto step) { return step == 1; });
  return in_order && node.operand(0)->type() == node.result()->type() ? node.operand(0) : nullptr;
}

// Whether `second` is the slice that goes on along the axis where `first` ends, of the same value.
bool continues(const Node& first, const Node& second, std::size_t axis) {
  const Shape& from = first.attributes().shape("starts");
  const Shape& to = second.attributes().shape("starts");
  const Shape& sizes = first.attributes().shape("sizes");
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Dim expected = i == axis ? from[i] + sizes[i] : from[i];
    const bool step_of_one =
        first.attributes().ints("steps")[i] == 1 && second.attributes().ints("steps")[i] == 1;
    if (!step_of_one || to[i] != expected) return false;
  }
  return first.operand(0) == second.operand(0);
}

// concat of one operand -> x
Value* concat_of_one(Builder&, Node& node) {
  return node.num_operands() == 1 ? node.operand(0) : nullptr;
}

// concat without the operands that are empty
Value* concat_of_empty(Builder& build, Node& node) {
  const auto axis = static_cast<std::size_t>(node.attributes().integer("axis"));
  std::vector<Value*> filled;
  for (Value* operand : node.operands()) {
    if (operand->shape()[axis] != Dim(0)) filled.push_back(operand);
  }
  if (filled.empty() || static_cast<int>(filled.size()) == node.num_operands()) return nullptr;
  return filled.size() == 1 ? filled[0] : build.op("concat", std::move(filled), node.attributes());
}

// concat of all the slices of x, one after the other -> x
Value* concat_of_slices(Builder&, Node& node) {
  const auto axis = static_cast<std::size_t>(node.attributes().integer("axis"));
  const Node* const first = made_by(node.operand(0), "slice");
  if (first == nullptr || first->operand(0)->type() != node.result()->type()) return nullptr;
  const Node* before = first;
  for (int index = 1; index < node.num_operands(); ++index) {
    const Node* const slice = made_by(node.operand(index), "slice");
    if (slice == nullptr || !continues(*before, *slice, axis)) return nullptr;
    before = slice;
  }
  // The result is as large as x, so that the slices begin at its beginning.
  const Shape& starts = first->attributes().shape("starts");
  const bool from_start =
      std::all_of(starts.begin(), starts.end(), [](const Dim& start) { return start == Dim(0); });
  return from_start ? first->operand(0) : nullptr;
}

// tile that repeats nothing -> x
Value* tile_of_one(Builder&, Node& node) {
  const Shape& repeats = node.attributes().shape("repeats");
  const bool once =
      std::all_of(repeats.begin(), repeats.end(), [](const Dim& count) { return count == Dim(1); });
  return once ? node.operand(0) : nullptr;
}

// pad with nothing -> x
Value* pad_of_nothing(Builder&, Node& node) {
  for (const char* side : {"before", "after"}) {
    const Shape& amounts = node.attributes().shape(side);
    if (std::any_of(amounts.begin(), amounts.end(), [](const Dim& n) { return n != Dim(0); })) {
      return nullptr;
    }
  }
  return node.operand(0);
}

}  // namespace

std::span<const SimplifyRule> view_simplifications() {
  static constexpr SimplifyRule kRules[] = {
      {"transpose", transpose_of_nothing},
      {"transpose", transpose_of_transpose},
      {"transpose", transpose_of_single_elements},
      {"transpose", transpose_back},
      {"reshape", same_type},
      {"reshape", reshape_of_reshape},
      {"reshape", reshape_of_reduction},
      {"reshape", reshape_of_joined_product},
      {"expand", same_type},
      {"expand", expand_of_expand},
      {"slice", slice_of_all},
      {"concat", concat_of_one},
      {"concat", concat_of_empty},
      {"concat", concat_of_slices},
      {"tile", tile_of_one},
      {"pad", pad_of_nothing},
  };
  return kRules;
}

}  // namespace opweld
