// What took long to find out, kept in a folder for later processes.
//
// An entry is bytes under a key. It may vanish at any time: whoever looks for one must be able to
// make it anew. Several processes may use a folder at once: an entry is written beside its place
// and then moved there, so that a reader sees all of it or nothing. One that was cut short, or
// changed by somebody else, does not match its digest and is removed. Entries of another version of
// the program are not found.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace opweld {

class DiskCache {
 public:
  static constexpr std::int64_t kUsualMostBytes = std::int64_t{512} << 20;

  // Nothing is made before something is stored. Once entries take more than `most_bytes`, those
  // that were used longest ago are removed.
  DiskCache(std::string folder, std::string version, std::int64_t most_bytes = kUsualMostBytes);

  // The bytes last stored under this key, by any process.
  [[nodiscard]] std::optional<std::string> find(std::string_view key);

  // False where the folder cannot be written to; nobody has to care.
  bool store(std::string_view key, std::string_view bytes);

  struct Content {
    std::int64_t entries = 0;
    std::int64_t bytes = 0;
  };
  [[nodiscard]] Content content() const;

  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  [[nodiscard]] std::string path_of(std::string_view key) const;
  void make_room(std::int64_t added);

  std::string folder_;
  std::string version_;
  std::int64_t most_bytes_;
  std::mutex mutex_;
  std::optional<std::int64_t> bytes_;  // in the folder, as far as this process knows
};

}  // namespace opweld
