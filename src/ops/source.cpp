// Operators without tensor operands: constant, sizes, iota.
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/shape_values.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

TensorType type_of(const Tensor& tensor) {
  return {tensor.dtype(), Shape(tensor.sizes().begin(), tensor.sizes().end())};
}

Expected<std::vector<TensorType>> infer_constant(const OpContext& context) {
  return std::vector<TensorType>{type_of(context.attributes.tensor("value"))};
}

ShapeValue constant_value(const OpContext& context) {
  const Tensor& value = context.attributes.tensor("value");
  if (!is_integer(value.dtype()) || value.num_elements() > kMaxShapeValueElements) {
    return std::nullopt;
  }
  std::vector<Dim> elements;
  elements.reserve(static_cast<std::size_t>(value.num_elements()));
  for (std::int64_t i = 0; i < value.num_elements(); ++i) elements.emplace_back(value.get_int(i));
  return elements;
}

Expected<std::vector<TensorType>> infer_sizes(const OpContext& context) {
  const Shape& values = context.attributes.shape("values");
  for (const Dim& value : values) {
    if (value.is_overflow()) return fail("a size among the values is too large to represent");
  }
  return std::vector<TensorType>{{DType::I64, {Dim(values.size())}}};
}

ShapeValue sizes_value(const OpContext& context) {
  const Shape& values = context.attributes.shape("values");
  return std::vector<Dim>(values.begin(), values.end());
}

Status evaluate_sizes(const EvalContext& context) {
  OPWELD_TRY(const Sizes values, evaluate(context.attributes.shape("values"), context.bindings));
  for (std::size_t i = 0; i < values.size(); ++i) {
    context.results[0].set_int(static_cast<std::int64_t>(i), values[i]);
  }
  return {};
}

Expected<std::vector<TensorType>> infer_iota(const OpContext& context) {
  const Shape& shape = context.attributes.shape("shape");
  const DType dtype = context.attributes.dtype("dtype");
  if (dtype == DType::Bool) return fail("iota counts in numbers; dtype bool is none");
  OPWELD_CHECK(check_axis(context.attributes.integer("axis"), static_cast<int>(shape.size())));
  return one_result(context, {dtype, shape});
}

// Strides that see only the position along the counted axis.
Sizes iota_strides(const Attributes& attributes) {
  Sizes strides(attributes.shape("shape").size(), 0);
  strides[static_cast<std::size_t>(attributes.integer("axis"))] = 1;
  return strides;
}

ShapeValue iota_value(const OpContext& context) {
  const Shape& shape = context.attributes.shape("shape");
  const auto length =
      shape[static_cast<std::size_t>(context.attributes.integer("axis"))].constant();
  if (!is_integer(context.attributes.dtype("dtype")) || !length ||
      *length > kMaxShapeValueElements) {
    return std::nullopt;
  }
  std::vector<Dim> counts;
  counts.reserve(static_cast<std::size_t>(*length));
  for (std::int64_t i = 0; i < *length; ++i) counts.emplace_back(i);
  return strided_contents(counts, shape, iota_strides(context.attributes), 0);
}

Status evaluate_iota(const EvalContext& context) {
  Tensor& result = context.results[0];
  walk(result.sizes(), iota_strides(context.attributes), 0,
       [&](std::int64_t position, std::int64_t count) {
         if (is_float(result.dtype())) {
           result.set_double(position, static_cast<double>(count));
         } else {
           result.set_int(position, count);
         }
       });
  return {};
}

}  // namespace

std::span<const OpDef> source_ops() {
  static const OpDef defs[] = {
      {
          .name = "constant",
          .summary = "the tensor `value`",
          .trait = FusionTrait::Source,
          .operands = {},
          .attributes = {{"value", AttributeKind::Tensor}},
          .infer = infer_constant,
          .contents = constant_value,
      },
      {
          .name = "sizes",
          .summary = "i64[n] of the n sizes in `values`, known once the symbols are bound",
          .trait = FusionTrait::Source,
          .operands = {},
          .attributes = {{"values", AttributeKind::Shape}},
          .infer = infer_sizes,
          .contents = sizes_value,
          .evaluate = evaluate_sizes,
      },
      {
          .name = "iota",
          .summary = "every element is its own index along `axis`; integers wrap, halves round",
          .trait = FusionTrait::Source,
          .operands = {},
          .attributes = {{"shape", AttributeKind::Shape},
                         {"axis", AttributeKind::Integer},
                         {"dtype", AttributeKind::Type}},
          .infer = infer_iota,
          .contents = iota_value,
          .evaluate = evaluate_iota,
      },
  };
  return defs;
}

}  // namespace opweld
