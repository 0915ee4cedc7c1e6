#include "plugin/size_formula.h"

#include <algorithm>
#include <variant>

#include "ops/infer_helpers.h"

namespace opweld {

namespace {

using SizeOrShape = std::variant<Dim, Shape>;

class SizeBuilder {
 public:
  SizeBuilder(const FormulaText& text, const SizeScope& scope) : text_(text), scope_(scope) {}

  Expected<Shape> shape(const Formula& formula) {
    OPWELD_TRY(SizeOrShape value, build(formula));
    if (auto* shape = std::get_if<Shape>(&value)) return std::move(*shape);
    return text_.error(formula, "a size stands where a shape is wanted; put it in brackets");
  }

  Expected<Dim> size(const Formula& formula) {
    OPWELD_TRY(SizeOrShape value, build(formula));
    if (const auto* size = std::get_if<Dim>(&value)) return *size;
    return text_.error(formula, "a shape stands where a size is wanted; x[0] is one of its sizes");
  }

  Status check_no_definitions() const {
    if (text_.definitions.empty()) return {};
    return text_.error(text_.definitions.front().second, "formulas of sizes have no definitions");
  }

 private:
  Expected<SizeOrShape> build(const Formula& formula) {
    switch (formula.kind) {
      case Formula::Kind::Integer:
        return Dim(formula.integer);
      case Formula::Kind::Real:
        return text_.error(formula, "a size is a whole number");
      case Formula::Kind::Name:
        return name(formula);
      case Formula::Kind::List: {
        Shape sizes;
        for (const Formula& each : formula.parts) {
          OPWELD_TRY(Dim part, size(each));
          sizes.push_back(std::move(part));
        }
        return sizes;
      }
      case Formula::Kind::Index:
        return index(formula);
      case Formula::Kind::Stretch:
        return stretch(formula);
      case Formula::Kind::Call:
        return call(formula);
    }
    return text_.error(formula, "this belongs to no size");
  }

  [[nodiscard]] int operand_of(std::string_view name) const {
    const auto found = std::ranges::find(scope_.names, name);
    return found == scope_.names.end() ? -1 : static_cast<int>(found - scope_.names.begin());
  }

  Expected<Shape> operand_shape(const Formula& formula) const {
    const int operand = operand_of(formula.name);
    if (formula.kind != Formula::Kind::Name || operand < 0) {
      return text_.error(formula, "an operand is wanted here");
    }
    if (!scope_.context.has(operand)) {
      return text_.error(formula, fmt::format("operand '{}' is absent", formula.name));
    }
    return scope_.context.type(operand).shape;
  }

  Expected<SizeOrShape> name(const Formula& formula) const {
    if (operand_of(formula.name) >= 0) return operand_shape(formula);
    const Attribute* const attribute = scope_.context.attributes.find(formula.name);
    if (attribute == nullptr) {
      return text_.error(formula,
                         fmt::format("'{}' is neither an operand nor an attribute", formula.name));
    }
    if (const auto* integer = std::get_if<std::int64_t>(attribute)) return Dim(*integer);
    if (const auto* list = std::get_if<Ints>(attribute)) return Shape(list->begin(), list->end());
    return text_.error(formula, fmt::format("attribute '{}' is neither an integer nor a list of "
                                            "integers",
                                            formula.name));
  }

  Expected<std::int64_t> constant(const Formula& formula) {
    OPWELD_TRY(const Dim value, size(formula));
    if (const auto constant = value.constant()) return *constant;
    return text_.error(formula, "a subscript is a number or an attribute");
  }

  Expected<SizeOrShape> index(const Formula& formula) {
    OPWELD_TRY(const Shape base, shape(formula.parts[0]));
    OPWELD_TRY(const std::int64_t at, constant(formula.parts[1]));
    const auto count = static_cast<std::int64_t>(base.size());
    if (at >= -count && at < count) {
      return base[static_cast<std::size_t>(at < 0 ? at + count : at)];
    }
    return text_.error(formula, fmt::format("'{}' has {} sizes, so there is none at {}",
                                            formula.parts[0].name, count, at));
  }

  Expected<SizeOrShape> stretch(const Formula& formula) {
    OPWELD_TRY(const Shape base, shape(formula.parts[0]));
    const auto count = static_cast<std::int64_t>(base.size());
    const auto place = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count);
    };
    std::int64_t from = 0;
    std::int64_t to = count;
    std::size_t part = 1;
    if (formula.has_from) {
      OPWELD_TRY(from, constant(formula.parts[part++]));
    }
    if (formula.has_to) {
      OPWELD_TRY(to, constant(formula.parts[part]));
    }
    from = place(from);
    to = std::max(from, place(to));
    return Shape(base.begin() + from, base.begin() + to);
  }

  Expected<SizeOrShape> call(const Formula& formula) {
    const std::string& function = formula.name;
    if (function == "broadcast") return broadcast(formula);
    if (function == "rank") {
      if (formula.parts.size() != 1) return text_.error(formula, "rank takes one operand");
      OPWELD_TRY(const Shape of, operand_shape(formula.parts[0]));
      return Dim(of.size());
    }
    if (function == "concat") {
      OPWELD_TRY(Shape joined, shape(formula.parts[0]));
      OPWELD_TRY(const Shape rest, shape(formula.parts[1]));
      joined.insert(joined.end(), rest.begin(), rest.end());
      return joined;
    }
    std::vector<Dim> sizes;
    for (const Formula& each : formula.parts) {
      OPWELD_TRY(Dim value, size(each));
      sizes.push_back(std::move(value));
    }
    if (function == "neg" && sizes.size() == 1) return -sizes[0];
    using Rule = Dim (*)(const Dim&, const Dim&);
    constexpr std::pair<std::string_view, Rule> kRules[] = {
        {"add", [](const Dim& a, const Dim& b) { return a + b; }},
        {"sub", [](const Dim& a, const Dim& b) { return a - b; }},
        {"mul", [](const Dim& a, const Dim& b) { return a * b; }},
        {"div", [](const Dim& a, const Dim& b) { return floor_div(a, b); }},
        {"mod", [](const Dim& a, const Dim& b) { return mod(a, b); }},
        {"min", [](const Dim& a, const Dim& b) { return min(a, b); }},
        {"max", [](const Dim& a, const Dim& b) { return max(a, b); }},
        {"ceil_div", [](const Dim& a, const Dim& b) { return ceil_div(a, b); }},
    };
    for (const auto& [name, rule] : kRules) {
      if (function != name) continue;
      if (sizes.size() != 2) return text_.error(formula, function + " takes two sizes");
      const Dim result = rule(sizes[0], sizes[1]);
      if (!result.is_overflow()) return result;
      return text_.error(formula, "the size overflows 64 bits, or is divided by zero");
    }
    return text_.error(formula, fmt::format("there is no function '{}' of sizes", function));
  }

  Expected<SizeOrShape> broadcast(const Formula& formula) {
    Shape result;
    for (const Formula& each : formula.parts) {
      OPWELD_TRY(const Shape next, operand_shape(each));
      auto joined = broadcast_shapes(result, next, "the operands", scope_.context.assumptions);
      if (!joined) return text_.error(each, joined.error().message);
      result = std::move(*joined);
    }
    return result;
  }

  const FormulaText& text_;
  const SizeScope& scope_;
};

}  // namespace

Expected<Shape> build_shape(const FormulaText& formula, const SizeScope& scope) {
  SizeBuilder builder(formula, scope);
  OPWELD_CHECK(builder.check_no_definitions());
  return builder.shape(formula.result);
}

Expected<Dim> build_size(const FormulaText& formula, const SizeScope& scope) {
  SizeBuilder builder(formula, scope);
  OPWELD_CHECK(builder.check_no_definitions());
  return builder.size(formula.result);
}

}  // namespace opweld
