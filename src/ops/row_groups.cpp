#include "ops/row_groups.h"

namespace opweld {

Expected<std::vector<std::int64_t>> group_starts(const Tensor& bounds, bool cumulative,
                                                 std::int64_t rows) {
  std::vector<std::int64_t> starts = {0};
  for (std::int64_t group = 0; group < bounds.num_elements(); ++group) {
    const std::int64_t bound = bounds.get_int(group);
    const std::int64_t start = starts.back();
    if (cumulative && bound < start) {
      return fail("{} (group {}, start {}, end {})", kDecreasingEnds, group, start, bound);
    }
    if (!cumulative && bound < 0) {
      return fail("{} (group {}, rows {})", kNegativeGroup, group, bound);
    }
    // Not start + bound > rows, which may overflow.
    if (cumulative ? bound > rows : bound > rows - start) {
      return fail("{} (group {}, start {}, {} {}, 'x' {})", kGroupsTooLarge, group, start,
                  cumulative ? "end" : "rows", bound, rows);
    }
    starts.push_back(cumulative ? bound : start + bound);
  }
  if (starts.back() != rows) {
    return fail("{} (groups {}, 'x' {})", kGroupsTooSmall, starts.back(), rows);
  }
  return starts;
}

}  // namespace opweld
