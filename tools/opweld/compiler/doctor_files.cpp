// The part of opweld doctor that is about files and the environment.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "compile_cache.h"
#include "compiler/doctor.h"
#include "report/account.h"
#include "report/model_names.h"
#include "support/cache_folder.h"
#include "support/log.h"
#include "target/target.h"
#include "tune/tuning.h"

namespace opweld::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "OPWELD_";
constexpr const char* kVariables[] = {"OPWELD_LOG_LEVEL", "OPWELD_LOG_FILE", "OPWELD_CACHE_DIR",
                                      "OPWELD_COMPILED", "OPWELD_TUNED"};

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// Why the folder, or the nearest one above it that there is, cannot be written to; empty if it can.
std::string why_not_writable(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_parent_path() && folder.parent_path() != folder) {
    folder = folder.parent_path();
  }
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, error)) return fmt::format("{} is no folder", folder.string());
  if (access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return fmt::format("{}: {}", folder.string(), std::strerror(errno));
}

std::string why_not_appendable(const std::string& file) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor >= 0) {
    close(descriptor);
    return {};
  }
  if (errno != ENOENT) return std::strerror(errno);
  const fs::path folder = fs::path(file).parent_path();
  std::error_code error;
  if (!folder.empty() && !fs::exists(folder, error)) return "there is no such folder";
  return why_not_writable(folder.empty() ? fs::path(".") : folder);
}

Finding examine_log_level(const std::string& value) {
  Finding finding{"OPWELD_LOG_LEVEL", value};
  const std::optional<LogLevel> level = parse_log_level(value);
  if (!level) {
    finding.problem = "it is none of 0 (debug), 1 (info) and 2 (quiet), and counts as quiet";
  } else if (*level == LogLevel::Quiet) {
    finding.note = "no AutoFusion line is written; set it to 1, or to 0 for every edge";
  }
  return finding;
}

Finding examine_log_file(const std::string& value) {
  Finding finding{"OPWELD_LOG_FILE", value};
  if (value.empty()) return finding;
  if (const std::string why = why_not_appendable(value); !why.empty()) {
    finding.problem = fmt::format(
        "it cannot be written ({}), so the log goes to standard error; "
        "name a file in a folder that there is",
        why);
  } else if (parse_log_level(variable("OPWELD_LOG_LEVEL").value_or("")) == LogLevel::Quiet) {
    finding.note = "nothing is written to it as long as OPWELD_LOG_LEVEL is not 0 or 1";
  }
  return finding;
}

std::uintmax_t bytes_in(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    std::error_code unreadable;
    if (file->is_regular_file(unreadable)) bytes += file->file_size(unreadable);
  }
  return bytes;
}

}  // namespace

std::vector<Finding> examine_environment() {
  std::vector<Finding> findings;
  if (const auto value = variable("OPWELD_LOG_LEVEL")) {
    findings.push_back(examine_log_level(*value));
  }
  if (const auto value = variable("OPWELD_LOG_FILE")) findings.push_back(examine_log_file(*value));
  if (const auto value = variable("OPWELD_CACHE_DIR")) {
    findings.push_back({"OPWELD_CACHE_DIR", *value});
  }
  if (const auto value = variable("OPWELD_COMPILED")) {
    findings.push_back({"OPWELD_COMPILED", *value});
    if (*value == "0") findings.back().note = "every start compiles anew";
  }
  if (const auto value = variable("OPWELD_TUNED")) {
    findings.push_back({"OPWELD_TUNED", *value});
    if (*value == "0") findings.back().note = "block sizes that were measured are left aside";
  }
  const std::vector<std::string> known(std::begin(kVariables), std::end(kVariables));
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry(*each);
    const std::string name(entry.substr(0, entry.find('=')));
    const bool is_known = std::ranges::find(known, name) != known.end();
    if (!name.starts_with(kPrefix) || is_known) continue;
    findings.push_back({name, entry.size() > name.size()
                                  ? std::string(entry.substr(name.size() + 1))
                                  : std::string()});
    findings.back().note = "no variable that opweld reads" + suggestion(similar_names(name, known));
  }
  return findings;
}

Finding examine_cache() {
  const std::string folder = cache_folder();
  Finding finding{"cache folder", folder};
  if (folder.empty()) {
    finding.value = "none";
    finding.note =
        "neither compiled code nor what --tune measures is kept; set OPWELD_CACHE_DIR or HOME";
    return finding;
  }
  std::error_code error;
  if (fs::is_directory(folder, error)) {
    const Tuning tuning = load_tuning(folder, machine_key(host_target()));
    finding.value += fmt::format(", {}, {} measured block size{} for this machine",
                                 human_bytes(static_cast<double>(bytes_in(folder))), tuning.size(),
                                 tuning.size() == 1 ? "" : "s");
    if (const auto cache = compile_cache()) {
      const DiskCache::Content kept = cache->content();
      finding.value +=
          fmt::format(", {} of plans and code", human_bytes(static_cast<double>(kept.bytes)));
    }
  } else {
    finding.value += ", not made yet";
  }
  if (const std::string why = why_not_writable(folder); !why.empty()) {
    finding.problem = fmt::format(
        "neither compiled code nor what --tune measures can be kept there ({}); set "
        "OPWELD_CACHE_DIR to a folder that can be written to",
        why);
  }
  return finding;
}

}  // namespace opweld::cli
