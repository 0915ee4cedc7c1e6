// Operators of plugins: nodes whose schema is what the plugin declares.
#include <algorithm>

#include "import/onnx/operators/table.h"
#include "ops/op.h"

namespace opweld {
namespace {

std::optional<Attribute> read_attribute(NodeContext& context, const AttributeDef& attribute) {
  switch (attribute.kind) {
    case AttributeKind::Integer:
      return context.integer(attribute.name, 0);
    case AttributeKind::Real:
      return context.real(attribute.name, 0);
    case AttributeKind::Text:
      return context.text(attribute.name, "");
    case AttributeKind::Ints:
      if (auto integers = context.integers_attribute(attribute.name)) return *integers;
      return std::nullopt;
    case AttributeKind::Doubles:
      if (auto reals = context.reals_attribute(attribute.name)) return *reals;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

Expected<Values> import_custom_operator(NodeContext& context) {
  const OpDef& def = *find_op(context.target());
  for (const std::string& name : context.attribute_names()) {
    const auto is_it = [&](const AttributeDef& attribute) { return attribute.name == name; };
    if (std::ranges::any_of(def.attributes, is_it)) continue;
    return fail("has an attribute '{}' that plugin '{}' does not declare", name,
                def.origin->plugin);
  }
  Attributes attributes;
  for (const AttributeDef& attribute : def.attributes) {
    if (!context.has_attribute(attribute.name)) continue;
    if (auto value = read_attribute(context, attribute)) {
      attributes.set(attribute.name, std::move(*value));
    }
  }
  OPWELD_CHECK(context.status());
  const Value* const first =
      context.builder().op(def.name, context.operands(), std::move(attributes));
  OPWELD_CHECK(context.status());
  Values results;
  const Node& node = *first->producer();
  for (int i = 0; i < node.num_results(); ++i) results.push_back(node.result(i));
  return results;
}

}  // namespace opweld
