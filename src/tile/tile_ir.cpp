#include "tile/tile_ir.h"

#include <cassert>

#include "support/shape.h"
#include "tile/walk.h"

namespace opweld::tile {

void collect_symbols(TileProgram& program) {
  std::vector<std::shared_ptr<const SymbolInfo>> symbols;
  const auto add_shape = [&symbols](const Shape& shape) {
    for (const Dim& dim : shape) dim.collect_symbols(symbols);
  };
  for (const Param& param : program.params) add_shape(param.shape);
  for (const Buffer& buffer : program.buffers) add_shape(buffer.shape);
  for (std::size_t i = 0; i < program.exprs.size(); ++i) {
    const ExprNode& node = program.exprs[static_cast<Expr>(i)];
    if (node.kind == ExprKind::Size) node.size.collect_symbols(symbols);
  }
  program.symbols.clear();
  for (auto& symbol : symbols) program.symbols.push_back(Dim::symbol(std::move(symbol)));
}

bool uses_matrix_unit(const TileProgram& program) {
  bool uses = false;
  for_each_statement(program.body, [&uses](const Statement& statement) {
    uses = uses || std::holds_alternative<MatrixDot>(statement.node);
  });
  return uses;
}

const Keep* keep_of(const TileProgram& program) {
  const Keep* keep = nullptr;
  for_each_statement(program.body, [&keep](const Statement& statement) {
    if (const auto* found = std::get_if<Keep>(&statement.node)) keep = found;
  });
  return keep;
}

Dim num_tasks(const TileProgram& program) {
  Dim tasks = 1;
  for (const GridAxis& axis : program.grid) {
    const auto extent = as_dim(program.exprs, axis.extent);
    assert(extent && "checked by verify()");
    const Dim count = ceil_div(*extent, axis.step);
    tasks *= count.lower_bound() < 0 ? max(count, 0) : count;
  }
  return tasks;
}

Dim shared_bytes(const Param& param) {
  if (param.role != Param::Role::Shared && param.role != Param::Role::Counter) return 0;
  return round_up(num_elements(param.shape) * byte_size(param.dtype), kSharedAlignment);
}

}  // namespace opweld::tile
