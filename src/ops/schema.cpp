#include "ops/schema.h"

#include <algorithm>
#include <numeric>

namespace opweld {
namespace {

std::string dtype_names(DTypeSet set) {
  std::vector<std::string_view> names;
  for (int index = 0; index < kDTypeCount; ++index) {
    const auto dtype = static_cast<DType>(index);
    if ((set & dtype_bit(dtype)) != 0) names.push_back(to_string(dtype));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view kind_name(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::Integer:
      return "an integer";
    case AttributeKind::Real:
      return "a real number";
    case AttributeKind::Text:
      return "a text";
    case AttributeKind::Type:
      return "a dtype";
    case AttributeKind::Ints:
      return "a list of integers";
    case AttributeKind::Doubles:
      return "a list of real numbers";
    case AttributeKind::Shape:
      return "a shape";
    case AttributeKind::Tensor:
      return "a tensor";
  }
  return "unknown";
}

// The alternatives of Attribute stand in the order of AttributeKind.
AttributeKind kind_of(const Attribute& attribute) {
  return static_cast<AttributeKind>(attribute.index());
}
static_assert(std::is_same_v<
              std::variant_alternative_t<static_cast<std::size_t>(AttributeKind::Shape), Attribute>,
              Shape>);
static_assert(std::variant_size_v<Attribute> ==
              static_cast<std::size_t>(AttributeKind::Tensor) + 1);

// The same attribute as the kind that the schema wants, where that loses nothing.
std::optional<Attribute> adapt(const Attribute& attribute, AttributeKind wanted) {
  if (const auto* integer = std::get_if<std::int64_t>(&attribute)) {
    if (wanted == AttributeKind::Real) return static_cast<double>(*integer);
    if (wanted == AttributeKind::Shape) return Shape{Dim(*integer)};
  }
  if (const auto* integers = std::get_if<Ints>(&attribute)) {
    if (wanted == AttributeKind::Doubles) return Doubles(integers->begin(), integers->end());
    if (wanted == AttributeKind::Shape) return Shape(integers->begin(), integers->end());
  }
  return std::nullopt;
}

const AttributeDef* find_attribute(const OpDef& def, std::string_view name) {
  for (const AttributeDef& attribute : def.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

bool is_variadic(const OpDef& def) {
  return !def.operands.empty() && def.operands.back().arity == OperandDef::Arity::Variadic;
}

// The schema's entry for the operand at `index`; a variadic one stands for all that follow.
const OperandDef& operand_def(const OpDef& def, std::size_t index) {
  return def.operands[std::min(index, def.operands.size() - 1)];
}

// "'updates'", or "'inputs' number 3" among several of one name.
std::string operand_label(const OpDef& def, std::size_t index) {
  const OperandDef& operand = operand_def(def, index);
  if (operand.arity != OperandDef::Arity::Variadic) return fmt::format("'{}'", operand.name);
  return fmt::format("'{}' number {}", operand.name, index + 1 - (def.operands.size() - 1));
}

Status check_count(const OpDef& def, std::span<Value* const> operands) {
  const std::size_t limit = def.operands.size();
  if (operands.size() > limit && !is_variadic(def)) {
    return fail("takes {} operand{} at most, not {}", limit, limit == 1 ? "" : "s",
                operands.size());
  }
  for (std::size_t index = 0; index < std::max(limit, operands.size()); ++index) {
    const bool present = index < operands.size() && operands[index] != nullptr;
    if (present || operand_def(def, index).arity == OperandDef::Arity::Optional) continue;
    return fail("operand {} is missing", operand_label(def, index));
  }
  return {};
}

// How alike two names are: the number of edits that lead from one to the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

Status check_operands(const OpDef& def, std::span<Value* const> operands) {
  OPWELD_CHECK(check_count(def, operands));
  for (std::size_t index = 0; index < operands.size(); ++index) {
    if (operands[index] == nullptr) continue;
    const OperandDef& operand = operand_def(def, index);
    const DType dtype = operands[index]->dtype();
    if ((operand.dtypes & dtype_bit(dtype)) == 0) {
      return fail("operand {} cannot be {}; it must be one of {}", operand_label(def, index),
                  to_string(dtype), dtype_names(operand.dtypes));
    }
    if (operand.group == 0) continue;
    for (std::size_t other = 0; other < index; ++other) {
      if (operands[other] == nullptr || operand_def(def, other).group != operand.group) continue;
      if (operands[other]->dtype() == dtype) break;  // which agrees with all before it
      return fail("operands {} and {} must have the same dtype, but are {} and {}",
                  operand_label(def, other), operand_label(def, index),
                  to_string(operands[other]->dtype()), to_string(dtype));
    }
  }
  return {};
}

Status check_attributes(const OpDef& def, Attributes& attributes) {
  for (const auto& [name, attribute] : attributes) {
    if (find_attribute(def, name) == nullptr) {
      std::vector<std::string_view> known;
      known.reserve(def.attributes.size());
      for (const AttributeDef& each : def.attributes) known.push_back(each.name);
      return fail("has no attribute '{}'; it has {}", name,
                  known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
  }
  for (const AttributeDef& wanted : def.attributes) {
    const Attribute* given = attributes.find(wanted.name);
    if (given == nullptr) {
      if (!wanted.required) continue;
      return fail("attribute '{}' ({}) is missing", wanted.name, kind_name(wanted.kind));
    }
    if (const auto* shape = std::get_if<Shape>(given); shape != nullptr && has_overflow(*shape)) {
      return fail("attribute '{}' overflows 64 bits: {}", wanted.name, to_string(*shape));
    }
    if (kind_of(*given) == wanted.kind) continue;
    auto adapted = adapt(*given, wanted.kind);
    if (!adapted) {
      return fail("attribute '{}' must be {}, not {}", wanted.name, kind_name(wanted.kind),
                  kind_name(kind_of(*given)));
    }
    attributes.set(wanted.name, std::move(*adapted));
  }
  return {};
}

Error unknown_operator(std::string_view name) {
  constexpr std::size_t kLongestName = 64;  // nothing longer resembles an operator
  std::string hint;
  std::size_t best = std::min<std::size_t>((name.size() + 2) / 3, 3) + 1;  // edits, at most
  for (const OpDef* def : all_ops()) {
    if (name.size() > kLongestName) break;
    const std::size_t distance = edit_distance(name, def->name);
    if (distance >= best) continue;
    best = distance;
    hint = fmt::format("; did you mean '{}'?", def->name);
  }
  return {ErrorKind::Failure, fmt::format("unknown operator '{}'{}", name, hint)};
}

std::string node_label(std::string_view op, const Source& source) {
  return source.name.empty() ? std::string(op) : fmt::format("{} '{}'", op, source.name);
}

}  // namespace opweld
