#include "target/planned.h"

#include <fmt/ranges.h>

#include <array>
#include <vector>

namespace opweld {

namespace {

constexpr std::int64_t kKiB = 1 << 10;
constexpr std::int64_t kMiB = 1 << 20;
constexpr int kFlopsPerFma = 2;

// What a launch takes is published for neither, and depends on who launches; as on the host.
constexpr double kAssumedLaunchSeconds = 2e-6;

// Huawei Ascend 910B3. A core here is an AI core: a cube core for products and the two vector cores
// that go with it.
//
// Sources: [ini] the platform files of CANN's open runtime (gitcode.com/cann/runtime,
// src/platform/platform_config, Ascend910B*.ini: clocks, sizes and rates of all variants of this
// chip are alike, only the number of cores differs); [catlass] CATLASS, Huawei's templates for
// products (gitcode.com/cann/catlass, include/catlass/arch/arch.hpp); [guide] the guide to moving
// operators between generations in CANN's own operator library (gitcode.com/cann/ops-transformer,
// docs/zh/develop/cross_platform_migration_guide.md).
Target ascend_910b() {
  constexpr double kClock = 1.8e9;               // [ini] cube_freq=1800
  constexpr int kVectorCores = 2;                // of an AI core: [ini] vector_core_cnt
  constexpr int kCubeEdge = 16;                  // [ini] cube_m_size, cube_n_size, cube_k_size
  constexpr std::int64_t kL2 = 192 * kMiB;       // [ini] l2_size=201326592
  constexpr double kL2BytesPerCycle = 110;       // of a core: [ini] l2_read_rate=110
  constexpr std::int64_t kUnified = 192 * kKiB;  // of a vector core: [ini] ub_size, [catlass]
  constexpr std::int64_t kL1 = 512 * kKiB;       // of a cube core: [ini] l1_size, [catlass]

  Target target;
  target.name = "ascend-910b";
  target.model = "Huawei Ascend 910B3";
  target.planned_only = true;
  // [ini] vec_calc_size=128: elements of f16 an instruction, 256 bytes.
  target.vector_bits = 256 * 8;
  // Operands of vector instructions lie in the unified buffer; there are no vector registers.
  target.vector_registers = 0;
  target.fma_per_cycle = kVectorCores;
  target.has_f16c = false;
  target.cores = 20;  // 910B3; a 910B2 has 24
  target.l1_bytes = kUnified;
  target.l2_bytes = kL1;  // what a product's operands wait in
  target.l3_bytes = kL2;
  target.on_chip_bytes = kUnified;
  // Cube and vector cores hand each other data by way of the L2, so what stages of a chain pass on
  // lies there; half of a core's share, as on the host.
  target.outer_bytes = kL2 / (2 * target.cores);
  target.peak_flops = kClock * target.fma_per_cycle * kFlopsPerFma * (target.vector_bits / 32.0);
  target.matrix_flops = kClock * kFlopsPerFma * kCubeEdge * kCubeEdge * kCubeEdge;
  target.matrix_unit_takes_halves = true;
  // [guide], for the generation with a 910B2 as its example; Huawei has no data sheet for a 910B3
  // that says so.
  target.bandwidth = 1.6e12;
  target.cache_bandwidth = kClock * kL2BytesPerCycle;
  target.passed_on_bytes = kL2;
  target.launch_seconds = kAssumedLaunchSeconds;
  return target;
}

// NVIDIA H100 SXM5, compute capability 9.0. A core here is a streaming multiprocessor.
//
// Sources: [wp] NVIDIA H100 Tensor Core GPU Architecture, the white paper; [ds] NVIDIA H100 Tensor
// Core GPU, the data sheet; [tg] NVIDIA Hopper Tuning Guide (docs.nvidia.com/cuda/
// hopper-tuning-guide); [a100] NVIDIA A100 Tensor Core GPU Architecture, the white paper.
Target cuda_sm90() {
  constexpr double kClock = 1.98e9;             // boost: [wp]
  constexpr int kLanes = 32;                    // of a warp
  constexpr std::int64_t kL2 = 50 * kMiB;       // [wp]
  constexpr double kHalfFlops = 989e12;         // dense, bf16 and f16: [ds]
  constexpr double kL2BytesPerCycle = 5120;     // of an A100, [a100]; none is published for an H100
  constexpr std::int64_t kShared = 227 * kKiB;  // a block, of 228 KiB a multiprocessor: [tg]

  Target target;
  target.name = "cuda-sm90";
  target.model = "NVIDIA H100 SXM5";
  target.planned_only = true;
  target.vector_bits = kLanes * 32;
  target.vector_registers = 255;  // of 32 bits, a thread: [tg]
  target.fma_per_cycle = 4;       // 128 lanes of f32 a multiprocessor: [wp]
  target.has_f16c = false;
  target.cores = 132;            // [wp]
  target.l1_bytes = 256 * kKiB;  // shared memory with it: [wp]
  target.l2_bytes = kShared;     // what a product's operands wait in
  target.l3_bytes = kL2;
  target.on_chip_bytes = kShared;
  target.outer_bytes = kL2 / (2 * target.cores);
  target.peak_flops = kClock * target.fma_per_cycle * kFlopsPerFma * kLanes;  // 67 TFLOP/s: [ds]
  target.matrix_flops = kHalfFlops / target.cores;
  target.matrix_unit_takes_halves = true;
  target.bandwidth = 3.35e12;  // [ds]
  target.cache_bandwidth = kClock * kL2BytesPerCycle / target.cores;
  target.passed_on_bytes = kL2;
  target.launch_seconds = kAssumedLaunchSeconds;
  return target;
}

}  // namespace

std::span<const Target> planned_targets() {
  static const std::array<Target, 2> kTargets = {ascend_910b(), cuda_sm90()};
  return kTargets;
}

std::string planned_names() {
  std::vector<std::string> names;
  for (const Target& target : planned_targets()) names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace opweld
