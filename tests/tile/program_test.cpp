#include <gtest/gtest.h>

#include "tile/buffer_lifetimes.h"
#include "tile/program_builder.h"
#include "tile/tile_ir.h"
#include "tile/walk.h"

namespace opweld::tile {
namespace {

TEST(ProgramText, ShowsARowReduction) {
  const Dim rows = Dim::symbol("s", {1, 512, 8});
  ProgramBuilder program("row_norm");
  const MemoryRef x = program.input("x", DType::F16, {rows, 128});
  const MemoryRef y = program.output("y", DType::F32, {rows, 128});
  const MemoryRef t = program.buffer("t", DType::F32, {128}, Buffer::Space::Cache);
  ExprPool& exprs = program.exprs();
  const Expr row = program.grid("row", rows);
  Expr sum = kNoExpr;
  program.vector("c", 128, {.unroll = 4, .lanes = 8}, [&](Expr c) {
    const Expr v = program.load(program.at(x, {row, c}));
    program.store(program.at(t, {c}), v);
    sum = program.reduce(Combiner::Sum, exprs.binary(ExprKind::Mul, v, v), c, "q");
  });
  program.vector("c", 128, [&](Expr c) {
    const Expr v = program.load(program.at(t, {c}));
    const Expr scale = exprs.unary(ExprKind::Rsqrt, sum);
    program.store(program.at(y, {row, c}), exprs.binary(ExprKind::Mul, v, scale));
  });
  EXPECT_EQ(to_text(program.finish()),
            "kernel row_norm(x: f16[s, 128] in, y: f32[s, 128] out)\n"
            "  sizes s in [1, 512] divisible 8\n"
            "  grid row in s\n"
            "  buffer t: f32[128] cache\n"
            "  for c in 128 vector lanes 8 by 4\n"
            "    load v <- x[row, c]\n"
            "    store t[c] <- v\n"
            "    reduce q <- sum(v * v) over c\n"
            "  for c_1 in 128 vector\n"
            "    load v_1 <- t[c_1]\n"
            "    store y[row, c_1] <- v_1 * rsqrt(q)\n");
}

TEST(ProgramText, ShowsEveryKindOfStatement) {
  const Dim n = Dim::symbol("n");
  ProgramBuilder program("all");
  const MemoryRef a = program.input("a", DType::F32, {n, 64});
  const MemoryRef w = program.packed_input("w", DType::F32, {4, 64, 16}, 16, true, 2);
  const MemoryRef y = program.output("y", DType::I64, {n, 16});
  const MemoryRef acc = program.buffer("acc", DType::F32, {2, 16}, Buffer::Space::Register);
  ExprPool& exprs = program.exprs();
  const Expr m = program.grid("m", n, 2);
  program.grid("panel", 4);
  Dot dot;
  dot.accumulator = acc.target;
  dot.a = program.at_offset(a, program.mul(m, 64));
  dot.a_row_stride = exprs.integer(64);
  dot.a_depth_stride = exprs.integer(1);
  dot.b = program.at_offset(w, 0);
  dot.b_depth_stride = exprs.integer(8);
  dot.b_panel_columns = 8;
  dot.b_panel_stride = exprs.integer(512);
  dot.depth = exprs.integer(64);
  dot.rows = 2;
  dot.columns = 16;
  dot.ahead = Dot::Ahead{
      .start = program.at_offset(w, 1024), .stride = program.add(m, 2), .rates = {4, 16}};
  program.dot(dot);
  program.unrolled("i", 2, [&](Expr i) {
    const Expr row = program.add(m, i);
    program.when(exprs.binary(ExprKind::Lt, row, exprs.size_of(n)), [&] {
      Expr best = kNoExpr;
      const Expr over = program.vector("j", 16, [&](Expr j) {
        const Expr v = program.load(program.at(acc, {i, j}));
        const Expr e = exprs.unary(ExprKind::Exp, v);
        const Expr t = program.map(exprs.binary(
            ExprKind::Div, e, exprs.binary(ExprKind::Add, e, exprs.constant(1, DType::F32))));
        program.check(exprs.binary(ExprKind::Ne, t, exprs.constant(0.1, DType::F32)), "node 'x'");
        best = program.arg_reduce(Combiner::ArgMaxFirst, t, j, j);
      });
      ASSERT_EQ(exprs[over].kind, ExprKind::Loop);
      program.serial("k", 16, 4, [&](Expr k) {
        const Expr first = exprs.binary(ExprKind::Eq, k, exprs.integer(0));
        program.store(program.at(y, {row, k}), best, first);
        program.prefetch(program.at(a, {program.add(row, 1), k}));
      });
    });
  });
  EXPECT_EQ(to_text(program.finish()),
            "kernel all(a: f32[n, 64] in, w: f32[4, 64, 16] packed(16 transposed parts 2), "
            "y: i64[n, 16] out)\n"
            "  sizes n in [0, 1099511627776]\n"
            "  grid m in n step 2, panel in 4\n"
            "  buffer acc: f32[2, 16] register\n"
            "  dot acc += a @ m * 64 . w @ 0 rows 2 columns 16 depth 64 strides 64, 1, 8"
            " panels of 8 stride 512 ahead w @ 1024 by m + 2 at rates 4, 16\n"
            "  for i in 2 unroll\n"
            "    if m + i < {n}\n"
            "      for j in 16 vector\n"
            "        load v <- acc[i, j]\n"
            "        let %0 = exp(v)\n"
            "        map t <- %0 / (%0 + 1.0)\n"
            "        check t != 0.1 \"node 'x'\"\n"
            "        reduce r <- arg_max_first(t at j) over j\n"
            "      for k in 16 step 4 serial\n"
            "        store y[m + i, k] <- r where k == 0\n"
            "        prefetch a[m + i + 1, k]\n");
}

TEST(ProgramText, ShowsStretchesOfHeads) {
  ProgramBuilder program("heads");
  program.packed_input("w", DType::F32, {2, 8, 32}, 32, false, 2, false, {{8, 1}, {24, 12}});
  program.output("y", DType::F32, {1});
  EXPECT_EQ(to_text(program.finish()),
            "kernel heads(w: f32[2, 8, 32] packed(32 parts 2 heads 8 by 1, 24 by 12), y: f32[1] "
            "out)\n");
}

TEST(ProgramText, ShowsDotsOnAMatrixUnit) {
  const Dim m = Dim::symbol("m", {1, 32, 1});
  ProgramBuilder program("unit");
  ExprPool& exprs = program.exprs();
  const MemoryRef a = program.input("a", DType::BF16, {m, 64});
  const MemoryRef w = program.packed_input("w", DType::BF16, {2, 32, 64}, 32, false, 1, true);
  program.output("y", DType::F32, {m, 64});
  const MemoryRef c = program.buffer("c", DType::F32, {32, 64}, Buffer::Space::Cache);
  const Expr panel = program.grid("panel", 2);
  MatrixDot dot;
  dot.accumulator = program.at_offset(c, program.mul(panel, 32));
  dot.accumulator_row_stride = exprs.integer(64);
  dot.from_zero = exprs.binary(ExprKind::Eq, panel, exprs.integer(0));
  dot.a = program.at_offset(a, 0);
  dot.a_row_stride = exprs.integer(64);
  dot.b = program.at_offset(w, program.mul(panel, 2048));
  dot.depth = exprs.integer(32);
  dot.row_count = exprs.size_of(m);
  program.matrix_dot(dot);
  dot.from_zero = kNoExpr;
  program.matrix_dot(dot);
  const TileProgram finished = program.finish();
  EXPECT_TRUE(uses_matrix_unit(finished));
  EXPECT_EQ(to_text(finished),
            "kernel unit(a: bf16[m, 64] in, w: bf16[2, 32, 64] packed(32 pairs), "
            "y: f32[m, 64] out)\n"
            "  sizes m in [1, 32]\n"
            "  grid panel in 2\n"
            "  buffer c: f32[32, 64] cache\n"
            "  matrix_dot c @ panel * 32 += a @ 0 . w @ panel * 2048 rows m depth 32"
            " strides 64, 64 from zero if panel == 0\n"
            "  matrix_dot c @ panel * 32 += a @ 0 . w @ panel * 2048 rows m depth 32"
            " strides 64, 64\n");
}

TEST(ProgramText, ShowsTransposesAndPairs) {
  ProgramBuilder program("turned");
  ExprPool& exprs = program.exprs();
  const MemoryRef x = program.input("x", DType::BF16, {32, 64});
  program.output("y", DType::F32, {1});
  const MemoryRef t = program.buffer("t", DType::BF16, {64, 32}, Buffer::Space::Cache);
  Transpose transpose;
  transpose.to = program.at_offset(t, 0);
  transpose.from = program.at_offset(x, 0);
  transpose.to_row_stride = exprs.integer(64);
  transpose.from_row_stride = exprs.integer(64);
  transpose.rows = transpose.columns = exprs.integer(32);
  transpose.pairs = true;
  program.transpose(transpose);
  transpose.pairs = false;
  program.transpose(transpose);
  program.vector("j", 16, [&](Expr j) {
    const Expr v = program.load(program.at(x, {0, j}));
    program.store_pair(program.at_offset(t, j), v, exprs.unary(ExprKind::Neg, v));
    program.store_interleaved(program.at_offset(t, program.mul(j, 2)), v, v);
  });
  EXPECT_EQ(to_text(program.finish()),
            "kernel turned(x: bf16[32, 64] in, y: f32[1] out)\n"
            "  buffer t: bf16[64, 32] cache\n"
            "  transpose t @ 0 <- x @ 0 pairs rows 32 columns 32 strides 64, 64\n"
            "  transpose t @ 0 <- x @ 0 rows 32 columns 32 strides 64, 64\n"
            "  for j in 16 vector\n"
            "    load v <- x[0, j]\n"
            "    store_pair t @ j <- v, neg(v)\n"
            "    store_interleaved t @ j * 2 <- v, v\n");
}

TEST(ProgramText, TellsConstantsOfEveryTypeApart) {
  ProgramBuilder program("constants");
  const MemoryRef y = program.output("y", DType::F32, {1});
  ExprPool& exprs = program.exprs();
  program.map(exprs.constant(0.1, DType::F32));
  program.map(exprs.constant(0.1, DType::F64));
  program.map(exprs.integer(3));
  program.map(exprs.integer(3, DType::I32));
  program.map(exprs.constant(1, DType::Bool));
  program.store(program.at(y, {0}), exprs.constant(-0.0, DType::F32));
  EXPECT_EQ(to_text(program.finish()),
            "kernel constants(y: f32[1] out)\n"
            "  map t <- 0.1\n"
            "  map t_1 <- 0.1:f64\n"
            "  map t_2 <- 3\n"
            "  map t_3 <- 3:i32\n"
            "  map t_4 <- true\n"
            "  store y[0] <- -0.0\n");
}

// A chain in which every link reads the one before twice: 2^200 leaves if written out.
TEST(ProgramText, StaysAsShortAsTheDag) {
  ProgramBuilder program("chain");
  const MemoryRef x = program.input("x", DType::F32, {1});
  const MemoryRef y = program.output("y", DType::F32, {1});
  Expr value = program.load(program.at(x, {0}));
  for (int i = 0; i < 200; ++i) value = program.exprs().binary(ExprKind::Mul, value, value);
  program.store(program.at(y, {0}), value);
  EXPECT_LT(to_text(program.finish()).size(), 10000U);
}

TEST(Program, CountsTasksAndCacheBytes) {
  const Dim s = Dim::symbol("s");
  ProgramBuilder program("p");
  program.buffer("t", DType::F32, {s, 10}, Buffer::Space::Cache);
  program.buffer("flags", DType::Bool, {7}, Buffer::Space::Cache);
  program.buffer("r", DType::F32, {4, 4}, Buffer::Space::Register);
  program.grid("i", s, 16);
  program.grid("j", program.sub(s, 1));
  const TileProgram made = program.finish();
  EXPECT_EQ(buffer_bytes(made, Buffer::Space::Cache), 40 * s + 7);
  const auto tasks = [&made](std::int64_t size) {
    return num_tasks(made).evaluate({{"s", size}}).value();
  };
  EXPECT_EQ(tasks(0), 0);
  EXPECT_EQ(tasks(1), 0);
  EXPECT_EQ(tasks(16), 15);
  EXPECT_EQ(tasks(17), 32);
  EXPECT_EQ(num_tasks(ProgramBuilder("one").finish()), Dim(1));
}

TEST(Program, CollectsSymbolsSortedByName) {
  const Dim s = Dim::symbol("s");
  ProgramBuilder program("p");
  program.output("y", DType::F32, {s * Dim::symbol("b")});
  program.map(program.exprs().size_of(floor_div(Dim::symbol("a"), s)));
  const TileProgram made = program.finish();
  ASSERT_EQ(made.symbols.size(), 3U);
  EXPECT_EQ(made.symbols[0].as_symbol()->name, "a");
  EXPECT_EQ(made.symbols[1].as_symbol()->name, "b");
  EXPECT_EQ(made.symbols[2].as_symbol()->name, "s");
}

TEST(Variance, FollowsTheLoopVariableThroughLocals) {
  ProgramBuilder program("p");
  const MemoryRef x = program.input("x", DType::F32, {8, 8});
  Expr same = kNoExpr;
  Expr varying = kNoExpr;
  Expr inner = kNoExpr;
  Expr over_lanes = kNoExpr;
  program.vector("c", 8, [&](Expr c) {
    same = program.load(program.at(x, {0, 0}));
    varying = program.load(program.at(x, {0, c}));
    program.serial("k", 8, [&](Expr k) {
      inner = program.reduce(Combiner::Sum, program.load(program.at(x, {k, c})), k);
    });
    over_lanes = program.reduce(Combiner::Sum, varying, c);
  });
  const TileProgram made = program.finish();
  const Variance variance(made, std::get<ForLoop>(made.body[0].node));
  EXPECT_FALSE(variance.varies(same));
  EXPECT_TRUE(variance.varies(varying));
  EXPECT_TRUE(variance.varies(inner));
  EXPECT_FALSE(variance.varies(over_lanes));
}

}  // namespace
}  // namespace opweld::tile
