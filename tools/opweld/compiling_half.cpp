#include "compiling_half.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace opweld::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "opweld_compiler.so";

// From the folder that the command itself lies in: where a build puts it, and where an installation
// does.
std::vector<fs::path> places() {
  std::error_code error;
  const fs::path command = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path folder = command.parent_path();
  return {folder / kFileName, (folder / OPWELD_COMPILER_FOLDER / kFileName).lexically_normal()};
}

constexpr std::string_view kWithoutIt =
    "run, bench and explain take a compiled model (.opw) without it";

Expected<const CompilingHalf*> load() {
  const std::vector<fs::path> looked_for = places();
  for (const fs::path& path : looked_for) {
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
      // Before anything else is called that might change what it says.
      const char* const why = dlerror();  // NOLINT(concurrency-mt-unsafe)
      return fail(
          "this takes the compiler, which cannot be loaded: {}. Install what it lacks (LLVM 19, "
          "ONNX "
          "and Protocol Buffers are what it needs); {}",
          why, kWithoutIt);
    }
    const auto entry = reinterpret_cast<CompilingHalfEntry>(dlsym(library, kCompilingHalfEntry));
    const CompilingHalf* const half = entry == nullptr ? nullptr : entry();
    if (half == nullptr || std::string_view(half->version) != OPWELD_VERSION) {
      return fail("{} is not of this opweld, which is version {}: install both anew together",
                  path.string(), OPWELD_VERSION);
    }
    return half;
  }
  std::vector<std::string> names;
  for (const fs::path& path : looked_for) names.push_back(path.string());
  return fail(
      "this takes the compiler, {}, which is not beside the command (looked for: {}). Install all "
      "of "
      "Opweld, or run this where it is; {}",
      kFileName, fmt::join(names, ", "), kWithoutIt);
}

}  // namespace

Expected<const CompilingHalf*> compiling_half() {
  static const Expected<const CompilingHalf*> half = load();
  return half;
}

}  // namespace opweld::cli
