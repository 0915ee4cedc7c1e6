// The operator families: each is a file of this folder that gives its definitions to the registry.
#pragma once

#include <span>

#include "ops/op.h"

namespace opweld {

// The definitions of one family; they live as long as the program.
using OpFamily = std::span<const OpDef>();

OpFamily arithmetic_ops;  // arithmetic.cpp
OpFamily concat_ops;      // concat.cpp
OpFamily expand_ops;      // expand.cpp
OpFamily gather_ops;      // gather.cpp
OpFamily one_hot_ops;     // one_hot.cpp
OpFamily pad_ops;         // pad.cpp
OpFamily range_ops;       // range.cpp
OpFamily reshape_ops;     // reshape.cpp
OpFamily scatter_ops;     // scatter.cpp
OpFamily slice_ops;       // slice.cpp
OpFamily source_ops;      // source.cpp
OpFamily tile_ops;        // tile.cpp
OpFamily top_k_ops;       // top_k.cpp
OpFamily transpose_ops;   // transpose.cpp

}  // namespace opweld
