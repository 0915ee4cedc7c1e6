#include "ops/reference.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/convert.h"
#include "ops/schema.h"

namespace opweld {
namespace {

// Composite operators are made of simpler ones; deeper nesting than this is a circular definition.
constexpr int kMaxExpansions = 16;

// In f64 mode every float tensor is f64, whatever the graph says.
DType value_dtype(DType declared, const ReferenceOptions& options) {
  return options.in_f64 && is_float(declared) ? DType::F64 : declared;
}

Expected<Tensor> as_dtype(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  OPWELD_TRY(Tensor result, Tensor::allocate(dtype, tensor.sizes()));
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    result.set_double(i, tensor.get_double(i));
  }
  return result;
}

tl::unexpected<Error> at_node(const Node& node, const Error& error) {
  return tl::unexpected(error.with_context(node_label(node.op(), node.source())));
}

class Evaluator {
 public:
  Evaluator(const Bindings& bindings, const ReferenceOptions& options, int depth)
      : bindings_(bindings), options_(options), depth_(depth) {}

  Expected<std::vector<Tensor>> run(const Graph& graph, std::span<const Tensor> inputs) {
    for (std::size_t index = 0; index < inputs.size(); ++index) {
      values_[graph.inputs()[index]] = inputs[index];
    }
    for (const auto& node : graph.nodes()) {
      auto results = evaluate_node(*node);
      if (!results) return at_node(*node, results.error());
      if (options_.constants_as_stored && depth_ == 0) round_constants(*node, *results);
      if (options_.observer && depth_ == 0) options_.observer(*node, *results);
      keep(*node, std::move(*results));
    }
    std::vector<Tensor> outputs;
    outputs.reserve(graph.outputs().size());
    for (const Graph::Output& output : graph.outputs()) {
      outputs.push_back(values_.at(output.value));
    }
    return outputs;
  }

  Expected<std::vector<Tensor>> run_node(const Node& node, std::span<const Tensor> operands) {
    for (int index = 0; index < node.num_operands(); ++index) {
      if (node.operand(index) == nullptr) continue;
      values_[node.operand(index)] = operands[static_cast<std::size_t>(index)];
    }
    return evaluate_node(node);
  }

 private:
  void round_constants(const Node& node, std::span<Tensor> results) {
    const bool is_constant = node.op() == "constant";
    const bool follows =
        !node.operands().empty() && std::ranges::all_of(node.operands(), [&](const Value* operand) {
          return operand == nullptr || constants_.contains(operand);
        });
    if (!is_constant && !follows) return;
    for (int index = 0; index < node.num_results(); ++index) {
      const Value* const value = node.result(index);
      constants_.insert(value);
      if (is_constant || !is_float(value->dtype())) continue;
      for (double& element : results[static_cast<std::size_t>(index)].mutable_view<double>()) {
        element = round_to_float(element, value->dtype());
      }
    }
  }

  Expected<std::vector<Tensor>> evaluate_node(const Node& node) {
    const OpDef* def = find_op(node.op());
    if (def == nullptr) return tl::unexpected(unknown_operator(node.op()));
    if (node.op() == "constant") {  // without a copy of what may be large
      const Tensor& value = node.attributes().tensor("value");
      OPWELD_TRY(Tensor result, as_dtype(value, value_dtype(value.dtype(), options_)));
      return std::vector<Tensor>{std::move(result)};
    }
    if (def->evaluate != nullptr) return evaluate_directly(*def, node);
    if (def->body != nullptr) return evaluate_body(*def, node);
    return fail("has no reference evaluation");
  }

  Expected<std::vector<Tensor>> evaluate_directly(const OpDef& def, const Node& node) {
    std::vector<const Tensor*> operands(
        std::max(def.operands.size(), static_cast<std::size_t>(node.num_operands())), nullptr);
    for (int index = 0; index < node.num_operands(); ++index) {
      const Value* operand = node.operand(index);
      if (operand != nullptr) operands[static_cast<std::size_t>(index)] = &values_.at(operand);
    }
    if (def.of_bits) return evaluate_bits(def, node, operands);
    OPWELD_TRY(std::vector<Tensor> results, allocate_results(node, options_));
    OPWELD_CHECK(
        def.evaluate({operands, node.attributes(), bindings_, results, options_.bf16_weight_keys}));
    return results;
  }

  // In the declared dtypes, whatever those of the values at hand.
  Expected<std::vector<Tensor>> evaluate_bits(const OpDef& def, const Node& node,
                                              std::vector<const Tensor*> operands) {
    std::vector<Tensor> declared(operands.size());
    for (int index = 0; index < node.num_operands(); ++index) {
      const auto at = static_cast<std::size_t>(index);
      if (operands[at] == nullptr) continue;
      OPWELD_TRY(declared[at], as_dtype(*operands[at], node.operand(index)->dtype()));
      operands[at] = &declared[at];
    }
    OPWELD_TRY(std::vector<Tensor> results, allocate_results(node, {}));
    OPWELD_CHECK(def.evaluate({operands, node.attributes(), bindings_, results}));
    for (Tensor& result : results) {
      OPWELD_TRY(result, as_dtype(result, value_dtype(result.dtype(), options_)));
    }
    return results;
  }

  Expected<std::vector<Tensor>> allocate_results(const Node& node,
                                                 const ReferenceOptions& options) const {
    std::vector<Tensor> results;
    for (int index = 0; index < node.num_results(); ++index) {
      const TensorType& type = node.result(index)->type();
      OPWELD_TRY(Sizes sizes, opweld::evaluate(type.shape, bindings_));
      OPWELD_TRY(Tensor result,
                 Tensor::allocate(value_dtype(type.dtype, options), std::move(sizes)));
      results.push_back(std::move(result));
    }
    return results;
  }

  // Expands the body in a graph of its own, whose inputs are the node's operands.
  Expected<std::vector<Tensor>> evaluate_body(const OpDef& def, const Node& node) {
    if (depth_ == kMaxExpansions) return fail("is defined in terms of itself");
    Graph scratch;
    std::unordered_map<const Value*, Value*> copies;
    std::vector<Value*> operands;
    std::vector<Tensor> inputs;
    for (const Value* operand : node.operands()) {
      if (operand != nullptr && !copies.contains(operand)) {
        Value* copy = scratch.add_input(fmt::format("operand_{}", copies.size()), operand->type());
        copy->set_contents(operand->contents());
        copies.emplace(operand, copy);
        inputs.push_back(values_.at(operand));
      }
      operands.push_back(operand != nullptr ? copies.at(operand) : nullptr);
    }
    std::vector<TensorType> types;
    types.reserve(static_cast<std::size_t>(node.num_results()));
    for (int index = 0; index < node.num_results(); ++index) {
      types.push_back(node.result(index)->type());
    }
    Node* copy = scratch.add_node(node.op(), std::move(operands), node.attributes(),
                                  std::move(types), node.source());
    OPWELD_TRY(const std::vector<Value*> replacements, def.body(scratch, *copy));
    assert(static_cast<int>(replacements.size()) == node.num_results());
    for (std::size_t index = 0; index < replacements.size(); ++index) {
      scratch.add_output(fmt::format("result_{}", index), replacements[index]);
    }
    scratch.erase(copy);
    OPWELD_CHECK(check_assumptions(scratch, bindings_));
    return Evaluator(bindings_, options_, depth_ + 1).run(scratch, inputs);
  }

  // Stores the results and lets go of operands that nobody reads any more.
  void keep(const Node& node, std::vector<Tensor> results) {
    for (int index = 0; index < node.num_results(); ++index) {
      const Value* result = node.result(index);
      if (result->uses().empty() && !result->is_graph_output()) continue;
      values_[result] = std::move(results[static_cast<std::size_t>(index)]);
    }
    for (const Value* operand : node.operands()) {
      if (operand == nullptr) continue;
      if (++reads_[operand] == operand->uses().size() && !operand->is_graph_output()) {
        values_.erase(operand);
      }
    }
  }

  const Bindings& bindings_;
  const ReferenceOptions& options_;
  int depth_;
  std::unordered_map<const Value*, Tensor> values_;
  std::unordered_map<const Value*, std::size_t> reads_;
  std::unordered_set<const Value*> constants_;  // of constants_as_stored
};

// Inputs as the evaluator wants them: of the declared dtype, or f64 where floats are.
Expected<std::vector<Tensor>> prepare_inputs(const Graph& graph, std::span<const Tensor> inputs,
                                             const ReferenceOptions& options) {
  std::vector<Tensor> prepared;
  prepared.reserve(inputs.size());
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const Value* declared = graph.inputs()[index];
    const DType wanted = value_dtype(declared->dtype(), options);
    const DType given = inputs[index].dtype();
    if (given != declared->dtype() && given != wanted) {
      return usage_error("input '{}' must be {}, but is {}", declared->name(),
                         to_string(declared->dtype()), to_string(given));
    }
    auto tensor = as_dtype(inputs[index], wanted);
    if (!tensor) {
      return tl::unexpected(
          tensor.error().with_context(fmt::format("input '{}'", declared->name())));
    }
    prepared.push_back(std::move(*tensor));
  }
  return prepared;
}

}  // namespace

Status check_assumptions(const Graph& graph, const Bindings& bindings) {
  for (const SizeAssumption& assumption : graph.assumptions()) {
    const auto left = assumption.left.evaluate(bindings);
    const auto right = assumption.right.evaluate(bindings);
    if (!left) return tl::unexpected(left.error().with_context(assumption.reason));
    if (!right) return tl::unexpected(right.error().with_context(assumption.reason));
    if (*left != *right) {
      return usage_error("{}: {} and {} must be equal, but are {} and {}", assumption.reason,
                         assumption.left, assumption.right, *left, *right);
    }
  }
  return {};
}

Expected<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs,
                                       const ReferenceOptions& options) {
  OPWELD_TRY(const Bindings bindings, bind_symbols(graph, inputs));
  return evaluate(graph, inputs, bindings, options);
}

Expected<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs,
                                       const Bindings& bindings, const ReferenceOptions& options) {
  OPWELD_TRY(const std::vector<Tensor> prepared, prepare_inputs(graph, inputs, options));
  OPWELD_CHECK(check_assumptions(graph, bindings));
  return Evaluator(bindings, options, 0).run(graph, prepared);
}

Expected<std::vector<Tensor>> evaluate_node(const Node& node, std::span<const Tensor> operands,
                                            const Bindings& bindings,
                                            const ReferenceOptions& options) {
  return Evaluator(bindings, options, 0).run_node(node, operands);
}

}  // namespace opweld
