// From which size on a result is better stored past the caches: the measurements behind
// docs/inner-loops.md and GroupLowering::exceeds_caches. A pass reads one block and writes another
// of as many bytes, through the caches or past them, and a second pass reads what was written, as
// the next kernel would. The argument is the size of a block in MB, in equal shares for all
// threads.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>

#include "support/memory_block.h"

namespace {

enum class Way : std::uint8_t { Through, Past };

// In vectors of AVX-512, of which one is a line.
template <Way way>
[[gnu::target("avx512f")]] void write_lines(const std::byte* from, std::byte* to,
                                            std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(__m512i)) {
    const __m512i vector = _mm512_loadu_si512(from + i);
    if constexpr (way == Way::Past) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), vector);
    } else {
      _mm512_store_si512(to + i, vector);
    }
  }
  _mm_sfence();
}

// In those of AVX2.
template <Way way>
[[gnu::target("avx2")]] void write_halves(const std::byte* from, std::byte* to, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(__m256i)) {
    const __m256i vector = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    auto* const place = reinterpret_cast<__m256i*>(to + i);
    if constexpr (way == Way::Past) _mm256_stream_si256(place, vector);
    if constexpr (way == Way::Through) _mm256_store_si256(place, vector);
  }
  _mm_sfence();
}

__m128i read(const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kVector = sizeof(__m128i);
  constexpr std::size_t kSums = 4;  // which do not wait for each other
  __m128i sums[kSums] = {};
  for (std::size_t i = 0; i < bytes; i += kSums * kVector) {
    for (std::size_t k = 0; k < kSums; ++k) {
      const auto* const place = reinterpret_cast<const __m128i*>(from + i + k * kVector);
      sums[k] = _mm_xor_si128(sums[k], _mm_load_si128(place));
    }
  }
  return _mm_xor_si128(_mm_xor_si128(sums[0], sums[1]), _mm_xor_si128(sums[2], sums[3]));
}

template <auto write>
void written_and_read(benchmark::State& state) {
  const auto share = static_cast<std::size_t>((state.range(0) << 20) / state.threads());
  const auto from = opweld::allocate_block(share);
  const auto to = opweld::allocate_block(share);
  if (from == nullptr || to == nullptr) return state.SkipWithError("out of memory");
  std::memset(from.get(), 1, share);
  std::memset(to.get(), 1, share);
  for (auto _ : state) {
    write(from.get(), to.get(), share);
    benchmark::DoNotOptimize(read(to.get(), share));
  }
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t megabytes : {2, 4, 8, 16, 32, 64, 128}) benchmark->Arg(megabytes);
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond);
  benchmark->Threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

void lines(benchmark::State& state, bool past) {
  if (__builtin_cpu_supports("avx512f") == 0) return state.SkipWithError("no AVX-512");
  past ? written_and_read<write_lines<Way::Past>>(state)
       : written_and_read<write_lines<Way::Through>>(state);
}

void halves(benchmark::State& state, bool past) {
  if (__builtin_cpu_supports("avx2") == 0) return state.SkipWithError("no AVX2");
  past ? written_and_read<write_halves<Way::Past>>(state)
       : written_and_read<write_halves<Way::Through>>(state);
}

BENCHMARK_CAPTURE(lines, through, false)->Apply(sizes);
BENCHMARK_CAPTURE(lines, past, true)->Apply(sizes);
BENCHMARK_CAPTURE(halves, through, false)->Apply(sizes);
BENCHMARK_CAPTURE(halves, past, true)->Apply(sizes);

}  // namespace
