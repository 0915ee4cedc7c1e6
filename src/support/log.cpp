#include "support/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace opweld {

namespace {

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::string_view() : value;
}

void write_line(int file, std::string_view text) {
  std::string line(text);
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = write(file, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a log that cannot be written is no reason to stop
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

Log Log::from_environment() {
  return {environment("OPWELD_LOG_LEVEL"), std::string(environment("OPWELD_LOG_FILE"))};
}

std::optional<LogLevel> parse_log_level(std::string_view text) {
  if (text == "0" || text == "debug") return LogLevel::Debug;
  if (text == "1" || text == "info") return LogLevel::Info;
  if (text.empty() || text == "2" || text == "quiet") return LogLevel::Quiet;
  return std::nullopt;
}

Log::Log(std::string_view level, const std::string& file) {
  const std::optional<LogLevel> asked = parse_log_level(level);
  level_ = asked.value_or(LogLevel::Quiet);
  if (!asked) {
    write_line(STDERR_FILENO, "opweld: OPWELD_LOG_LEVEL='" + std::string(level) +
                                  "' is none of 0 (debug), 1 (info) and 2 (quiet)");
  }
  if (level_ == LogLevel::Quiet || file.empty()) return;
  constexpr int kMode = 0666;  // less what the process masks
  file_ = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode);
  if (file_ < 0) {
    const int why = errno;
    write_line(STDERR_FILENO, "opweld: cannot open OPWELD_LOG_FILE='" + file +
                                  "': " + std::strerror(why) + "; the log goes here");
  }
}

Log::Log(Log&& other) noexcept : level_(other.level_), file_(std::exchange(other.file_, -1)) {}

Log::~Log() {
  if (file_ >= 0) close(file_);
}

void Log::line(LogLevel level, std::string_view text) const {
  if (level != LogLevel::Quiet && enabled(level)) {
    write_line(file_ >= 0 ? file_ : STDERR_FILENO, text);
  }
}

}  // namespace opweld
