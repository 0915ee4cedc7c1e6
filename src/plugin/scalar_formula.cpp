#include "plugin/scalar_formula.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "ops/scalar_semantics.h"

namespace opweld {

namespace {

// Functions that are a node of the scalar language, by its own names.
const std::map<std::string_view, ExprKind>& functions() {
  static const auto kFunctions = [] {
    std::map<std::string_view, ExprKind> table;
    for (int i = 0; i <= static_cast<int>(ExprKind::Select); ++i) {
      const auto kind = static_cast<ExprKind>(i);
      if (arity(kind) > 0) table.emplace(to_string(kind), kind);
    }
    return table;
  }();
  return kFunctions;
}

// A part of the formula: an element, or a number that takes the type of what it meets.
struct Part {
  Expr expr = kNoExpr;
  DType type = DType::F64;  // of a number: f64, i64 or bool
  ScalarValue number = {};

  [[nodiscard]] bool is_number() const { return expr == kNoExpr; }
};

Part real_number(double value) {
  return {kNoExpr, DType::F64, {value, 0}};
}
Part integer_number(std::int64_t value) {
  return {kNoExpr, DType::I64, {0, value}};
}
Part truth(bool value) {
  return {kNoExpr, DType::Bool, {0, value ? 1 : 0}};
}

class ScalarBuilder {
 public:
  ScalarBuilder(const FormulaText& text, const ScalarScope& scope, Arithmetic arithmetic,
                ExprPool& pool)
      : text_(text), scope_(scope), wide_(arithmetic == Arithmetic::Wide), pool_(pool) {}

  Expected<Expr> build(DType type) {
    wanted_ = type;
    for (const auto& [name, value] : text_.definitions) {
      if (is_known(name) || definitions_.contains(name)) {
        return text_.error(value, fmt::format("'{}' is defined already", name));
      }
      OPWELD_TRY(const Part part, build(value));
      definitions_.emplace(name, part);
    }
    OPWELD_TRY(const Part result, build(text_.result));
    if (!result.is_number() && pool_[result.expr].type != type) {
      return text_.error(
          text_.result,
          fmt::format("the expression gives {}, but the result is computed as {}; "
                      "convert_{}(...) converts it",
                      to_string(pool_[result.expr].type), to_string(type), to_string(type)));
    }
    return expr_of(result, type, text_.result);
  }

 private:
  [[nodiscard]] bool is_known(const std::string& name) const {
    return operand_of(name).has_value() || scope_.attributes.has(name);
  }

  [[nodiscard]] std::optional<std::size_t> operand_of(std::string_view name) const {
    const auto found = std::ranges::find(scope_.operands, name);
    if (found != scope_.operands.end()) {
      return static_cast<std::size_t>(found - scope_.operands.begin());
    }
    for (std::size_t i = 0; i < scope_.operands.size(); ++i) {
      if (name == fmt::format("in{}", i)) return i;
    }
    return std::nullopt;
  }

  // A number as a constant of a type that holds it.
  Expected<Expr> expr_of(const Part& part, DType type, const Formula& at) {
    if (!part.is_number()) return part.expr;
    if ((part.type == DType::Bool) != (type == DType::Bool)) {
      return text_.error(
          at, fmt::format("a {} stands where {} is wanted",
                          part.type == DType::Bool ? "truth value" : "number", to_string(type)));
    }
    if (part.type == DType::F64 && is_integer(type)) {
      return text_.error(at, fmt::format("the real number {} stands where {} is wanted; "
                                         "convert the other side",
                                         part.number.real, to_string(type)));
    }
    if (part.type == DType::F64) return pool_.constant(part.number.real, type);
    if (type == DType::I32 && (part.number.integer > std::numeric_limits<std::int32_t>::max() ||
                               part.number.integer < std::numeric_limits<std::int32_t>::min())) {
      return text_.error(at, fmt::format("{} does not fit i32", part.number.integer));
    }
    return pool_.integer(part.number.integer, type);
  }

  [[nodiscard]] DType type_of(const Part& part) const {
    return part.is_number() ? part.type : pool_[part.expr].type;
  }

  Expected<Part> build(const Formula& formula) {
    switch (formula.kind) {
      case Formula::Kind::Integer:
        return integer_number(formula.integer);
      case Formula::Kind::Real:
        return real_number(formula.real);
      case Formula::Kind::Name:
        return name(formula);
      case Formula::Kind::Call:
        return call(formula);
      default:
        return text_.error(formula, "lists and subscripts belong to shapes, not to expressions");
    }
  }

  Expected<Part> name(const Formula& formula) {
    const std::string& name = formula.name;
    if (const auto operand = operand_of(name)) {
      const Expr argument = scope_.arguments[*operand];
      if (argument != kNoExpr) return Part{argument};
      return text_.error(formula, fmt::format("operand '{}' is absent; default({}, VALUE) gives a "
                                              "value in its stead",
                                              name, name));
    }
    if (const auto known = definitions_.find(name); known != definitions_.end()) {
      return known->second;
    }
    if (const Attribute* attribute = scope_.attributes.find(name)) {
      if (const auto* integer = std::get_if<std::int64_t>(attribute)) {
        return integer_number(*integer);
      }
      if (const auto* real = std::get_if<double>(attribute)) return real_number(*real);
      return text_.error(formula,
                         fmt::format("attribute '{}' is neither an integer nor a real", name));
    }
    if (name == "true" || name == "false") return truth(name == "true");
    if (name == "inf") return real_number(std::numeric_limits<double>::infinity());
    if (name == "nan") return real_number(std::numeric_limits<double>::quiet_NaN());
    return text_.error(formula,
                       fmt::format("'{}' is neither an operand nor an attribute, nor defined "
                                   "before",
                                   name));
  }

  Expected<Part> call(const Formula& formula) {
    constexpr std::string_view kConvert = "convert_";
    if (formula.name == "default") return default_of(formula);
    if (formula.name.starts_with(kConvert)) {
      return convert(formula, parse_dtype(formula.name.substr(kConvert.size())));
    }
    const bool swapped = formula.name == "gt" || formula.name == "ge";
    const std::string_view function = formula.name == "gt"   ? "lt"
                                      : formula.name == "ge" ? "le"
                                                             : std::string_view(formula.name);
    const auto found = functions().find(function);
    if (found == functions().end()) {
      return text_.error(formula, fmt::format("there is no function '{}'", formula.name));
    }
    const ExprKind kind = found->second;
    OPWELD_CHECK(check_count(formula, static_cast<std::size_t>(arity(kind))));
    std::vector<Part> parts;
    for (const Formula& each : formula.parts) {
      OPWELD_TRY(const Part part, build(each));
      parts.push_back(part);
    }
    if (swapped) std::swap(parts[0], parts[1]);
    if (std::ranges::all_of(parts, &Part::is_number)) return of_numbers(formula, kind, parts);
    return apply(formula, kind, parts).map([](Expr expr) { return Part{expr}; });
  }

  Status check_count(const Formula& formula, std::size_t count) const {
    if (formula.parts.size() == count) return {};
    return text_.error(formula, fmt::format("{} takes {} value{}, not {}", formula.name, count,
                                            count == 1 ? "" : "s", formula.parts.size()));
  }

  Expected<Part> default_of(const Formula& formula) {
    OPWELD_CHECK(check_count(formula, 2));
    const Formula& wanted = formula.parts[0];
    const auto operand =
        wanted.kind == Formula::Kind::Name ? operand_of(wanted.name) : std::nullopt;
    if (!operand) return text_.error(wanted, "default() takes an operand and a value");
    // Looked at in either case, so that a mistake is not found by chance.
    OPWELD_TRY(const Part otherwise, build(formula.parts[1]));
    return scope_.arguments[*operand] != kNoExpr ? Part{scope_.arguments[*operand]} : otherwise;
  }

  Expected<Part> convert(const Formula& formula, std::optional<DType> type) {
    OPWELD_CHECK(check_count(formula, 1));
    if (!type || compute_dtype(*type) != *type) {
      return text_.error(formula,
                         fmt::format("there is no function '{}'; numbers are computed as f64, f32, "
                                     "i64, i32 or bool",
                                     formula.name));
    }
    if (wide_ && is_float(*type)) type = DType::F64;
    OPWELD_TRY(const Part part, build(formula.parts[0]));
    if (!part.is_number()) return Part{pool_.convert(part.expr, *type)};
    OPWELD_TRY(const Expr number, expr_of(part, part.type, formula));
    return Part{pool_.convert(number, *type)};
  }

  // The one type of all parts from `first` on; numbers have none of their own beside elements.
  Expected<DType> common_type(const Formula& formula, std::span<const Part> parts,
                              std::size_t first) {
    std::optional<DType> type;
    for (std::size_t i = first; i < parts.size(); ++i) {
      if (parts[i].is_number()) continue;
      const DType own = type_of(parts[i]);
      if (type && *type != own) {
        return text_.error(
            formula, fmt::format("{} of {} and {}; convert one of them, as by "
                                 "convert_{}(...)",
                                 formula.name, to_string(*type), to_string(own), to_string(*type)));
      }
      type = own;
    }
    if (type) return *type;
    for (std::size_t i = first; i < parts.size(); ++i) {
      const DType own = parts[i].type;
      if (type && (*type == DType::Bool) != (own == DType::Bool)) {
        return text_.error(formula, fmt::format("{} of a number and a truth value", formula.name));
      }
      type = own == DType::F64 || !type ? own : *type;
    }
    // Two numbers that an element chooses between, as in c ? 1 : 2, are to be the result, most
    // often.
    const bool chosen = first > 0 && !parts[0].is_number();
    if (!chosen || *type == DType::Bool) return *type;
    if (wanted_ != DType::Bool) return wanted_;
    return *type == DType::F64 && !wide_ ? DType::F32 : *type;
  }

  Expected<Expr> apply(const Formula& formula, ExprKind kind, std::span<const Part> parts) {
    const std::size_t first = kind == ExprKind::Select ? 1 : 0;
    if (first == 1 && type_of(parts[0]) != DType::Bool) {
      return text_.error(formula, "the condition is no truth value; compare it, as with != 0");
    }
    OPWELD_TRY(DType type, common_type(formula, parts, first));
    // A whole number is a real one where only those will do.
    const bool all_numbers = std::ranges::all_of(parts, &Part::is_number);
    if (all_numbers && type == DType::I64 && !admits(kind, type)) type = DType::F64;
    if (!admits(kind, type)) {
      return text_.error(formula, fmt::format("{} is not for {}", formula.name, to_string(type)));
    }
    std::vector<Expr> arguments;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      OPWELD_TRY(const Expr argument, expr_of(parts[i], i < first ? DType::Bool : type, formula));
      arguments.push_back(argument);
    }
    return pool_.make(kind, arguments);
  }

  // Computed now, in f64 or i64, so that it takes the type of what it meets later.
  Expected<Part> of_numbers(const Formula& formula, ExprKind kind, std::span<const Part> parts) {
    ExprPool numbers;
    ScalarBuilder builder(text_, scope_, Arithmetic::Wide, numbers);
    OPWELD_TRY(const Expr value, builder.apply(formula, kind, parts));
    return Part{kNoExpr, numbers[value].type, evaluate(numbers, value, {})};
  }

  const FormulaText& text_;
  const ScalarScope& scope_;
  bool wide_;
  DType wanted_ = DType::F64;  // the type of the result
  ExprPool& pool_;
  std::map<std::string, Part, std::less<>> definitions_;
};

}  // namespace

Expected<Expr> build_scalar(const FormulaText& formula, const ScalarScope& scope, DType type,
                            Arithmetic arithmetic, ExprPool& pool) {
  return ScalarBuilder(formula, scope, arithmetic, pool).build(type);
}

}  // namespace opweld
