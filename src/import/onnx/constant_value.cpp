#include "import/onnx/constant_value.h"

#include <algorithm>
#include <map>

#include "ops/reference.h"
#include "ops/shape_values.h"

namespace opweld {
namespace {

// Beyond these a value counts as data, computed when the model runs.
constexpr std::int64_t kMostElements = 1 << 16;
constexpr int kMostDepth = 64;

std::optional<Tensor> tensor_of_contents(const Value& value) {
  const auto sizes = constant_sizes(value.shape());
  if (!value.contents() || !sizes) return std::nullopt;
  auto tensor = Tensor::allocate(value.dtype(), *sizes);
  if (!tensor) return std::nullopt;
  std::int64_t place = 0;
  for (const Dim& element : *value.contents()) {
    if (!element.is_constant()) return std::nullopt;
    tensor->set_int(place++, *element.constant());
  }
  return std::move(*tensor);
}

class Evaluator {
 public:
  std::optional<Tensor> value_of(const Value& value, int depth) {
    if (auto tensor = tensor_of_contents(value)) return tensor;
    const Node* node = value.producer();
    if (node == nullptr) return std::nullopt;
    if (node->op() == "constant") return node->attributes().tensor("value");
    const auto known = results_.find(&value);
    if (known != results_.end()) return known->second;
    auto result = depth < kMostDepth ? computed(*node, value, depth) : std::nullopt;
    results_.emplace(&value, result);
    return result;
  }

 private:
  std::optional<Tensor> computed(const Node& node, const Value& value, int depth) {
    for (int i = 0; i < node.num_results(); ++i) {
      const auto sizes = constant_sizes(node.result(i)->shape());
      const auto count = sizes ? checked_num_elements(*sizes) : std::nullopt;
      if (!count || *count > kMostElements) return std::nullopt;
    }
    std::vector<Tensor> operands(static_cast<std::size_t>(node.num_operands()));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Value* operand = node.operand(static_cast<int>(i));
      if (operand == nullptr) continue;
      auto tensor = value_of(*operand, depth + 1);
      if (!tensor || tensor->num_elements() > kMostElements) return std::nullopt;
      operands[i] = std::move(*tensor);
    }
    const auto results = evaluate_node(node, operands, Bindings());
    if (!results) return std::nullopt;
    return (*results)[static_cast<std::size_t>(value.result_index())];
  }

  std::map<const Value*, std::optional<Tensor>> results_;
};

}  // namespace

std::optional<Tensor> constant_value(const Value& value) {
  return Evaluator().value_of(value, 0);
}

}  // namespace opweld
