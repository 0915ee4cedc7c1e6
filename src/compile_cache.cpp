#include "compile_cache.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "support/build_id.h"
#include "support/cache_folder.h"

namespace opweld {

std::shared_ptr<DiskCache> compile_cache() {
  const char* const use = std::getenv("OPWELD_COMPILED");  // NOLINT(concurrency-mt-unsafe)
  if (use != nullptr && std::string_view(use) == "0") return nullptr;
  const std::string folder = cache_folder();
  std::string build = build_id();
  if (folder.empty() || build.empty()) return nullptr;
  return std::make_shared<DiskCache>(folder + "/compiled", std::move(build));
}

}  // namespace opweld
