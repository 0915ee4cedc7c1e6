// What the machine itself can do: the yardstick of every other benchmark.
//
// FusedMultiplyAdd counts the fp32 flops of a loop of independent fused multiply-adds in the widest
// vectors there are, Bfloat16Dot those of the instruction that adds two bf16 products to an fp32
// sum, and Bfloat16Tiles those of the matrix unit's product of bf16 tiles (AMX), where the
// processor has them. Copy, CopyPastCaches and Read count the bytes of passes over memory; their
// argument says how many bytes a pass touches on all threads together, so that the rate of a cache
// and that of memory are told apart; the bytes lie on huge pages where the system has them. Copy is
// the C library's, and CopyPastCaches stores without bringing lines into a cache first, which is
// faster where no cache holds them. Each runs on as many threads as asked for, every thread on data
// of its own.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "amx_tiles.h"
#include "support/memory_block.h"
#include "target/host.h"

namespace {

// Enough independent sums to hide the latency of two units: 2 units * 4 cycles, and a few to spare.
constexpr int kSums = 10;
constexpr int kSteps = 4096;

template <int Lanes>
struct Vector {
  typedef float Type __attribute__((vector_size(Lanes * sizeof(float))));
};

// What follows is forced inline, so that the instruction set is that of the function around it.
template <int Lanes>
[[gnu::always_inline]] inline float multiply_add_steps(float factor) {
  using Lane = typename Vector<Lanes>::Type;
  const Lane factors = Lane{} + factor;
  Lane sums[kSums];
  // All different, so that none can stand for another.
  for (int i = 0; i < kSums; ++i) sums[i] = factors * static_cast<float>(i);
  for (int step = 0; step < kSteps; ++step) {
    for (Lane& sum : sums) sum = sum * factors + factors;
  }
  float total = 0;
  for (const Lane& sum : sums) {
    for (int lane = 0; lane < Lanes; ++lane) total += sum[lane];
  }
  return total;
}

// The sum of the 64-byte lines; several sums, so that additions do not wait for each other.
[[gnu::always_inline]] inline std::uint64_t sum_of_lines(const std::uint64_t* from,
                                                         std::size_t count) {
  typedef std::uint64_t Half __attribute__((vector_size(32)));
  Half sums[4] = {};
  for (std::size_t i = 0; i < count; i += 16) {
    for (std::size_t part = 0; part < 4; ++part) {
      Half next;
      std::memcpy(&next, from + i + part * 4, sizeof(next));
      sums[part] += next;
    }
  }
  const Half total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return total[0] + total[1] + total[2] + total[3];
}

[[gnu::target("avx2")]] std::uint64_t sum_256(const std::uint64_t* from, std::size_t count) {
  return sum_of_lines(from, count);
}
std::uint64_t sum_128(const std::uint64_t* from, std::size_t count) {
  return sum_of_lines(from, count);
}

[[gnu::target("avx512f")]] float steps_512(float factor) {
  return multiply_add_steps<16>(factor);
}
[[gnu::target("avx2,fma")]] float steps_256(float factor) {
  return multiply_add_steps<8>(factor);
}
float steps_128(float factor) {
  return multiply_add_steps<4>(factor);
}

void FusedMultiplyAdd(benchmark::State& state) {
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  const bool medium = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const auto steps = wide ? steps_512 : (medium ? steps_256 : steps_128);
  const std::int64_t lanes = wide ? 16 : (medium ? 8 : 4);
  for (auto _ : state) {
    float factor = 0.5F;
    benchmark::DoNotOptimize(factor);  // or one call would do for all
    benchmark::DoNotOptimize(steps(factor));
  }
  state.SetItemsProcessed(state.iterations() * 2 * lanes * kSums * kSteps);
}

// Each of 16 lanes multiplies two pairs and adds both products to its sum: 4 flops.
constexpr std::int64_t kDotFlops = 64;
// The dot product takes several times as long to finish as a multiply-add does.
constexpr int kDotSums = 24;

[[gnu::target("avx512f,avx512bw,avx512bf16")]] float dot_steps_bf16(float factor) {
  const __m512bh pairs = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(factor));
  __m512 sums[kDotSums];
#pragma GCC unroll 24
  for (int i = 0; i < kDotSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 24  // so that the sums stay in registers
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, pairs, pairs);
  }
  float total = 0;
#pragma GCC unroll 24
  for (const __m512& sum : sums) {
    float lanes[16];
    std::memcpy(lanes, &sum, sizeof(lanes));
    for (const float lane : lanes) total += lane;
  }
  return total;
}

void Bfloat16Dot(benchmark::State& state) {
  if (__builtin_cpu_supports("avx512bf16") == 0) {
    state.SkipWithError("this processor has no bf16 dot product");
    return;
  }
  for (auto _ : state) {
    float factor = 0.5F;
    benchmark::DoNotOptimize(factor);
    benchmark::DoNotOptimize(dot_steps_bf16(factor));
  }
  state.SetItemsProcessed(state.iterations() * kDotFlops * kDotSums * kSteps);
}

// One product of tiles: 16 x 16 sums of 32 products.
constexpr std::int64_t kTileFlops = 2 * 16 * 16 * 32;
constexpr int kTileSums = 4;
constexpr int kTileSteps = 1024;

// Two tiles by two, as a kernel would have them: four sums hide the latency of a product.
[[gnu::target("amx-tile,amx-bf16")]] void tile_steps(const TileShapes& shapes, float* memory) {
  constexpr int kRowBytes = 64;
  _tile_loadconfig(&shapes);
  _tile_loadd(4, memory, kRowBytes);
  _tile_loadd(5, memory, kRowBytes);
  _tile_loadd(6, memory, kRowBytes);
  _tile_loadd(7, memory, kRowBytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int step = 0; step < kTileSteps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, memory, kRowBytes);
  _tile_release();
}

void Bfloat16Tiles(benchmark::State& state) {
  if (!opweld::host_features().amx_bf16) {
    state.SkipWithError("this processor has no bf16 tiles, or the system keeps them back");
    return;
  }
  const TileShapes shapes;
  alignas(64) float memory[16 * 16] = {};
  for (auto _ : state) {
    tile_steps(shapes, memory);
    benchmark::DoNotOptimize(memory[0]);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kTileFlops * kTileSums * kTileSteps);
}

// The bytes of one thread in one buffer: a pass touches `argument` bytes in `buffers` buffers on
// all threads. A multiple of what the loops take in a step.
std::size_t share(const benchmark::State& state, std::int64_t buffers) {
  constexpr std::int64_t kStep = 4096;
  return static_cast<std::size_t>(state.range(0) / buffers / state.threads() / kStep * kStep);
}

// Memory that the system has really given; null, and the benchmark skipped, when there is none.
std::shared_ptr<std::byte> touched_block(benchmark::State& state, std::size_t bytes) {
  auto block = opweld::allocate_block(bytes);
  if (block != nullptr) std::memset(block.get(), 1, bytes);
  if (block == nullptr) state.SkipWithError("out of memory");
  return block;
}

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(__m128i)) {
    const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), part);
  }
  _mm_sfence();
}

template <auto copy>
void copies(benchmark::State& state) {
  const std::size_t bytes = share(state, 2);
  const auto from = touched_block(state, bytes);
  const auto to = touched_block(state, bytes);
  if (from == nullptr || to == nullptr) return;
  for (auto _ : state) {
    copy(to.get(), from.get(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<std::int64_t>(bytes));
}

void Copy(benchmark::State& state) {
  copies<std::memcpy>(state);
}

void CopyPastCaches(benchmark::State& state) {
  copies<copy_past_caches>(state);
}

void Read(benchmark::State& state) {
  const std::size_t bytes = share(state, 1);
  const auto block = touched_block(state, bytes);
  if (block == nullptr) return;
  const auto* const from = reinterpret_cast<const std::uint64_t*>(block.get());
  const auto sum = __builtin_cpu_supports("avx2") != 0 ? sum_256 : sum_128;
  for (auto _ : state) benchmark::DoNotOptimize(sum(from, bytes / sizeof(*from)));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

int threads() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// One thread and all of them.
void on_threads(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->Threads(1);
  if (threads() > 1) benchmark->Threads(threads());
}

void on_sizes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t megabytes : {1, 4, 16, 64, 256}) benchmark->Arg(megabytes << 20);
  on_threads(benchmark);
}

BENCHMARK(FusedMultiplyAdd)->Apply(on_threads);
BENCHMARK(Bfloat16Dot)->Apply(on_threads);
// A virtual machine may have the unit to itself for short whiles only, and what one run gives is
// several times what another does. Many short runs, of which the reader takes the best.
BENCHMARK(Bfloat16Tiles)->Apply(on_threads)->MinTime(0.01)->Repetitions(30);
BENCHMARK(Copy)->Apply(on_sizes);
BENCHMARK(CopyPastCaches)->Apply(on_sizes);
BENCHMARK(Read)->Apply(on_sizes);

}  // namespace
