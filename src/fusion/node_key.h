// Kernels by the very nodes that they are made of, to look up what was found out of them.
#pragma once

#include <cstdint>
#include <vector>

namespace opweld {

// Addresses and small numbers, with zeros between lists.
using NodeKey = std::vector<std::uintptr_t>;

template <typename T>
void append_to(NodeKey& key, const std::vector<T*>& list) {
  for (const T* each : list) key.push_back(reinterpret_cast<std::uintptr_t>(each));
}

struct NodeKeyHash {
  std::size_t operator()(const NodeKey& key) const {
    // Fowler, Noll and Vo, FNV-1a, by whole numbers; the lowest bits of addresses are all alike.
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const std::uintptr_t each : key) hash = (hash ^ (each >> 4) ^ each) * 0x100000001b3;
    return hash;
  }
};

}  // namespace opweld
