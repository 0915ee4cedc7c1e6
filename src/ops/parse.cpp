#include "ops/builder.h"

namespace opweld {

Expected<Graph> parse_graph(std::string_view text) {
  return parse_graph_text(text, [](Graph& graph, std::string op, std::vector<Value*> operands,
                                   Attributes attributes, Source source) {
    return build_node(graph, std::move(op), std::move(operands), std::move(attributes),
                      std::move(source));
  });
}

}  // namespace opweld
