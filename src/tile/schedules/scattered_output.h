// Outputs that are caches: a kernel that makes the update of a tensor_scatter stores its elements
// straight into the cache, which is the memory of the output already (see rewrite/in_place.h).
#pragma once

#include <optional>
#include <span>

#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

// Whether the operator is a store of what others compute; nothing in its kernel can read it.
bool is_store(const Node& node);
// What a kernel computes for an output: the output, or the update that it stores into one.
const Value* computed_for(const Value* output);

// As output_over, of an output that a tensor_scatter makes: the update seen from a value of shape
// `domain`, at the strides of the cache.
std::optional<DomainOutput> scattered_over(const Value* output, const Shape& domain);

// Where in the cache the element at `index` of output.value goes. Emits the check of the write
// index, for lanes where `where` holds.
Expected<Expr> scattered_offset(GroupLowering& lowering, const DomainOutput& output,
                                std::span<const Expr> index, Expr where);

}  // namespace opweld::tile
