// concat: tensors joined along one axis.
#include "ops/element_walk.h"
#include "ops/families.h"
#include "ops/infer_helpers.h"
#include "ops/shape_values.h"
#include "ops/size_rules.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_concat(const OpContext& context) {
  if (context.operands.empty()) return fail("at least one operand is needed");
  TensorType result = context.type(0);
  const std::int64_t axis = context.attributes.integer("axis");
  OPWELD_CHECK(check_axis(axis, result.rank()));
  const auto joined = static_cast<std::size_t>(axis);
  for (int operand = 1; operand < static_cast<int>(context.operands.size()); ++operand) {
    const TensorType& next = context.type(operand);
    if (next.rank() != result.rank()) {
      return fail("operand {} has rank {}, operand 0 has rank {}", operand, next.rank(),
                  result.rank());
    }
    if (next.format != result.format) result.format = Format::Plain;
    for (std::size_t i = 0; i < result.shape.size(); ++i) {
      if (i == joined) continue;
      OPWELD_TRY(result.shape[i],
                 unify_sizes(result.shape[i], next.shape[i],
                             fmt::format("axis {} of operands 0 and {}", i, operand),
                             context.assumptions));
    }
    result.shape[joined] += next.shape[joined];
  }
  return one_result(context, std::move(result));
}

// Calls block(operand, offset in the result, offset in the operand, count) for every run of
// elements that stays together.
template <typename Block>
void for_each_block(const std::vector<Sizes>& operands, std::size_t axis, const Block& block) {
  std::int64_t to = 0;
  const std::int64_t outer = AxisSplit(operands[0], axis).outer;
  for (std::int64_t row = 0; row < outer; ++row) {
    for (std::size_t operand = 0; operand < operands.size(); ++operand) {
      const AxisSplit split(operands[operand], axis);
      const std::int64_t count = split.length * split.inner;
      block(operand, to, row * count, count);
      to += count;
    }
  }
}

ShapeValue concat_value(const OpContext& context) {
  std::vector<Sizes> sizes;
  std::vector<Dim> result;
  std::size_t total = 0;
  for (const Value* operand : context.operands) {
    const auto known = constant_sizes(operand->shape());
    if (!operand->contents() || !known) return std::nullopt;
    sizes.push_back(*known);
    total += operand->contents()->size();
  }
  if (total > static_cast<std::size_t>(kMaxShapeValueElements)) return std::nullopt;
  for_each_block(sizes, static_cast<std::size_t>(context.attributes.integer("axis")),
                 [&](std::size_t operand, std::int64_t, std::int64_t from, std::int64_t count) {
                   const auto first = context.operands[operand]->contents()->begin() + from;
                   result.insert(result.end(), first, first + count);
                 });
  return result;
}

Status evaluate_concat(const EvalContext& context) {
  Tensor& result = context.results[0];
  std::vector<Sizes> sizes;
  std::vector<ElementMover> movers;
  for (const Tensor* operand : context.operands) {
    sizes.push_back(operand->sizes());
    movers.emplace_back(result, *operand);
  }
  for_each_block(sizes, static_cast<std::size_t>(context.attributes.integer("axis")),
                 [&](std::size_t operand, std::int64_t to, std::int64_t from, std::int64_t count) {
                   movers[operand](to, from, count);
                 });
  return {};
}

}  // namespace

std::span<const OpDef> concat_ops() {
  static const OpDef defs[] = {
      {
          .name = "concat",
          .summary = "the operands one after the other along `axis`; the other sizes agree",
          .trait = FusionTrait::View,
          .operands = {{"x", kAnyDType, 1, OperandDef::Arity::Variadic}},
          .attributes = {{"axis", AttributeKind::Integer}},
          .infer = infer_concat,
          .contents = concat_value,
          .evaluate = evaluate_concat,
      },
  };
  return defs;
}

}  // namespace opweld
