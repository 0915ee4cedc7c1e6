// Memory that is handed out again once it has been let go.
#pragma once

#include <cstddef>
#include <memory>

namespace opweld {

// For the results of runs: a caller who has read one set of them lets it go, and the next run
// writes over the same pages. Fresh pages are cleared by the system when they are first touched,
// which for large results takes about as long as a kernel that writes them. Any thread may take and
// let go.
class BlockPool {
 public:
  // Of what was let go, up to `most_kept` blocks are kept, the latest.
  explicit BlockPool(std::size_t most_kept);

  // At least `bytes`, aligned to kBlockAlignment (support/memory_block.h); what they hold does not
  // matter. Null when they cannot be had. They may outlive the pool.
  std::shared_ptr<std::byte> take(std::size_t bytes);

 private:
  struct Kept;
  std::shared_ptr<Kept> kept_;
};

}  // namespace opweld
