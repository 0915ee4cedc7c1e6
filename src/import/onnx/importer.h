// Builds the graph of a model, node by node.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "import/onnx/import.h"
#include "import/onnx/model_file.h"
#include "import/onnx/node_context.h"

namespace opweld {

// Errors do not name the file; the caller adds it.
class Importer {
 public:
  Importer(const ModelFile& file, const ImportOptions& options);

  Expected<Graph> run();

 private:
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  // The names visible at one place: those of a graph, then those around it.
  struct Scope {
    const Scope* outer = nullptr;
    std::map<std::string, Value*> values;
    std::map<std::string, const onnx::TensorProto*> initializers;
    // The results of all nodes of this graph, to tell a cycle from a name that nobody makes.
    std::set<std::string> made_later;

    [[nodiscard]] bool defines(const std::string& name) const;
  };

  // Where the nodes being imported stand.
  struct Place {
    Scope& scope;
    const OpsetVersions& opsets;
    std::string prefix;  // path of the calls that led here, for names of nodes: "block_0/"
    int depth = 0;
    std::string stream = {};  // of the calls, for nodes that have none of their own
  };

  Status add_graph_inputs(const onnx::GraphProto& graph, Scope& scope);
  Status add_initializers(const onnx::GraphProto& graph, Scope& scope);
  Status add_graph_outputs(const onnx::GraphProto& graph, Scope& scope);
  Status import_nodes(const Nodes& nodes, Place place);
  Status import_node(const onnx::NodeProto& node, Place& place);
  // `name`: of the node, with the path of the calls that led there.
  static std::string layer_of(const onnx::NodeProto& node, const std::string& name);
  static std::string stream_of(const onnx::NodeProto& node, const Place& place);

  Expected<Values> build(const onnx::NodeProto& node, const Values& operands, Place& place);
  Expected<Values> call_handler(const onnx::NodeProto& node, const Values& operands, Place& place);
  Expected<Values> call_function(const onnx::FunctionProto& function, const onnx::NodeProto& node,
                                 const Values& operands, Place& place);
  Expected<Values> take_branch(const onnx::NodeProto& node, const Values& operands, Place& place);

  Expected<Values> operands_of(const onnx::NodeProto& node, Scope& scope);
  Expected<Value*> find_value(const std::string& name, Scope& scope);
  Expected<Value*> constant_of(const onnx::TensorProto& proto);
  Status define_results(const onnx::NodeProto& node, const Values& results, Scope& scope);

  const onnx::ModelProto& model_;
  TensorReader& reader_;
  const ImportOptions& options_;
  OpsetVersions opsets_;
  FunctionTable functions_;
  Graph graph_;
  std::map<const onnx::TensorProto*, Value*> constants_;  // initializers already in the graph
  std::set<const onnx::FunctionProto*> active_;           // functions being inlined
  std::int64_t imported_nodes_ = 0;
};

}  // namespace opweld
