// When buffers are needed, and how many bytes of them at a time.
#include "tile/buffer_lifetimes.h"

#include <gtest/gtest.h>

#include "tile/program_builder.h"

namespace opweld::tile {
namespace {

constexpr auto kCache = Buffer::Space::Cache;
constexpr auto kOuter = Buffer::Space::Outer;

// One loop that copies rows of `columns` elements.
void copy(ProgramBuilder& program, MemoryRef to, MemoryRef from, std::int64_t columns) {
  program.serial("i", 4, [&](Expr i) {
    program.vector("j", columns, [&](Expr j) {
      program.store(program.at(to, {i, j}), program.load(program.at(from, {i, j})));
    });
  });
}

TEST(BufferLifetimes, GoFromTheFirstStatementThatTouchesThemToTheLast) {
  ProgramBuilder program("stages");
  const MemoryRef x = program.input("x", DType::F32, {4, 8});
  const MemoryRef y = program.output("y", DType::F32, {4, 8});
  const MemoryRef a = program.buffer("a", DType::F32, {4, 8}, kCache);
  const MemoryRef b = program.buffer("b", DType::F32, {4, 8}, kCache);
  const MemoryRef c = program.buffer("c", DType::F32, {4, 8}, kCache);
  copy(program, a, x, 8);
  copy(program, b, a, 8);
  copy(program, c, b, 8);
  copy(program, y, c, 8);
  const auto lifetimes = buffer_lifetimes(program.finish());
  ASSERT_EQ(lifetimes.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lifetimes[i].first, i);
    EXPECT_EQ(lifetimes[i].last, i + 1);
  }
  EXPECT_TRUE(lifetimes[0].overlaps(lifetimes[1]));
  EXPECT_FALSE(lifetimes[0].overlaps(lifetimes[2]));
  EXPECT_FALSE(lifetimes[2].overlaps(lifetimes[0]));
}

TEST(BufferLifetimes, OfALoopAreThoseOfAllThatIsInIt) {
  // What one round leaves the next one may read.
  ProgramBuilder program("loop");
  const MemoryRef x = program.input("x", DType::F32, {4, 8});
  const MemoryRef y = program.output("y", DType::F32, {4, 8});
  const MemoryRef a = program.buffer("a", DType::F32, {4, 8}, kCache);
  const MemoryRef b = program.buffer("b", DType::F32, {4, 8}, kCache);
  program.serial("k", 2, [&](Expr) {
    copy(program, a, x, 8);
    copy(program, y, a, 8);
    copy(program, b, x, 8);
    copy(program, y, b, 8);
  });
  const auto lifetimes = buffer_lifetimes(program.finish());
  EXPECT_TRUE(lifetimes[0].overlaps(lifetimes[1]));
}

TEST(BufferLifetimes, WhatIsKeptAndWhatNothingTouchesIsThereAllTheTime) {
  ProgramBuilder program("kept");
  const MemoryRef x = program.input("x", DType::F32, {4, 8});
  const MemoryRef y = program.output("y", DType::F32, {4, 8});
  const MemoryRef unused = program.buffer("unused", DType::F32, {3}, kCache);
  const MemoryRef first = program.buffer("first", DType::F32, {4, 8}, kCache);
  const MemoryRef kept = program.buffer("kept", DType::F32, {4, 8}, kCache);
  copy(program, first, x, 8);
  program.keep(program.exprs().integer(0), kNoExpr, [&] { copy(program, kept, x, 8); });
  copy(program, y, kept, 8);
  copy(program, y, x, 8);
  const auto lifetimes = buffer_lifetimes(program.finish());
  for (const MemoryRef& each : {unused, kept}) {
    EXPECT_EQ(lifetimes[static_cast<std::size_t>(each.target)].first, 0U);
    EXPECT_EQ(lifetimes[static_cast<std::size_t>(each.target)].last, 3U);
  }
  EXPECT_EQ(lifetimes[static_cast<std::size_t>(first.target)].last, 0U);
}

TEST(BufferLifetimes, BytesAreThoseNeededAtATime) {
  const Dim s = Dim::symbol("s", {1, 512, 1});
  ProgramBuilder program("peak");
  const MemoryRef x = program.input("x", DType::F32, {4, s});
  const MemoryRef y = program.output("y", DType::F32, {4, s});
  const MemoryRef a = program.buffer("a", DType::F32, {4, 100}, kCache);
  const MemoryRef b = program.buffer("b", DType::F32, {4, 30}, kCache);
  const MemoryRef c = program.buffer("c", DType::F32, {4, 60}, kCache);
  const MemoryRef outer = program.buffer("outer", DType::F32, {4, s}, kOuter);
  copy(program, a, x, 1);
  copy(program, outer, a, 1);  // ends a
  copy(program, b, outer, 1);
  copy(program, c, b, 1);
  copy(program, y, c, 1);
  const TileProgram made = program.finish();
  EXPECT_EQ(buffer_bytes(made, kCache), Dim(16 * 100));
  EXPECT_EQ(buffer_bytes(made, kOuter), 16 * s);
}

}  // namespace
}  // namespace opweld::tile
