#include "load.h"

#include <fstream>
#include <sstream>

#include "import/onnx/import.h"
#include "ops/builder.h"

namespace opweld {

Expected<Graph> load_graph(const std::string& path) {
  if (!path.ends_with(".graph")) return import_onnx(path);
  const std::ifstream file(path);
  if (!file) return fail("cannot open '{}'", path);
  std::ostringstream text;
  text << file.rdbuf();
  auto graph = parse_graph(text.str());
  if (!graph) return tl::unexpected(graph.error().with_context(path));
  return graph;
}

}  // namespace opweld
