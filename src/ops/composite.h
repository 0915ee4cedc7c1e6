// What the bodies of composite operators share.
#pragma once

#include <vector>

#include "ops/builder.h"

namespace opweld {

// Builds just before `node`, on behalf of the same node of the user's model.
inline Builder body_builder(Graph& graph, const Node& node) {
  return Builder(graph, node.result()->producer(), node.source());
}

inline Expected<std::vector<Value*>> finish_body(const Builder& builder, Value* result) {
  OPWELD_CHECK(builder.status());
  return std::vector<Value*>{result};
}

}  // namespace opweld
