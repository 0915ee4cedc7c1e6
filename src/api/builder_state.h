// What a GraphBuilder and its tensors share.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "opweld/graph_builder.h"
#include "support/symbol.h"

namespace opweld::detail {

struct BuilderState {
  explicit BuilderState(std::string name) : graph(std::move(name)) {}

  Graph graph;
  SymbolTable symbols;
  std::vector<Value*> values;     // by GraphTensor's index; not to be followed once finished
  std::vector<TensorType> types;  // of the same, for as long as a GraphTensor exists
  std::set<std::string> input_names;
  std::set<std::string> output_names;
  std::string layer;
  int operators = 0;
  std::optional<Error> error;  // the first
  bool finished = false;

  // Whether building may go on; using a builder that has finished is an error.
  bool usable();
  void fail_with(Error first);
  // Keeps the first error; whether there was none.
  bool keep(const Status& status);

  // A size as the graph knows it. `declare` makes a symbol of a name that is not known yet.
  Expected<Dim> dim(const Size& size, bool declare);
  Expected<Shape> shape(const std::vector<Size>& sizes, bool declare);
};

struct BuilderAccess {
  using State = std::shared_ptr<BuilderState>;

  static const State& state(const GraphBuilder& builder) { return builder.state_; }
  static const State& state(const GraphTensor& tensor) { return tensor.state_; }
  // Null for one that is absent or invalid.
  static Value* value(const GraphTensor& tensor) {
    return tensor.valid() ? tensor.state_->values[static_cast<std::size_t>(tensor.index_)]
                          : nullptr;
  }
  static GraphTensor tensor(const State& state, Value* value);
  static GraphTensor invalid(const State& state);
};

// The operator's results, `count` of them; invalid ones after an error.
std::vector<GraphTensor> append_operator(const BuilderAccess::State& state, std::string_view op,
                                         std::size_t count,
                                         const std::vector<GraphTensor>& operands,
                                         const AttributeList& attributes);

GraphTensor append_constant(const BuilderAccess::State& state, Tensor tensor,
                            const std::string& name);

// A constant of rank 0; an error where the dtype has no such value.
GraphTensor append_scalar(const BuilderAccess::State& state, double value, DType dtype);

}  // namespace opweld::detail
