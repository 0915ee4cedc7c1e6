// Where one process finds what another compiled.
//
// Two things take nearly all of the time that compiling takes, and both are kept: the plans of a
// graph, under the graph as the rewrites left it, the target and the options; and the machine code
// of a kernel, under its tile program, so that models that have kernels in common share it. Both
// only under the build of Opweld that made them.
#pragma once

#include <memory>

#include "support/disk_cache.h"

namespace opweld {

// In the cache folder's `compiled`, 512 MiB at most. Null where there is no cache folder, where
// OPWELD_COMPILED is 0, and where this build cannot be told from others.
std::shared_ptr<DiskCache> compile_cache();

}  // namespace opweld
