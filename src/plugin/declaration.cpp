#include "plugin/declaration.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "graph/text.h"
#include "graph/text_cursor.h"

namespace opweld {

namespace {

// More than any operator has; what is beyond is not a count.
constexpr std::size_t kMostEntries = 256;
// In the order of the codes, which begin at 1.
constexpr DType kDTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64,
                             DType::I32, DType::I16, DType::I8,  DType::U8,   DType::Bool};
constexpr AttributeKind kKinds[] = {AttributeKind::Integer, AttributeKind::Real,
                                    AttributeKind::Text, AttributeKind::Ints,
                                    AttributeKind::Doubles};

bool is_nan(const Attribute& attribute) {
  if (const auto* real = std::get_if<double>(&attribute)) return std::isnan(*real);
  const auto* reals = std::get_if<Doubles>(&attribute);
  return reals != nullptr && std::ranges::any_of(*reals, [](double x) { return std::isnan(x); });
}

Status check_table(const void* table, std::size_t count, const char* what) {
  if (count > kMostEntries) return fail("has {} {}; at most {} can be", count, what, kMostEntries);
  if (count > 0 && table == nullptr) return fail("has {} {}, but the table is NULL", count, what);
  return {};
}

// The struct as this Opweld knows it, whatever the plugin knows of it.
Expected<OpweldOp> as_known(const OpweldOp* op) {
  std::size_t size = 0;
  std::memcpy(&size, &op->size, sizeof(size));
  constexpr std::size_t kLeast = offsetof(OpweldOp, domain);
  constexpr std::size_t kMost = 1 << 16;
  if (size <= kLeast || size > kMost) {
    return fail("OpweldOp.size is {}; set it to sizeof(OpweldOp)", size);
  }
  OpweldOp known{};
  std::memcpy(&known, op, std::min(size, sizeof(OpweldOp)));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(op);
  for (std::size_t at = sizeof(OpweldOp); at < size; ++at) {
    if (bytes[at] == 0) continue;
    return fail("declares something that this Opweld does not know; use a newer Opweld");
  }
  return known;
}

class Reader {
 public:
  explicit Reader(const OpweldOp& op) : op_(op) {}

  Status read() {
    OPWELD_CHECK(read_operands());
    OPWELD_CHECK(read_attributes());
    OPWELD_CHECK(read_results());
    return read_meaning();
  }

  Declaration declaration;

 private:
  // Names of operands and attributes are one space, since formulas read both.
  Status take_name(const char* name, const char* what, std::size_t index) {
    if (name == nullptr) return fail("{} {} has no name", what, index);
    if (!is_plugin_identifier(name) || std::strchr(name, '.') != nullptr) {
      return fail("the name of {} {}, {}, is no identifier", what, index, excerpt(name));
    }
    if (!names_.insert(name).second) return fail("'{}' is the name of two things", name);
    return {};
  }

  Status read_operands() {
    OPWELD_CHECK(check_table(op_.operands, op_.operand_count, "operands"));
    bool optional = false;
    for (std::size_t i = 0; i < op_.operand_count; ++i) {
      const OpweldOperand& from = op_.operands[i];
      OPWELD_CHECK(take_name(from.name, "operand", i));
      Declaration::Operand operand;
      operand.name = from.name;
      operand.group = from.group;
      for (std::size_t k = 0; k < std::size(kDTypes); ++k) {
        if ((from.dtypes & OPWELD_ONLY(k + 1)) != 0) operand.dtypes |= dtype_bit(kDTypes[k]);
      }
      if (operand.dtypes == 0 || (from.dtypes & ~OPWELD_ANY_DTYPE) != 0) {
        return fail("operand '{}' admits {}; set dtypes to OPWELD_FLOATS or the like", from.name,
                    operand.dtypes == 0 ? "no element type" : "types that there are not");
      }
      if (from.arity < OPWELD_REQUIRED || from.arity > OPWELD_VARIADIC) {
        return fail("the arity of operand '{}' is {}", from.name, from.arity);
      }
      operand.arity = static_cast<OperandDef::Arity>(from.arity);
      if (operand.arity == OperandDef::Arity::Variadic && i + 1 < op_.operand_count) {
        return fail("operand '{}' is variadic and not the last", from.name);
      }
      if (optional && operand.arity != OperandDef::Arity::Optional) {
        return fail("operand '{}' is required and stands behind an optional one", from.name);
      }
      optional = operand.arity == OperandDef::Arity::Optional;
      declaration.operand_names.push_back(operand.name);
      declaration.operands.push_back(std::move(operand));
    }
    if (declaration.operands.empty()) return fail("has no operands");
    return {};
  }

  static Expected<Attribute> fallback_of(const OpweldAttribute& from) {
    switch (from.kind) {
      case OPWELD_INTEGER:
        return from.integer;
      case OPWELD_REAL:
        return from.real;
      case OPWELD_TEXT:
        return std::string(from.text == nullptr ? "" : from.text);
      case OPWELD_INTEGER_LIST:
        OPWELD_CHECK(check_table(from.integers, from.count, "default integers"));
        return Ints(from.integers, from.integers + from.count);
      default:
        OPWELD_CHECK(check_table(from.reals, from.count, "default reals"));
        return Doubles(from.reals, from.reals + from.count);
    }
  }

  Status read_attributes() {
    OPWELD_CHECK(check_table(op_.attributes, op_.attribute_count, "attributes"));
    for (std::size_t i = 0; i < op_.attribute_count; ++i) {
      const OpweldAttribute& from = op_.attributes[i];
      OPWELD_CHECK(take_name(from.name, "attribute", i));
      if (from.kind < OPWELD_INTEGER || from.kind > OPWELD_REAL_LIST) {
        return fail("the kind of attribute '{}' is {}; set it to OPWELD_INTEGER or the like",
                    from.name, from.kind);
      }
      Declaration::AttributeRule rule;
      rule.name = from.name;
      rule.kind = kKinds[from.kind - OPWELD_INTEGER];
      if (from.required == 0) {
        auto fallback = fallback_of(from);
        if (!fallback) return fail("attribute '{}' {}", from.name, fallback.error().message);
        if (is_nan(*fallback)) return fail("the default of attribute '{}' is NaN", from.name);
        rule.fallback = std::move(*fallback);
      }
      declaration.attributes.push_back(std::move(rule));
    }
    return {};
  }

  Status read_results() {
    OPWELD_CHECK(check_table(op_.results, op_.result_count, "results"));
    if (op_.result_count == 0) return fail("has no results");
    for (std::size_t i = 0; i < op_.result_count; ++i) {
      const OpweldResult& from = op_.results[i];
      if (from.name == nullptr) return fail("result {} has no name", i);
      Declaration::Result result;
      result.name = from.name;
      const std::string dtype = from.dtype == nullptr ? "" : from.dtype;
      const auto like = std::ranges::find(declaration.operand_names, dtype);
      if (like != declaration.operand_names.end()) {
        result.like = static_cast<int>(like - declaration.operand_names.begin());
        if (declaration.operands[static_cast<std::size_t>(result.like)].arity ==
            OperandDef::Arity::Optional) {
          return fail("result '{}' has the type of operand '{}', which may be absent", from.name,
                      dtype);
        }
      } else if (const auto type = parse_dtype(dtype)) {
        result.dtype = *type;
      } else {
        return fail("the dtype of result '{}', {}, is neither an operand nor a type such as f32",
                    from.name, from.dtype == nullptr ? "NULL" : excerpt(dtype));
      }
      if (from.shape != nullptr) {
        auto shape = parse_formula(from.shape);
        if (!shape) {
          return fail("the shape of result '{}', {}: {}", from.name, excerpt(from.shape),
                      shape.error().message);
        }
        result.shape = std::move(*shape);
      }
      declaration.results.push_back(std::move(result));
    }
    return {};
  }

  Status read_meaning() {
    declaration.compute = op_.compute;
    declaration.shapes = op_.shapes;
    declaration.reentrant = (op_.flags & OPWELD_REENTRANT) != 0;
    if ((op_.flags & ~std::uint32_t{OPWELD_REENTRANT}) != 0) {
      return fail("has flags that this Opweld does not know");
    }
    if (op_.expression != nullptr && op_.body != nullptr) {
      return fail("has both an expression and a body; one of them says all");
    }
    const bool has_meaning = op_.expression != nullptr || op_.body != nullptr;
    if (!has_meaning && op_.compute == nullptr) {
      return fail("has neither compute() nor an expression nor a body");
    }
    if (has_meaning && declaration.operands.back().arity == OperandDef::Arity::Variadic) {
      return fail("is variadic, for which there are neither expressions nor bodies");
    }
    if (op_.expression != nullptr) {
      if (declaration.results.size() != 1) {
        return fail("has an expression, which gives one result, and {} results",
                    declaration.results.size());
      }
      auto expression = parse_formula(op_.expression);
      if (!expression) return fail("its expression: {}", expression.error().message);
      declaration.expression = std::move(*expression);
    }
    if (op_.body != nullptr) declaration.body = op_.body;
    const bool has_shapes = std::ranges::all_of(
        declaration.results, [](const auto& result) { return result.shape.has_value(); });
    if (!has_meaning && !has_shapes && op_.shapes == nullptr) {
      return fail("does not tell the shapes of its results: give each a formula, or shapes()");
    }
    return {};
  }

  const OpweldOp& op_;
  std::set<std::string> names_;
};

}  // namespace

bool is_plugin_identifier(const char* text) {
  constexpr std::size_t kLongest = 200;
  return text != nullptr && strnlen(text, kLongest + 1) <= kLongest && is_identifier(text);
}

std::optional<DType> dtype_of_plugin(std::int32_t code) {
  if (code < 1 || code > static_cast<std::int32_t>(std::size(kDTypes))) return std::nullopt;
  return kDTypes[code - 1];
}

std::int32_t plugin_dtype(DType dtype) {
  return static_cast<std::int32_t>(std::ranges::find(kDTypes, dtype) - std::begin(kDTypes)) + 1;
}

std::int32_t plugin_kind(AttributeKind kind) {
  return static_cast<std::int32_t>(std::ranges::find(kKinds, kind) - std::begin(kKinds)) +
         OPWELD_INTEGER;
}

std::string Declaration::text() const {
  std::string result = name + "(";
  for (const Operand& each : operands) {
    result += fmt::format("{} {} {} {}, ", each.name, each.dtypes, each.group,
                          static_cast<int>(each.arity));
  }
  result += ") {";
  for (const AttributeRule& each : attributes) {
    Attributes fallback;
    if (each.fallback) fallback.set(each.name, *each.fallback);
    result += fmt::format("{} {} {}, ", each.name, static_cast<int>(each.kind), to_text(fallback));
  }
  result += "} -> ";
  for (const Result& each : results) {
    result += fmt::format("{} {} {} {}, ", each.name, each.like, to_string(each.dtype),
                          each.shape ? each.shape->text : "");
  }
  if (expression) result += "= " + expression->text;
  if (body) result += "{\n" + *body + "\n}";
  return result;
}

Expected<Declaration> read_declaration(const OpweldOp* op) {
  if (op == nullptr) return fail("the table of operators holds NULL");
  OPWELD_TRY(const OpweldOp known, as_known(op));
  if (!is_plugin_identifier(known.name) || std::strchr(known.name, '.') != nullptr) {
    return fail("the name of an operator, {}, is no identifier",
                known.name == nullptr ? "NULL" : excerpt(known.name));
  }
  if (!is_plugin_identifier(known.domain)) {
    return fail("the domain of operator '{}', {}, is none such as \"com.example\"", known.name,
                known.domain == nullptr ? "NULL" : excerpt(known.domain));
  }
  const std::string name = fmt::format("{}.{}", known.domain, known.name);
  if (std::string_view(known.domain).starts_with("ai.onnx")) {
    return fail("operator '{}': the domain is that of the standard operators; use one of your own",
                name);
  }
  Reader reader(known);
  if (const Status status = reader.read(); !status) {
    return fail("operator '{}': {}", name, status.error().message);
  }
  reader.declaration.name = name;
  reader.declaration.summary = known.summary == nullptr ? "" : known.summary;
  return std::move(reader.declaration);
}

Expected<Attributes> complete_attributes(const Declaration& declaration, const Attributes& given) {
  Attributes all;
  for (const Declaration::AttributeRule& rule : declaration.attributes) {
    const Attribute* const value = given.find(rule.name);
    if (value != nullptr && is_nan(*value)) return fail("attribute '{}' is NaN", rule.name);
    if (value != nullptr) {
      all.set(rule.name, *value);
    } else if (rule.fallback) {
      all.set(rule.name, *rule.fallback);
    } else {
      return fail("attribute '{}' is missing", rule.name);
    }
  }
  return all;
}

}  // namespace opweld
