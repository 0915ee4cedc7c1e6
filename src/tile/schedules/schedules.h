// The schedules: each turns a group it serves into a kernel, or says why it does not serve it.
#pragma once

#include "tile/lower.h"

namespace opweld::tile {

Expected<LoweredKernel> lower_map(const Graph& group, const LowerOptions& options,
                                  std::string name);
Expected<LoweredKernel> lower_move(const Graph& group, const LowerOptions& options,
                                   std::string name);
Expected<LoweredKernel> lower_row(const Graph& group, const LowerOptions& options,
                                  std::string name);
Expected<LoweredKernel> lower_reduce(const Graph& group, const LowerOptions& options,
                                     std::string name);
Expected<LoweredKernel> lower_sort(const Graph& group, const LowerOptions& options,
                                   std::string name);
// The sort_by_group of a group; null where there is none.
const Node* find_sort(const Graph& group);
Expected<LoweredKernel> lower_contract(const Graph& group, const LowerOptions& options,
                                       std::string name);
Expected<LoweredKernel> lower_chain(const Graph& group, const LowerOptions& options,
                                    std::string name);
Expected<LoweredKernel> lower_attention(const Graph& group, const LowerOptions& options,
                                        std::string name);

}  // namespace opweld::tile
