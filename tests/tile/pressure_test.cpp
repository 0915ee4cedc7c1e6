#include "tile/pressure.h"

#include <gtest/gtest.h>

#include "tile/program_builder.h"

namespace opweld::tile {
namespace {

Target eight_lanes() {
  Target target;
  target.vector_bits = 256;
  return target;
}

int registers(const TileProgram& program) {
  return estimate_pressure(program, eight_lanes()).vector_registers;
}

// The sum of so many inputs, of their negatives where `negated`, which all are made first.
TileProgram sum_of(int inputs, bool negated) {
  ProgramBuilder program("sum");
  std::vector<MemoryRef> x;
  for (int i = 0; i < inputs; ++i) x.push_back(program.input("x", DType::F32, {64}));
  const MemoryRef y = program.output("y", DType::F32, {64});
  program.vector("i", 64, {.unroll = 4}, [&](Expr i) {
    std::vector<Expr> values;
    for (const MemoryRef& each : x) {
      const Expr loaded = program.load(program.at(each, {i}));
      values.push_back(negated ? program.map(program.exprs().unary(ExprKind::Neg, loaded))
                               : loaded);
    }
    Expr sum = values[0];
    for (int k = 1; k < inputs; ++k) {
      sum = program.exprs().binary(ExprKind::Add, sum, values[static_cast<std::size_t>(k)]);
    }
    program.store(program.at(y, {i}), sum);
  });
  return program.finish();
}

TEST(Pressure, CountsWhatIsAliveAtOnce) {
  for (const int inputs : {2, 5, 20}) EXPECT_EQ(registers(sum_of(inputs, true)), inputs);
}

TEST(Pressure, WhatIsLoadedIsFetchedWhereItIsRead) {
  for (const int inputs : {2, 5, 20}) EXPECT_EQ(registers(sum_of(inputs, false)), 2);
}

TEST(Pressure, AValueThatTwoStatementsReadIsMadeOnce) {
  // Once it is made, what it was made of is needed no longer.
  ProgramBuilder program("square");
  const MemoryRef y = program.output("y", DType::F32, {64});
  const MemoryRef z = program.output("z", DType::F32, {64});
  std::vector<MemoryRef> x;
  for (int i = 0; i < 20; ++i) x.push_back(program.input("x", DType::F32, {64}));
  ExprPool& pool = program.exprs();
  program.vector("i", 64, [&](Expr i) {
    Expr sum = program.load(program.at(x[0], {i}));
    for (std::size_t k = 1; k < x.size(); ++k) {
      sum = pool.binary(ExprKind::Add, sum, program.load(program.at(x[k], {i})));
    }
    program.store(program.at(y, {i}), sum);
    program.store(program.at(z, {i}), pool.binary(ExprKind::Mul, sum, sum));
  });
  EXPECT_EQ(registers(program.finish()), 2);
}

int registers_of(ExprKind kind, DType dtype, int unroll, const Target& target) {
  ProgramBuilder program("function");
  const MemoryRef x = program.input("x", dtype, {64});
  const MemoryRef y = program.output("y", dtype, {64});
  program.vector("i", 64, {.unroll = unroll}, [&](Expr i) {
    const Expr value = program.load(program.at(x, {i}));
    program.store(program.at(y, {i}), program.exprs().unary(kind, value));
  });
  return estimate_pressure(program.finish(), target).vector_registers;
}

TEST(Pressure, CountsWhatElementaryFunctionsComputeWith) {
  const Target target = eight_lanes();
  EXPECT_EQ(registers_of(ExprKind::Neg, DType::F32, 1, target), 1);
  const int one = registers_of(ExprKind::Exp, DType::F32, 1, target);
  EXPECT_GT(one, 2);
  // The next vector is begun before one is done.
  EXPECT_EQ(registers_of(ExprKind::Exp, DType::F32, 4, target) - 1, 2 * (one - 1));
  // No vector outlives a call in its register.
  EXPECT_GT(registers_of(ExprKind::Sin, DType::F32, 1, target), target.vector_registers);
  EXPECT_GT(registers_of(ExprKind::Exp, DType::F64, 1, target), target.vector_registers);
  Target accelerator = target;  // has an instruction for it
  accelerator.planned_only = true;
  EXPECT_EQ(registers_of(ExprKind::Exp, DType::F32, 4, accelerator), 1);
}

TEST(Pressure, AValueThatIsUsedAtOnceDiesAtOnce) {
  ProgramBuilder program("chain");
  const MemoryRef x = program.input("x", DType::F32, {64});
  const MemoryRef y = program.output("y", DType::F32, {64});
  program.vector("i", 64, [&](Expr i) {
    Expr sum = program.load(program.at(x, {i}));
    for (int k = 0; k < 30; ++k) {
      sum = program.map(
          program.exprs().binary(ExprKind::Mul, sum, program.exprs().constant(k + 2, DType::F32)));
    }
    program.store(program.at(y, {i}), sum);
  });
  EXPECT_EQ(registers(program.finish()), 1);
}

TEST(Pressure, KeepsValuesThroughNestedLoops) {
  ProgramBuilder program("nested");
  const MemoryRef x = program.input("x", DType::F32, {8, 64});
  const MemoryRef y = program.output("y", DType::F32, {64});
  ExprPool& pool = program.exprs();
  program.vector("i", 64, [&](Expr i) {
    const Expr a = program.load(program.at(x, {0, i}));
    const Expr b = program.load(program.at(x, {1, i}));
    Expr sum = kNoExpr;
    program.serial("k", 8, [&](Expr k) {
      const Expr v = program.load(program.at(x, {k, i}));
      const Expr scaled = program.map(pool.binary(ExprKind::Mul, v, a));
      sum = program.reduce(Combiner::Sum, pool.binary(ExprKind::Add, scaled, b), k);
    });
    program.store(program.at(y, {i}), sum);
  });
  // a and b until the loop ends, the accumulator, and the value in hand.
  EXPECT_EQ(registers(program.finish()), 4);
}

TEST(Pressure, CountsAccumulatorsForEachUnrolledVector) {
  ProgramBuilder program("sum");
  const MemoryRef x = program.input("x", DType::F32, {64});
  const MemoryRef y = program.output("y", DType::F32, {1});
  Expr sum = kNoExpr;
  program.vector("i", 64, {.unroll = 4}, [&](Expr i) {
    sum = program.reduce(Combiner::Sum, program.load(program.at(x, {i})), i);
  });
  program.store(program.at(y, {0}), sum);
  EXPECT_EQ(registers(program.finish()), 5);
}

TEST(Pressure, CountsTheTileOfADot) {
  ProgramBuilder program("dot");
  const MemoryRef a = program.input("a", DType::F32, {6, 64});
  const MemoryRef b = program.input("b", DType::F32, {64, 16});
  const MemoryRef tile = program.buffer("tile", DType::F32, {6, 16}, Buffer::Space::Register);
  program.buffer("row", DType::F32, {100}, Buffer::Space::Cache);
  ExprPool& pool = program.exprs();
  Dot dot;
  dot.accumulator = tile.target;
  dot.a = program.at_offset(a, 0);
  dot.a_row_stride = pool.integer(64);
  dot.a_depth_stride = pool.integer(1);
  dot.b = program.at_offset(b, 0);
  dot.b_depth_stride = pool.integer(16);
  dot.depth = pool.integer(64);
  dot.rows = 6;
  dot.columns = 16;
  program.dot(dot);
  const Pressure pressure = estimate_pressure(program.finish(), eight_lanes());
  // 6 x 2 accumulators, 2 vectors of b, one broadcast of a.
  EXPECT_EQ(pressure.vector_registers, 15);
  EXPECT_EQ(pressure.cache_bytes, Dim(400));
}

TEST(Pressure, RegisterBuffersAreHeldFromFirstToLastUse) {
  // One tile after the other, each filled in one loop and stored in the next.
  ProgramBuilder program("tiles");
  const MemoryRef x = program.input("x", DType::F32, {4, 8});
  const MemoryRef y = program.output("y", DType::F32, {4, 8});
  for (int i = 0; i < 3; ++i) {
    const MemoryRef tile = program.buffer("tile", DType::F32, {4, 8}, Buffer::Space::Register);
    for (const bool fills : {true, false}) {
      program.unrolled("r", 4, [&](Expr row) {
        program.vector("j", 8, [&](Expr column) {
          const Expr value = program.load(program.at(fills ? x : tile, {row, column}));
          program.store(program.at(fills ? tile : y, {row, column}), value);
        });
      });
    }
  }
  // Four vectors of one tile, and the value in hand.
  EXPECT_EQ(registers(program.finish()), 5);
}

TEST(Pressure, VectorsBeyondTheRegistersSpill) {
  Target target = eight_lanes();
  target.vector_registers = 16;
  EXPECT_EQ((Pressure{.cache_bytes = 400, .vector_registers = 16}.on_chip_bytes(target)), Dim(400));
  EXPECT_EQ((Pressure{.cache_bytes = 400, .vector_registers = 19}.on_chip_bytes(target)),
            Dim(400 + 3 * 32));
}

}  // namespace
}  // namespace opweld::tile
