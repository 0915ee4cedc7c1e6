// Expressions of a tile program as readable text.
#pragma once

#include <string>
#include <string_view>

#include "tile/tile_ir.h"

namespace opweld::tile {

// "v * sigmoid(v)": locals and loop variables by name, sizes in braces, types only where the
// context leaves them open. An expression that is a size and nothing else comes without braces.
//
// A subexpression that is read more than once is named, so that the text is no longer than the DAG
// is large: `definitions` receives "let %0 = exp(v)" lines, in order, each after `indent`.
std::string expr_text(const TileProgram& program, Expr expr, std::string_view indent,
                      std::string& definitions);

}  // namespace opweld::tile
