#include "tile/blocking.h"

#include <fmt/ranges.h>

#include <bit>

namespace opweld::tile {

std::string to_text(const Blocking& blocking) {
  std::vector<std::string> parts;
  if (blocking.tile_rows != 0) {
    parts.push_back(
        fmt::format("register tile {} x {}", blocking.tile_rows, blocking.tile_vectors));
  }
  const auto add = [&](const char* name, std::int64_t size) {
    if (size != 0) parts.push_back(fmt::format("{} {}", name, size));
  };
  add("depth", blocking.depth);
  add("rows", blocking.rows);
  add("panels", blocking.panels);
  add("queries", blocking.queries);
  add("keys", blocking.key_block);
  return parts.empty() ? "the default" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string rounded_text(const Dim& size) {
  const auto known = size.constant();
  if (!known) return "*";
  if (*known < 1) return "0";
  const auto exact = static_cast<std::uint64_t>(*known);
  const std::uint64_t power = std::bit_floor(exact);
  std::uint64_t rounded = power;
  if (power >= 2 && 4 * (exact - power) >= power) rounded = power / 2 * 3;
  if (4 * (exact - power) >= 3 * power) rounded = 2 * power;
  return std::to_string(rounded);
}

}  // namespace opweld::tile
