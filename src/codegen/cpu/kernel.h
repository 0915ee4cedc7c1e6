// From TileProgram to machine code for the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/compiled_dim.h"
#include "support/dim.h"
#include "support/disk_cache.h"
#include "support/expected.h"
#include "target/target.h"
#include "tile/tile_ir.h"

namespace opweld::cpu {

// One generated function. Thread-safe: several threads run disjoint ranges of tasks at once.
class CompiledKernel {
 public:
  // Runs tasks [begin, end). `params` are the data pointers in the order of the program's params,
  // `symbols` the values of program.symbols in order, `scratch` at least scratch_bytes() bytes,
  // 64-byte aligned, private to the calling thread. Returns 0, or 1 + the index of the check
  // statement that failed (see check_message).
  using Function = std::int32_t (*)(void* const* params, const std::int64_t* symbols,
                                    std::int64_t begin, std::int64_t end, std::byte* scratch);

  Function function = nullptr;
  CompiledDim num_tasks;  // over the program's symbols, in order
  CompiledDim scratch_bytes;
  struct CheckText {
    std::string message;
    std::vector<std::string> shown;  // names of the numbers
  };
  std::vector<CheckText> checks;
  // What the tasks of one run share, each param's block a multiple of tile::kSharedAlignment, in
  // the order of the params.
  struct Shared {
    CompiledDim bytes;
    bool zeroed = false;  // must be zero when the run starts
  };
  std::vector<Shared> shared;

  // Why a call ended with this code, with the numbers that it left in its scratch memory.
  [[nodiscard]] std::string failure(std::int32_t code, const std::byte* scratch) const;

  std::shared_ptr<void> code_owner;  // keeps the machine code mapped
};

// Compiles programs for one target. Programs that differ in names and messages only share one
// function. Errors are our own faults or a target that cannot run here. Not thread-safe.
class KernelCompiler {
 public:
  struct Options {
    int threads = 1;  // compile on this many threads
    // Where machine code is looked for before it is made, and kept once it is; may be null.
    DiskCache* kept = nullptr;
  };
  static Expected<KernelCompiler> create(const Target& target, const Options& options);
  KernelCompiler(KernelCompiler&&) noexcept;
  KernelCompiler& operator=(KernelCompiler&&) noexcept;
  ~KernelCompiler();

  Expected<std::vector<std::shared_ptr<const CompiledKernel>>> compile(
      std::span<const tile::TileProgram* const> programs);

  // Functions that compile() has made so far, and those of them that were found ready.
  struct Made {
    int functions = 0;
    int found = 0;
  };
  [[nodiscard]] Made made() const;

  // LLVM IR and assembly of a program as it would be compiled, for dumps and evidence.
  Expected<std::string> llvm_ir(const tile::TileProgram& program, bool optimized = true);
  Expected<std::string> assembly(const tile::TileProgram& program);

 private:
  struct Impl;
  explicit KernelCompiler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opweld::cpu
