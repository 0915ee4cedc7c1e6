// Keys and values in blocks that lie anywhere: a paged KV cache (Kwon et al., PagedAttention,
// 2023).
//
// K [N, Hkv, P, D] and V [N, Hkv, P, Dv] hold N blocks of P keys each. block_table [B, W] says
// which belong to a sequence: its key t is row t % P of block block_table[b, t / P], so that it has
// W * P places for keys, of which the first lengths[b] are taken. Sequences may share blocks.
//
// What is wrong with lengths or a table is said in the same words by the reference and by generated
// code, each followed by the numbers.
#pragma once

#include <cstdint>
#include <string_view>

namespace opweld {

inline constexpr std::string_view kLengthOutOfRange =
    "the length of a sequence is negative or more than its keys";
inline constexpr std::string_view kBlockOutOfRange =
    "the block table names a block that does not exist";

}  // namespace opweld
