#include "codegen/cpu/buffer_places.h"

#include <algorithm>
#include <optional>

#include "support/shape.h"
#include "tile/buffer_lifetimes.h"

namespace opweld::cpu {

namespace {

// Every buffer starts on a cache line of its own, and the widest vector may read past its end.
constexpr std::int64_t kAlignment = 64;

Dim room_for(const tile::Buffer& buffer) {
  const Dim bytes = num_elements(buffer.shape) * byte_size(buffer.dtype);
  return round_up(bytes, kAlignment) + kAlignment;
}

struct Stretch {
  Dim begin;
  Dim end;
};

// The first place for so many bytes that is known to lie beside all that is taken. Sizes may be
// unknown; behind everything there is always room.
Dim first_free(const std::vector<Stretch>& taken, const Dim& start, const Dim& bytes) {
  const auto is_free = [&](const Dim& begin) {
    return std::ranges::all_of(taken, [&](const Stretch& each) {
      return provably_le(begin + bytes, each.begin) || provably_le(each.end, begin);
    });
  };
  std::optional<Dim> first;
  const auto consider = [&](const Dim& begin) {
    if (is_free(begin) && (!first || provably_le(begin, *first))) first = begin;
  };
  consider(start);
  for (const Stretch& each : taken) consider(each.end);
  if (first) return *first;
  Dim behind = start;
  for (const Stretch& each : taken) behind = max(behind, each.end);
  return behind;
}

}  // namespace

BufferPlaces place_buffers(const tile::TileProgram& program) {
  const std::vector<tile::BufferLifetime> lifetimes = tile::buffer_lifetimes(program);
  const Dim start = tile::keep_of(program) == nullptr ? 0 : kAlignment;
  BufferPlaces places{std::vector<Dim>(program.buffers.size(), 0), start};
  std::vector<std::size_t> placed;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const tile::Buffer& buffer = program.buffers[i];
    if (buffer.space == tile::Buffer::Space::Register) continue;
    std::vector<Stretch> taken;
    for (const std::size_t other : placed) {
      if (!lifetimes[other].overlaps(lifetimes[i])) continue;
      const Dim& begin = places.offsets[other];
      taken.push_back({begin, begin + room_for(program.buffers[other])});
    }
    const Dim room = room_for(buffer);
    places.offsets[i] = first_free(taken, start, room);
    places.bytes = max(places.bytes, places.offsets[i] + room);
    placed.push_back(i);
  }
  return places;
}

}  // namespace opweld::cpu
