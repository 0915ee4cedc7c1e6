// A map from addresses, for those that are made, filled with a few tens of entries and thrown away
// thousands of times a second: all entries lie in one array, where std::unordered_map would ask the
// heap for each. Nothing is ever taken out.
#pragma once

#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

namespace opweld {

template <typename Key, typename T>
class PointerMap {
 public:
  // Null where the key is not there. Good until the next entry is added.
  [[nodiscard]] T* find(const Key* key) {
    if (entries_.empty()) return nullptr;
    Entry& entry = entries_[place_of(key)];
    return entry.key == nullptr ? nullptr : &entry.value;
  }
  [[nodiscard]] const T* find(const Key* key) const {
    return const_cast<PointerMap*>(this)->find(
        key);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  [[nodiscard]] bool contains(const Key* key) const { return find(key) != nullptr; }
  // Asserts that the key is there.
  [[nodiscard]] const T& at(const Key* key) const {
    const T* const found = find(key);
    assert(found != nullptr);
    return *found;
  }
  // Default-made where the key was not there; no key is null.
  T& operator[](const Key* key) {
    assert(key != nullptr);
    if (2 * size_ >= entries_.size()) grow();
    Entry& entry = entries_[place_of(key)];
    if (entry.key == nullptr) {
      entry.key = key;
      ++size_;
    }
    return entry.value;
  }

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Entry {
    const Key* key = nullptr;
    T value{};
  };

  // Where the key is, or the first free place where it could be.
  [[nodiscard]] std::size_t place_of(const Key* key) const {
    constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // spreads bits upwards
    const auto address = reinterpret_cast<std::uintptr_t>(key);
    const std::size_t last = entries_.size() - 1;
    std::size_t place = static_cast<std::size_t>((address * kMultiplier) >> 32) & last;
    while (entries_[place].key != nullptr && entries_[place].key != key) {
      place = (place + 1) & last;
    }
    return place;
  }

  void grow() {
    constexpr std::size_t kFirst = 32;
    std::vector<Entry> before(entries_.empty() ? kFirst : 2 * entries_.size());
    before.swap(entries_);
    for (Entry& entry : before) {
      if (entry.key != nullptr) entries_[place_of(entry.key)] = std::move(entry);
    }
  }

  std::vector<Entry> entries_;  // as many as a power of two, at least twice as many as are used
  std::size_t size_ = 0;
};

}  // namespace opweld
