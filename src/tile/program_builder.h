// Writing tile programs: blocks nest as C++ lambdas nest, names are made unique, locals get their
// types.
//
//   ProgramBuilder program("row_sum");
//   const MemoryRef x = program.input("x", DType::F32, {rows, columns});
//   const MemoryRef y = program.output("y", DType::F32, {rows});
//   const Expr row = program.grid("row", rows);
//   Expr sum;
//   program.vector("c", columns, {.unroll = 4}, [&](Expr c) {
//     sum = program.reduce(Combiner::Sum, program.load(program.at(x, {row, c})), c);
//   });
//   program.store(program.at(y, {row}), sum);
//   return program.finish();
//
// A statement goes to the end of the innermost open block. Every expression belongs to exprs().
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tile/tile_ir.h"

namespace opweld::tile {

// A param or buffer of the program being built.
struct MemoryRef {
  Access::Memory memory = Access::Memory::Param;
  int target = 0;

  friend bool operator==(const MemoryRef&, const MemoryRef&) = default;
};

// An integer where a program wants one: an expression, or a size or number that becomes one.
class IndexValue {
 public:
  IndexValue(Expr expr) : value_(expr) {}          // NOLINT(google-explicit-constructor)
  IndexValue(Dim dim) : value_(std::move(dim)) {}  // NOLINT(google-explicit-constructor)
  template <std::integral Integer>
  IndexValue(Integer value) : value_(Dim(value)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] Expr in(ExprPool& pool) const;

 private:
  std::variant<Expr, Dim> value_;
};

class ProgramBuilder {
 public:
  // Of a draft nothing is wanted but to be counted: what is in it has no names.
  explicit ProgramBuilder(std::string name, bool is_draft = false) : is_draft_(is_draft) {
    program_.name = std::move(name);
  }
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  [[nodiscard]] ExprPool& exprs() { return program_.exprs; }
  [[nodiscard]] const TileProgram& program() const { return program_; }

  // Params in the order of the kernel's arguments.
  MemoryRef input(std::string_view name, DType dtype, Shape shape);
  MemoryRef output(std::string_view name, DType dtype, Shape shape);
  // A constant matrix of panels, `shape` as packed (see Param::packed_columns).
  MemoryRef packed_input(std::string_view name, DType dtype, Shape shape, int columns,
                         bool from_transposed, int parts = 1, bool pairs = false,
                         std::vector<ColumnStretch> stretches = {});
  // What the tasks share; after all inputs and outputs. A counter is i32.
  MemoryRef shared(std::string_view name, DType dtype, Shape shape);
  MemoryRef counter(std::string_view name, Shape shape);
  MemoryRef buffer(std::string_view name, DType dtype, Shape shape, Buffer::Space space);

  // An axis of the grid, the outermost first; returns its loop variable.
  Expr grid(std::string_view name, const IndexValue& extent, std::int64_t step = 1);

  struct VectorOptions {
    int unroll = 1;
    int lanes = 0;
  };
  // Loops; `body` gets the loop variable, which the call returns too.
  using LoopBody = std::function<void(Expr variable)>;
  Expr serial(std::string_view name, const IndexValue& extent, const LoopBody& body);
  Expr serial(std::string_view name, const IndexValue& extent, std::int64_t step,
              const LoopBody& body);
  Expr unrolled(std::string_view name, const IndexValue& extent, const LoopBody& body);
  Expr unrolled(std::string_view name, const IndexValue& extent, std::int64_t step,
                const LoopBody& body);
  Expr vector(std::string_view name, const IndexValue& extent, const LoopBody& body);
  Expr vector(std::string_view name, const IndexValue& extent, VectorOptions options,
              const LoopBody& body);
  void when(Expr condition, const std::function<void()>& body);
  void keep(Expr key, Expr again, const std::function<void()>& body);

  // Places: one index per dimension, or a linear element offset.
  Access at(MemoryRef memory, const std::vector<IndexValue>& index);
  Access at_offset(MemoryRef memory, const IndexValue& offset);

  // Statements that define a local return it as an expression. Names are for readers only.
  Expr load(Access from, Expr where = kNoExpr, std::string_view name = "v");
  Expr map(Expr value, std::string_view name = "t");
  // `over` is a loop variable. The result may be used after that loop.
  Expr reduce(Combiner combiner, Expr value, Expr over, std::string_view name = "r");
  Expr arg_reduce(Combiner combiner, Expr value, Expr position, Expr over,
                  std::string_view name = "r");
  void store(Access to, Expr value, Expr where = kNoExpr, Expr past_caches = kNoExpr);
  void dot(Dot dot);
  void matrix_dot(MatrixDot dot);
  void transpose(Transpose transpose);
  void store_pair(Access to, Expr first, Expr second);
  void store_interleaved(Access to, Expr first, Expr second);
  void prefetch(Access from);
  void check(Expr condition, std::string message, std::vector<Check::Shown> shown = {});
  // Whether this task is the last of `count` to arrive at the counter.
  Expr arrive(Access counter, const IndexValue& count);

  // Indices: folded where a side is a known 0 or 1. Floats and the rest go through exprs().
  Expr add(const IndexValue& a, const IndexValue& b);
  Expr sub(const IndexValue& a, const IndexValue& b);
  Expr mul(const IndexValue& a, const IndexValue& b);
  Expr min(const IndexValue& a, const IndexValue& b);

  // Whether the value, made of loop variables and locals, may differ between the lanes of the open
  // vector loop.
  [[nodiscard]] bool may_vary(Expr expr) const;

  // The program, its symbols collected; asserts that it is well formed (verify), unless it is a
  // draft. Nothing can be added afterwards.
  TileProgram finish();

 private:
  Expr new_loop(std::string_view name);
  Expr new_local(std::string_view name, DType type);
  Expr emit_loop(std::string_view name, ForLoop loop, const IndexValue& extent,
                 const LoopBody& body);
  void emit(Statement statement);
  Block take_block(const std::function<void()>& body);
  std::string unique(std::string_view name);

  TileProgram program_;
  bool is_draft_;
  Expr vector_loop_ = kNoExpr;  // the variable of the open one
  std::vector<Block> open_ = std::vector<Block>(1);
  std::map<std::string, int, std::less<>> names_;  // how often each name was asked for
};

}  // namespace opweld::tile
