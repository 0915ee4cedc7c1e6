// A model file as a graph, by the kind of file.
#pragma once

#include <string>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// A usage error for what is compiled already (aot/model_file.h), by its name.
Status check_is_source(const std::string& path);

// A graph in its textual form if the name ends in ".graph", else an ONNX model.
Expected<Graph> load_graph(const std::string& path);

}  // namespace opweld
