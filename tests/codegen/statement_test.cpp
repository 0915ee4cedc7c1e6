// Grids, loops, conditions, buffers and checks.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "kernel_runner.h"

namespace opweld {
namespace {

using ::testing::ElementsAre;
using testing::GuardedTensor;
using ::testing::HasSubstr;
using testing::KernelRunner;
using testing::kLengths;
using ::testing::Not;
using testing::test_targets;
using tile::Buffer;
using tile::Combiner;
using tile::MemoryRef;
using tile::ProgramBuilder;

// Every task writes its own number (1000 i + 10 j + k) to its own place.
TEST(Statement, DecodesGridsOfSeveralAxes) {
  const Dim n = Dim::symbol("n");
  ProgramBuilder program("grid");
  const MemoryRef y = program.output("y", DType::I64, {3, n, 10});
  const Expr i = program.grid("i", 3);
  const Expr j = program.grid("j", n);
  const Expr k = program.grid("k", 10, 4);
  const Expr number = program.add(program.add(program.mul(i, 1000), program.mul(j, 10)), k);
  program.store(program.at(y, {i, j, k}), number);
  const KernelRunner kernel(program.finish());
  for (const std::int64_t size : {0, 1, 5}) {
    EXPECT_EQ(kernel.kernel().num_tasks.evaluate(std::vector{size}).value(), 3 * size * 3);
    GuardedTensor output(DType::I64,
                         std::vector<ScalarValue>(static_cast<std::size_t>(30 * size), {0, -1}));
    ASSERT_EQ(kernel({output.data()}, {size}), 0);
    for (std::int64_t at = 0; at < 30 * size; ++at) {
      const std::int64_t last = at % 10;
      const std::int64_t expected =
          last % 4 == 0 ? at / (10 * size) * 1000 + at / 10 % size * 10 + last : -1;
      ASSERT_EQ(output.at(at).integer, expected) << at;
    }
  }
}

TEST(Statement, RunsARangeOfTasks) {
  ProgramBuilder program("range");
  const MemoryRef y = program.output("y", DType::I64, {20});
  const Expr i = program.grid("i", 20);
  program.store(program.at(y, {i}), i);
  const KernelRunner kernel(program.finish());
  GuardedTensor output(DType::I64, std::vector<ScalarValue>(20, {0, -1}));
  ASSERT_EQ(kernel.run({output.data()}, {}, 3, 7), 0);
  ASSERT_EQ(kernel.run({output.data()}, {}, 9, 9), 0);
  ASSERT_EQ(kernel.run({output.data()}, {}, 12, 11), 0);
  for (std::int64_t at = 0; at < 20; ++at) {
    EXPECT_EQ(output.at(at).integer, at >= 3 && at < 7 ? at : -1);
  }
}

// What a thread's tasks keep is made by the first of a key, and by those that make it again: here a
// number that tells how often, which all of the key then see.
class KeptNumbers {
 public:
  // Keys have four tasks; every other one of `again` makes it again.
  explicit KeptNumbers(bool again)
      : made_(DType::I64, std::vector<ScalarValue>(1, {0, 0})),
        seen_(DType::I64, std::vector<ScalarValue>(12, {0, -1})),
        scratch_(1024) {
    ProgramBuilder program("keep");
    const MemoryRef made = program.output("made", DType::I64, {1});
    const MemoryRef seen = program.output("seen", DType::I64, {3, 4});
    const MemoryRef kept = program.buffer("kept", DType::I64, {1}, Buffer::Space::Outer);
    const Expr key = program.grid("key", 3);
    const Expr task = program.grid("task", 4);
    const Expr is_second = program.exprs().binary(ExprKind::Eq, task, program.exprs().integer(2));
    program.keep(key, again ? is_second : kNoExpr, [&] {
      const Expr number = program.add(program.load(program.at(made, {0})), 1);
      program.store(program.at(made, {0}), number);
      program.store(program.at(kept, {0}), number);
    });
    program.store(program.at(seen, {key, task}), program.load(program.at(kept, {0})));
    kernel_.emplace(program.finish());
  }

  // On one thread, whose scratch memory stays as it is.
  void run(std::int64_t begin, std::int64_t end) {
    const std::vector<void*> params = {made_.data(), seen_.data()};
    ASSERT_EQ(kernel_->kernel().function(params.data(), nullptr, begin, end, scratch_.data()), 0);
  }
  void forget() { std::memset(scratch_.data(), 0, sizeof(std::int64_t)); }
  [[nodiscard]] std::vector<std::int64_t> seen() {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < 12; ++i) all.push_back(seen_.at(i).integer);
    return all;
  }

 private:
  GuardedTensor made_;
  GuardedTensor seen_;
  testing::GuardedArray<std::byte> scratch_;
  std::optional<KernelRunner> kernel_;
};

TEST(Statement, KeepsWhatTheFirstTaskOfAKeyMade) {
  KeptNumbers numbers(/*again=*/false);
  numbers.run(0, 12);
  EXPECT_THAT(numbers.seen(), ElementsAre(1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
}

TEST(Statement, KeepsItFromOneRangeOfTasksToTheNext) {
  KeptNumbers numbers(/*again=*/false);
  numbers.run(1, 3);
  numbers.run(5, 6);
  numbers.run(7, 8);
  numbers.run(0, 1);
  EXPECT_THAT(numbers.seen(), ElementsAre(3, 1, 1, -1, -1, 2, -1, 2, -1, -1, -1, -1));
  numbers.forget();
  numbers.run(0, 1);
  EXPECT_EQ(numbers.seen().front(), 4);
}

TEST(Statement, MakesAgainWhatIsKeptWhereAsked) {
  KeptNumbers numbers(/*again=*/true);
  numbers.run(0, 8);
  EXPECT_THAT(numbers.seen(), ElementsAre(1, 1, 2, 2, 3, 3, 4, 4, -1, -1, -1, -1));
}

TEST(Statement, AnEmptyGridIsOneTask) {
  ProgramBuilder program("one");
  const MemoryRef y = program.output("y", DType::I32, {1});
  program.store(program.at(y, {0}), program.exprs().integer(7, DType::I32));
  const KernelRunner kernel(program.finish());
  EXPECT_EQ(kernel.kernel().num_tasks.evaluate({}).value(), 1);
  GuardedTensor output(DType::I32, 1);
  ASSERT_EQ(kernel({output.data()}), 0);
  EXPECT_EQ(output.at(0).integer, 7);
}

// Loops with steps, inner extents that depend on outer loops, and loops that do not run at all.
TEST(Statement, NestsLoops) {
  const Dim n = Dim::symbol("n");
  ProgramBuilder program("triangle");
  const MemoryRef y = program.output("y", DType::I64, {n, n});
  ExprPool& pool = program.exprs();
  program.serial("i", n, 2, [&](Expr i) {
    program.serial("unused", program.sub(i, 1000),
                   [&](Expr k) { program.store(program.at(y, {k, k}), pool.integer(-5)); });
    program.vector("j", program.add(i, 1), {.unroll = 2}, [&](Expr j) {
      program.store(program.at(y, {i, j}), program.add(program.mul(i, 100), j));
    });
  });
  const KernelRunner kernel(program.finish());
  for (const std::int64_t size : {0, 1, 2, 9, 20}) {
    GuardedTensor output(DType::I64,
                         std::vector<ScalarValue>(static_cast<std::size_t>(size * size)));
    ASSERT_EQ(kernel({output.data()}, {size}), 0);
    for (std::int64_t at = 0; at < size * size; ++at) {
      const std::int64_t i = at / size;
      const std::int64_t j = at % size;
      ASSERT_EQ(output.at(at).integer, i % 2 == 0 && j <= i ? 100 * i + j : 0) << i << ", " << j;
    }
  }
}

TEST(Statement, BranchesOnConditions) {
  const Dim n = Dim::symbol("n");
  ProgramBuilder program("branch");
  const MemoryRef y = program.output("y", DType::I64, {n, 12});
  ExprPool& pool = program.exprs();
  program.serial("i", n, [&](Expr i) {
    const Expr odd =
        pool.binary(ExprKind::Eq, pool.binary(ExprKind::Mod, i, pool.integer(2)), pool.integer(1));
    program.vector("j", 12, [&](Expr j) {
      const Expr square = pool.binary(ExprKind::Mul, i, i);
      program.when(odd, [&] { program.store(program.at(y, {i, j}), program.add(square, j)); });
      // Computed again after the branch: what was emitted under it is not there.
      program.when(pool.unary(ExprKind::Not, odd),
                   [&] { program.store(program.at(y, {i, j}), program.sub(square, j)); });
    });
  });
  GuardedTensor output(DType::I64, 60);
  ASSERT_EQ(KernelRunner(program.finish())({output.data()}, {5}), 0);
  for (std::int64_t at = 0; at < 60; ++at) {
    const std::int64_t i = at / 12;
    const std::int64_t j = at % 12;
    ASSERT_EQ(output.at(at).integer, i % 2 == 1 ? i * i + j : i * i - j);
  }
}

// A row is kept in a cache buffer between two passes, in each dtype that a buffer may have.
TEST(Statement, KeepsRowsInCacheBuffers) {
  const Dim n = Dim::symbol("n");
  for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::I32, DType::Bool}) {
    ProgramBuilder program("rows");
    const MemoryRef x = program.input("x", dtype, {4, n});
    const MemoryRef y = program.output("y", dtype, {4, n});
    const MemoryRef first = program.buffer("first", dtype, {n}, Buffer::Space::Cache);
    const MemoryRef second = program.buffer("second", dtype, {n, 2}, Buffer::Space::Cache);
    const Expr row = program.grid("row", 4);
    program.vector("i", n, [&](Expr i) {
      const Expr v = program.load(program.at(x, {row, i}));
      program.store(program.at(first, {i}), v);
      program.store(program.at(second, {i, 1}), v);
    });
    program.vector("k", n, [&](Expr k) {
      const Expr back = program.sub(program.sub(n, 1), k);
      const Expr v = program.load(program.at(first, {back}));
      const Expr w = program.load(program.at(second, {back, 1}));
      const Expr same = program.exprs().binary(ExprKind::Eq, v, w);
      program.store(program.at(y, {row, k}), v, same);
    });
    const KernelRunner kernel(program.finish());
    for (const std::int64_t count : kLengths) {
      std::vector<ScalarValue> values;
      for (std::int64_t i = 0; i < 4 * count; ++i) {
        const std::int64_t number = dtype == DType::Bool ? i % 3 % 2 : i;
        values.push_back(is_float(dtype) ? ScalarValue{static_cast<double>(i % 1000), 0}
                                         : ScalarValue{0, number});
      }
      GuardedTensor input(dtype, values);
      GuardedTensor output(dtype, 4 * count);
      ASSERT_EQ(kernel({input.data(), output.data()}, {count}), 0);
      for (std::int64_t at = 0; at < 4 * count; ++at) {
        const std::int64_t from = at / count * count + (count - 1 - at % count);
        ASSERT_TRUE(testing::same(output.at(at), input.at(from)));
      }
    }
  }
}

// A register buffer is filled and read in unrolled loops, scalar and vector, and never in memory.
TEST(Statement, KeepsRegisterBuffersInRegisters) {
  ProgramBuilder program("registers");
  const MemoryRef x = program.input("x", DType::F32, {3, 40});
  const MemoryRef y = program.output("y", DType::F32, {3, 40});
  const MemoryRef tile = program.buffer("tile", DType::F32, {3, 40}, Buffer::Space::Register);
  const MemoryRef sums = program.buffer("sums", DType::F32, {3}, Buffer::Space::Register);
  ExprPool& pool = program.exprs();
  program.unrolled("i", 3, [&](Expr i) {
    program.store(program.at(sums, {i}), pool.constant(1, DType::F32));
    // Five vectors: more than one iteration of this loop.
    program.vector("j", 40, {.unroll = 2}, [&](Expr j) {
      program.store(program.at(tile, {i, j}), program.load(program.at(x, {i, j})));
    });
  });
  program.serial("times", 3, [&](Expr) {
    program.unrolled("k", 3, [&](Expr k) {
      const Expr sum = program.load(program.at(sums, {k}));
      program.store(program.at(sums, {k}), pool.binary(ExprKind::Add, sum, sum));
    });
  });
  program.unrolled("m", 3, [&](Expr m) {
    const Expr sum = program.load(program.at(sums, {m}));
    program.vector("p", 40, [&](Expr p) {
      const Expr v = program.load(program.at(tile, {m, p}));
      program.store(program.at(y, {m, p}), pool.binary(ExprKind::Mul, v, sum));
    });
  });
  const tile::TileProgram made = program.finish();
  for (const Target& target : test_targets()) {
    std::vector<ScalarValue> values;
    for (int i = 0; i < 120; ++i) values.push_back({static_cast<double>(i), 0});
    GuardedTensor input(DType::F32, values);
    GuardedTensor output(DType::F32, 120);
    ASSERT_EQ(KernelRunner(made, target)({input.data(), output.data()}), 0);
    for (std::int64_t i = 0; i < 120; ++i)
      ASSERT_EQ(output.at(i).real, 8.0 * static_cast<double>(i));
  }
  auto compiler = cpu::KernelCompiler::create(find_target("host-avx2").value(), {}).value();
  EXPECT_THAT(compiler.llvm_ir(made).value(), Not(HasSubstr("alloca")));
}

// A register row that is no multiple of the vector: 11 of 16 lanes count.
TEST(Statement, KeepsOddRegisterRows) {
  ProgramBuilder program("odd");
  const MemoryRef x = program.input("x", DType::F32, {11});
  const MemoryRef y = program.output("y", DType::F32, {1});
  const MemoryRef row = program.buffer("row", DType::F32, {11}, Buffer::Space::Register);
  Expr sum = kNoExpr;
  program.vector("i", 11, [&](Expr i) {
    program.store(program.at(row, {i}), program.load(program.at(x, {i})));
  });
  program.vector("j", 11, [&](Expr j) {
    sum = program.reduce(Combiner::Sum, program.load(program.at(row, {j})), j);
  });
  program.store(program.at(y, {0}), sum);
  const tile::TileProgram made = program.finish();
  for (const Target& target : test_targets()) {
    GuardedTensor input(DType::F32, std::vector<ScalarValue>(11, {2, 0}));
    GuardedTensor output(DType::F32, 1);
    ASSERT_EQ(KernelRunner(made, target)({input.data(), output.data()}), 0);
    EXPECT_EQ(output.at(0).real, 22) << target.name;
  }
}

TEST(Statement, ReportsTheCheckThatFails) {
  const Dim n = Dim::symbol("n");
  ProgramBuilder program("checks");
  const MemoryRef x = program.input("x", DType::I64, {n});
  ExprPool& pool = program.exprs();
  program.serial("k", 1, [&](Expr) {
    program.check(pool.binary(ExprKind::Lt, pool.size_of(n), pool.integer(1000)), "too many");
  });
  program.vector("i", n, {.unroll = 2}, [&](Expr i) {
    const Expr v = program.load(program.at(x, {i}));
    program.check(pool.binary(ExprKind::Le, pool.integer(0), v), "negative");
    program.check(pool.binary(ExprKind::Lt, v, pool.integer(50)), "too large");
  });
  const tile::TileProgram made = program.finish();
  for (const Target& target : test_targets()) {
    const KernelRunner kernel(made, target);
    for (const std::int64_t count : {1, 7, 8, 16, 17, 33}) {
      for (const std::int64_t bad : {std::int64_t{0}, count / 2, count - 1}) {
        for (const auto& [value, code] : {std::pair{7, 0}, {-1, 2}, {50, 3}}) {
          std::vector<ScalarValue> values(static_cast<std::size_t>(count), {0, 3});
          values[static_cast<std::size_t>(bad)].integer = value;
          GuardedTensor input(DType::I64, values);
          ASSERT_EQ(kernel({input.data()}, {count}), code) << bad << " of " << count;
        }
      }
    }
    GuardedTensor nothing(DType::I64, 1000);
    ASSERT_EQ(kernel({nothing.data()}, {1000}), 1);
    EXPECT_EQ(kernel.kernel().failure(1, nullptr), "too many");
    EXPECT_EQ(kernel.kernel().failure(3, nullptr), "too large");
  }
}

// The numbers that a check shows lie in the scratch memory, of which the program has little else.
TEST(Statement, ShowsTheNumbersOfTheCheckThatFails) {
  const Dim n = Dim::symbol("n");
  ProgramBuilder program("shows");
  const MemoryRef x = program.input("x", DType::I64, {n});
  ExprPool& pool = program.exprs();
  program.serial("i", n, [&](Expr i) {
    const Expr v = program.load(program.at(x, {i}));
    program.check(pool.binary(ExprKind::Ne, v, pool.integer(7)), "seven", {{"at", i}});
    program.check(pool.binary(ExprKind::Le, pool.integer(0), v), "negative",
                  {{"at", i}, {"value", v}, {"of", pool.size_of(n)}});
  });
  const tile::TileProgram made = program.finish();
  EXPECT_THAT(to_text(made), HasSubstr("\"negative\" showing at = i, value = v, of = n\n"));
  for (const Target& target : test_targets()) {
    const KernelRunner kernel(made, target);
    ASSERT_EQ(kernel.kernel().scratch_bytes.evaluate(std::vector<std::int64_t>{9}).value(), 24);
    std::vector<std::byte> scratch(24);
    const auto failure = [&](const std::vector<ScalarValue>& values) {
      GuardedTensor input(DType::I64, values);
      void* const params[] = {input.data()};
      const std::int64_t sizes[] = {input.size()};
      const std::int32_t code = kernel.kernel().function(params, sizes, 0, 1, scratch.data());
      return code == 0 ? "" : kernel.kernel().failure(code, scratch.data());
    };
    EXPECT_EQ(failure({{0, 1}, {0, 2}}), "");
    EXPECT_EQ(failure({{0, 1}, {0, 7}, {0, -1}}), "seven (at 1)");
    EXPECT_EQ(failure({{0, 1}, {0, 2}, {0, -5}}), "negative (at 2, value -5, of 3)");
  }
}

// The same program computes the same bits in vectors of any width.
TEST(Statement, LanesDoNotChangeElements) {
  const auto make = [](int lanes) {
    ProgramBuilder program("gelu");
    const MemoryRef x = program.input("x", DType::F32, {100});
    const MemoryRef y = program.output("y", DType::F32, {100});
    ExprPool& pool = program.exprs();
    program.vector("i", 100, {.unroll = 1, .lanes = lanes}, [&](Expr i) {
      const Expr v = program.load(program.at(x, {i}));
      const Expr e = pool.unary(ExprKind::Tanh, pool.unary(ExprKind::Exp, v));
      program.store(program.at(y, {i}), pool.binary(ExprKind::Div, pool.unary(ExprKind::Erf, e),
                                                    pool.binary(ExprKind::Add, v, e)));
    });
    return program.finish();
  };
  std::vector<ScalarValue> values;
  for (int i = 0; i < 100; ++i) values.push_back({std::sin(i) * 5, 0});
  GuardedTensor input(DType::F32, values);
  GuardedTensor expected(DType::F32, 100);
  const Target target = find_target("host-avx2").value();
  ASSERT_EQ(KernelRunner(make(8), target)({input.data(), expected.data()}), 0);
  for (const int lanes : {1, 2, 4, 16, 32}) {
    GuardedTensor output(DType::F32, 100);
    ASSERT_EQ(KernelRunner(make(lanes), target)({input.data(), output.data()}), 0);
    for (std::int64_t i = 0; i < 100; ++i) {
      ASSERT_EQ(output.at(i).real, expected.at(i).real) << lanes << " lanes at " << i;
    }
  }
}

}  // namespace
}  // namespace opweld
