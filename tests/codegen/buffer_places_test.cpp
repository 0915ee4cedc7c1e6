// Buffers that lie in each other's place.
#include "codegen/cpu/buffer_places.h"

#include <random>

#include "kernel_runner.h"
#include "tile/buffer_lifetimes.h"

namespace opweld {
namespace {

using testing::GuardedArray;
using testing::KernelRunner;
using testing::test_targets;
using tile::MemoryRef;
using tile::ProgramBuilder;

constexpr auto kCache = tile::Buffer::Space::Cache;

// A program whose statements each add a row of the input to buffers that were filled before, and
// fill one with the sum; some sums are results as well. Every third buffer is of a length that only
// a run knows.
struct RandomProgram {
  static constexpr int kBuffers = 7;
  static constexpr int kStatements = 12;
  static constexpr std::int64_t kSize = 37;

  struct Step {
    int to;
    std::vector<int> from;
    bool stores;  // into the step's row of the result
  };
  std::vector<Step> steps;
  tile::TileProgram program;

  explicit RandomProgram(unsigned seed) {
    std::mt19937 random(seed);
    const auto below = [&random](int n) {
      return static_cast<int>(random() % static_cast<unsigned>(n));
    };
    std::vector<int> filled;
    for (int i = 0; i < kStatements; ++i) {
      Step step{below(kBuffers), {}, below(3) == 0 || i + 1 == kStatements};
      for (int k = filled.empty() ? 0 : below(3); k > 0; --k) {
        step.from.push_back(
            filled[static_cast<std::size_t>(below(static_cast<int>(filled.size())))]);
      }
      if (std::ranges::find(filled, step.to) == filled.end()) filled.push_back(step.to);
      steps.push_back(std::move(step));
    }
    program = build();
  }

  [[nodiscard]] tile::TileProgram build() const {
    const Dim length = Dim::symbol("n", {1, kSize, 1});
    ProgramBuilder built("random");
    const MemoryRef x = built.input("x", DType::F32, {kStatements, kSize});
    const MemoryRef y = built.output("y", DType::F32, {kStatements, kSize});
    // So that the symbol is one of the program's whatever the buffers are.
    built.input("sized", DType::F32, {length});
    std::vector<MemoryRef> buffers;
    for (int i = 0; i < kBuffers; ++i) {
      const Dim size = i % 3 == 2 ? length : Dim(kSize + i);
      buffers.push_back(built.buffer("b", DType::F32, {size}, kCache));
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      built.vector("j", length, [&](Expr j) {
        Expr sum = built.load(built.at(x, {row, j}));
        for (const int from : steps[i].from) {
          const Expr other = built.load(built.at(buffers[static_cast<std::size_t>(from)], {j}));
          sum = built.exprs().binary(ExprKind::Add, sum, other);
        }
        built.store(built.at(buffers[static_cast<std::size_t>(steps[i].to)], {j}), sum);
        if (steps[i].stores) built.store(built.at(y, {row, j}), sum);
      });
    }
    return built.finish();
  }

  [[nodiscard]] std::vector<float> expected(const std::vector<float>& x, std::int64_t n) const {
    std::vector<std::vector<float>> held(kBuffers, std::vector<float>(kSize));
    std::vector<float> y(x.size(), 0.0F);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
        float sum = x[i * kSize + j];
        for (const int from : steps[i].from) sum += held[static_cast<std::size_t>(from)][j];
        held[static_cast<std::size_t>(steps[i].to)][j] = sum;
        if (steps[i].stores) y[i * kSize + j] = sum;
      }
    }
    return y;
  }
};

TEST(BufferPlaces, WhatIsNeededAtATimeLiesApart) {
  int shared = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const RandomProgram random(seed);
    const auto lifetimes = tile::buffer_lifetimes(random.program);
    const cpu::BufferPlaces places = cpu::place_buffers(random.program);
    for (const std::int64_t n : {1, 16, 37}) {
      const auto bytes = [n](const Dim& dim) { return dim.evaluate({{"n", n}}).value(); };
      const auto begin = [&](std::size_t i) { return bytes(places.offsets[i]); };
      const auto end = [&](std::size_t i) {
        return begin(i) + 4 * bytes(random.program.buffers[i].shape[0]);
      };
      for (std::size_t i = 0; i < lifetimes.size(); ++i) {
        EXPECT_EQ(begin(i) % 64, 0);
        EXPECT_LE(end(i) + 64, bytes(places.bytes)) << "a vector may read past its end";
        for (std::size_t k = 0; k < i; ++k) {
          const bool apart = end(i) <= begin(k) || end(k) <= begin(i);
          EXPECT_TRUE(apart || !lifetimes[i].overlaps(lifetimes[k])) << "seed " << seed;
          if (!apart) ++shared;
        }
      }
    }
  }
  EXPECT_GT(shared, 100);
}

TEST(BufferPlaces, NoneSpoilsAnother) {
  for (const Target& target : test_targets()) {
    for (unsigned seed = 0; seed < 40; ++seed) {
      const RandomProgram random(seed);
      const KernelRunner runner(random.build(), target);
      std::vector<float> x(RandomProgram::kStatements * RandomProgram::kSize);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7919) % 61);
      for (const std::int64_t n : {1, 17, 37}) {
        GuardedArray<float> in(x);
        GuardedArray<float> out(std::vector<float>(x.size(), 0.0F));
        GuardedArray<float> sized(std::vector<float>(static_cast<std::size_t>(n), 0.0F));
        ASSERT_EQ(runner({in.data(), out.data(), sized.data()}, {n}), 0);
        EXPECT_EQ(out.values(), random.expected(x, n)) << "seed " << seed << ", n " << n;
      }
    }
  }
}

// One stage after the other: three times as many take no more room.
TEST(BufferPlaces, StagesTakeTheRoomOfTheLargest) {
  const auto bytes_of = [](int stages) {
    ProgramBuilder program("stages");
    const MemoryRef x = program.input("x", DType::F32, {100});
    const MemoryRef y = program.output("y", DType::F32, {100});
    for (int i = 0; i < stages; ++i) {
      const MemoryRef buffer = program.buffer("b", DType::F32, {100}, kCache);
      program.serial("once", 1, [&](Expr) {
        program.vector("j", 100, [&](Expr j) {
          program.store(program.at(buffer, {j}), program.load(program.at(x, {j})));
        });
        program.vector("j", 100, [&](Expr j) {
          program.store(program.at(y, {j}), program.load(program.at(buffer, {j})));
        });
      });
    }
    return cpu::place_buffers(program.finish()).bytes;
  };
  EXPECT_EQ(bytes_of(3), bytes_of(1));
}

}  // namespace
}  // namespace opweld
