// Any text is a graph or an error; a graph passes the verifier, and its text is read back as the
// same graph.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "graph/text.h"
#include "ops/builder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto graph = opweld::parse_graph(text);
  if (!graph) return 0;
  if (!opweld::verify(*graph)) std::abort();

  opweld::PrintOptions options;
  options.full_constants = true;
  const std::string printed = opweld::to_text(*graph, options);
  const auto again = opweld::parse_graph(printed);
  if (!again || opweld::to_text(*again, options) != printed) std::abort();
  return 0;
}
