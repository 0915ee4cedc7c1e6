#include "codegen/cpu/vector_lanes.h"

#include <algorithm>

#include "tile/walk.h"

namespace opweld::cpu {
namespace {

// f64 anywhere in the expression counts, i64 does not: it may be an index.
bool computes_in_f64(const ExprPool& pool, Expr expr) {
  const auto reachable = reachable_exprs(pool, expr);
  return std::any_of(reachable.begin(), reachable.end(),
                     [&pool](Expr each) { return pool[each].type == DType::F64; });
}

bool is_wide(const tile::TileProgram& program, const tile::Variance& variance,
             const tile::Statement& statement) {
  bool wide = false;
  tile::for_each_expr(statement, [&](Expr expr) {
    wide = wide || (variance.varies(expr) && computes_in_f64(program.exprs, expr));
  });
  if (const auto local = tile::defined_local(statement); local && variance.local_varies(*local)) {
    wide = wide || byte_size(program.local_types[static_cast<std::size_t>(*local)]) == 8;
  }
  if (const auto* store = std::get_if<tile::Store>(&statement.node)) {
    wide = wide || byte_size(tile::memory_dtype(program, store->to)) == 8;
  }
  if (const auto* store = std::get_if<tile::StoreInterleaved>(&statement.node)) {
    wide = wide || byte_size(tile::memory_dtype(program, store->to)) == 8;
  }
  return wide;
}

}  // namespace

int lanes_of(const tile::TileProgram& program, const tile::ForLoop& loop, int vector_bits) {
  if (loop.lanes != 0) return loop.lanes;
  const tile::Variance variance(program, loop);
  bool wide = false;
  tile::for_each_statement(loop.body, [&](const tile::Statement& statement) {
    wide = wide || is_wide(program, variance, statement);
  });
  return vector_bits / (wide ? 64 : 32);
}

}  // namespace opweld::cpu
