// Schedule `map`: pointwise operators, broadcasts and index maps.
//
//   grid outer axes..., c in n step chunk        every combination is one task
//     for j in min(chunk, n - c) vector
//       load ...; map ...; store y[outer..., c + j] <- ...
//
// All outputs share one shape, or are reshapes and transposes of values that do.
#include "tile/schedules/group_lowering.h"
#include "tile/schedules/scattered_output.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

namespace {

// Elements of one task: enough to hide its set-up, few enough for several threads to share a row.
constexpr std::int64_t kChunk = 4096;
constexpr int kUnroll = 2;

}  // namespace

Expected<LoweredKernel> lower_map(const Graph& group, const LowerOptions& options,
                                  std::string name) {
  const Shape& domain = computed_for(group.outputs().front().value)->shape();
  OPWELD_TRY(const std::vector<DomainOutput> outputs,
             outputs_over(outputs_of(group), domain, "its outputs have different shapes"));
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  Index index;
  const auto store_all = [&]() -> Status {
    for (const DomainOutput& output : outputs) OPWELD_CHECK(lowering.store(output, index));
    return {};
  };
  if (domain.empty()) {
    OPWELD_CHECK(store_all());
    return lowering.finish();
  }
  for (std::size_t axis = 0; axis + 1 < domain.size(); ++axis) {
    index.push_back(lowering.grid(fmt::format("i{}", axis), domain[axis]));
  }
  OPWELD_CHECK(lowering.chunked_vector("j", domain.back(), kChunk, kUnroll, [&](Expr position) {
    index.push_back(position);
    return store_all();
  }));
  return lowering.finish();
}

}  // namespace opweld::tile
