// Looking over a tile program: its statements, their expressions, and what depends on what.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tile/tile_ir.h"

namespace opweld::tile {

// What an access reads or writes.
DType memory_dtype(const TileProgram& program, const Access& access);
const Shape& memory_shape(const TileProgram& program, const Access& access);
const std::string& memory_name(const TileProgram& program, const Access& access);

// The block inside a loop or a condition; null for other statements.
const Block* nested_block(const Statement& statement);

// Every statement, nested ones after the one that holds them.
void for_each_statement(const Block& block, const std::function<void(const Statement&)>& visit);

// What the statement itself reads and writes in memory, but for the accumulator of a dot, which is
// in registers, and for what is fetched ahead.
void for_each_access(const Statement& statement, const std::function<void(const Access&)>& visit);

// The expressions that the statement itself reads: extents, indices, values, conditions; not those
// of nested statements. Absent ones are left out.
void for_each_expr(const Statement& statement, const std::function<void(Expr)>& visit);

// The local that the statement defines, if it does.
std::optional<int> defined_local(const Statement& statement);

// The expression as a size, when it is made of sizes and numbers alone. Division counts as floor
// division, so sizes are taken as non-negative.
std::optional<Dim> as_dim(const ExprPool& pool, Expr expr);

// Tells what differs between the lanes of a vector loop.
class Variance {
 public:
  // Looks at the locals defined inside the loop.
  Variance(const TileProgram& program, const ForLoop& vector_loop);

  [[nodiscard]] bool varies(Expr expr) const;
  [[nodiscard]] bool local_varies(int local) const {
    return locals_[static_cast<std::size_t>(local)];
  }

 private:
  enum class Answer : std::uint8_t { None, No, Yes };

  void visit(const Block& block);

  const TileProgram& program_;
  int loop_;
  std::vector<bool> locals_;
  mutable std::vector<Answer> answers_;  // by expression, remembered; not for several threads
};

}  // namespace opweld::tile
