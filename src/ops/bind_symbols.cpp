// Symbol values from the sizes of concrete inputs.
#include <algorithm>

#include "ops/reference.h"

namespace opweld {
namespace {

// One axis of one input: what it is declared to be, what it is.
struct Axis {
  const Value* input;
  std::size_t axis;
  Dim declared;
  std::int64_t size;

  [[nodiscard]] std::string label() const {
    return fmt::format("input '{}', axis {}", input->name(), axis);
  }
};

Expected<std::vector<Axis>> pair_axes(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs().size()) {
    return usage_error("the graph has {} inputs, but {} were given", graph.inputs().size(),
                       inputs.size());
  }
  std::vector<Axis> axes;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const Value* declared = graph.inputs()[index];
    const Sizes& sizes = inputs[index].sizes();
    if (sizes.size() != declared->shape().size()) {
      return usage_error("input '{}' must have rank {} ({}), but has sizes {}", declared->name(),
                         declared->rank(), to_string(declared->type()), to_string(sizes));
    }
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      axes.push_back({declared, axis, declared->shape()[axis], sizes[axis]});
    }
  }
  return axes;
}

// The symbols of the axis that have no value yet.
std::vector<std::shared_ptr<const SymbolInfo>> unbound_symbols(const Dim& dim,
                                                               const Bindings& bindings) {
  std::vector<std::shared_ptr<const SymbolInfo>> symbols;
  dim.collect_symbols(symbols);
  std::erase_if(symbols, [&](const auto& symbol) { return bindings.find(symbol->name); });
  return symbols;
}

// The value of `symbol` at which the expression, its only unknown being that, equals `size`: found
// by the straight line through two of its points, and kept if it then is a solution.
std::optional<std::int64_t> solve(const Dim& expression, const SymbolInfo& symbol,
                                  const Bindings& bindings, std::int64_t size) {
  const auto value_at = [&](std::int64_t value) {
    Bindings trial = bindings;
    trial.set(symbol.name, value);
    return expression.evaluate(trial);
  };
  const SymbolRange& range = symbol.range;
  // The smallest value that the symbol may have, and the next.
  const std::int64_t remainder = range.min % range.divisor;
  const std::int64_t first =
      range.min - remainder + (remainder > 0 ? range.divisor : std::int64_t{0});
  const auto at_first = value_at(first);
  if (!at_first) return std::nullopt;
  if (*at_first == size) return first;
  const auto at_next = value_at(first + range.divisor);
  if (!at_next) return std::nullopt;
  std::int64_t rise = 0;
  std::int64_t missing = 0;
  std::int64_t candidate = 0;
  if (__builtin_sub_overflow(*at_next, *at_first, &rise) || rise == 0 ||
      __builtin_sub_overflow(size, *at_first, &missing) ||
      __builtin_mul_overflow(missing / rise, range.divisor, &candidate) ||
      __builtin_add_overflow(candidate, first, &candidate)) {
    return std::nullopt;
  }
  const auto at_candidate = value_at(candidate);
  if (!at_candidate || *at_candidate != size) return std::nullopt;
  return candidate;
}

Status bind(Bindings& bindings, const SymbolInfo& symbol, const Axis& axis, std::int64_t value) {
  if (auto fits = symbol.check(value); !fits) {
    return tl::unexpected(
        Error{ErrorKind::Usage, fmt::format("{}: {}", axis.label(), fits.error().message)});
  }
  bindings.set(symbol.name, value);
  return {};
}

// Values of the symbols that stand alone on some axis.
Status bind_plain_symbols(std::span<const Axis> axes, Bindings& bindings) {
  for (const Axis& axis : axes) {
    const auto symbol = axis.declared.as_symbol();
    if (symbol == nullptr || bindings.find(symbol->name)) continue;
    OPWELD_CHECK(bind(bindings, *symbol, axis, axis.size));
  }
  return {};
}

// Values of those that occur only within expressions, as long as that leads on.
Status bind_by_solving(std::span<const Axis> axes, Bindings& bindings) {
  for (bool progress = true; progress;) {
    progress = false;
    for (const Axis& axis : axes) {
      const auto unknown = unbound_symbols(axis.declared, bindings);
      if (unknown.size() != 1) continue;
      const auto value = solve(axis.declared, *unknown.front(), bindings, axis.size);
      if (!value) {
        return usage_error("{}: no value of {} makes {} the size {}", axis.label(),
                           unknown.front()->name, axis.declared, axis.size);
      }
      OPWELD_CHECK(bind(bindings, *unknown.front(), axis, *value));
      progress = true;
    }
  }
  return {};
}

Status check_axes(std::span<const Axis> axes, const Bindings& bindings) {
  for (const Axis& axis : axes) {
    const auto unknown = unbound_symbols(axis.declared, bindings);
    if (!unknown.empty()) {
      return usage_error("{}: the sizes of the inputs do not determine {} in {}", axis.label(),
                         unknown.front()->name, axis.declared);
    }
    const auto expected = axis.declared.evaluate(bindings);
    if (!expected) {
      return tl::unexpected(
          Error{ErrorKind::Usage, fmt::format("{}: {}", axis.label(), expected.error().message)});
    }
    if (*expected == axis.size) continue;
    if (axis.declared.is_constant()) {
      return usage_error("{}: the size must be {}, but is {}", axis.label(), *expected, axis.size);
    }
    return usage_error("{}: the size {} is {} by the other inputs, but here {}", axis.label(),
                       axis.declared, *expected, axis.size);
  }
  return {};
}

}  // namespace

Expected<Bindings> bind_symbols(const Graph& graph, std::span<const Tensor> inputs) {
  OPWELD_TRY(const std::vector<Axis> axes, pair_axes(graph, inputs));
  Bindings bindings;
  OPWELD_CHECK(bind_plain_symbols(axes, bindings));
  OPWELD_CHECK(bind_by_solving(axes, bindings));
  OPWELD_CHECK(check_axes(axes, bindings));
  return bindings;
}

}  // namespace opweld
