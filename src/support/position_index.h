// Positions in a list whose elements are all different, by the hash of what is there: for lists
// that grow at their end by the hundred and are thrown away thousands of times a second. All
// entries lie in one array, where std::unordered_map would ask the heap for each. Nothing is ever
// taken out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opweld {

class PositionIndex {
 public:
  // Where the element is, as `is_at` tells of positions that were added with the same hash, or
  // `next`, which is added then: the caller puts the element there.
  template <typename IsAt>
  std::int32_t find_or_add(std::size_t hash, std::int32_t next, const IsAt& is_at) {
    if (2 * (size_ + 1) > entries_.size()) grow();
    std::size_t place = place_of(hash);
    for (; entries_[place].position != kFree; place = after(place)) {
      const Entry& entry = entries_[place];
      if (entry.hash == hash && is_at(entry.position)) return entry.position;
    }
    entries_[place] = {hash, next};
    ++size_;
    return next;
  }

 private:
  static constexpr std::int32_t kFree = -1;
  struct Entry {
    std::size_t hash = 0;
    std::int32_t position = kFree;
  };

  // Where to look first.
  [[nodiscard]] std::size_t place_of(std::size_t hash) const {
    constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // spreads bits upwards
    return static_cast<std::size_t>((hash * kMultiplier) >> 32) & (entries_.size() - 1);
  }
  [[nodiscard]] std::size_t after(std::size_t place) const {
    return (place + 1) & (entries_.size() - 1);
  }

  void grow() {
    constexpr std::size_t kFirst = 128;
    std::vector<Entry> before(entries_.empty() ? kFirst : 2 * entries_.size());
    before.swap(entries_);
    for (const Entry& entry : before) {
      if (entry.position == kFree) continue;
      std::size_t place = place_of(entry.hash);
      while (entries_[place].position != kFree) place = after(place);
      entries_[place] = entry;
    }
  }

  std::vector<Entry> entries_;  // as many as a power of two, at least twice as many as are used
  std::size_t size_ = 0;
};

}  // namespace opweld
