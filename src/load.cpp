#include "load.h"

#include <fstream>
#include <sstream>

#include "import/onnx/import.h"
#include "ops/builder.h"

namespace opweld {

Status check_is_source(const std::string& path) {
  if (!path.ends_with(".opw")) return {};
  return usage_error(
      "{}: it is compiled already, and this takes the model that it was compiled from; run, bench "
      "and "
      "explain of the command, and opweld/runtime.h, take compiled ones",
      path);
}

Expected<Graph> load_graph(const std::string& path) {
  OPWELD_CHECK(check_is_source(path));
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
