#include "tile/schedules/reduction_recipe.h"

#include <algorithm>

namespace opweld::tile {

namespace {

// What a reduction operator does before, while and after it combines elements.
struct Recipe {
  std::string_view op;
  Combiner combiner;
  enum class Before : std::uint8_t { Nothing, Square, Absolute } before = Before::Nothing;
  enum class After : std::uint8_t { Nothing, Divide, Root, Logarithm } after = After::Nothing;
};

constexpr Recipe kRecipes[] = {
    {"reduce_sum", Combiner::Sum},
    {"reduce_mean", Combiner::Sum, Recipe::Before::Nothing, Recipe::After::Divide},
    {"reduce_max", Combiner::Max},
    {"reduce_max_number", Combiner::MaxNumber},
    {"reduce_min", Combiner::Min},
    {"reduce_prod", Combiner::Prod},
    {"reduce_sum_square", Combiner::Sum, Recipe::Before::Square},
    {"reduce_l1", Combiner::Sum, Recipe::Before::Absolute},
    {"reduce_l2", Combiner::Sum, Recipe::Before::Square, Recipe::After::Root},
    {"reduce_log_sum", Combiner::Sum, Recipe::Before::Nothing, Recipe::After::Logarithm},
    {"reduce_any", Combiner::Any},
    {"reduce_all", Combiner::All},
};

const Recipe* find_recipe(const Node& node) {
  if (!node.op().starts_with("reduce_")) return nullptr;  // as of most nodes that are asked about
  const auto* found = std::find_if(std::begin(kRecipes), std::end(kRecipes),
                                   [&](const Recipe& recipe) { return recipe.op == node.op(); });
  return found == std::end(kRecipes) ? nullptr : found;
}

}  // namespace

bool is_staged_reduction(const Node& node) {
  if (is_arg_reduction(node)) return true;
  const Recipe* recipe = find_recipe(node);
  if (recipe == nullptr) return false;
  // Integer means, roots and logarithms have rounding rules of their own: the reference keeps them.
  return recipe->after == Recipe::After::Nothing || is_float(node.operand(0)->dtype());
}

bool is_arg_reduction(const Node& node) {
  return node.op() == "argmax" || node.op() == "argmin";
}

Combiner combiner_of(const Node& node) {
  if (const Recipe* recipe = find_recipe(node)) return recipe->combiner;
  const bool last = node.attributes().integer("select_last", 0) != 0;
  if (node.op() == "argmax") return last ? Combiner::ArgMaxLast : Combiner::ArgMaxFirst;
  return last ? Combiner::ArgMinLast : Combiner::ArgMinFirst;
}

std::vector<bool> reduced_axes(const Node& node) {
  const auto rank = static_cast<std::size_t>(node.operand(0)->rank());
  std::vector<bool> reduced(rank, false);
  Ints axes;
  if (is_arg_reduction(node)) {
    axes = {node.attributes().integer("axis", 0)};
  } else if (node.attributes().has("axes")) {
    axes = node.attributes().ints("axes");
  } else {
    reduced.assign(rank, true);
  }
  for (const std::int64_t axis : axes) {
    reduced[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis)] =
        true;
  }
  return reduced;
}

bool keeps_dims(const Node& node) {
  return node.attributes().integer("keepdims", 1) != 0;
}

Expr before_combining(ExprPool& exprs, const Node& node, Expr element) {
  const Recipe* const recipe = find_recipe(node);
  switch (recipe == nullptr ? Recipe::Before::Nothing : recipe->before) {
    case Recipe::Before::Nothing:
      return element;
    case Recipe::Before::Square:
      return exprs.binary(ExprKind::Mul, element, element);
    case Recipe::Before::Absolute:
      return exprs.unary(ExprKind::Abs, element);
  }
  return element;
}

Expr after_combining(GroupLowering& lowering, const Node& node, Expr total, const Dim& count) {
  ExprPool& exprs = lowering.program().exprs();
  const DType type = exprs[total].type;
  const Recipe* const recipe = find_recipe(node);
  Expr result = total;
  switch (recipe == nullptr ? Recipe::After::Nothing : recipe->after) {
    case Recipe::After::Nothing:
      break;
    case Recipe::After::Divide:
      result = exprs.binary(ExprKind::Div, total, exprs.convert(lowering.math().size(count), type));
      break;
    case Recipe::After::Root:
      result = exprs.unary(ExprKind::Sqrt, total);
      break;
    case Recipe::After::Logarithm:
      result = exprs.unary(ExprKind::Log, total);
      break;
  }
  const DType dtype = node.result()->dtype();
  const bool half = dtype == DType::F16 || dtype == DType::BF16;
  if (!half || lowering.options().strict) result = exprs.store(result, dtype);
  return result == total ? total : lowering.program().map(result);
}

}  // namespace opweld::tile
