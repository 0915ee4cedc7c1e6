// Layers of a model whose names tell of none.
//
// Figures are told layer by layer, and which layer a node is of follows from its name
// ("/layers.3/mlp/MatMul"). Where no node of a model has such a name, its structure tells: the
// longest stretch of nodes that is one block several times over. Node is compared with node by
// operator, attributes and types; a block that is no layer by its looks (no matmul in it, a few
// nodes only, or less than half of the model) is none.
#pragma once

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// Names the scopes "block 0", "block 1" ... in nodes' sources, and changes nothing else. A model in
// which any node has a scope stays as it is.
Status find_layers(Graph& graph);

}  // namespace opweld
