// Which schedule an operator belongs to by itself, and what two groups would be together.
#pragma once

#include <cstdint>
#include <optional>

#include "fusion/plan.h"

namespace opweld {

// The kind of a kernel that holds just this node.
KernelKind kind_of(const Node& node);

// A tensor_scatter whose result lies where its cache does: what is left of it is a store.
bool scatters_in_place(const Node& node);

// A reshape of a dense tensor moves nothing.
bool is_alias(const Node& node);

// Reshape, transpose, slice, expand: the operand's elements at other places, readable by strides.
bool is_strided_view(const Node& node);

// Whether a group does nothing but find elements at other places: by strides, or in several tensors
// that concats join.
enum class IndexMaps : std::uint8_t { None, Joining, Strided };

// The kind of the kernel that would hold producer and consumer; absent when no schedule holds both.
std::optional<KernelKind> merged_kind(KernelKind producer, KernelKind consumer,
                                      IndexMaps producer_maps);

}  // namespace opweld
