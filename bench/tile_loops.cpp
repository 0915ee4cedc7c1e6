// What the inner loop of a bf16 matmul on AMX tiles can reach, by where its operands lie: the
// measurements behind docs/inner-loops.md. One thread; operands are zeros.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "amx_tiles.h"
#include "support/memory_block.h"
#include "target/host.h"

namespace {

bool has_tiles() {
  return opweld::host_features().amx_bf16;
}

constexpr TileShapes kShapes;

constexpr int kStep = 32;                  // of depth
constexpr std::int64_t kStepBytes = 2048;  // of two tiles of a, and of b
constexpr std::int64_t kSumsBytes = 4096;  // of four tiles
constexpr int kSumsRow = 128;              // bytes
constexpr std::int64_t kRows = 256;
constexpr double kStepFlops = 4.0 * 2 * 16 * 16 * 32;

enum class Load : std::uint8_t { Plain, Streamed };

// sums += a . b for 32 rows and columns: two tiles of a, two of b, each used twice.
template <Load load>
[[gnu::target("amx-tile,amx-bf16")]] void dot(const std::byte* a, int a_row, const std::byte* b,
                                              std::int64_t steps, std::byte* sums, bool from_zero) {
  constexpr int kHalf = kSumsRow / 2;
  std::byte* const lower = sums + kSumsBytes / 2;
  if (from_zero) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, kSumsRow);
    _tile_loadd(1, sums + kHalf, kSumsRow);
    _tile_loadd(2, lower, kSumsRow);
    _tile_loadd(3, lower + kHalf, kSumsRow);
  }
  for (std::int64_t step = 0; step < steps; ++step, a += 64, b += kStepBytes) {
    _tile_loadd(6, b, kSumsRow);
    if constexpr (load == Load::Streamed) {
      _tile_stream_loadd(4, a, a_row);
      _tile_stream_loadd(5, a + 16 * a_row, a_row);
    } else {
      _tile_loadd(4, a, a_row);
      _tile_loadd(5, a + 16 * a_row, a_row);
    }
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kHalf, kSumsRow);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kSumsRow);
  _tile_stored(1, sums + kHalf, kSumsRow);
  _tile_stored(2, lower, kSumsRow);
  _tile_stored(3, lower + kHalf, kSumsRow);
}

[[gnu::target("amx-tile")]] void configure() {
  _tile_loadconfig(&kShapes);
}

[[gnu::target("amx-tile")]] void release() {
  _tile_release();
}

// Rows of bf16, a line apart from a power of two.
constexpr int row_bytes(std::int64_t depth) {
  return static_cast<int>(2 * depth + 64);
}

// 256 rows of A pass a panel of 32 columns of B, `dot depth` of the depth at a time; panels one
// after the other. Arguments: depth, dot depth, panels.
template <Load load>
void Panels(benchmark::State& state) {
  if (!has_tiles()) {
    state.SkipWithError("this processor has no bf16 tiles, or the system keeps them back");
    return;
  }
  const std::int64_t depth = state.range(0);
  const std::int64_t dot_depth = state.range(1);
  const std::int64_t panels = state.range(2);
  const std::int64_t panel_bytes = depth / kStep * kStepBytes;
  const int a_row = row_bytes(depth);
  const auto a = opweld::allocate_block(static_cast<std::size_t>(kRows * a_row));
  const auto b = opweld::allocate_block(static_cast<std::size_t>(panels * panel_bytes));
  const auto sums = opweld::allocate_block(static_cast<std::size_t>(kRows / 32 * kSumsBytes));
  if (a == nullptr || b == nullptr || sums == nullptr) {
    state.SkipWithError("out of memory");
    return;
  }
  // Memory that is only read would be one page of zeros, in the first-level cache.
  std::memset(a.get(), 0, static_cast<std::size_t>(kRows * a_row));
  std::memset(b.get(), 0, static_cast<std::size_t>(panels * panel_bytes));
  configure();
  for (auto _ : state) {
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      for (std::int64_t k = 0; k < depth; k += dot_depth) {
        for (std::int64_t row = 0; row < kRows; row += 32) {
          dot<load>(a.get() + row * a_row + 2 * k, a_row,
                    b.get() + panel * panel_bytes + k / kStep * kStepBytes, dot_depth / kStep,
                    sums.get() + row / 32 * kSumsBytes, k == 0);
        }
      }
    }
    benchmark::ClobberMemory();
  }
  release();
  const double steps = static_cast<double>(kRows / 32 * panels * depth / kStep);
  state.counters["FLOPS"] =
      benchmark::Counter(kStepFlops * steps, benchmark::Counter::kIsIterationInvariantRate);
}

// All in the second-level cache, by how much of a panel a dot takes; then panels from beyond it.
void on_shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"depth", "dot_depth", "panels"});
  for (const std::int64_t dot_depth : {128, 256, 512, 1024}) {
    benchmark->Args({1024, dot_depth, 8});
  }
  for (const std::int64_t dot_depth : {512, 1024}) benchmark->Args({1024, dot_depth, 256});
  benchmark->MinTime(0.05)->Repetitions(9);
}

BENCHMARK(Panels<Load::Plain>)->Apply(on_shapes);
BENCHMARK(Panels<Load::Streamed>)->Apply(on_shapes);

}  // namespace
