// The matrix micro-kernel against a chain of fused multiply-adds.
#include <gmock/gmock.h>

#include <cmath>
#include <regex>

#include "kernel_runner.h"

namespace opweld {
namespace {

using testing::GuardedTensor;
using testing::KernelRunner;
using testing::test_targets;
using tile::Buffer;
using tile::Dot;
using tile::MemoryRef;
using tile::ProgramBuilder;

struct Shape2 {
  int rows;
  int columns;
  int panel = 0;
  int ahead_stride = 0;  // this and the depth is what a step fetches ahead, at one of the rates
  std::vector<int> ahead_rates = {};
};

// y = start + a . b, with a of [rows, k] and b of [k, columns], or panels [columns / c, k, c] of
// it.
tile::TileProgram product(const Shape2& shape, DType a_dtype, DType b_dtype, const Dim& k) {
  const DType type = compute_dtype(a_dtype);
  ProgramBuilder program("product");
  const MemoryRef a = program.input("a", a_dtype, {shape.rows, k});
  const MemoryRef b = program.input("b", b_dtype, {k * shape.columns});
  const MemoryRef y = program.output("y", type, {shape.rows, shape.columns});
  const MemoryRef tile =
      program.buffer("tile", type, {shape.rows, shape.columns}, Buffer::Space::Register);
  ExprPool& pool = program.exprs();
  program.unrolled("i", shape.rows, [&](Expr i) {
    program.vector("j", shape.columns,
                   [&](Expr j) { program.store(program.at(tile, {i, j}), pool.integer(1, type)); });
  });
  Dot dot;
  dot.accumulator = tile.target;
  dot.a = program.at_offset(a, 0);
  dot.a_row_stride = pool.size_of(k);
  dot.a_depth_stride = pool.integer(1);
  dot.b = program.at_offset(b, 0);
  dot.b_depth_stride = pool.integer(shape.panel == 0 ? shape.columns : shape.panel);
  dot.b_panel_columns = shape.panel;
  if (shape.panel != 0) dot.b_panel_stride = pool.size_of(k * shape.panel);
  dot.depth = pool.size_of(k);
  dot.rows = shape.rows;
  dot.columns = shape.columns;
  if (!shape.ahead_rates.empty()) {  // past the end of b
    dot.ahead = Dot::Ahead{.start = program.at_offset(b, k * shape.columns),
                           .stride = program.add(dot.depth, shape.ahead_stride),
                           .rates = shape.ahead_rates};
  }
  program.dot(dot);
  program.unrolled("m", shape.rows, [&](Expr m) {
    program.vector("p", shape.columns, [&](Expr p) {
      program.store(program.at(y, {m, p}), program.load(program.at(tile, {m, p})));
    });
  });
  return program.finish();
}

std::vector<ScalarValue> operand(DType dtype, std::int64_t count, int seed) {
  std::vector<ScalarValue> values;
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_float(dtype)) {
      values.push_back({std::sin(static_cast<double>(i * 7 + seed)), 0});
    } else {
      values.push_back({0, (i * 29 + seed) % 200 - (dtype == DType::U8 ? 0 : 100)});
    }
  }
  return values;
}

void check_product(const Shape2& shape, DType a_dtype, DType b_dtype, std::int64_t k,
                   const KernelRunner& kernel, const std::string& where) {
  const DType type = compute_dtype(a_dtype);
  GuardedTensor a(a_dtype, operand(a_dtype, shape.rows * k, 1));
  GuardedTensor b(b_dtype, operand(b_dtype, k * shape.columns, 2));
  GuardedTensor y(type, std::int64_t{shape.rows} * shape.columns);
  ASSERT_EQ(kernel({a.data(), b.data(), y.data()}, {k}), 0);
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      float single = 1;
      double wide = 1;
      std::int64_t integer = 1;
      for (std::int64_t kk = 0; kk < k; ++kk) {
        const std::int64_t c = shape.panel;
        const std::int64_t at = c == 0 ? kk * shape.columns + j : j / c * k * c + kk * c + j % c;
        const ScalarValue left = a.at(i * k + kk);
        const ScalarValue right = b.at(at);
        single = std::fma(static_cast<float>(left.real), static_cast<float>(right.real), single);
        wide = std::fma(left.real, right.real, wide);
        integer += left.integer * right.integer;
      }
      const ScalarValue actual = y.at(i * shape.columns + j);
      const double expected = type == DType::F32 ? static_cast<double>(single) : wide;
      if (is_float(type)) {
        ASSERT_EQ(actual.real, expected) << i << ", " << j << " of depth " << k << ' ' << where;
      } else {
        ASSERT_EQ(actual.integer, integer) << i << ", " << j << " of depth " << k << ' ' << where;
      }
    }
  }
}

// Prefetches read nothing: neither the result nor what lies behind the operand matters to them.
TEST(Dot, FetchesAheadOfItself) {
  const Dim k = Dim::symbol("k");
  for (const Target& target : test_targets()) {
    const std::vector<std::vector<int>> rates = {{4}, {5}, {64}, {4, 32}, {5, 7, 18}};
    for (const std::vector<int>& some : rates) {
      const Shape2 shape{.rows = 4, .columns = 32, .ahead_stride = -1, .ahead_rates = some};
      const KernelRunner kernel(product(shape, DType::F32, DType::F32, k), target);
      for (const std::int64_t depth : {0, 3, 4, 33, 34, 68}) {
        check_product(shape, DType::F32, DType::F32, depth, kernel, target.name);
      }
    }
  }
}

// One multiply-add after the other, whatever the tile: the very bits of the plain loop.
TEST(Dot, MultipliesEveryTileShape) {
  const Dim k = Dim::symbol("k");
  const Shape2 shapes[] = {{1, 8},      {1, 32},     {2, 16},     {3, 24},   {4, 24},
                           {6, 16},     {5, 8},      {1, 64},     {2, 4},    {1, 2},
                           {1, 96, 24}, {2, 48, 16}, {3, 32, 16}, {2, 16, 4}};
  for (const Target& target : test_targets()) {
    for (const Shape2& shape : shapes) {
      const KernelRunner kernel(product(shape, DType::F32, DType::F32, k), target);
      for (const std::int64_t depth : {0, 1, 3, 4, 7, 16, 33}) {
        check_product(shape, DType::F32, DType::F32, depth, kernel,
                      fmt::format("of {} x {} in panels of {} on {}", shape.rows, shape.columns,
                                  shape.panel, target.name));
      }
    }
  }
}

TEST(Dot, MultipliesEveryDType) {
  const Dim k = Dim::symbol("k");
  const std::pair<DType, DType> pairs[] = {
      {DType::F64, DType::F64}, {DType::F16, DType::F16},  {DType::BF16, DType::BF16},
      {DType::F32, DType::F16}, {DType::F32, DType::BF16}, {DType::I32, DType::I32},
      {DType::I8, DType::I8},   {DType::U8, DType::I8},    {DType::I16, DType::I16}};
  for (const Target& target : test_targets()) {
    for (const auto& [a, b] : pairs) {
      const Shape2 shape{3, 16};
      const KernelRunner kernel(product(shape, a, b, k), target);
      for (const std::int64_t depth : {0, 1, 5, 64}) {
        check_product(shape, a, b, depth, kernel,
                      fmt::format("{} x {} on {}", to_string(a), to_string(b), target.name));
      }
    }
  }
}

// The tile of the fast kernels lives in registers: no vector goes to the stack.
TEST(Dot, SpillsNothing) {
  auto compiler = cpu::KernelCompiler::create(find_target("host-avx2").value(), {}).value();
  for (const Shape2& shape :
       {Shape2{6, 16}, Shape2{4, 24}, Shape2{5, 16}, Shape2{3, 24}, Shape2{1, 96, 24}}) {
    const std::string assembly =
        compiler.assembly(product(shape, DType::F32, DType::F32, Dim::symbol("k"))).value();
    const std::regex spill("vmov[au]ps\\s+%ymm\\d+, -?\\d*\\(%r[sb]p\\)");
    EXPECT_FALSE(std::regex_search(assembly, spill)) << shape.rows << " x " << shape.columns;
  }
}

}  // namespace
}  // namespace opweld
