// What the handler of an ONNX operator sees of its node, and what it builds with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "import/onnx/tensor_reader.h"
#include "ops/builder.h"
#include "support/expected.h"

namespace onnx {
class AttributeProto;
class NodeProto;
}  // namespace onnx

namespace opweld {

using Values = std::vector<Value*>;

// Errors of attributes and of building stick: accessors then return a default, the builder returns
// null, and whoever called the handler reports the first of them. A handler that looks into a value
// it has just built checks status() before.
class NodeContext {
 public:
  NodeContext(const onnx::NodeProto& node, std::int64_t opset, std::string_view target,
              Values operands, Builder builder, TensorReader& reader)
      : node_(node),
        opset_(opset),
        target_(target),
        operands_(std::move(operands)),
        builder_(std::move(builder)),
        reader_(reader) {}

  [[nodiscard]] std::int64_t opset() const { return opset_; }
  // The operator of the graph that the table of handlers names for this node.
  [[nodiscard]] std::string_view target() const { return target_; }
  [[nodiscard]] Builder& builder() { return builder_; }
  [[nodiscard]] Status status() const;

  // ---- operands and results ----

  [[nodiscard]] int num_operands() const { return static_cast<int>(operands_.size()); }
  [[nodiscard]] bool has(int index) const { return operand(index) != nullptr; }
  // Null where absent.
  [[nodiscard]] Value* operand(int index) const {
    return index < num_operands() ? operands_[static_cast<std::size_t>(index)] : nullptr;
  }
  [[nodiscard]] const Values& operands() const { return operands_; }
  [[nodiscard]] int num_results() const;
  // Whether anybody may read that result.
  [[nodiscard]] bool wants(int result) const;

  // ---- operands whose values decide shapes ----

  // The elements, in terms of sizes. An error says that the operand, called `what`, depends on
  // data.
  [[nodiscard]] Expected<std::vector<Dim>> dims(int operand, std::string_view what) const;
  // The elements as plain numbers.
  [[nodiscard]] Expected<Ints> integers(int operand, std::string_view what) const;
  // The one element of a scalar or of a list of one.
  [[nodiscard]] Expected<Dim> dim(int operand, std::string_view what) const;
  // The value, if it is known at import.
  [[nodiscard]] std::optional<Tensor> constant(int operand) const;

  // ---- attributes ----

  [[nodiscard]] bool has_attribute(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> attribute_names() const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise);
  double real(std::string_view name, double otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  std::optional<Ints> integers_attribute(std::string_view name);
  std::optional<Doubles> reals_attribute(std::string_view name);
  Expected<Tensor> tensor_attribute(std::string_view name);
  // An element type given by number.
  Expected<DType> dtype_attribute(std::string_view name, std::optional<DType> otherwise);
  // The attribute, or `otherwise`, as an axis counted from the front.
  Expected<int> axis(std::string_view name, std::int64_t otherwise, int rank);

 private:
  const onnx::AttributeProto* find(std::string_view name, int type);

  const onnx::NodeProto& node_;
  std::int64_t opset_;
  std::string_view target_;
  Values operands_;
  Builder builder_;
  TensorReader& reader_;
  Status attributes_;  // the first fault found in them
};

// ---- what many handlers say ----

// One result.
inline Expected<Values> one(Value* value) {
  return Values{value};
}

// The sizes [first, last) multiplied; 1 when there are none.
Dim product(const Shape& shape, std::size_t first, std::size_t last);

// An i64[n] of sizes: a constant when all are known.
Value* sizes_value(Builder& builder, const std::vector<Dim>& sizes);

// x[..., start : start + size, ...] along one axis.
Value* slice_axis(Builder& builder, Value* x, int axis, const Dim& start, const Dim& size);

// The permutation that exchanges two axes.
Ints swapped_axes(int rank, int a, int b);

}  // namespace opweld
