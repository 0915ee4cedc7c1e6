// The operator families: each is a file of this folder that gives its definitions to the registry.
#pragma once

#include <span>

#include "ops/op.h"

namespace opweld {

// The definitions of one family, in the file of its name; they live as long as the program.
using OpFamily = std::span<const OpDef>();

OpFamily activation_ops;
OpFamily arg_reduce_ops;
OpFamily arithmetic_ops;
OpFamily attention_ops;
OpFamily bitcast_ops;
OpFamily cast_ops;
OpFamily comparison_ops;
OpFamily concat_ops;
OpFamily cumsum_ops;
OpFamily expand_ops;
OpFamily gather_ops;
OpFamily grouped_matmul_ops;
OpFamily logic_ops;
OpFamily math_ops;
OpFamily matmul_ops;
OpFamily nonzero_ops;
OpFamily norm_ops;
OpFamily one_hot_ops;
OpFamily pad_ops;
OpFamily range_ops;
OpFamily rectifier_ops;
OpFamily reduce_ops;
OpFamily reshape_ops;
OpFamily rope_ops;
OpFamily scatter_ops;
OpFamily select_ops;
OpFamily slice_ops;
OpFamily softmax_ops;
OpFamily sort_by_group_ops;
OpFamily source_ops;
OpFamily tile_ops;
OpFamily top_k_ops;
OpFamily transpose_ops;
OpFamily trigonometry_ops;

}  // namespace opweld
