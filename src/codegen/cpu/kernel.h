// From TileProgram to machine code for the host.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/cpu/spills.h"
#include "runtime/compiled_kernel.h"
#include "support/disk_cache.h"
#include "support/expected.h"
#include "target/target.h"
#include "tile/tile_ir.h"

namespace opweld::cpu {

// Compiles programs for one target. Programs that differ in names and messages only share one
// function. Errors are our own faults or a target that cannot run here. Not thread-safe.
class KernelCompiler {
 public:
  struct Options {
    int threads = 1;  // compile on this many threads
    // Where machine code is looked for before it is made, and kept once it is; may be null.
    DiskCache* kept = nullptr;
    // Whether kernels keep the object file that they were linked from (CompiledKernel::object).
    bool keep_objects = false;
  };
  static Expected<KernelCompiler> create(const Target& target, const Options& options);
  KernelCompiler(KernelCompiler&&) noexcept;
  KernelCompiler& operator=(KernelCompiler&&) noexcept;
  ~KernelCompiler();

  Expected<std::vector<std::shared_ptr<const CompiledKernel>>> compile(
      std::span<const tile::TileProgram* const> programs);

  // The features of the target that the host is known to have, by LLVM's names and in their order:
  // what a processor must have for the code.
  [[nodiscard]] std::vector<std::string> features() const;

  // Functions that compile() has made so far, and those of them that were found ready.
  struct Made {
    int functions = 0;
    int found = 0;
  };
  [[nodiscard]] Made made() const;

  // LLVM IR and assembly of a program as it would be compiled, for dumps and evidence.
  Expected<std::string> llvm_ir(const tile::TileProgram& program, bool optimized = true);
  Expected<std::string> assembly(const tile::TileProgram& program);
  // What that code keeps on the stack because registers did not suffice.
  Expected<VectorSpills> vector_spills(const tile::TileProgram& program);

 private:
  struct Impl;
  explicit KernelCompiler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opweld::cpu
