#include "tile/schedules/chain_shares.h"

#include <algorithm>

namespace opweld::tile {

namespace {

template <typename Found, typename Find>
const Found& once(std::vector<std::pair<ChainSizes, Found>>& known, const ChainSizes& sizes,
                  const Find& find) {
  const auto before = std::ranges::find(known, sizes, &std::pair<ChainSizes, Found>::first);
  if (before != known.end()) return before->second;
  return known.emplace_back(sizes, find(sizes)).second;
}

}  // namespace

RowBlocks row_blocks(const ChainSizes& sizes) {
  const Dim rows = max(sizes.rows, Dim(1));
  const Dim blocks = ceil_div(rows, Dim(sizes.block_rows));
  const Dim block = round_up(ceil_div(rows, blocks), Dim(sizes.tile_rows));
  return {block, ceil_div(sizes.rows, block)};
}

Dim share_of_rows(const ChainSizes& sizes) {
  const Dim blocks = round_up(ceil_div(sizes.rows, Dim(sizes.block_rows)), Dim(sizes.cores));
  return ceil_div(sizes.rows, max(blocks, Dim(1)));
}

RowShares row_shares(const ChainSizes& sizes) {
  const Dim share = share_of_rows(sizes);
  const Dim rows_per_task = max(share, Dim(1));
  return {share, rows_per_task, ceil_div(sizes.rows, rows_per_task)};
}

const RowBlocks& ChainShares::row_blocks(const ChainSizes& sizes) {
  return once(row_blocks_, sizes, tile::row_blocks);
}

const RowShares& ChainShares::row_shares(const ChainSizes& sizes) {
  return once(row_shares_, sizes, tile::row_shares);
}

}  // namespace opweld::tile
