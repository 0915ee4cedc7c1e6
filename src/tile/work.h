// Counts what a tile program does.
#pragma once

#include "fusion/work.h"
#include "support/expected.h"
#include "target/target.h"
#include "tile/tile_ir.h"

namespace opweld::tile {

// By walking the program once with numbers for sizes:
// - a loop's body counts as often as the loop goes around, with the loop's variable half way, so
// that
//   an extent that falls from row to row (a causal mask) counts by its mean; a condition counts by
//   the share of the sampled values of the loops it reads for which it holds, and a loop of a few
//   trips that it reads is walked trip by trip;
// - what only data tells (a ragged length) leaves a bound as large as the rest of it allows; a
// number
//   that was computed is taken to be equal to what it is compared with, since the paths for those
//   that are not are there for infinities and NaN;
// - what the last task to arrive does counts for one of as many as arrive;
// - an expression is computed once in the block that first reads it, as code generation does, and
//   one that is equal in all lanes counts as one instruction; addresses are free.
// A symbol that the bindings lack is an error.
Expected<Work> count_work(const TileProgram& program, const Target& target, const Bindings& sizes);

}  // namespace opweld::tile
