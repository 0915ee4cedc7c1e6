// What a run needs of a generated kernel, wherever its code came from: made in this process, or
// read from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/compiled_dim.h"

namespace opweld {

// One generated function. Thread-safe: several threads run disjoint ranges of tasks at once.
class CompiledKernel {
 public:
  // Runs tasks [begin, end). `params` are the data pointers of what the kernel reads, its
  // constants, what it writes and what its tasks share, in this order; `symbols` the values of
  // `symbols` below in order; `scratch` at least scratch_bytes bytes, 64-byte aligned, private to
  // the calling thread, its first eight bytes zero whenever that comes to this kernel from another
  // one or from another run. Returns 0, or 1 + the index of the check that failed (see failure).
  using Function = std::int32_t (*)(void* const* params, const std::int64_t* symbols,
                                    std::int64_t begin, std::int64_t end, std::byte* scratch);

  Function function = nullptr;
  std::vector<std::string> symbols;  // names of the sizes that only a run knows
  CompiledDim num_tasks;             // over the symbols, in order
  CompiledDim scratch_bytes;
  struct CheckText {
    std::string message;
    std::vector<std::string> shown;  // names of the numbers
  };
  std::vector<CheckText> checks;
  // What the tasks of one run share, each param's block a multiple of 64 bytes, in the order of the
  // params.
  struct Shared {
    CompiledDim bytes;
    bool zeroed = false;  // must be zero when the run starts
  };
  std::vector<Shared> shared;

  // Why a call ended with this code, with the numbers that it left in its scratch memory.
  [[nodiscard]] std::string failure(std::int32_t code, const std::byte* scratch) const;

  std::shared_ptr<const void> code_owner;  // keeps the machine code mapped

  // The object file that the code was linked from and the function's name in it, where whoever had
  // the kernel made asked for it; kernels with equal code share one.
  struct Object {
    std::string symbol;
    std::string bytes;
  };
  std::shared_ptr<const Object> object;
};

}  // namespace opweld
