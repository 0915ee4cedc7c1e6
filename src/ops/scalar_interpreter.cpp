#include <cassert>
#include <utility>

#include "ops/scalar_expr.h"
#include "ops/scalar_semantics.h"

namespace opweld {

Expected<ScalarInterpreter> ScalarInterpreter::make(const ExprPool& pool, Expr root,
                                                    const Bindings& bindings) {
  const std::vector<Expr> order = reachable_exprs(pool, root);
  ScalarInterpreter interpreter;
  interpreter.steps_.reserve(order.size());
  interpreter.values_.resize(order.size());
  std::vector<std::int32_t> positions(static_cast<std::size_t>(root) + 1, 0);
  for (std::size_t position = 0; position < order.size(); ++position) {
    const ExprNode& node = pool[order[position]];
    positions[static_cast<std::size_t>(order[position])] = static_cast<std::int32_t>(position);
    Step step{node, node.type};
    for (int i = 0; i < node.num_arguments; ++i) {
      step.arguments[i] = positions[static_cast<std::size_t>(node.arguments[i])];
    }
    if (node.num_arguments > 0) step.argument_type = pool[node.arguments[0]].type;
    // Leaves whose value is known now are never touched again.
    ScalarValue& value = interpreter.values_[position];
    if (node.kind == ExprKind::Size) {
      OPWELD_TRY(value.integer, node.size.evaluate(bindings));
    } else if (node.kind == ExprKind::Constant) {
      value = value_of_constant(node);
    }
    interpreter.steps_.push_back(std::move(step));
  }
  return interpreter;
}

ScalarValue ScalarInterpreter::operator()(std::span<const ScalarValue> inputs,
                                          std::span<const std::int64_t> loops) {
  for (std::size_t position = 0; position < steps_.size(); ++position) {
    const Step& step = steps_[position];
    switch (step.node.kind) {
      case ExprKind::Constant:
      case ExprKind::Size:
        break;
      case ExprKind::Input:
        values_[position] = inputs[static_cast<std::size_t>(step.node.index)];
        break;
      case ExprKind::Loop:
        values_[position] = {0, loops[static_cast<std::size_t>(step.node.index)]};
        break;
      default: {
        ScalarValue arguments[3];
        for (int i = 0; i < step.node.num_arguments; ++i) {
          arguments[i] = values_[static_cast<std::size_t>(step.arguments[i])];
        }
        values_[position] = apply_scalar(step.node, step.argument_type, arguments);
      }
    }
  }
  return values_.back();
}

ScalarValue evaluate(const ExprPool& pool, Expr expr, std::span<const ScalarValue> inputs) {
  auto interpreter = ScalarInterpreter::make(pool, expr);
  assert(interpreter && "sizes need the interpreter, with bindings");
  return (*interpreter)(inputs);
}

}  // namespace opweld
