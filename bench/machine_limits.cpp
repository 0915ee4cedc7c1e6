// What the machine itself can do: the yardstick of every other benchmark.
//
// FusedMultiplyAdd counts the fp32 flops of a loop of independent fused multiply-adds in the widest
// vectors there are; Copy and Read count the bytes of streaming passes over more memory than caches
// hold. Each runs on as many threads as asked for, every thread on data of its own.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

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
  for (auto _ : state) benchmark::DoNotOptimize(steps(0.5F));
  state.SetItemsProcessed(state.iterations() * 2 * lanes * kSums * kSteps);
}

constexpr std::size_t kStreamed = std::size_t{64} << 20;

void Copy(benchmark::State& state) {
  const std::vector<char> from(kStreamed, 1);
  std::vector<char> to(kStreamed);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kStreamed);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<std::int64_t>(kStreamed));
}

void Read(benchmark::State& state) {
  const std::vector<std::uint64_t> from(kStreamed / sizeof(std::uint64_t), 1);
  const auto sum = __builtin_cpu_supports("avx2") != 0 ? sum_256 : sum_128;
  for (auto _ : state) benchmark::DoNotOptimize(sum(from.data(), from.size()));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kStreamed));
}

int threads() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

BENCHMARK(FusedMultiplyAdd)->ThreadRange(1, threads())->UseRealTime();
BENCHMARK(Copy)->ThreadRange(1, threads())->UseRealTime();
BENCHMARK(Read)->ThreadRange(1, threads())->UseRealTime();

}  // namespace
