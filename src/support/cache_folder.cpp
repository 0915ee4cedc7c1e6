#include "support/cache_folder.h"

#include <cstdlib>

namespace opweld {

std::string cache_folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? "" : value;
  };
  if (std::string named = variable("OPWELD_CACHE_DIR"); !named.empty()) return named;
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/opweld";
}

}  // namespace opweld
