// Building typed graphs: schema check, shape inference and shape values in one place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/text.h"
#include "ops/op.h"
#include "support/expected.h"

namespace opweld {

// Appends (or inserts before `before`) the operator after checking its schema and inferring its
// result types and contents. Errors name the operator, the source node if given, and the operand.
Expected<Node*> build_node(Graph& graph, std::string_view op, std::vector<Value*> operands,
                           Attributes attributes = {}, const Source& source = {},
                           Node* before = nullptr);

// Thin sugar over build_node for rules and tests: every call returns result 0. Sources are copied
// from `source`; all nodes go before `before` when it is set. The first error sticks: later calls
// return null and `status()` tells.
class Builder {
 public:
  explicit Builder(Graph& graph, Node* before = nullptr, Source source = {})
      : graph_(graph), before_(before), source_(std::move(source)) {}

  Value* op(std::string_view name, std::vector<Value*> operands, Attributes attributes = {});
  Value* constant(Tensor tensor);
  Value* scalar(double value, DType dtype);              // rank 0
  Value* ints(const std::vector<std::int64_t>& values);  // i64[n]
  Value* reshape(Value* x, Shape shape);
  Value* transpose(Value* x, Ints permutation);
  Value* cast(Value* x, DType dtype);  // returns x when the dtype is right already
  Value* expand(Value* x, Shape shape);
  Value* binary(std::string_view name, Value* a, Value* b) { return op(name, {a, b}); }

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] Graph& graph() { return graph_; }

 private:
  Graph& graph_;
  Node* before_;
  Source source_;
  Status status_;
};

// Parses the textual form with inference (types may be left out; stated types are checked).
Expected<Graph> parse_graph(std::string_view text);

// verify_structure, then every node against its schema and shape rule.
Status verify(const Graph& graph);

}  // namespace opweld
