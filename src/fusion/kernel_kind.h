// Which schedule an operator belongs to by itself, and what two groups would be together.
#pragma once

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

// The kind of the kernel that would hold producer and consumer; absent when no schedule holds both.
// `producer_is_view`: the consumer reads what the producer makes where it lies.
std::optional<KernelKind> merged_kind(KernelKind producer, KernelKind consumer,
                                      bool producer_is_view);

}  // namespace opweld
