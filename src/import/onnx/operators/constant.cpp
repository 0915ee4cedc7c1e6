// Operators without data: Constant, ConstantOfShape, Range, EyeLike.
#include <algorithm>
#include <cmath>

#include "import/onnx/operators/table.h"

namespace opweld {
namespace {

Expected<Tensor> tensor_of(DType dtype, Sizes sizes, const auto& values) {
  OPWELD_TRY(Tensor tensor, Tensor::allocate(dtype, std::move(sizes)));
  std::int64_t place = 0;
  for (const auto value : values) {
    if (is_float(dtype)) {
      tensor.set_double(place++, static_cast<double>(value));
    } else {
      tensor.set_int(place++, static_cast<std::int64_t>(value));
    }
  }
  return tensor;
}

// The value is in whichever attribute is there.
Expected<Tensor> constant_tensor(NodeContext& c) {
  if (c.has_attribute("value")) return c.tensor_attribute("value");
  if (c.has_attribute("value_float")) {
    return tensor_of(DType::F32, {}, Doubles{c.real("value_float", 0)});
  }
  if (c.has_attribute("value_int")) {
    return tensor_of(DType::I64, {}, Ints{c.integer("value_int", 0)});
  }
  if (const auto reals = c.reals_attribute("value_floats")) {
    return tensor_of(DType::F32, {std::ssize(*reals)}, *reals);
  }
  if (const auto integers = c.integers_attribute("value_ints")) {
    return tensor_of(DType::I64, {std::ssize(*integers)}, *integers);
  }
  return fail("holds no dense tensor of numbers; texts and sparse tensors are not supported");
}

Expected<Values> constant(NodeContext& c) {
  OPWELD_TRY(Tensor tensor, constant_tensor(c));
  return one(c.builder().constant(std::move(tensor)));
}

Expected<Values> constant_of_shape(NodeContext& c) {
  Builder& b = c.builder();
  OPWELD_TRY(auto shape, c.dims(0, "the shape"));
  for (const Dim& size : shape) {
    if (size.upper_bound() < 0) return fail("the shape has the size {}", size);
  }
  Value* value = nullptr;
  if (c.has_attribute("value")) {
    OPWELD_TRY(Tensor tensor, c.tensor_attribute("value"));
    if (tensor.num_elements() != 1) return fail("attribute 'value' must have one element");
    value = b.constant(tensor.reshaped({}));
  } else {
    value = b.scalar(0, DType::F32);
  }
  return one(b.expand(value, std::move(shape)));
}

// ---- Range ----

// Of real numbers the length must be known as a number.
Expected<Dim> real_length(NodeContext& c) {
  double bounds[3];
  for (const int i : {0, 1, 2}) {
    const auto value = c.constant(i);
    if (!value || value->num_elements() != 1) {
      return fail("operand {} must be one number known at import", i);
    }
    bounds[i] = value->get_double(0);
  }
  const double length = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  constexpr double kLongest = 1LL << 31;
  if (!(length < kLongest)) return fail("the length {} is no sensible size", length);
  return Dim(static_cast<std::int64_t>(std::max(length, 0.0)));
}

Expected<Dim> integer_length(NodeContext& c) {
  OPWELD_TRY(const Dim start, c.dim(0, "start"));
  OPWELD_TRY(const Dim limit, c.dim(1, "limit"));
  OPWELD_TRY(const Dim step, c.dim(2, "delta"));
  const auto delta = step.constant();
  if (!delta) return fail("delta must be constant, but is {}", step);
  if (*delta == 0) return fail("delta is 0");
  const Dim length =
      *delta > 0 ? ceil_div(limit - start, *delta) : ceil_div(start - limit, -Dim(*delta));
  return max(length, 0);
}

Expected<Values> range(NodeContext& c) {
  Builder& b = c.builder();
  Value* start = c.operand(0);
  OPWELD_TRY(const Dim length, is_float(start->dtype()) ? real_length(c) : integer_length(c));
  return one(b.op("range", {b.reshape(start, {}), b.reshape(c.operand(2), {})},
                  {{"length", Shape{length}}}));
}

// ---- EyeLike ----

Expected<Values> eye_like(NodeContext& c) {
  Builder& b = c.builder();
  const Shape& shape = c.operand(0)->shape();
  if (shape.size() != 2) return fail("wants x of rank 2, not {}", shape.size());
  OPWELD_TRY(const DType dtype, c.dtype_attribute("dtype", c.operand(0)->dtype()));
  const auto places = [&](const Shape& counted, std::int64_t axis) {
    return b.op("iota", {}, {{"shape", counted}, {"axis", axis}, {"dtype", DType::I64}});
  };
  Value* offset = b.ints({c.integer("k", 0)});
  Value* diagonal = b.binary("add", places({shape[0], 1}, 0), offset);
  return one(b.cast(b.binary("eq", places({1, shape[1]}, 1), diagonal), dtype));
}

constexpr OperatorRule kRules[] = {
    {"Constant", constant, "", 0, 0},
    {"ConstantOfShape", constant_of_shape},
    {"EyeLike", eye_like},
    {"Range", range, "", 3, 3},
};

}  // namespace

std::span<const OperatorRule> constant_operators() {
  return kRules;
}

}  // namespace opweld
