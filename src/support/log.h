// The log that the environment asks for:
//
//   OPWELD_LOG_LEVEL  0: debug, 1: info, 2: quiet (the default)
//   OPWELD_LOG_FILE   where lines are appended; standard error if it is not set
//
// A Log is made where something is to be said and read from the environment each time, so that no
// state is shared. Every line is one write, so that lines of threads and processes that log at the
// same time do not mix.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace opweld {

enum class LogLevel : std::uint8_t { Debug, Info, Quiet };

// "0" or "debug", "1" or "info", "2" or "quiet", or empty, which is quiet; absent for anything
// else.
std::optional<LogLevel> parse_log_level(std::string_view text);

class Log {
 public:
  static Log from_environment();
  // `file` empty: standard error. What is wrong with the level or the file is said on standard
  // error, and the default taken.
  Log(std::string_view level, const std::string& file);
  Log(Log&& other) noexcept;
  Log& operator=(Log&&) = delete;
  ~Log();

  // Whether lines of this level are written; ask before making costly ones.
  [[nodiscard]] bool enabled(LogLevel level) const { return level >= level_; }
  void line(LogLevel level, std::string_view text) const;

 private:
  LogLevel level_ = LogLevel::Quiet;
  int file_ = -1;  // descriptor; -1 for standard error
};

}  // namespace opweld
