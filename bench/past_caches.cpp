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

constexpr std::size_t kVector = sizeof(__m128i);

enum class Way : std::uint8_t { Through, Past };

template <Way way>
void write(const std::byte* from, std::byte* to, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kVector) {
    const __m128i vector = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    auto* const place = reinterpret_cast<__m128i*>(to + i);
    if constexpr (way == Way::Past) _mm_stream_si128(place, vector);
    if constexpr (way == Way::Through) _mm_store_si128(place, vector);
  }
  _mm_sfence();
}

__m128i read(const std::byte* from, std::size_t bytes) {
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

template <Way way>
void written_and_read(benchmark::State& state) {
  const auto share = static_cast<std::size_t>((state.range(0) << 20) / state.threads());
  const auto from = opweld::allocate_block(share);
  const auto to = opweld::allocate_block(share);
  if (from == nullptr || to == nullptr) return state.SkipWithError("out of memory");
  std::memset(from.get(), 1, share);
  std::memset(to.get(), 1, share);
  for (auto _ : state) {
    write<way>(from.get(), to.get(), share);
    benchmark::DoNotOptimize(read(to.get(), share));
  }
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t megabytes : {2, 4, 8, 16, 32, 64, 128}) benchmark->Arg(megabytes);
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond);
  benchmark->Threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

BENCHMARK(written_and_read<Way::Through>)->Apply(sizes);
BENCHMARK(written_and_read<Way::Past>)->Apply(sizes);

}  // namespace
