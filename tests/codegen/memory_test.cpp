// Loads and stores: every dtype, stride and mask, at every length.
#include <gmock/gmock.h>

#include "kernel_runner.h"

namespace opweld {
namespace {

using testing::GuardedTensor;
using ::testing::HasSubstr;
using testing::KernelRunner;
using testing::kLengths;
using ::testing::Not;
using testing::same;
using testing::test_targets;
using tile::MemoryRef;
using tile::ProgramBuilder;

constexpr DType kAllDTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64,
                                DType::I32, DType::I16, DType::I8,  DType::U8,   DType::Bool};

// Values that every dtype holds exactly, with their signs.
std::vector<ScalarValue> counting(DType dtype, std::int64_t count) {
  std::vector<ScalarValue> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = (i * 37 + 11) % 251 - (dtype == DType::U8 ? 0 : 125);
    if (is_float(dtype)) {
      values.push_back({static_cast<double>(number), 0});
    } else {
      values.push_back({0, dtype == DType::Bool ? number & 1 : number});
    }
  }
  return values;
}

// Where the lanes of a vector loop over [0, n) read or write, among how many elements.
struct Pattern {
  std::string name;
  std::function<Expr(ExprPool&, Expr i, std::int64_t n)> index;
  std::function<std::int64_t(std::int64_t i, std::int64_t n)> expected;
  std::int64_t elements_per_lane;
};

std::vector<Pattern> patterns() {
  const auto number = [](ExprPool& pool, std::int64_t value) { return pool.integer(value); };
  return {
      {"contiguous", [](ExprPool&, Expr i, std::int64_t) { return i; },
       [](std::int64_t i, std::int64_t) { return i; }, 1},
      {"offset",
       [=](ExprPool& pool, Expr i, std::int64_t n) {
         return pool.binary(ExprKind::Add, number(pool, n), i);
       },
       [](std::int64_t i, std::int64_t n) { return n + i; }, 2},
      {"strided",
       [=](ExprPool& pool, Expr i, std::int64_t) {
         return pool.binary(ExprKind::Mul, i, number(pool, 3));
       },
       [](std::int64_t i, std::int64_t) { return 3 * i; }, 3},
      {"reversed",
       [=](ExprPool& pool, Expr i, std::int64_t n) {
         return pool.binary(ExprKind::Sub, number(pool, n - 1), i);
       },
       [](std::int64_t i, std::int64_t n) { return n - 1 - i; }, 1},
      {"wide",
       [=](ExprPool& pool, Expr i, std::int64_t n) {
         return pool.binary(ExprKind::Mul, i, number(pool, n));
       },
       [](std::int64_t i, std::int64_t n) { return i * n; }, 640},
      {"scattered",
       [=](ExprPool& pool, Expr i, std::int64_t n) {
         const Expr half = pool.binary(ExprKind::Div, i, number(pool, 2));
         const Expr odd = pool.binary(ExprKind::Mod, i, number(pool, 2));
         return pool.binary(ExprKind::Add, half,
                            pool.binary(ExprKind::Mul, odd, number(pool, (n + 1) / 2)));
       },
       [](std::int64_t i, std::int64_t n) { return i / 2 + i % 2 * ((n + 1) / 2); }, 1},
  };
}

enum class Side { Load, Store };

tile::TileProgram copy_program(DType dtype, const Pattern& pattern, Side side, std::int64_t n,
                               std::int64_t elements,
                               const tile::ProgramBuilder::VectorOptions& options) {
  ProgramBuilder program("copy");
  const MemoryRef x = program.input("x", dtype, {elements});
  const MemoryRef y = program.output("y", dtype, {elements});
  program.vector("i", n, options, [&](Expr i) {
    const Expr there = pattern.index(program.exprs(), i, n);
    const Expr from = side == Side::Load ? there : i;
    const Expr to = side == Side::Load ? i : there;
    program.store(program.at(y, {to}), program.load(program.at(x, {from})));
  });
  return program.finish();
}

void check_copy(DType dtype, const Pattern& pattern, Side side, std::int64_t n,
                const Target& target) {
  const std::int64_t last = n == 0                             ? 0
                            : pattern.elements_per_lane == 640 ? (n - 1) * n + 1
                                                               : pattern.elements_per_lane * n;
  const KernelRunner kernel(copy_program(dtype, pattern, side, n, last, {.unroll = 2}), target);
  GuardedTensor x(dtype, counting(dtype, last));
  GuardedTensor y(dtype, counting(dtype, last));
  ASSERT_EQ(kernel({x.data(), y.data()}), 0);
  std::vector<ScalarValue> expected = counting(dtype, last);
  const std::vector<ScalarValue> source = counting(dtype, last);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto here = static_cast<std::size_t>(i);
    const auto there = static_cast<std::size_t>(pattern.expected(i, n));
    if (side == Side::Load) {
      expected[here] = source[there];
    } else {
      expected[there] = source[here];
    }
  }
  for (std::int64_t i = 0; i < last; ++i) {
    ASSERT_TRUE(same(y.at(i), expected[static_cast<std::size_t>(i)]))
        << pattern.name << " of " << to_string(dtype) << " at " << i << " of " << n << " on "
        << target.name;
  }
}

struct MemoryOf : ::testing::TestWithParam<DType> {};

TEST_P(MemoryOf, LoadsAndStoresInEveryPattern) {
  const Target target = find_target("host-avx2").value();
  for (const Pattern& pattern : patterns()) {
    for (const std::int64_t n : kLengths) {
      if (pattern.elements_per_lane == 640 && n > 33) continue;
      check_copy(GetParam(), pattern, Side::Load, n, target);
      check_copy(GetParam(), pattern, Side::Store, n, target);
    }
  }
}

TEST_P(MemoryOf, LoadsAndStoresOnEveryTarget) {
  for (const Target& target : test_targets()) {
    for (const Pattern& pattern : patterns()) {
      check_copy(GetParam(), pattern, Side::Load, 31, target);
      check_copy(GetParam(), pattern, Side::Store, 31, target);
    }
  }
}

// Elements that are not wanted read as 0, and are not touched: x ends where the condition does.
TEST_P(MemoryOf, LoadsWhereAConditionHolds) {
  const DType dtype = GetParam();
  for (const Target& target : test_targets()) {
    for (const std::int64_t n : {1, 7, 16, 33}) {
      for (const std::int64_t limit : {std::int64_t{0}, n / 2, n}) {
        ProgramBuilder program("where");
        const MemoryRef x = program.input("x", dtype, {limit});
        const MemoryRef y = program.output("y", dtype, {3, n});
        ExprPool& pool = program.exprs();
        program.vector("i", n, [&](Expr i) {
          const Expr inside = pool.binary(ExprKind::Lt, i, pool.integer(limit));
          const Expr any = pool.binary(ExprKind::Lt, pool.integer(0), pool.integer(limit));
          program.store(program.at(y, {0, i}), program.load(program.at(x, {i}), inside));
          const Expr back = pool.binary(ExprKind::Sub, pool.integer(limit - 1), i);
          program.store(program.at(y, {1, i}), program.load(program.at(x, {back}), inside));
          const Expr first = program.load(program.at(x, {0}), any);
          program.store(program.at(y, {2, i}), first);
        });
        const KernelRunner kernel(program.finish(), target);
        const auto source = counting(dtype, limit);
        GuardedTensor input(dtype, source);
        GuardedTensor output(dtype, 3 * n);
        ASSERT_EQ(kernel({input.data(), output.data()}), 0);
        for (std::int64_t i = 0; i < n; ++i) {
          const auto at = [&](std::int64_t index, bool holds) {
            return holds ? source[static_cast<std::size_t>(index)] : ScalarValue{};
          };
          ASSERT_TRUE(same(output.at(i), at(i, i < limit)));
          ASSERT_TRUE(same(output.at(n + i), at(limit - 1 - i, i < limit)));
          ASSERT_TRUE(same(output.at(2 * n + i), at(0, limit > 0)));
        }
      }
    }
  }
}

TEST_P(MemoryOf, StoresWhereAConditionHolds) {
  const DType dtype = GetParam();
  for (const Target& target : test_targets()) {
    for (const std::int64_t n : {1, 7, 16, 33}) {
      for (const std::int64_t limit : {std::int64_t{0}, n / 2, n}) {
        ProgramBuilder program("where");
        const MemoryRef x = program.input("x", dtype, {n});
        const MemoryRef y = program.output("y", dtype, {limit});
        const MemoryRef z = program.output("z", dtype, {limit});
        const MemoryRef one = program.output("one", dtype, {1});
        ExprPool& pool = program.exprs();
        program.vector("i", n, [&](Expr i) {
          const Expr v = program.load(program.at(x, {i}));
          const Expr inside = pool.binary(ExprKind::Lt, i, pool.integer(limit));
          const Expr back = pool.binary(ExprKind::Sub, pool.integer(limit - 1), i);
          program.store(program.at(y, {i}), v, inside);
          program.store(program.at(z, {back}), v, inside);
          program.store(program.at(one, {0}), program.load(program.at(x, {0})), inside);
        });
        const KernelRunner kernel(program.finish(), target);
        const auto source = counting(dtype, n);
        GuardedTensor input(dtype, source);
        GuardedTensor forward(dtype, limit);
        GuardedTensor backward(dtype, limit);
        GuardedTensor single(dtype, {ScalarValue{}});
        ASSERT_EQ(kernel({input.data(), forward.data(), backward.data(), single.data()}), 0);
        for (std::int64_t i = 0; i < limit; ++i) {
          ASSERT_TRUE(same(forward.at(i), source[static_cast<std::size_t>(i)]));
          ASSERT_TRUE(same(backward.at(limit - 1 - i), source[static_cast<std::size_t>(i)]));
        }
        ASSERT_TRUE(same(single.at(0), limit > 0 ? source[0] : ScalarValue{}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, MemoryOf, ::testing::ValuesIn(kAllDTypes),
                         [](const auto& test) { return std::string(to_string(test.param)); });

// Any byte but 0 is true, whoever wrote it.
TEST(Memory, ReadsEveryNonZeroByteAsTrue) {
  ProgramBuilder program("bools");
  const MemoryRef x = program.input("x", DType::Bool, {20});
  const MemoryRef y = program.output("y", DType::Bool, {20});
  program.vector("i", 20, [&](Expr i) {
    program.store(program.at(y, {i}), program.load(program.at(x, {i})));
  });
  testing::GuardedArray<std::uint8_t> input(20);
  testing::GuardedArray<std::uint8_t> output(20);
  for (std::size_t i = 0; i < 20; ++i) input[i] = static_cast<std::uint8_t>(i * 2 % 256);
  ASSERT_EQ(KernelRunner(program.finish())({input.data(), output.data()}), 0);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(output[i], i == 0 ? 0 : 1);
}

// Positions from a tensor, some of them masked off.
TEST(Memory, GathersAndScattersByPosition) {
  for (const DType positions : {DType::I64, DType::I32}) {
    for (const Target& target : test_targets()) {
      for (const std::int64_t n : kLengths) {
        ProgramBuilder program("gather");
        const MemoryRef data = program.input("data", DType::F32, {100});
        const MemoryRef at = program.input("at", positions, {n});
        const MemoryRef y = program.output("y", DType::F32, {n});
        const MemoryRef z = program.output("z", DType::F32, {700});
        ExprPool& pool = program.exprs();
        program.vector("i", n, [&](Expr i) {
          const Expr position = pool.convert(program.load(program.at(at, {i})), DType::I64);
          const Expr valid = pool.binary(ExprKind::Le, pool.integer(0), position);
          const Expr v = program.load(program.at(data, {position}), valid);
          program.store(program.at(y, {i}), v);
          const Expr place = pool.binary(ExprKind::Sub, pool.integer(699), i);
          const Expr scattered = pool.select(valid, place, pool.integer(0));
          program.store(program.at(z, {scattered}), v, valid);
        });
        const KernelRunner kernel(program.finish(), target);
        const auto source = counting(DType::F32, 100);
        std::vector<ScalarValue> index;
        for (std::int64_t i = 0; i < n; ++i) {
          index.push_back({0, i % 5 == 4 ? -1000000 : (i * 7) % 100});
        }
        GuardedTensor x(DType::F32, source);
        GuardedTensor p(positions, index);
        GuardedTensor gathered(DType::F32, n);
        GuardedTensor scattered(DType::F32, 700);
        ASSERT_EQ(kernel({x.data(), p.data(), gathered.data(), scattered.data()}), 0);
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t from = index[static_cast<std::size_t>(i)].integer;
          const ScalarValue expected =
              from < 0 ? ScalarValue{} : source[static_cast<std::size_t>(from)];
          ASSERT_TRUE(same(gathered.at(i), expected));
          if (from >= 0) {
            ASSERT_TRUE(same(scattered.at(699 - i), expected));
          }
        }
      }
    }
  }
}

// A symbolic row length: the stride is known at run time only.
TEST(Memory, ReadsColumnsOfAMatrixOfAnySize) {
  const Dim rows = Dim::symbol("r");
  const Dim columns = Dim::symbol("c");
  ProgramBuilder program("transpose");
  const MemoryRef x = program.input("x", DType::F32, {rows, columns});
  const MemoryRef y = program.output("y", DType::F32, {columns, rows});
  const Expr column = program.grid("c", columns);
  program.vector("r", rows, [&](Expr row) {
    program.store(program.at(y, {column, row}), program.load(program.at(x, {row, column})));
  });
  const KernelRunner kernel(program.finish());
  for (const std::int64_t r : {0, 1, 7, 8, 17}) {
    for (const std::int64_t c : {0, 1, 5, 16}) {
      const auto source = counting(DType::F32, r * c);
      GuardedTensor input(DType::F32, source);
      GuardedTensor output(DType::F32, r * c);
      ASSERT_EQ(kernel({input.data(), output.data()}, {c, r}), 0);
      for (std::int64_t i = 0; i < r * c; ++i) {
        ASSERT_TRUE(same(output.at(i), source[static_cast<std::size_t>(i % r * c + i / r)]));
      }
    }
  }
}

// [h, s, 64] read as [s, h * 64]: the division by 64 is invariant in a vector, so that the access
// is one vector load.
TEST(Memory, SplitsHeadsWithoutAGather) {
  const Dim s = Dim::symbol("s");
  ProgramBuilder program("heads");
  const MemoryRef x = program.input("x", DType::F32, {3, s, 64});
  const MemoryRef y = program.output("y", DType::F32, {s, 192});
  ExprPool& pool = program.exprs();
  const Expr row = program.grid("row", s);
  program.vector("c", 192, [&](Expr c) {
    const Expr head = pool.binary(ExprKind::Div, c, pool.integer(64));
    const Expr within = pool.binary(ExprKind::Mod, c, pool.integer(64));
    program.store(program.at(y, {row, c}), program.load(program.at(x, {head, row, within})));
  });
  const tile::TileProgram made = program.finish();
  auto compiler = cpu::KernelCompiler::create(find_target("host-avx2").value(), {}).value();
  const std::string ir = compiler.llvm_ir(made).value();
  EXPECT_THAT(ir, HasSubstr("load <8 x float>"));
  EXPECT_THAT(ir, Not(HasSubstr("gather")));
  EXPECT_THAT(ir, Not(HasSubstr("insertelement")));
  for (const std::int64_t size : {0, 1, 3}) {
    const auto source = counting(DType::F32, size * 192);
    GuardedTensor input(DType::F32, source);
    GuardedTensor output(DType::F32, size * 192);
    ASSERT_EQ(KernelRunner(made)({input.data(), output.data()}, {size}), 0);
    for (std::int64_t i = 0; i < size * 192; ++i) {
      const std::int64_t from = i % 192 / 64 * size * 64 + i / 192 * 64 + i % 64;
      ASSERT_TRUE(same(output.at(i), source[static_cast<std::size_t>(from)]));
    }
  }
}

// The same in heads of 20: a vector crosses from one head into the next.
TEST(Memory, SplitsHeadsThatVectorsCross) {
  ProgramBuilder program("heads");
  const MemoryRef x = program.input("x", DType::F32, {3, 2, 20});
  const MemoryRef y = program.output("y", DType::F32, {2, 60});
  ExprPool& pool = program.exprs();
  const Expr row = program.grid("row", 2);
  program.vector("c", 60, [&](Expr c) {
    const Expr head = pool.binary(ExprKind::Div, c, pool.integer(20));
    const Expr within = pool.binary(ExprKind::Mod, c, pool.integer(20));
    program.store(program.at(y, {row, c}), program.load(program.at(x, {head, row, within})));
  });
  const auto source = counting(DType::F32, 120);
  GuardedTensor input(DType::F32, source);
  GuardedTensor output(DType::F32, 120);
  ASSERT_EQ(KernelRunner(program.finish())({input.data(), output.data()}), 0);
  for (std::int64_t i = 0; i < 120; ++i) {
    const std::int64_t from = i % 60 / 20 * 40 + i / 60 * 20 + i % 20;
    ASSERT_TRUE(same(output.at(i), source[static_cast<std::size_t>(from)])) << i;
  }
}

// An output may lie over an input of the same shape and dtype.
TEST(Memory, WorksInPlace) {
  ProgramBuilder program("in_place");
  const MemoryRef x = program.input("x", DType::F32, {33});
  const MemoryRef y = program.output("y", DType::F32, {33});
  program.vector("i", 33, {.unroll = 4}, [&](Expr i) {
    const Expr v = program.load(program.at(x, {i}));
    program.store(program.at(y, {i}), program.exprs().binary(ExprKind::Add, v, v));
  });
  GuardedTensor both(DType::F32, counting(DType::F32, 33));
  ASSERT_EQ(KernelRunner(program.finish())({both.data(), both.data()}), 0);
  for (std::int64_t i = 0; i < 33; ++i) {
    ASSERT_EQ(both.at(i).real, 2 * counting(DType::F32, 33)[static_cast<std::size_t>(i)].real);
  }
}

}  // namespace
}  // namespace opweld
