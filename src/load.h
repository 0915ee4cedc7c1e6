// A model file as a graph, by the kind of file.
#pragma once

#include <string>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// A graph in its textual form if the name ends in ".graph", else an ONNX model.
Expected<Graph> load_graph(const std::string& path);

}  // namespace opweld
