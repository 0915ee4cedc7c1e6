#include "tune/tuning.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "support/whole_file.h"

namespace opweld {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // of the file; another one is not read
constexpr std::size_t kMostBytes = 16 << 20;
constexpr std::int64_t kMostSize = 1 << 20;  // of a block

// FNV-1a, 64 bits: the same in every process and version.
std::uint64_t stable_hash(std::string_view text) {
  constexpr std::uint64_t kBasis = 0xcbf29ce484222325;
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t hash = kBasis;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  return hash;
}

// ---- one choice ----

// visit(name, member) for each size.
template <typename AnyBlocking, typename Visit>
void each_size(AnyBlocking& blocking, const Visit& visit) {
  visit("tile_rows", blocking.tile_rows);
  visit("tile_vectors", blocking.tile_vectors);
  visit("depth", blocking.depth);
  visit("rows", blocking.rows);
  visit("panels", blocking.panels);
  visit("queries", blocking.queries);
  visit("key_block", blocking.key_block);
}

Json to_json(const TunedChoice& choice) {
  Json json = Json::object();
  Json sizes = Json::object();
  each_size(choice.blocking, [&](const char* name, auto size) {
    if (size != 0) sizes[name] = size;
  });
  json["blocking"] = std::move(sizes);
  json["gain"] = choice.gain;
  json["sizes"] = choice.sizes;
  return json;
}

std::optional<TunedChoice> choice_of(const Json& json) {
  const auto member = [&](const char* name) -> const Json* {
    const auto found = json.find(name);
    return found == json.end() ? nullptr : &*found;
  };
  if (!json.is_object()) return std::nullopt;
  const Json* const blocking = member("blocking");
  const Json* const gain = member("gain");
  const Json* const sizes = member("sizes");
  if (blocking == nullptr || !blocking->is_object()) return std::nullopt;
  if (gain == nullptr || !gain->is_number() || sizes == nullptr || !sizes->is_string()) {
    return std::nullopt;
  }
  TunedChoice choice;
  choice.gain = gain->get<double>();
  choice.sizes = sizes->get<std::string>();
  std::size_t known = 0;
  bool sound = std::isfinite(choice.gain);
  each_size(choice.blocking, [&](const char* name, auto& size) {
    const auto found = blocking->find(name);
    if (found == blocking->end()) return;
    ++known;
    const bool fits = found->is_number_integer() && *found > 0 && *found <= kMostSize;
    sound = sound && fits;
    if (fits) size = found->get<std::remove_reference_t<decltype(size)>>();
  });
  if (!sound || known != blocking->size()) return std::nullopt;
  return choice;
}

// ---- the whole file ----

// An object of this format, empty where the text is none.
Json document_of(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  const bool ours = json.is_object() && json.contains("format") && json["format"] == kFormat &&
                    json.contains("machines") && json["machines"].is_object();
  return ours ? json : Json{{"format", kFormat}, {"machines", Json::object()}};
}

// The file that is opened, as long as that one is: another may take its place at any time.
std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? std::streamoff(file.tellg()) : -1;
  if (size < 0 || static_cast<std::size_t>(size) > kMostBytes) return {};
  file.seekg(0);
  std::string text(static_cast<std::size_t>(size), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

std::string file_of(const std::string& folder) {
  return folder + "/tuning.json";
}

// Held while the file is read and written anew. Where it cannot be had (a file system without
// locks), the file is still whole at any time, and the last writer's choices are in it.
class FileLock {
 public:
  explicit FileLock(const std::string& path) {
    constexpr int kMode = 0666;  // less what the process masks
    descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
    while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace

std::string kernel_class(const Kernel& kernel, const tile::BlockingChoices& choices, int threads,
                         bool strict) {
  std::vector<std::string> names;
  names.reserve(kernel.nodes.size());
  for (const Node* node : kernel.nodes) names.push_back(node->op());
  std::string text =
      fmt::format("{} {}: {}", to_string(kernel.kind), fmt::join(names, " + "), choices.shape);
  if (kernel.kind != KernelKind::Attention) text += fmt::format("; {} threads", threads);
  if (strict) text += ", strict";
  return text;
}

std::string machine_key(const Target& target) {
  const std::string caches =
      fmt::format("{} {} {} {}", target.l1_bytes, target.l2_bytes, target.l3_bytes, target.cores);
  const std::string all = fmt::format("{} {} {}", target.features, target.vector_bits, caches);
  return fmt::format("opweld {}, {}, {} ({}), {:016x}", OPWELD_VERSION, target.name, target.model,
                     target.cpu, stable_hash(all));
}

Tuning parse_tuning(std::string_view text, const std::string& machine) {
  const Json document = document_of(text);
  const Json& machines = document["machines"];
  const auto found = machines.find(machine);
  Tuning tuning;
  if (found == machines.end() || !found->is_object()) return tuning;
  for (const auto& [name, json] : found->items()) {
    if (auto choice = choice_of(json)) tuning.emplace(name, std::move(*choice));
  }
  return tuning;
}

Tuning load_tuning(const std::string& folder, const std::string& machine) {
  return folder.empty() ? Tuning() : parse_tuning(read_file(file_of(folder)), machine);
}

Status store_tuning(const std::string& folder, const std::string& machine, const Tuning& tuning) {
  if (folder.empty()) {
    return fail("there is no folder to keep measurements in; set OPWELD_CACHE_DIR or HOME");
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail("cannot make the folder '{}': {}", folder, error.message());
  const FileLock lock(file_of(folder) + ".lock");
  Json document = document_of(read_file(file_of(folder)));
  Json& machines = document["machines"];
  if (!machines.contains(machine) || !machines[machine].is_object()) {
    machines[machine] = Json::object();
  }
  for (const auto& [name, choice] : tuning) machines[machine][name] = to_json(choice);
  constexpr int kIndent = 1;
  return write_whole(file_of(folder),
                     {document.dump(kIndent, ' ', false, Json::error_handler_t::replace), "\n"});
}

}  // namespace opweld
