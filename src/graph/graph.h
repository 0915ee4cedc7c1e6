// The graph of operators: SSA, typed, in topological order.
//
// A Graph owns its nodes; a Node owns its result Values; pointers to both stay valid until the node
// is erased. Every Value has a TensorType whose dimensions may be symbolic, so one graph stands for
// all batch sizes and lengths. Operators are named by string; what an operator means is defined in
// ops/, which this folder does not know.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "graph/tensor_type.h"

namespace opweld {

class Graph;
class Node;
class Value;

// Where a node came from in the user's own model. Names shown to people start from this.
struct Source {
  std::string name;   // the node's name in the user's model ("/layers.0/attn/MatMul"), may be empty
  std::string op;     // the operator there ("MatMul"), may be empty
  std::string scope;  // the layer it belongs to ("layers.0"), may be empty
  // How many operators of the model the node stands for: several where they became one, none where
  // it only takes apart what such a node made.
  int operators = 1;
  // The stream that the user put it on; empty: on none in particular. Operators of two streams
  // never become one, nor share a kernel.
  std::string stream = {};

  bool operator==(const Source&) const = default;
};

// One place where a value is read: operand `index` of `node`.
struct Use {
  Node* node;
  int index;

  bool operator==(const Use&) const = default;
};

class Value {
 public:
  [[nodiscard]] const TensorType& type() const { return type_; }
  [[nodiscard]] DType dtype() const { return type_.dtype; }
  [[nodiscard]] const Shape& shape() const { return type_.shape; }
  [[nodiscard]] int rank() const { return type_.rank(); }
  void set_type(TensorType type) { type_ = std::move(type); }

  // The tensor's name in the user's model; may be empty.
  [[nodiscard]] const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // The node that makes this value and which of its results it is; null for a graph input.
  [[nodiscard]] Node* producer() const { return producer_; }
  [[nodiscard]] int result_index() const { return result_index_; }
  [[nodiscard]] bool is_graph_input() const { return producer_ == nullptr; }

  // Every operand that reads this value, one entry per operand; graph outputs are not uses.
  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }
  [[nodiscard]] bool is_graph_output() const { return output_count_ > 0; }

  // Shape value: the elements (in row-major order) of a small integer or bool tensor computed from
  // sizes only, as exporters write Shape -> Gather -> Concat -> Reshape. Known contents let shape
  // rules see symbolic sizes through such chains. Absent for ordinary data.
  [[nodiscard]] const std::optional<std::vector<Dim>>& contents() const { return contents_; }
  void set_contents(std::optional<std::vector<Dim>> contents) { contents_ = std::move(contents); }

 private:
  friend class Graph;
  friend class Node;
  TensorType type_;
  std::string name_;
  Node* producer_ = nullptr;
  int result_index_ = 0;
  int output_count_ = 0;
  std::vector<Use> uses_;
  std::optional<std::vector<Dim>> contents_;
};

class Node {
 public:
  [[nodiscard]] const std::string& op() const { return op_; }
  [[nodiscard]] const Attributes& attributes() const { return attributes_; }
  [[nodiscard]] Attributes& attributes() { return attributes_; }
  [[nodiscard]] const Source& source() const { return source_; }
  void set_source(Source source) { source_ = std::move(source); }
  // Unique within the graph and never reused; ordering by id is not topological.
  [[nodiscard]] int id() const { return id_; }

  // Operands; null stands for an optional operand that is absent.
  [[nodiscard]] int num_operands() const { return static_cast<int>(operands_.size()); }
  [[nodiscard]] Value* operand(int index) const { return operands_[index]; }
  [[nodiscard]] std::span<Value* const> operands() const { return operands_; }
  void set_operand(int index, Value* value);

  [[nodiscard]] int num_results() const { return static_cast<int>(results_.size()); }
  [[nodiscard]] Value* result(int index = 0) const { return results_[index].get(); }

  // The name people know it by: the source name, else "op_id".
  [[nodiscard]] std::string display_name() const;

 private:
  friend class Graph;
  std::string op_;
  Attributes attributes_;
  Source source_;
  int id_ = 0;
  std::vector<Value*> operands_;
  std::vector<std::unique_ptr<Value>> results_;
  std::list<std::unique_ptr<Node>>::iterator position_;
};

// Two sizes that the model's operators need to be equal although their expressions differ (two
// dim_params that the exporter named apart). Checked when a run binds the symbols.
struct SizeAssumption {
  Dim left;
  Dim right;
  std::string reason;  // "operands of Add '/layers.0/Add' broadcast"
};

class Graph {
 public:
  explicit Graph(std::string name = "graph");
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

  Value* add_input(std::string name, TensorType type);
  // Appends at the end, or just before `before`. Result types must be right already: use
  // ops/builder.h, which infers them. Operands may be null where the schema allows it.
  Node* add_node(std::string op, std::vector<Value*> operands, Attributes attributes,
                 std::vector<TensorType> result_types, Source source = {}, Node* before = nullptr);
  // The output keeps the given name even when the value has another; the same value may be given
  // out several times, and inputs may be outputs.
  void add_output(std::string name, Value* value);

  struct Output {
    std::string name;
    Value* value;
    // The input whose memory it may take over: where a run is given the same memory for both, only
    // what is new in the output is written. Null for most.
    Value* in_place_of = nullptr;
  };
  [[nodiscard]] std::span<Value* const> inputs() const { return input_pointers_; }
  [[nodiscard]] const std::vector<Output>& outputs() const { return outputs_; }
  void set_output(int index, Value* value);
  // Declares, or takes back with null, that the output lies where the input does; what that asks of
  // the graph is checked in rewrite/in_place.h.
  void set_in_place(int output, Value* input);

  // Nodes in topological order. Erasing or inserting elsewhere does not disturb an iteration.
  [[nodiscard]] const std::list<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  [[nodiscard]] std::vector<Node*> nodes_in_order() const;  // a snapshot, safe while rewriting
  [[nodiscard]] std::size_t num_nodes() const { return nodes_.size(); }

  // Every reader of `from`, graph outputs too, reads `to` instead.
  void replace_all_uses(Value* from, Value* to);
  // The node must have no uses left.
  void erase(Node* node);
  // Re-establishes topological order after operands were rewired, keeping the present order where
  // it can; false when there is a cycle.
  bool sort_topologically();

  void assume_equal(Dim left, Dim right, std::string reason);
  [[nodiscard]] const std::vector<SizeAssumption>& assumptions() const { return assumptions_; }

  // All symbols of the inputs' shapes, sorted by name.
  [[nodiscard]] std::vector<Dim> symbols() const;

  // A deep copy (constants share their bytes); `mapping`, if given, receives old value -> new
  // value.
  [[nodiscard]] Graph clone(std::map<const Value*, Value*>* mapping = nullptr) const;

 private:
  std::string name_;
  int next_id_ = 0;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<Value*> input_pointers_;
  std::list<std::unique_ptr<Node>> nodes_;
  std::vector<Output> outputs_;
  std::vector<SizeAssumption> assumptions_;
};

}  // namespace opweld
