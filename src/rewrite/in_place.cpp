#include "rewrite/in_place.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace opweld {

namespace {

constexpr int kCache = 0;  // operand of a tensor_scatter

std::string label(const Node& node) {
  return fmt::format("{} '{}'", node.op(), node.display_name());
}

std::string declaration(const Graph::Output& output) {
  return fmt::format("output '{}' in place of input '{}'", output.name, output.in_place_of->name());
}

// The scatter that makes good on the declaration.
Expected<Node*> scatter_of(const Graph::Output& output) {
  const std::string what = declaration(output);
  const Value& input = *output.in_place_of;
  if (output.value->is_graph_input()) return usage_error("{}: the output is itself an input", what);
  if (output.value->type() != input.type()) {
    return usage_error("{}: the one is {} and the other {}; they must be of one type", what,
                       to_string(output.value->type()), to_string(input.type()));
  }
  Node* const node = output.value->producer();
  if (node->op() != "tensor_scatter" || node->operand(kCache) != &input) {
    return usage_error(
        "{}: it is made by {}, which does not write rows into that input. Only a TensorScatter "
        "whose cache is the input does; without the declaration the model runs as it is",
        what, label(*node));
  }
  for (const Use& use : input.uses()) {
    if (use.node == node && use.index == kCache) continue;
    return usage_error(
        "{}: {} reads what the input held before {} writes into it. Have it read the output, or "
        "leave the declaration away",
        what, label(*use.node), label(*node));
  }
  if (input.is_graph_output()) {
    return usage_error("{}: the model gives out what the input held as well", what);
  }
  return node;
}

}  // namespace

Status declare_in_place(Graph& graph, std::string_view output, std::string_view input) {
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  for (const Value* each : graph.inputs()) inputs.push_back(each->name());
  for (const auto& each : graph.outputs()) outputs.push_back(each.name);
  const auto found = std::ranges::find(inputs, input);
  const auto place = std::ranges::find(outputs, output);
  if (found == inputs.end() || place == outputs.end()) {
    const bool turned = std::ranges::find(inputs, output) != inputs.end() &&
                        std::ranges::find(outputs, input) != outputs.end();
    if (turned) {
      return usage_error(
          "in place: '{}' is an input and '{}' an output; the output comes first: {}={}", output,
          input, input, output);
    }
  }
  if (place == outputs.end()) {
    return usage_error("in place: the model has no output '{}'; its outputs are {}", output,
                       fmt::join(outputs, ", "));
  }
  if (found == inputs.end()) {
    return usage_error("in place: the model has no input '{}'; its inputs are {}", input,
                       inputs.empty() ? "none" : fmt::format("{}", fmt::join(inputs, ", ")));
  }
  Value* const value = graph.inputs()[static_cast<std::size_t>(found - inputs.begin())];
  const auto index = static_cast<int>(place - outputs.begin());
  const Value* const before = graph.outputs()[static_cast<std::size_t>(index)].in_place_of;
  if (before != nullptr && before != value) {
    return usage_error(
        "in place: output '{}' lies in place of input '{}' already, and cannot of '{}'", output,
        before->name(), input);
  }
  graph.set_in_place(index, value);
  return {};
}

Status mark_in_place(Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (node->op() == "tensor_scatter") node->attributes().erase("in_place");
  }
  std::set<const Value*> taken;
  for (const Graph::Output& output : graph.outputs()) {
    if (output.in_place_of == nullptr) continue;
    if (!taken.insert(output.in_place_of).second) {
      return usage_error("{}: another output lies there already", declaration(output));
    }
    OPWELD_TRY(Node* const node, scatter_of(output));
    node->attributes().set("in_place", std::int64_t{1});
  }
  return {};
}

std::vector<std::string> copied_caches(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Graph::Output& output : graph.outputs()) {
    const Node* const node = output.value->producer();
    if (node == nullptr || output.in_place_of != nullptr) continue;
    const auto is_input = [](const Value* value) {
      return value != nullptr && value->is_graph_input();
    };
    if (node->op() == "tensor_scatter" && is_input(node->operand(kCache))) {
      lines.push_back(fmt::format("{} copies the cache '{}' into '{}': declare it in place ({}={})",
                                  node->display_name(), node->operand(kCache)->name(), output.name,
                                  output.name, node->operand(kCache)->name()));
    } else if (node->op() == "concat" && is_input(node->operand(0))) {
      lines.push_back(fmt::format(
          "{} copies '{}' into '{}': a cache of the largest length that TensorScatter writes "
          "into can be updated in place",
          node->display_name(), node->operand(0)->name(), output.name));
    }
  }
  return lines;
}

}  // namespace opweld
