#include "import/onnx/importer.h"

#include <algorithm>

#include "import/onnx/chosen_rows.h"
#include "import/onnx/constant_value.h"
#include "import/onnx/input_types.h"
#include "import/onnx/layer_scope.h"
#include "import/onnx/node_metadata.h"
#include "import/onnx/operators/table.h"
#include "import/onnx/survey.h"

namespace opweld {
namespace {

constexpr std::int64_t kOldestOpset = 7;
constexpr std::int64_t kNewestOpset = 28;
// Functions that call functions multiply; these bounds are far above any real model.
constexpr int kMaxCallDepth = 64;
constexpr std::int64_t kMaxNodes = 2'000'000;

// Newer opsets may give an operator another meaning, older ones did to some.
Status check_opset(const std::string& op, std::int64_t version) {
  if (version >= kOldestOpset && version <= kNewestOpset) return {};
  if (version >= 1 && version < kOldestOpset && is_same_in_old_opsets(op)) return {};
  return fail(
      "is written in opset {} of the standard operators; supported are {} to {}. Convert the model "
      "with onnx.version_converter or export it anew",
      version, kOldestOpset, kNewestOpset);
}

// The node with those attributes that refer to the caller's replaced by them.
onnx::NodeProto with_bound_attributes(const onnx::NodeProto& node, const onnx::NodeProto& call,
                                      const std::map<std::string, onnx::AttributeProto>& defaults) {
  onnx::NodeProto bound = node;
  bound.clear_attribute();
  for (const auto& attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      *bound.add_attribute() = attribute;
      continue;
    }
    const auto given = std::find_if(
        call.attribute().begin(), call.attribute().end(),
        [&](const auto& candidate) { return candidate.name() == attribute.ref_attr_name(); });
    const auto fallback = defaults.find(attribute.ref_attr_name());
    if (given == call.attribute().end() && fallback == defaults.end()) continue;
    onnx::AttributeProto* copy = bound.add_attribute();
    *copy = given != call.attribute().end() ? *given : fallback->second;
    copy->set_name(attribute.name());
  }
  return bound;
}

// FunctionProto.attribute_proto: defaults of attributes. Newer than the message definitions that
// this is built with, hence among the unknown fields.
std::map<std::string, onnx::AttributeProto> attribute_defaults(
    const onnx::FunctionProto& function) {
  constexpr int kAttributeProto = 11;
  std::map<std::string, onnx::AttributeProto> defaults;
  const auto& fields = onnx::FunctionProto::GetReflection()->GetUnknownFields(function);
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    onnx::AttributeProto attribute;
    if (field.number() != kAttributeProto ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED ||
        !attribute.ParseFromString(field.length_delimited())) {
      continue;
    }
    const std::string name = attribute.name();
    defaults.emplace(name, std::move(attribute));
  }
  return defaults;
}

// The builder's own label of the node would only repeat ours.
Error without_repetition(Error error, const std::string& node_name) {
  const std::string repeated = fmt::format(" '{}': ", node_name);
  const std::size_t at = error.message.find(repeated);
  if (!node_name.empty() && at != std::string::npos) {
    error.message.replace(at, repeated.size(), ": ");
  }
  return error;
}

}  // namespace

Importer::Importer(const ModelFile& file, const ImportOptions& options)
    : model_(*file.model),
      reader_(*file.tensors),
      options_(options),
      opsets_(opset_versions(model_.opset_import())),
      functions_(function_table(model_)),
      graph_(model_.graph().name().empty() ? "graph" : model_.graph().name()) {}

Expected<Graph> Importer::run() {
  OPWELD_CHECK(require_supported(survey_operators(model_.graph(), functions_)));
  Scope scope;
  OPWELD_CHECK(add_initializers(model_.graph(), scope));
  OPWELD_CHECK(add_graph_inputs(model_.graph(), scope));
  OPWELD_CHECK(import_nodes(model_.graph().node(), {scope, opsets_, "", 0, ""}));
  OPWELD_CHECK(add_graph_outputs(model_.graph(), scope));
  OPWELD_CHECK(compute_chosen_rows(graph_));
  return std::move(graph_);
}

// ---- names ----

bool Importer::Scope::defines(const std::string& name) const {
  return values.contains(name) || initializers.contains(name);
}

Status Importer::add_graph_inputs(const onnx::GraphProto& graph, Scope& scope) {
  InputTypes::Inputs inputs;
  // Up to IR version 3 initializers are listed as inputs too; a default value is taken as constant.
  for (const auto& input : graph.input()) {
    if (!scope.initializers.contains(input.name())) inputs.push_back(&input);
  }
  InputTypes types(inputs, options_.fixed_dims);
  for (const auto* input : inputs) {
    const std::string label = fmt::format("input '{}'", input->name());
    if (input->name().empty()) return fail("an input has no name");
    if (scope.defines(input->name())) return fail("{} is declared twice", label);
    auto type = types.type_of(*input);
    if (!type) {
      return tl::unexpected(Error{type.error().kind, label + " " + type.error().message});
    }
    scope.values[input->name()] = graph_.add_input(input->name(), std::move(*type));
  }
  return types.check_all_fixed();
}

Status Importer::add_initializers(const onnx::GraphProto& graph, Scope& scope) {
  if (graph.sparse_initializer_size() > 0) {
    return fail("sparse initializer '{}' is not supported; store it dense",
                graph.sparse_initializer(0).values().name());
  }
  for (const auto& initializer : graph.initializer()) {
    if (initializer.name().empty()) return fail("an initializer has no name");
    if (!scope.initializers.emplace(initializer.name(), &initializer).second) {
      return fail("initializer '{}' is given twice", initializer.name());
    }
  }
  return {};
}

Status Importer::add_graph_outputs(const onnx::GraphProto& graph, Scope& scope) {
  if (graph.output_size() == 0) return fail("the graph has no outputs");
  std::set<std::string> names;
  for (const auto& output : graph.output()) {
    if (!names.insert(output.name()).second) {
      return fail("output '{}' is declared twice", output.name());
    }
    auto value = find_value(output.name(), scope);
    if (!value) {
      return tl::unexpected(value.error().with_context(fmt::format("output '{}'", output.name())));
    }
    const int declared = output.type().tensor_type().elem_type();
    if (declared != 0 && dtype_of_element_type(declared) != (*value)->dtype()) {
      return fail("output '{}' is declared as {}, but is {}", output.name(),
                  element_type_name(declared), to_string((*value)->dtype()));
    }
    graph_.add_output(output.name(), *value);
  }
  return {};
}

Expected<Value*> Importer::find_value(const std::string& name, Scope& scope) {
  for (const Scope* at = &scope; at != nullptr; at = at->outer) {
    if (const auto value = at->values.find(name); value != at->values.end()) return value->second;
    if (const auto found = at->initializers.find(name); found != at->initializers.end()) {
      return constant_of(*found->second);
    }
  }
  for (const Scope* at = &scope; at != nullptr; at = at->outer) {
    if (!at->made_later.contains(name)) continue;
    return fail(
        "reads '{}', which is made by a later node: the graph has a cycle or is not in "
        "topological order",
        name);
  }
  return fail("reads '{}', which is neither an input, nor an initializer, nor made by a node",
              name);
}

Expected<Value*> Importer::constant_of(const onnx::TensorProto& proto) {
  const auto known = constants_.find(&proto);
  if (known != constants_.end()) return known->second;
  auto tensor = reader_.read(proto);
  if (!tensor) {
    return fail("initializer '{}' {}", proto.name(), tensor.error().message);
  }
  OPWELD_TRY(Node * node, build_node(graph_, "constant", {}, {{"value", std::move(*tensor)}}));
  node->result()->set_name(proto.name());
  constants_.emplace(&proto, node->result());
  return node->result();
}

Expected<Values> Importer::operands_of(const onnx::NodeProto& node, Scope& scope) {
  Values operands;
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      operands.push_back(nullptr);
      continue;
    }
    OPWELD_TRY(Value * value, find_value(name, scope));
    operands.push_back(value);
  }
  return operands;
}

Status Importer::define_results(const onnx::NodeProto& node, const Values& results, Scope& scope) {
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    Value* value = static_cast<std::size_t>(i) < results.size()
                       ? results[static_cast<std::size_t>(i)]
                       : nullptr;
    if (value == nullptr) return fail("its result number {} ('{}') is not supported", i + 1, name);
    if (scope.defines(name)) return fail("makes '{}', which exists already", name);
    scope.values[name] = value;
    if (value->name().empty() && !value->is_graph_input()) value->set_name(name);
  }
  return {};
}

// ---- nodes ----

Status Importer::import_nodes(const Nodes& nodes, Place place) {
  for (const auto& node : nodes) {
    place.scope.made_later.insert(node.output().begin(), node.output().end());
  }
  for (const auto& node : nodes) {
    if (auto status = import_node(node, place); !status) {
      const Error error = without_repetition(status.error(), place.prefix + node.name());
      return tl::unexpected(error.with_context(node_label(node)));
    }
  }
  return {};
}

Status Importer::import_node(const onnx::NodeProto& node, Place& place) {
  if (++imported_nodes_ > kMaxNodes) {
    return fail("the model has more than {} nodes once its functions are inlined", kMaxNodes);
  }
  OPWELD_TRY(const Values operands, operands_of(node, place.scope));
  OPWELD_TRY(const Values results, build(node, operands, place));
  return define_results(node, results, place.scope);
}

Expected<Values> Importer::build(const onnx::NodeProto& node, const Values& operands,
                                 Place& place) {
  const std::string domain = normal_domain(node.domain());
  if (const auto function = functions_.find({domain, node.op_type()});
      function != functions_.end()) {
    return call_function(*function->second, node, operands, place);
  }
  if (domain.empty() && node.op_type() == "If") return take_branch(node, operands, place);
  return call_handler(node, operands, place);
}

Expected<Values> Importer::call_handler(const onnx::NodeProto& node, const Values& operands,
                                        Place& place) {
  const std::string domain = normal_domain(node.domain());
  const std::optional<OperatorRule> rule = find_operator(domain, node.op_type());
  if (!rule) return fail("{}", reason_unsupported(domain, node.op_type()));
  const auto opset = place.opsets.find(domain);
  if (opset == place.opsets.end() && domain.empty()) {
    return fail("the model does not say which opset of the standard operators it uses");
  }
  if (domain.empty()) OPWELD_CHECK(check_opset(node.op_type(), opset->second));
  for (int i = 0; i < rule->min_operands; ++i) {
    const auto index = static_cast<std::size_t>(i);
    if (index >= operands.size() || operands[index] == nullptr) {
      return fail("operand {} is missing", i);
    }
  }
  if (static_cast<std::int64_t>(operands.size()) > rule->max_operands) {
    return fail("has {} operands, {} are known", operands.size(), rule->max_operands);
  }
  const std::string name = place.prefix + node.name();
  const Source source{node.name().empty() ? "" : name, node.op_type(), layer_of(node, name), 1,
                      stream_of(node, place)};
  NodeContext context(node, opset == place.opsets.end() ? 1 : opset->second, rule->target, operands,
                      Builder(graph_, nullptr, source), reader_);
  auto results = rule->handler(context);
  // A fault noticed on the way explains one that follows from it.
  OPWELD_CHECK(context.status());
  return results;
}

std::string Importer::layer_of(const onnx::NodeProto& node, const std::string& name) {
  std::string named = layer_scope(name);
  // torch.onnx numbers nodes through the model, and says beside that in which modules they are.
  return named.empty() ? layer_of_namespace(node_metadata(node, "namespace")) : named;
}

std::string Importer::stream_of(const onnx::NodeProto& node, const Place& place) {
  std::string own = node_metadata(node, "stream");
  return own.empty() ? place.stream : own;
}

Expected<Values> Importer::call_function(const onnx::FunctionProto& function,
                                         const onnx::NodeProto& node, const Values& operands,
                                         Place& place) {
  if (active_.contains(&function)) return fail("function '{}' calls itself", function.name());
  if (place.depth >= kMaxCallDepth) return fail("functions are nested too deep");
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
    return fail("function '{}' has {} inputs and {} outputs, the call {} and {}", function.name(),
                function.input_size(), function.output_size(), node.input_size(),
                node.output_size());
  }
  OpsetVersions opsets = opset_versions(function.opset_import());
  if (opsets.empty()) opsets = place.opsets;
  Scope scope;
  for (int i = 0; i < function.input_size(); ++i) {
    // An operand that is left out stays known by its name, as absent.
    scope.values[function.input(i)] = static_cast<std::size_t>(i) < operands.size()
                                          ? operands[static_cast<std::size_t>(i)]
                                          : nullptr;
  }
  const auto defaults = attribute_defaults(function);
  Nodes body;
  for (const auto& inner : function.node()) {
    *body.Add() = with_bound_attributes(inner, node, defaults);
  }
  const std::string call = node.name().empty() ? function.name() : node.name();
  active_.insert(&function);
  auto status = import_nodes(
      body, {scope, opsets, place.prefix + call + "/", place.depth + 1, stream_of(node, place)});
  active_.erase(&function);
  OPWELD_CHECK(status);
  Values results;
  for (int i = 0; i < node.output_size(); ++i) {
    OPWELD_TRY(Value * value, find_value(function.output(i), scope));
    results.push_back(value);
  }
  return results;
}

Expected<Values> Importer::take_branch(const onnx::NodeProto& node, const Values& operands,
                                       Place& place) {
  if (operands.size() != 1 || operands[0] == nullptr) return fail("needs one condition");
  const auto condition = constant_value(*operands[0]);
  if (!condition || condition->dtype() != DType::Bool || condition->num_elements() != 1) {
    return fail(
        "its condition is not known at import; branches that depend on the data given at run time "
        "are not compiled. Export the model without control flow");
  }
  if (place.depth >= kMaxCallDepth) return fail("branches are nested too deep");
  const std::string_view taken = condition->get_int(0) != 0 ? "then_branch" : "else_branch";
  const auto branch = std::find_if(node.attribute().begin(), node.attribute().end(),
                                   [&](const auto& a) { return a.name() == taken; });
  if (branch == node.attribute().end() || !branch->has_g()) return fail("has no {}", taken);
  const onnx::GraphProto& graph = branch->g();
  OPWELD_CHECK(require_supported(survey_operators(graph, functions_)));
  Scope scope;
  scope.outer = &place.scope;
  OPWELD_CHECK(add_initializers(graph, scope));
  OPWELD_CHECK(import_nodes(
      graph.node(), {scope, place.opsets, place.prefix, place.depth + 1, stream_of(node, place)}));
  Values results;
  for (const auto& output : graph.output()) {
    OPWELD_TRY(Value * value, find_value(output.name(), scope));
    results.push_back(value);
  }
  return results;
}

}  // namespace opweld
