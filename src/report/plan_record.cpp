#include "report/plan_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

namespace opweld {

namespace {

using Json = nlohmann::json;

// Reads members and notes the first that is missing or of another type.
class Reader {
 public:
  std::string text(const Json& object, const char* name) {
    const Json* const found = member(object, name);
    if (found != nullptr && found->is_string()) return found->get<std::string>();
    return missing(name), std::string();
  }

  std::int64_t number(const Json& object, const char* name) {
    const Json* const found = member(object, name);
    if (found != nullptr && found->is_number_integer()) return found->get<std::int64_t>();
    return missing(name), 0;
  }

  const Json& list(const Json& object, const char* name) {
    const Json* const found = member(object, name);
    if (found != nullptr && found->is_array()) return *found;
    return missing(name), kNone;
  }

  std::map<std::string, std::int64_t> numbers(const Json& object, const char* name) {
    std::map<std::string, std::int64_t> result;
    const Json* const found = member(object, name);
    if (found == nullptr || !found->is_object()) return missing(name), result;
    for (const auto& [key, value] : found->items()) {
      if (!value.is_number_integer()) return missing(name), result;
      result[key] = value.get<std::int64_t>();
    }
    return result;
  }

  void missing(const char* name) {
    if (fault_.empty()) fault_ = name;
  }
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  static const Json* member(const Json& object, const char* name) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }

  inline static const Json kNone = Json::array();
  std::string fault_;
};

PlanRecord::Kernel read_kernel(Reader& reader, const Json& json) {
  PlanRecord::Kernel kernel{reader.text(json, "name"),
                            reader.text(json, "kind"),
                            reader.text(json, "operators"),
                            reader.text(json, "layer"),
                            {},
                            reader.number(json, "read_bytes"),
                            reader.number(json, "written_bytes")};
  for (const Json& source : reader.list(json, "sources")) {
    if (!source.is_string()) {
      reader.missing("sources");
      break;
    }
    kernel.sources.push_back(source.get<std::string>());
  }
  std::ranges::sort(kernel.sources);
  return kernel;
}

void read_edges(Reader& reader, const Json& json, PlanRecord& record) {
  std::map<std::pair<std::string, std::string>, int> occurrences;
  for (const Json& edge : reader.list(json, "edges")) {
    std::pair<std::string, std::string> ends(reader.text(edge, "from"), reader.text(edge, "to"));
    const int occurrence = occurrences[ends]++;
    record.edges[{std::move(ends.first), std::move(ends.second), occurrence}] = {
        reader.text(edge, "code"), reader.text(edge, "detail")};
  }
}

// Of all plans of the graph, as accounts tell of them since there may be several.
std::string version_of(const Json& json) {
  const auto versions = json.find("versions");
  if (versions == json.end() || !versions->is_array()) return "";
  for (std::size_t i = 0; i < versions->size(); ++i) {
    const Json& version = (*versions)[i];
    if (version.is_object() && version.value("chosen", Json()) == Json(true)) {
      return fmt::format("{} of {}", i + 1, versions->size());
    }
  }
  return "";
}

}  // namespace

bool PlanRecord::Kernel::equals(const Kernel& other) const {
  const auto all = [](const Kernel& kernel) {
    return std::tie(kernel.kind, kernel.operators, kernel.layer, kernel.sources, kernel.read_bytes,
                    kernel.written_bytes);
  };
  return all(*this) == all(other);
}

Expected<PlanRecord> parse_plan_record(std::string_view text, std::string_view name) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return usage_error(
        "'{}' is no account of a plan; write one with: opweld explain MODEL "
        "--explain={}",
        name, name);
  }
  Reader reader;
  PlanRecord record;
  record.level = reader.text(json, "level");
  record.version = version_of(json);
  record.sizes = reader.numbers(json, "sizes");
  record.totals = reader.numbers(json, "totals");
  for (const Json& kernel : reader.list(json, "kernels")) {
    record.kernels.push_back(read_kernel(reader, kernel));
  }
  read_edges(reader, json, record);
  if (reader.fault().empty()) return record;
  return usage_error(
      "'{}' is no account of a plan, or one of another version of opweld: its '{}' is "
      "missing or is none; write it anew with: opweld explain MODEL --explain={}",
      name, reader.fault(), name);
}

}  // namespace opweld
