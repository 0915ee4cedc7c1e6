#include "support/disk_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "support/digest.h"
#include "support/whole_file.h"

namespace opweld {

namespace {

namespace fs = std::filesystem;

// Before the bytes of an entry.
struct Header {
  std::array<char, 8> magic = {'o', 'p', 'w', 'e', 'l', 'd', '0', '1'};
  std::uint64_t size = 0;
  std::array<char, 32> digest = {};  // of the bytes
};

constexpr std::string_view kSuffix = ".entry";
// Stamping an entry at every use would write more than it reads.
constexpr auto kStampedAnewAfter = std::chrono::hours(1);

Header header_of(std::string_view bytes) {
  Header header;
  header.size = bytes.size();
  std::ranges::copy(digest(bytes), header.digest.begin());
  return header;
}

std::optional<std::string> read_entry(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff total = file ? std::streamoff(file.tellg()) : -1;
  if (total < static_cast<std::streamoff>(sizeof(Header))) return std::nullopt;
  file.seekg(0);
  Header header;
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  std::string bytes(static_cast<std::size_t>(total) - sizeof header, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) return std::nullopt;
  const Header expected = header_of(bytes);
  const bool sound = header.magic == expected.magic && header.size == expected.size &&
                     header.digest == expected.digest;
  return sound ? std::optional(std::move(bytes)) : std::nullopt;
}

struct Entry {
  fs::path path;
  fs::file_time_type used;
  std::int64_t bytes = 0;
};

// Entries, and what a writer that was killed has left.
std::vector<Entry> entries_in(const std::string& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    if (!at->is_regular_file(gone)) continue;
    const std::uintmax_t bytes = at->file_size(gone);
    if (gone) continue;
    const fs::file_time_type used = at->last_write_time(gone);
    if (!gone) entries.push_back({at->path(), used, static_cast<std::int64_t>(bytes)});
  }
  return entries;
}

}  // namespace

DiskCache::DiskCache(std::string folder, std::string version, std::int64_t most_bytes)
    : folder_(std::move(folder)), version_(std::move(version)), most_bytes_(most_bytes) {}

std::string DiskCache::path_of(std::string_view key) const {
  const std::string name = digest(fmt::format("{}\n{}", version_, key));
  // A folder for each first byte: some file systems are slow with many files in one.
  return fmt::format("{}/{}/{}{}", folder_, name.substr(0, 2), name.substr(2), kSuffix);
}

std::optional<std::string> DiskCache::find(std::string_view key) {
  const fs::path path = path_of(key);
  auto bytes = read_entry(path);
  std::error_code error;
  if (!bytes) {
    fs::remove(path, error);
    return std::nullopt;
  }
  const auto now = fs::file_time_type::clock::now();
  const auto used = fs::last_write_time(path, error);
  if (!error && now - used > kStampedAnewAfter) fs::last_write_time(path, now, error);
  return bytes;
}

bool DiskCache::store(std::string_view key, std::string_view bytes) {
  const fs::path path = path_of(key);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const Header header = header_of(bytes);
  const std::string_view begin(reinterpret_cast<const char*>(&header), sizeof header);
  if (!write_whole(path.string(), {begin, bytes})) return false;
  make_room(static_cast<std::int64_t>(sizeof header + bytes.size()));
  return true;
}

void DiskCache::make_room(std::int64_t added) {
  const std::scoped_lock lock(mutex_);
  if (bytes_) {
    *bytes_ += added;
    if (*bytes_ <= most_bytes_) return;
  }
  // What others did meanwhile counts too.
  std::vector<Entry> entries = entries_in(folder_);
  std::int64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  if (total > most_bytes_) {
    std::ranges::sort(entries, {}, &Entry::used);
    // Some more than need be, so that the next store does not look through all of them again.
    const std::int64_t enough = most_bytes_ / 4 * 3;
    for (const Entry& entry : entries) {
      if (total <= enough) break;
      std::error_code gone;
      fs::remove(entry.path, gone);
      total -= entry.bytes;
    }
  }
  bytes_ = total;
}

DiskCache::Content DiskCache::content() const {
  Content content;
  for (const Entry& entry : entries_in(folder_)) {
    ++content.entries;
    content.bytes += entry.bytes;
  }
  return content;
}

}  // namespace opweld
