// The shape of AMX tile registers (Intel SDM, volume 1, chapter 18), for loops that use them by
// hand. Whether there are any, and the system lets us, host_features() tells (target/host.h).
#pragma once

#include <cstdint>

// As large as tiles can be: 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
