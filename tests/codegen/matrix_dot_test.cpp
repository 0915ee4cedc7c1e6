// MatrixDot against a plain loop in f64: every count of rows, depths, strides, sums that start from
// something.
#include <gmock/gmock.h>

#include <cmath>

#include "kernel_runner.h"

namespace opweld {
namespace {

using testing::GuardedTensor;
using testing::KernelRunner;
using tile::Buffer;
using tile::kMatrixColumns;
using tile::kMatrixDepth;
using tile::kMatrixRows;
using tile::MatrixDot;
using tile::MemoryRef;
using tile::ProgramBuilder;

constexpr int kGap = 5;          // between the rows of a, beyond its depth
constexpr double kStart = 0.75;  // of the sums, where they do not start from zero
constexpr int kSumsStride = kMatrixColumns + 16;

struct Form {
  bool from_zero = true;
  std::int64_t fixed_rows = 0;  // 0: a size known when it runs
  std::int64_t ahead = -1;      // elements a step, from outside of b; negative: nothing
};

// Two tasks, each y[task] = (start +) a[task] . b of m rows.
tile::TileProgram product(const Form& form) {
  const Dim m = Dim::symbol("m");
  const Dim k = Dim::symbol("k");
  const Dim rows = form.fixed_rows != 0 ? Dim(form.fixed_rows) : m;
  ProgramBuilder program("product");
  ExprPool& pool = program.exprs();
  const MemoryRef a = program.input("a", DType::BF16, {2, m, k + kGap});
  const MemoryRef b = program.input("b", DType::BF16, {k * kMatrixColumns});
  const MemoryRef y = program.output("y", DType::F32, {2, m, kMatrixColumns});
  const MemoryRef sums =
      program.buffer("sums", DType::F32, {kMatrixRows, kSumsStride}, Buffer::Space::Cache);
  const Expr task = program.grid("task", 2);
  program.serial("i", kMatrixRows, [&](Expr i) {
    program.vector("j", kSumsStride, [&](Expr j) {
      program.store(program.at(sums, {i, j}), pool.constant(kStart, DType::F32));
    });
  });
  MatrixDot dot;
  dot.accumulator = program.at_offset(sums, 16);
  dot.accumulator_row_stride = pool.integer(kSumsStride);
  if (form.from_zero) dot.from_zero = pool.binary(ExprKind::Le, task, pool.integer(1));
  dot.a = program.at_offset(a, program.mul(task, m * (k + kGap)));
  dot.a_row_stride = pool.size_of(k + kGap);
  dot.b = program.at_offset(b, 0);
  dot.depth = pool.size_of(k);
  dot.row_count = form.fixed_rows != 0 ? pool.integer(form.fixed_rows) : pool.size_of(m);
  if (form.ahead >= 0) {
    dot.ahead = {.start = program.at_offset(b, 1 << 30), .stride = pool.integer(form.ahead)};
  }
  program.matrix_dot(dot);
  program.check(pool.binary(ExprKind::Le, pool.size_of(m), pool.integer(kMatrixRows)), "too many");
  program.serial("r", rows, [&](Expr r) {
    program.vector("c", kMatrixColumns, [&](Expr c) {
      program.store(program.at(y, {task, r, c}),
                    program.load(program.at(sums, {r, program.add(c, 16)})));
    });
  });
  return program.finish();
}

// Halves of small integers: exact in bf16, and sums of their products in f32 in any order.
std::vector<ScalarValue> operand(std::int64_t count, int seed) {
  std::vector<ScalarValue> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back({static_cast<double>((i * 29 + seed) % 61 - 30) / 2, 0});
  }
  return values;
}

void expect_products(const KernelRunner& run, const Form& form, std::int64_t m, std::int64_t k) {
  SCOPED_TRACE(fmt::format("{} rows, depth {}{}", m, k, form.from_zero ? "" : ", added"));
  const std::vector<ScalarValue> a_values = operand(2 * m * (k + kGap) - kGap, 1);
  const std::vector<ScalarValue> b_values = operand(k * kMatrixColumns, 2);
  GuardedTensor a(DType::BF16, a_values);
  GuardedTensor b(DType::BF16, b_values);
  GuardedTensor y(DType::F32, 2 * m * kMatrixColumns);
  ASSERT_EQ(run({a.data(), b.data(), y.data()}, {k, m}), 0);
  for (std::int64_t row = 0; row < 2 * m; ++row) {
    for (std::int64_t j = 0; j < kMatrixColumns; ++j) {
      double sum = form.from_zero ? 0 : kStart;
      for (std::int64_t kk = 0; kk < k; ++kk) {
        const std::int64_t pair = (kk / 2 * kMatrixColumns + j) * 2 + kk % 2;
        sum += a_values[static_cast<std::size_t>(row * (k + kGap) + kk)].real *
               b_values[static_cast<std::size_t>(pair)].real;
      }
      ASSERT_EQ(y.at(row * kMatrixColumns + j).real, sum) << "row " << row << ", column " << j;
    }
  }
}

// Where there is no matrix unit, these say that its programs are refused.
class MatrixDotTest : public ::testing::TestWithParam<bool> {
 protected:
  static bool has_unit() { return GetParam(); }
  static void expect_refused(const tile::TileProgram& program) {
    auto compiler = cpu::KernelCompiler::create(host_target(), {});
    ASSERT_TRUE(compiler) << compiler.error().message;
    const tile::TileProgram* const pointer = &program;
    const auto kernels = compiler->compile({&pointer, 1});
    ASSERT_FALSE(kernels);
    EXPECT_THAT(kernels.error().message, ::testing::HasSubstr("needs a matrix unit"));
  }
};

TEST_P(MatrixDotTest, WhatIsFetchedAheadIsNotRead) {
  for (const std::int64_t ahead : {0, 32, 1024}) {
    const Form form = {.ahead = ahead};
    const tile::TileProgram program = product(form);
    if (!has_unit()) return expect_refused(program);
    const KernelRunner run(program);
    for (const std::int64_t m : {1, 17, 32}) expect_products(run, form, m, 3 * kMatrixDepth);
  }
}

TEST_P(MatrixDotTest, EveryCountOfRows) {
  for (const bool from_zero : {true, false}) {
    const Form form = {.from_zero = from_zero};
    const tile::TileProgram program = product(form);
    if (!has_unit()) return expect_refused(program);
    const KernelRunner run(program);
    for (std::int64_t m = 1; m <= kMatrixRows; ++m) expect_products(run, form, m, 2 * kMatrixDepth);
  }
}

TEST_P(MatrixDotTest, EveryDepth) {
  for (const bool from_zero : {true, false}) {
    const Form form = {.from_zero = from_zero};
    const tile::TileProgram program = product(form);
    if (!has_unit()) return expect_refused(program);
    const KernelRunner run(program);
    for (const std::int64_t steps : {0, 1, 2, 3, 7, 24}) {
      for (const std::int64_t m : {5, 16, 19, 32}) {
        expect_products(run, form, m, steps * kMatrixDepth);
      }
    }
  }
}

TEST_P(MatrixDotTest, RowsThatAreANumber) {
  for (const std::int64_t m : {1, 16, 17, 32}) {
    const Form form = {.fixed_rows = m};
    const tile::TileProgram program = product(form);
    if (!has_unit()) return expect_refused(program);
    expect_products(KernelRunner(program), form, m, kMatrixDepth);
  }
}

// The tiles are given back whether or not the kernel gets to its end, and another call finds them
// as it needs them.
TEST_P(MatrixDotTest, AFailedCheckLeavesNoTiles) {
  const Form form = {.fixed_rows = 1};
  const tile::TileProgram program = product(form);
  if (!has_unit()) return expect_refused(program);
  const KernelRunner run(program);
  GuardedTensor a(DType::BF16, operand(2 * 33 * (kMatrixDepth + kGap), 1));
  GuardedTensor b(DType::BF16, operand(kMatrixDepth * kMatrixColumns, 2));
  GuardedTensor y(DType::F32, 2 * 33 * kMatrixColumns);
  EXPECT_EQ(run({a.data(), b.data(), y.data()}, {kMatrixDepth, 33}), 1);
  expect_products(run, form, 1, kMatrixDepth);
}

INSTANTIATE_TEST_SUITE_P(Target, MatrixDotTest, ::testing::Values(host_target().has_amx_bf16),
                         [](const auto& each) {
                           return each.param ? "HostHasAmx" : "RefusedOnHostWithoutAmx";
                         });

}  // namespace
}  // namespace opweld
