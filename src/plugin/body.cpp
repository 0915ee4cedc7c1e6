#include "plugin/body.h"

#include <algorithm>

#include "graph/text.h"
#include "graph/text_cursor.h"
#include "ops/builder.h"

namespace opweld {

namespace {

// As the textual form writes it.
std::string value_text(const Attribute& value) {
  const std::string all = to_text(Attributes{{"v", value}});  // "{v = 1e-05}"
  constexpr std::string_view kBefore = "{v = ";
  return all.substr(kBefore.size(), all.size() - kBefore.size() - 1);
}

// One "$name" or "${...}" of a body.
struct Blank {
  std::size_t begin = 0;  // of the '$'
  std::size_t end = 0;
  std::string_view formula;
};

// The first one at or behind `from`; nothing if there is none.
Expected<std::optional<Blank>> next_blank(std::string_view body, std::size_t from) {
  const std::size_t begin = body.find('$', from);
  if (begin == std::string_view::npos) return std::optional<Blank>();
  if (body.substr(begin + 1).starts_with('{')) {
    const std::size_t close = body.find('}', begin);
    if (close == std::string_view::npos) {
      return TextCursor(body).error_at(begin, "'${' is not closed");
    }
    return Blank{begin, close + 1, body.substr(begin + 2, close - begin - 2)};
  }
  TextCursor cursor(body.substr(begin + 1));
  const std::string_view name = cursor.take_identifier();
  if (name.empty() || name.data() != body.data() + begin + 1) {
    return TextCursor(body).error_at(begin, "'$' stands before the name of an attribute or '{'");
  }
  return Blank{begin, begin + 1 + name.size(), name};
}

// The operand whose type "dtype(x)" asks for; -1 if the formula is no such question.
int operand_of_dtype(const FormulaText& formula, std::span<const std::string> names) {
  const Formula& call = formula.result;
  if (call.kind != Formula::Kind::Call || call.name != "dtype" || call.parts.size() != 1) return -1;
  const auto found = std::ranges::find(names, call.parts[0].name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

Expected<std::string> text_of(const FormulaText& formula, const SizeScope& scope) {
  const int operand = operand_of_dtype(formula, scope.names);
  if (operand >= 0) {
    if (scope.context.has(operand))
      return std::string(to_string(scope.context.type(operand).dtype));
    return fail("operand '{}' is absent", scope.names[static_cast<std::size_t>(operand)]);
  }
  if (formula.result.kind == Formula::Kind::Name) {
    const Attribute* attribute = scope.context.attributes.find(formula.result.name);
    if (attribute != nullptr) return value_text(*attribute);
  }
  OPWELD_TRY(const Dim size, build_size(formula, scope));
  return size.to_string();
}

// Whether every name is an operand or an attribute.
Status check_names(const FormulaText& text, const Formula& formula,
                   const Declaration& declaration) {
  if (formula.kind == Formula::Kind::Name) {
    const auto is_it = [&](const auto& each) { return each.name == formula.name; };
    if (std::ranges::any_of(declaration.operands, is_it) ||
        std::ranges::any_of(declaration.attributes, is_it)) {
      return {};
    }
    return text.error(formula,
                      fmt::format("'{}' is neither an operand nor an attribute", formula.name));
  }
  for (const Formula& part : formula.parts) OPWELD_CHECK(check_names(text, part, declaration));
  return {};
}

// `fill` makes the text of each blank.
template <typename Fill>
Expected<std::string> fill_blanks(std::string_view body, const Fill& fill) {
  std::string result;
  std::size_t from = 0;
  for (;;) {
    OPWELD_TRY(const std::optional<Blank> blank, next_blank(body, from));
    if (!blank) return result + std::string(body.substr(from));
    const auto text = parse_formula(blank->formula).and_then(fill);
    if (!text) {
      return TextCursor(body).error_at(
          blank->begin, fmt::format("{}: {}", body.substr(blank->begin, blank->end - blank->begin),
                                    text.error().message));
    }
    result += body.substr(from, blank->begin - from);
    result += *text;
    from = blank->end;
  }
}

}  // namespace

Expected<std::string> fill_in(std::string_view body, const SizeScope& scope) {
  return fill_blanks(body, [&](const FormulaText& formula) { return text_of(formula, scope); });
}

Status check_body(std::string_view body, const Declaration& declaration) {
  const auto checked = fill_blanks(body, [&](const FormulaText& formula) -> Expected<std::string> {
    OPWELD_CHECK(check_names(formula, formula.result, declaration));
    return std::string();
  });
  if (!checked) return tl::unexpected(checked.error());
  return {};
}

Expected<std::vector<Value*>> build_body(const Declaration& declaration, const SizeScope& scope,
                                         Graph& graph, Node* before, const Source& source) {
  OPWELD_TRY(const std::string text, fill_in(*declaration.body, scope));
  std::vector<NamedValue> values;
  for (std::size_t i = 0; i < declaration.operands.size(); ++i) {
    Value* const operand =
        scope.context.has(static_cast<int>(i)) ? scope.context.operands[i] : nullptr;
    values.push_back({declaration.operands[i].name, operand});
  }
  OPWELD_TRY(std::vector<Value*> results,
             parse_statements(text, graph, values,
                              [&](Graph& into, std::string_view op, std::vector<Value*> operands,
                                  Attributes attributes, const Source&) {
                                return build_node(into, op, std::move(operands),
                                                  std::move(attributes), source, before);
                              }));
  if (results.size() == declaration.results.size()) return results;
  return fail("it returns {} values, and {} results are declared", results.size(),
              declaration.results.size());
}

}  // namespace opweld
