#include "import/onnx/layer_scope.h"

#include <algorithm>
#include <cctype>

namespace opweld {
namespace {

bool is_number(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

}  // namespace

std::string layer_scope(std::string_view node_name) {
  while (!node_name.empty() && node_name.front() == '/') node_name.remove_prefix(1);
  // Parts end at '/' or '.'; a number must follow a name, and the node itself is no layer.
  std::size_t start = 0;
  for (std::size_t end = node_name.find_first_of("/."); end != std::string_view::npos;
       end = node_name.find_first_of("/.", start)) {
    if (start > 0 && is_number(node_name.substr(start, end - start))) {
      return std::string(node_name.substr(0, end));
    }
    start = end + 1;
  }
  return {};
}

std::string layer_of_namespace(std::string_view modules) {
  while (!modules.empty()) {
    const std::size_t end = std::min(modules.find('/'), modules.size());
    const std::string_view module = modules.substr(0, end);
    // A module's own name is that of a path, unlike a node's.
    std::string layer = layer_scope(std::string(module.substr(0, module.find(": "))) + "/");
    if (!layer.empty()) return layer;
    modules.remove_prefix(std::min(end + 1, modules.size()));
  }
  return {};
}

}  // namespace opweld
