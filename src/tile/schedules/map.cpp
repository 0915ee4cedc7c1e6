// Schedule `map`: pointwise operators, broadcasts and index maps.
//
//   grid outer axes..., c in n step chunk        every combination is one task
//     for j in min(chunk, n - c) vector
//       load ...; map ...; store y[outer..., c + j] <- ...
//       prefetch ...                             of a later row, where there is much
//
// All outputs share one shape, or are reshapes and transposes of values that do.
#include <algorithm>
#include <optional>

#include "tile/schedules/group_lowering.h"
#include "tile/schedules/scattered_output.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

namespace {

// Elements of one task: enough to hide its set-up, few enough for several threads to share a row.
constexpr std::int64_t kChunk = 4096;
constexpr int kUnroll = 2;
// Elements that are fetched ahead, at least: as many as take longer than memory does.
constexpr std::int64_t kAhead = 2048;

// What a row further on loads, of outputs that caches do not hold: the processor foresees such
// loads itself, but not past the end of a page of 4 KB.
Status fetch_ahead(GroupLowering& lowering, const DomainOutput& output, const Index& index,
                   const Shape& domain) {
  if (lowering.exceeds_caches(output.output) == kNoExpr) return {};
  std::optional<std::size_t> axis;
  for (std::size_t i = 0; i + 1 < domain.size(); ++i) {
    if (!(domain[i] == Dim(1))) axis = i;
  }
  if (!axis) return {};
  const std::int64_t row = std::max<std::int64_t>(1, domain.back().constant().value_or(kAhead));
  const Index ahead = lowering.ahead(index, *axis, domain[*axis], (kAhead + row - 1) / row);
  return lowering.elements().prefetch(output.value, ahead, ahead.back(), ahead[*axis]);
}

}  // namespace

Expected<LoweredKernel> lower_map(const Graph& group, const LowerOptions& options,
                                  std::string name) {
  const Shape& domain = computed_for(group.outputs().front().value)->shape();
  OPWELD_TRY(const std::vector<DomainOutput> outputs,
             outputs_over(outputs_of(group), domain, "its outputs have different shapes"));
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  lowering.store_past_caches();
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
  OPWELD_CHECK(
      lowering.chunked_vector("j", domain.back(), kChunk, kUnroll, [&](Expr position) -> Status {
        index.push_back(position);
        OPWELD_CHECK(store_all());
        for (const DomainOutput& output : outputs) {
          OPWELD_CHECK(fetch_ahead(lowering, output, index, domain));
        }
        return {};
      }));
  return lowering.finish();
}

}  // namespace opweld::tile
