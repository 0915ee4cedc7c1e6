#include "plugin/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>

#include "import/onnx/import.h"
#include "ops/register.h"
#include "opweld/custom_op.h"
#include "plugin/custom_operator.h"
#include "plugin/declaration.h"

namespace opweld {

namespace {

// A library that is open; closed again unless it is kept.
class Library {
 public:
  explicit Library(void* handle) : handle_(handle) {}
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] void* handle() const { return handle_; }
  void keep() { handle_ = nullptr; }

 private:
  void* handle_;
};

struct Loaded {
  void* handle;
  Plugin plugin;
  std::vector<std::unique_ptr<OpOrigin>> origins;
  std::vector<std::unique_ptr<CustomOperator>> operators;
};

struct Plugins {
  std::mutex loading;
  std::vector<std::unique_ptr<Loaded>> all;
};

// Never destroyed: threads may compile until the process is gone.
Plugins& plugins() {
  static auto* const kInstance = new Plugins();
  return *kInstance;
}

Expected<std::string> file_of(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  if (failed || path.empty()) return fail("plugin '{}': the path is none", path);
  if (!std::filesystem::exists(absolute, failed)) return fail("plugin '{}': no such file", path);
  if (std::filesystem::is_directory(absolute, failed)) {
    return fail("plugin '{}' is a directory; name the shared library", path);
  }
  return absolute.lexically_normal().string();
}

using Entry = const OpweldPlugin* (*)(std::uint32_t);

Expected<const OpweldPlugin*> table_of(void* handle) {
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, "opweld_plugin"));
  if (entry == nullptr) {
    return fail(
        "it has no symbol 'opweld_plugin': either it is no plugin, or the function is hidden or "
        "mangled (OPWELD_PLUGIN_EXPORT and, in C++, extern \"C\")");
  }
  const OpweldPlugin* table = nullptr;
  try {
    table = entry(OPWELD_CUSTOM_OP_ABI);
  } catch (const std::exception& error) {
    return fail("opweld_plugin() threw an exception: {}", error.what());
  } catch (...) {
    return fail("opweld_plugin() threw an exception");
  }
  if (table == nullptr) {
    return fail("opweld_plugin() gives NULL for version {} of the interface", OPWELD_CUSTOM_OP_ABI);
  }
  if (table->abi != OPWELD_CUSTOM_OP_ABI) {
    return fail(
        "it is built for version {} of the interface, and this Opweld has version {}: {}",
        table->abi, OPWELD_CUSTOM_OP_ABI,
        table->abi < OPWELD_CUSTOM_OP_ABI
            ? "build it anew with the opweld/custom_op.h of this Opweld"
            : "use a newer Opweld, or build the plugin with the opweld/custom_op.h of this one");
  }
  if (!is_plugin_identifier(table->name)) return fail("OpweldPlugin.name is no identifier");
  constexpr std::size_t kMostOperators = 4096;
  if (table->op_count == 0 || table->ops == nullptr || table->op_count > kMostOperators) {
    return fail("it has {} operators{}; set OpweldPlugin.ops and op_count", table->op_count,
                table->ops == nullptr ? ", and the table is NULL" : "");
  }
  return table;
}

Status check_free(const std::string& name) {
  static const Supported kBuiltIn = supported_by_import();
  if (std::ranges::find(kBuiltIn.operators, name) == kBuiltIn.operators.end()) return {};
  return fail("operator '{}' is built in; use a domain of your own", name);
}

Expected<std::unique_ptr<Loaded>> read_plugin(void* handle, const std::string& path) {
  OPWELD_TRY(const OpweldPlugin* const table, table_of(handle));
  auto loaded = std::make_unique<Loaded>();
  loaded->handle = handle;
  Plugin& plugin = loaded->plugin;
  plugin.name = table->name;
  plugin.version = table->version == nullptr ? "" : table->version;
  plugin.path = path;
  std::vector<const OpDef*> defs;
  for (std::size_t i = 0; i < table->op_count; ++i) {
    OPWELD_TRY(Declaration declaration, read_declaration(table->ops[i]));
    OPWELD_CHECK(check_free(declaration.name));
    for (const OpDef* other : plugin.operators) {
      if (other->name != declaration.name) continue;
      return fail("operator '{}' is defined twice", declaration.name);
    }
    loaded->origins.push_back(std::make_unique<OpOrigin>(
        OpOrigin{plugin.name, plugin.version, plugin.path, declaration.text()}));
    OPWELD_TRY(auto made, CustomOperator::create(std::move(declaration), *loaded->origins.back()));
    plugin.operators.push_back(&made->def());
    loaded->operators.push_back(std::move(made));
  }
  OPWELD_CHECK(register_ops(plugin.operators));
  return loaded;
}

}  // namespace

Expected<const Plugin*> load_plugin_library(const std::string& path) {
  OPWELD_TRY(const std::string file, file_of(path));
  Plugins& known = plugins();
  const std::lock_guard lock(known.loading);
  Library library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library.handle() == nullptr) {
    const char* const why = dlerror();
    return fail("plugin '{}' is not a shared library that can be loaded: {}", path,
                why == nullptr ? "unknown" : why);
  }
  for (const auto& each : known.all) {
    if (each->handle == library.handle()) return &each->plugin;
  }
  auto loaded = read_plugin(library.handle(), file);
  if (!loaded) {
    return tl::unexpected(loaded.error().with_context(fmt::format("plugin '{}'", path)));
  }
  library.keep();
  known.all.push_back(std::move(*loaded));
  return &known.all.back()->plugin;
}

std::vector<const Plugin*> plugin_libraries() {
  Plugins& known = plugins();
  const std::lock_guard lock(known.loading);
  std::vector<const Plugin*> all;
  for (const auto& each : known.all) all.push_back(&each->plugin);
  return all;
}

}  // namespace opweld
