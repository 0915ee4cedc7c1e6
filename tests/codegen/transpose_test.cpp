// Transpose, StorePair and StoreInterleaved, on every width of vectors: every count of rows and
// columns around the blocks, zeros past the ends, nothing read beyond them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernel_runner.h"

namespace opweld {
namespace {

using testing::GuardedTensor;
using testing::KernelRunner;
using tile::Buffer;
using tile::MemoryRef;
using tile::ProgramBuilder;

constexpr int kGap = 3;  // units between the rows of `from`, beyond its columns
constexpr std::int64_t kMost = 96;

struct Form {
  DType dtype = DType::F32;
  bool pairs = false;
};

// y <- x, transposed by way of a buffer that holds sevens before.
tile::TileProgram transposition(const Form& form) {
  const Dim m = Dim::symbol("m");
  const Dim n = Dim::symbol("n");
  const std::int64_t unit = form.pairs ? 2 : 1;
  ProgramBuilder program("transposition");
  ExprPool& pool = program.exprs();
  const MemoryRef x = program.input("x", form.dtype, {m, (n + kGap) * unit});
  const MemoryRef y = program.output("y", form.dtype, {kMost, kMost * unit});
  const MemoryRef buffer =
      program.buffer("t", form.dtype, {kMost, kMost * unit}, Buffer::Space::Cache);
  program.vector("j", kMost * kMost * unit, [&](Expr j) {
    const DType compute = compute_dtype(form.dtype);
    const Expr seven = is_float(compute) ? pool.constant(7, compute) : pool.integer(7, compute);
    program.store(program.at_offset(buffer, j), seven);
  });
  tile::Transpose transpose;
  transpose.to = program.at_offset(buffer, 0);
  transpose.to_row_stride = pool.integer(kMost * unit);
  transpose.from = program.at_offset(x, 0);
  transpose.from_row_stride = pool.size_of((n + kGap) * unit);
  transpose.rows = pool.size_of(m);
  transpose.columns = pool.size_of(n);
  transpose.pairs = form.pairs;
  program.transpose(transpose);
  program.vector("i", kMost * kMost * unit, [&](Expr i) {
    program.store(program.at_offset(y, i), program.load(program.at_offset(buffer, i)));
  });
  return program.finish();
}

double value_at(std::int64_t i) {
  return static_cast<double>(1 + i % 251);
}

void expect_transposed(const KernelRunner& run, const Form& form, std::int64_t m, std::int64_t n) {
  SCOPED_TRACE(
      fmt::format("{} x {} of {}{}", m, n, to_string(form.dtype), form.pairs ? " pairs" : ""));
  const std::int64_t unit = form.pairs ? 2 : 1;
  const std::int64_t stride = (n + kGap) * unit;
  std::vector<ScalarValue> values;
  // Memory ends where the last row does.
  const std::int64_t count = m == 0 ? 0 : m * stride - kGap * unit;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back({value_at(i), static_cast<std::int64_t>(value_at(i))});
  }
  GuardedTensor x(form.dtype, values);
  GuardedTensor y(form.dtype, kMost * kMost * unit);
  ASSERT_EQ(run({x.data(), y.data()}, {m, n}), 0);
  const auto rounded = [](std::int64_t size, std::int64_t multiple) {
    return (size + multiple - 1) / multiple * multiple;
  };
  const std::int64_t units_of_block =
      tile::kTransposedBytes / (byte_size(form.dtype) * static_cast<int>(unit));
  for (std::int64_t row = 0; row < kMost; ++row) {
    for (std::int64_t i = 0; i < kMost; ++i) {
      for (std::int64_t part = 0; part < unit; ++part) {
        const bool inside = row < n && i < m;
        const bool written =
            row < rounded(n, tile::kTransposedRows) && i < rounded(m, units_of_block);
        const double expected =
            inside ? value_at(i * stride + row * unit + part) : (written ? 0.0 : 7.0);
        const ScalarValue actual = y.at((row * kMost + i) * unit + part);
        ASSERT_EQ(is_float(form.dtype) ? actual.real : static_cast<double>(actual.integer),
                  expected)
            << "row " << row << ", column " << i << " of the result";
      }
    }
  }
}

TEST(Transpose, EveryCountOfRowsAndColumnsOnEveryWidth) {
  for (const std::string target : {"host", "host-avx2", "host-generic"}) {
    SCOPED_TRACE(target);
    for (const Form form : {Form{DType::F32}, Form{DType::I32}, Form{DType::F16}, Form{DType::BF16},
                            Form{DType::BF16, true}}) {
      const KernelRunner run(transposition(form), find_target(target).value());
      for (const std::int64_t m : {0, 1, 3, 8, 15, 16, 17, 31, 32, 33, 64, 67}) {
        for (const std::int64_t n : {0, 1, 7, 8, 9, 16, 29, 32, 48, 65}) {
          expect_transposed(run, form, m, n);
        }
      }
    }
  }
}

constexpr std::int64_t kPairs = 37;

// y[2 i], y[2 i + 1] <- x[i], 2 x[i] by way of a buffer; the last one outside of the vector loop.
tile::TileProgram pairing() {
  ProgramBuilder program("pairing");
  ExprPool& pool = program.exprs();
  const MemoryRef x = program.input("x", DType::F32, {kPairs});
  const MemoryRef y = program.output("y", DType::F32, {2 * kPairs});
  const MemoryRef buffer = program.buffer("p", DType::BF16, {2 * kPairs}, Buffer::Space::Cache);
  const auto pair = [&](const tile::IndexValue& i) {
    const Expr value = program.load(program.at(x, {i}));
    program.store_pair(program.at_offset(buffer, i), value,
                       pool.binary(ExprKind::Add, value, value));
  };
  program.vector("i", kPairs - 1, [&](Expr i) { pair(i); });
  pair(kPairs - 1);
  program.vector("j", 2 * kPairs, [&](Expr j) {
    program.store(program.at(y, {j}), program.load(program.at(buffer, {j})));
  });
  return program.finish();
}

TEST(StorePair, RoundsToNearestEvenOnEveryWidth) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Ties to even, up and down; beyond the largest; no number.
  std::vector<ScalarValue> values = {
      {1 + 0x1p-8, 0},  {1 + 3 * 0x1p-8, 0},  {1 + 0x1p-8 + 0x1p-20, 0},
      {-1 - 0x1p-8, 0}, {0x1p127 * 1.999, 0}, {kInfinity, 0},
      {-kInfinity, 0},  {std::nan(""), 0},    {0, 0},
      {-0.0, 0}};
  while (static_cast<std::int64_t>(values.size()) < kPairs) {
    values.push_back({0.37 * static_cast<double>(values.size()) - 5, 0});
  }
  for (const std::string target : {"host", "host-avx512", "host-avx2", "host-generic"}) {
    const KernelRunner run(pairing(), find_target(target).value());
    GuardedTensor x(DType::F32, values);
    GuardedTensor y(DType::F32, 2 * kPairs);
    ASSERT_EQ(run({x.data(), y.data()}, {}), 0);
    for (std::int64_t i = 0; i < kPairs; ++i) {
      const float value = static_cast<float>(x.at(i).real);
      GuardedTensor expected(DType::BF16, {{value, 0}, {value + value, 0}});
      for (std::int64_t part = 0; part < 2; ++part) {
        EXPECT_TRUE(testing::same(y.at(2 * i + part), expected.at(part)))
            << target << ", pair " << i << ": " << y.at(2 * i + part).real;
      }
    }
  }
}

// y[2 i], y[2 i + 1] <- x[i], 2 x[i], by vectors of `lanes`, and a number by itself; or with two
// elements between those of neighbouring lanes.
tile::TileProgram interleaving(DType dtype, std::int64_t count, int lanes, std::int64_t apart) {
  ProgramBuilder program("interleaving");
  ExprPool& pool = program.exprs();
  const MemoryRef x = program.input("x", dtype, {count + 1});
  const MemoryRef y = program.output("y", dtype, {(count + 1) * apart});
  const auto pair = [&](const tile::IndexValue& i) {
    const Expr value = program.load(program.at(x, {i}));
    program.store_interleaved(program.at(y, {program.mul(i, apart)}), value,
                              pool.binary(ExprKind::Add, value, value));
  };
  program.vector("i", count, {.unroll = 1, .lanes = lanes}, [&](Expr i) { pair(i); });
  pair(count);
  return program.finish();
}

TEST(StoreInterleaved, EveryTypeAndWidth) {
  for (const std::string target : {"host", "host-avx512", "host-avx2", "host-generic"}) {
    for (const DType dtype : {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32}) {
      for (const int lanes : {2, 4, 8, 16}) {
        for (const std::int64_t count : {0, 1, 16, 19, 32}) {
          for (const std::int64_t apart : {2, 3}) {
            const KernelRunner run(interleaving(dtype, count, lanes, apart),
                                   find_target(target).value());
            std::vector<ScalarValue> values;
            for (std::int64_t i = 0; i <= count; ++i) {
              values.push_back({0.5 * static_cast<double>(i + 1), i + 1});
            }
            GuardedTensor x(dtype, values);
            GuardedTensor y(dtype, (count + 1) * apart);
            ASSERT_EQ(run({x.data(), y.data()}, {}), 0);
            for (std::int64_t i = 0; i <= count; ++i) {
              const ScalarValue once = x.at(i);
              const ScalarValue twice = y.at(apart * i + 1);
              EXPECT_TRUE(testing::same(y.at(apart * i), once)) << target << ", pair " << i;
              EXPECT_EQ(twice.real, 2 * once.real) << target << ", pair " << i;
              EXPECT_EQ(twice.integer, 2 * once.integer) << target << ", pair " << i;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace opweld
