#include "ops/builder.h"

namespace opweld {

Expected<Graph> parse_graph(std::string_view text) {
  return parse_graph_text(text, [](Graph& graph, std::string_view op, std::vector<Value*> operands,
                                   Attributes attributes, const Source& source) {
    return build_node(graph, op, std::move(operands), std::move(attributes), source);
  });
}

}  // namespace opweld
