// Hardware descriptors: all that the planner, the schedules and the code generator may know about a
// machine. Nothing below this folder asks the host directly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/expected.h"

namespace opweld {

struct Target {
  std::string name;   // as find_target knows it
  std::string model;  // the processor as the system names it; may be empty
  // Hardware that is not here, described for planning (planned.h): nothing is compiled for it.
  bool planned_only = false;
  std::string cpu;        // LLVM cpu name, e.g. "znver3"
  std::string features;   // LLVM feature string, e.g. "+avx2,+fma,-avx512f"
  int vector_bits = 256;  // width of a vector register
  // 0: vectors lie in the on-chip memory that buffers lie in, and count as such.
  int vector_registers = 16;
  int fma_per_cycle = 2;  // vector FMA issued per cycle and core
  bool has_f16c = true;
  bool has_bf16_dot = false;
  bool has_amx_bf16 = false;  // a matrix unit for MatrixDot: tiles of 16 x 16 sums of bf16 products

  int cores = 1;
  std::int64_t l1_bytes = 32 << 10;        // data cache of one core
  std::int64_t l2_bytes = 512 << 10;       // of one core
  std::int64_t l3_bytes = 16 << 20;        // shared
  std::int64_t on_chip_bytes = 256 << 10;  // what one task's buffers may take (half of L2)
  // What its outer buffers may take: half of a core's share of L3, but no more than four times L2,
  // since a share of a large L3 is far away and others may use it.
  std::int64_t outer_bytes = 1 << 20;

  double peak_flops = 0;    // fp32 flops per second of one core, from frequency or measurement
  double matrix_flops = 0;  // bf16 flops per second of one core's matrix unit; 0: it has none
  // Products of f16 and bf16 run on the matrix unit by themselves, not by MatrixDot alone.
  bool matrix_unit_takes_halves = false;
  double bandwidth = 0;        // bytes per second of all cores to main memory
  double cache_bandwidth = 0;  // bytes per second of one core to its outer cache
  // Up to so many bytes wait in a cache for the kernels that read them; 0: as many as the L2 of all
  // cores that run have room for.
  std::int64_t passed_on_bytes = 0;
  double launch_seconds = 2e-6;

  [[nodiscard]] int lanes(int element_bytes) const { return vector_bits / 8 / element_bytes; }
};

// The machine this process runs on, at its best width.
Target host_target();

// "host", "host-amx", "host-avx512" (without AMX), "host-avx2", "host-generic" (baseline x86-64 or
// whatever the architecture guarantees), and what can only be planned for (planned.h). A name that
// is unknown, or asks for instructions the host lacks or the system refuses, is a usage error that
// lists what there is.
Expected<Target> find_target(std::string_view name);

// Those that this machine can run, in order.
std::vector<std::string> offered_targets();

// An error that says what can be done with hardware that is not here, unless it is here.
Status check_is_here(const Target& target);

// The target as a run on so many threads has it: with as many cores, but no more than there are.
Target on_threads(Target target, int threads);

}  // namespace opweld
