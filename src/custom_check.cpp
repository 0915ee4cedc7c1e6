#include "custom_check.h"

#include <algorithm>
#include <map>
#include <vector>

#include "ops/op.h"
#include "ops/reference.h"
#include "runtime/compare.h"

namespace opweld {

namespace {

Expected<Tensor> widened(const Tensor& tensor) {
  if (!is_float(tensor.dtype())) return tensor;
  OPWELD_TRY(Tensor wide, Tensor::allocate(DType::F64, tensor.sizes()));
  for (std::int64_t i = 0; i < wide.num_elements(); ++i) wide.set_double(i, tensor.get_double(i));
  return wide;
}

class Checker {
 public:
  Checker(const Graph& graph, std::span<const Tensor> inputs, const Bindings& bindings)
      : bindings_(bindings) {
    for (std::size_t i = 0; i < inputs.size(); ++i) values_[graph.inputs()[i]] = inputs[i];
  }

  void visit(const Node& node, std::span<const Tensor> results) {
    if (status_ && op_def(node).kernel != nullptr) status_ = compare_node(node, results);
    for (int i = 0; i < node.num_results(); ++i) {
      values_[node.result(i)] = results[static_cast<std::size_t>(i)];
    }
  }

  Expected<CustomCheck> take() {
    if (!status_) return tl::unexpected(status_.error());
    return std::move(check_);
  }

 private:
  Status compare_node(const Node& node, std::span<const Tensor> like) {
    const OpDef& def = op_def(node);
    std::vector<const Tensor*> operands(
        std::max(def.operands.size(), static_cast<std::size_t>(node.num_operands())), nullptr);
    std::vector<Tensor> wide(operands.size());
    for (int i = 0; i < node.num_operands(); ++i) {
      if (node.operand(i) == nullptr) continue;
      const auto at = static_cast<std::size_t>(i);
      operands[at] = &values_.at(node.operand(i));
      OPWELD_TRY(wide[at], widened(*operands[at]));
    }
    // What it declares, in f64 on the very operands that its code is given.
    ReferenceOptions in_f64;
    in_f64.in_f64 = true;
    OPWELD_TRY(const std::vector<Tensor> declared, evaluate_node(node, wide, bindings_, in_f64));
    std::vector<Tensor> results;
    for (const Tensor& each : like) {
      OPWELD_TRY(Tensor result, Tensor::allocate(each.dtype(), each.sizes()));
      results.push_back(std::move(result));
    }
    ++check_.compared;
    std::string fault;
    const Status called = def.kernel({operands, node.attributes(), bindings_, results});
    if (!called) fault = called.error().message;
    for (std::size_t i = 0; called && i < results.size() && fault.empty(); ++i) {
      const Comparison comparison =
          compare(results[i], declared[i], default_tolerance(results[i].dtype()));
      if (!comparison.equal) {
        fault = fmt::format("compute() gives other values than {} declares: result {}: {}",
                            def.trait == FusionTrait::Pointwise ? "its expression" : "its body", i,
                            comparison.message);
      }
    }
    if (fault.empty()) return {};
    ++check_.differ;
    if (check_.first_fault.empty()) {
      check_.first_fault = fmt::format("'{}' ({} of plugin '{}', {}): {}", node.display_name(),
                                       def.name, def.origin->plugin, def.origin->path, fault);
    }
    return {};
  }

  const Bindings& bindings_;
  std::map<const Value*, Tensor> values_;
  CustomCheck check_;
  Status status_;
};

}  // namespace

Expected<CustomCheck> check_custom_operators(const Graph& graph, std::span<const Tensor> inputs) {
  bool any = false;
  for (const auto& node : graph.nodes()) any = any || op_def(*node).kernel != nullptr;
  if (!any) return CustomCheck();
  OPWELD_TRY(const Bindings bindings, bind_symbols(graph, inputs));
  Checker checker(graph, inputs, bindings);
  ReferenceOptions options;
  options.observer = [&](const Node& node, std::span<const Tensor> results) {
    checker.visit(node, results);
  };
  OPWELD_CHECK(evaluate(graph, inputs, bindings, options).map([](const auto&) {}));
  return checker.take();
}

}  // namespace opweld
