// scatter_elements, scatter_nd, tensor_scatter: a copy of x with updates written at places that are
// data. Negative indices count from the end; an index out of range is an error. Where several
// updates meet at one place they take effect in the row-major order of the updates.
#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/indices.h"
#include "ops/infer_helpers.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

enum class Reduction : std::uint8_t { None, Add, Mul, Min, Max };

std::optional<Reduction> parse_reduction(std::string_view text) {
  if (text == "none") return Reduction::None;
  if (text == "add") return Reduction::Add;
  if (text == "mul") return Reduction::Mul;
  if (text == "min") return Reduction::Min;
  if (text == "max") return Reduction::Max;
  return std::nullopt;
}

Status check_reduction(const OpContext& context) {
  const std::string& text = context.attributes.text("reduction");
  if (parse_reduction(text)) return {};
  return fail("reduction \"{}\" is none of \"none\", \"add\", \"mul\", \"min\", \"max\"", text);
}

double combine(Reduction reduction, double a, double b) {
  switch (reduction) {
    case Reduction::Add:
      return a + b;
    case Reduction::Mul:
      return a * b;
    case Reduction::Min:
      return std::isnan(a) || a < b ? a : b;  // NaN if either is NaN
    case Reduction::Max:
      return std::isnan(a) || a > b ? a : b;
    case Reduction::None:
      break;
  }
  return b;
}

// Sums and products wrap: they are formed modulo 2^64 and stored modulo the width of the dtype.
std::int64_t combine(Reduction reduction, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  switch (reduction) {
    case Reduction::Add:
      return static_cast<std::int64_t>(x + y);
    case Reduction::Mul:
      return static_cast<std::int64_t>(x * y);
    case Reduction::Min:
      return std::min(a, b);
    case Reduction::Max:
      return std::max(a, b);
    case Reduction::None:
      break;
  }
  return b;
}

// Puts updates into a result that starts as a copy of x. Float reductions are carried in double and
// rounded once, by finish(); elements that nothing is written to keep their bits.
class Scatterer {
 public:
  Scatterer(const EvalContext& context, const Tensor& updates, Reduction reduction)
      : result_(context.results[0]),
        updates_(updates),
        move_(result_, updates),
        reduction_(reduction) {
    const Tensor& x = *context.operands[0];
    ElementMover(result_, x)(0, 0, x.num_elements());
  }

  void put(std::int64_t to, std::int64_t from, std::int64_t count = 1) {
    if (reduction_ == Reduction::None) return move_(to, from, count);
    for (std::int64_t i = 0; i < count; ++i) reduce(to + i, from + i);
  }

  void finish() {
    for (const auto& [place, value] : reduced_) result_.set_double(place, value);
  }

 private:
  void reduce(std::int64_t to, std::int64_t from) {
    if (is_float(result_.dtype())) {
      double& value = reduced_.try_emplace(to, result_.get_double(to)).first->second;
      value = combine(reduction_, value, updates_.get_double(from));
    } else {
      result_.set_int(to, combine(reduction_, result_.get_int(to), updates_.get_int(from)));
    }
  }

  Tensor& result_;
  const Tensor& updates_;
  ElementMover move_;
  Reduction reduction_;
  std::unordered_map<std::int64_t, double> reduced_;  // by place in the result
};

Expected<std::vector<TensorType>> infer_scatter_elements(const OpContext& context) {
  const TensorType& x = context.type(0);
  const Shape& indices = context.type(1).shape;
  const std::int64_t axis = context.attributes.integer("axis");
  OPWELD_CHECK(check_reduction(context));
  OPWELD_CHECK(check_axis(axis, x.rank()));
  OPWELD_TRY(
      [[maybe_unused]] const Shape common,
      unify_shapes(indices, context.type(2).shape, "indices and updates", context.assumptions));
  OPWELD_CHECK(check_element_indices(context, axis));
  return one_result(context, x);
}

Status evaluate_scatter_elements(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  const Tensor& indices = *context.operands[1];
  const auto axis = static_cast<std::size_t>(context.attributes.integer("axis"));
  Scatterer scatterer(context, *context.operands[2],
                      *parse_reduction(context.attributes.text("reduction")));
  const Status status =
      for_each_indexed(indices, x.sizes(), axis,
                       [&](std::int64_t from, std::int64_t to) { scatterer.put(to, from); });
  scatterer.finish();
  return status;
}

Expected<std::vector<TensorType>> infer_scatter_nd(const OpContext& context) {
  const TensorType& x = context.type(0);
  const Shape& indices = context.type(1).shape;
  OPWELD_CHECK(check_reduction(context));
  if (indices.empty()) return fail("indices must have at least one axis");
  const auto depth = indices.back().constant();
  if (!depth) return fail("the last size of indices must be known, it is {}", indices.back());
  if (*depth > x.rank()) return fail("indices address {} axes, x has rank {}", *depth, x.rank());
  Shape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), x.shape.begin() + *depth, x.shape.end());
  OPWELD_TRY([[maybe_unused]] const Shape common,
             unify_shapes(expected, context.type(2).shape,
                          "the blocks of x at the indices and updates", context.assumptions));
  return one_result(context, x);
}

Status evaluate_scatter_nd(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  const Tensor& indices = *context.operands[1];
  Scatterer scatterer(context, *context.operands[2],
                      *parse_reduction(context.attributes.text("reduction")));
  const std::int64_t depth = indices.sizes().back();
  const Sizes strides = row_major_strides(x.sizes());
  const std::int64_t block = num_elements(Sizes(x.sizes().begin() + depth, x.sizes().end()));
  const std::int64_t tuples =
      num_elements(Sizes(indices.sizes().begin(), indices.sizes().end() - 1));
  for (std::int64_t tuple = 0; tuple < tuples; ++tuple) {
    std::int64_t to = 0;
    for (std::int64_t axis = 0; axis < depth; ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      OPWELD_TRY(const std::int64_t place,
                 resolve_index(indices, tuple * depth + axis, x.sizes()[i], axis));
      to += place * strides[i];
    }
    scatterer.put(to, tuple * block, block);
  }
  scatterer.finish();
  return {};
}

bool is_circular(const Attributes& attributes) {
  return attributes.text("mode") == "circular";
}

Expected<std::vector<TensorType>> infer_tensor_scatter(const OpContext& context) {
  const TensorType& cache = context.type(0);
  const Shape& update = context.type(1).shape;
  const std::int64_t axis = context.attributes.integer("axis");
  OPWELD_CHECK(check_axis(axis, cache.rank()));
  if (axis == 0) return fail("axis 0 is the batch; updates are written along a later axis");
  const std::string& mode = context.attributes.text("mode");
  if (mode != "linear" && mode != "circular") {
    return fail("mode \"{}\" is neither \"linear\" nor \"circular\"", mode);
  }
  if (update.size() != cache.shape.size()) {
    return fail("update has rank {}, cache has rank {}", update.size(), cache.rank());
  }
  for (std::size_t i = 0; i < update.size(); ++i) {
    if (static_cast<std::int64_t>(i) == axis) {
      OPWELD_CHECK(require_at_most(context, update[i], cache.shape[i],
                                   "the update must not be longer than the cache"));
    } else {
      OPWELD_TRY([[maybe_unused]] const Dim size,
                 unify_sizes(cache.shape[i], update[i],
                             fmt::format("axis {} of cache and update", i), context.assumptions));
    }
  }
  if (context.has(2)) {
    OPWELD_TRY([[maybe_unused]] const Shape batch,
               unify_shapes(context.type(2).shape, {cache.shape[0]},
                            "write_indices and the batch of the cache", context.assumptions));
  }
  return one_result(context, cache);
}

// Where in the cache's axis row `row` of a batch's update goes, which begins at `start`.
Expected<std::int64_t> cache_row(std::int64_t start, std::int64_t row, std::int64_t extent,
                                 bool circular, std::int64_t batch) {
  if (circular) return (((start % extent) + extent) % extent + row) % extent;
  if (start >= 0 && start < extent - row) return start + row;
  return fail("write index {} of batch {} puts row {} of the update outside the cache's {} rows",
              start, batch, row, extent);
}

Status evaluate_tensor_scatter(const EvalContext& context) {
  const Tensor& cache = *context.operands[0];
  const Tensor& update = *context.operands[1];
  const Tensor* starts = context.operands.size() > 2 ? context.operands[2] : nullptr;
  const auto axis = static_cast<std::size_t>(context.attributes.integer("axis"));
  Scatterer scatterer(context, update, Reduction::None);
  const AxisSplit to(cache.sizes(), axis);
  const std::int64_t rows = AxisSplit(update.sizes(), axis).length;
  for (std::int64_t outer = 0; outer < to.outer; ++outer) {
    const std::int64_t batch = outer / (to.outer / cache.sizes()[0]);
    const std::int64_t start = starts != nullptr ? starts->get_int(batch) : 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      OPWELD_TRY(const std::int64_t place,
                 cache_row(start, row, to.length, is_circular(context.attributes), batch));
      scatterer.put((outer * to.length + place) * to.inner, (outer * rows + row) * to.inner,
                    to.inner);
    }
  }
  return {};
}

}  // namespace

std::span<const OpDef> scatter_ops() {
  static const OpDef defs[] = {
      {
          .name = "scatter_elements",
          .summary =
              "x with each update combined into the element at the update's own index, in which "
              "its value of indices stands in along `axis` (ONNX ScatterElements)",
          .trait = FusionTrait::Scatter,
          .operands = {{"x", kAnyDType, 1}, {"indices", kIndices}, {"updates", kAnyDType, 1}},
          .attributes = {{"axis", AttributeKind::Integer}, {"reduction", AttributeKind::Text}},
          .infer = infer_scatter_elements,
          .evaluate = evaluate_scatter_elements,
      },
      {
          .name = "scatter_nd",
          .summary =
              "x with blocks of updates combined in at the tuples along the last axis of indices "
              "(ONNX ScatterND)",
          .trait = FusionTrait::Scatter,
          .operands = {{"x", kAnyDType, 1}, {"indices", kIndices}, {"updates", kAnyDType, 1}},
          .attributes = {{"reduction", AttributeKind::Text}},
          .infer = infer_scatter_nd,
          .evaluate = evaluate_scatter_nd,
      },
      {
          .name = "tensor_scatter",
          .summary =
              "cache [batch, ..., max_length, ...] with update [batch, ..., length, ...] written "
              "along `axis` from write_indices[batch] (0 by default) on; \"circular\" wraps "
              "around (ONNX TensorScatter); \"in_place\", set by the compiler, is 1 where the "
              "result takes over the memory of the cache",
          .trait = FusionTrait::Scatter,
          .operands = {{"cache", kAnyDType, 1},
                       {"update", kAnyDType, 1},
                       {"write_indices", kIndices, 0, OperandDef::Arity::Optional}},
          .attributes = {{"axis", AttributeKind::Integer},
                         {"mode", AttributeKind::Text},
                         {"in_place", AttributeKind::Integer, /*required=*/false}},
          .infer = infer_tensor_scatter,
          .evaluate = evaluate_tensor_scatter,
      },
  };
  return defs;
}

}  // namespace opweld
