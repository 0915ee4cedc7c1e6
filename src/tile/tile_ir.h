// The kernel language: one scheduled form that every backend prints from.
//
// A TileProgram is one kernel. Its grid is a set of independent tasks; a task runs the body. The
// whole grammar:
//
//   program   := "kernel" name "(" param,* ")" sizes? grid? buffer* block
//   param     := name ":" dtype "[" dim,* "]" ("in" | "out" | "packed(" columns ["transposed"]
//                                                         ["parts" n] ["heads" stretch,+]
//                                                         ["pairs"] ")" |
//                                                         "shared" | "counter")
//   stretch   := columns "by" run                         see ColumnStretch
//   sizes     := "sizes" symbol,+                         what is known of each, from Dim
//   grid      := "grid" (loop "in" expr ["step" n]),+     every combination is one task
//   buffer    := "buffer" name ":" dtype "[" dim,* "]" ("cache" | "outer" | "register")
//                                                         on chip, private to a task; pressure is
//                                                         counted from these. Register buffers
//                                                         have constant sizes, and constant
//                                                         indices after unrolling. An outer buffer
//                                                         is read in long runs, a slice at a time,
//                                                         and may lie in the outer cache. Those
//                                                         needed one after the other may share
//                                                         memory (see buffer_lifetimes.h)
//   block     := statement*
//   statement := "for" loop "in" expr ["step" n] kind block
//              | "if" expr block                          a condition equal in all lanes
//              | "keep" "by" expr ["or" expr] block       done by a thread's first task of such a
//              key
//                                                         (see Keep)
//              | "load" local "<-" access where?          masked-off lanes read 0
//              | "map" local "<-" expr                    a whole scalar DAG, kept in registers
//              | "reduce" local "<-" combiner "(" expr ["at" expr] ")" "over" loop
//                                                         complete when that loop ends
//              | "dot" buffer "+=" access "." access ...  rows x columns tile, over k (see Dot)
//              | "matrix_dot" access "+=" access "." access ...
//                                                         the same on a matrix unit (see MatrixDot)
//              | "transpose" access "<-" access ...       rows become columns (see Transpose)
//              | "store" access "<-" expr where? ("past caches where" expr)?
//              | "store_pair" access "<-" expr "," expr   two neighbours in bf16 (see StorePair)
//              | "store_interleaved" access "<-" expr "," expr
//                                                         two vectors, lane by lane in turn (see
//                                                         StoreInterleaved)
//              | "prefetch" access                        a hint, see Prefetch
//              | "check" expr message ("showing" (name "=" expr),+)?
//                                                         a false lane fails the whole run, with
//                                                         the message and the numbers shown (i64,
//                                                         equal in all lanes)
//              | "arrive" local "<-" access "of" expr     counts tasks; true for the last of them
//              | "let" name "=" expr                      in text only: names what the next
//                                                         statement reads more than once
//   kind      := "serial" | "unroll" | "vector" ["lanes" n] ["by" unroll]
//   where     := "where" expr
//   access    := (param | buffer) "[" expr,* "]"          one index per dimension
//              | (param | buffer) "@" expr                linear element offset
//   expr      := an Expr of the program's pool: Input(i) is local i, Loop(i) the loop variable i,
//                Size(d) a Dim over the program's symbols, written {d}
//
// Meaning, and what every backend must keep to:
// - A vector loop runs its lanes at once: inside, its variable is a vector of consecutive values.
//   Lanes past the extent are masked off: they load nothing, store nothing, reduce nothing, and no
//   operation on them may trap. At most one vector loop encloses a statement. Which lane computes
//   an element never changes its value. A vector loop may enclose serial loops. One of constant
//   extent that indexes a register buffer is unrolled whole.
// - Locals are single-assignment; one is visible in the rest of its block and in nested blocks.
//   Inside a vector loop a local is a vector when it depends on the loop variable, else a scalar.
// - A reduction starts from the combiner's identity when the loop `over` is entered and is visible
//   after that loop, in the block around it. When a vector loop lies at or inside `over`, lanes are
//   combined at the end. The order of combination depends only on the extents, never on threads:
//   lane l of accumulator u (see ForLoop::unroll) takes elements i with i mod (unroll * lanes) ==
//   u * lanes + l; accumulators are combined pairwise (0 with 1, 2 with 3, ..., an odd one out
//   waits for the next round), then lanes by halving (lane l with lane l + half).
// - Values live in compute types; a load widens to compute_dtype(param dtype), a store narrows
//   (rounding f16/bf16 to nearest even, wrapping small integers).
// - Tasks may run in any order and on any thread. Nothing else is shared: no two tasks store to
//   the same place, and none reads what another stored, but by arrival.
// - On-chip memory is a task's own but for what a Keep leaves there for the next one. What a buffer
//   holds before the body's first statement that touches it, and after the last, means nothing.
// - Arrival. Tasks that each make a part of something store their parts into a shared param, then
//   arrive at one counter. The one that arrives last sees what the others had stored before they
//   arrived, and puts the parts together. No task waits for another. Which one is last is chance,
//   so the whole must not depend on it: parts are taken in the order of their places.
// - Params may alias only when an output has the same shape and dtype as an input and every task
//   reads an element before, or in the same statement group as, it writes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/dtype.h"
#include "ops/scalar_expr.h"
#include "support/expected.h"
#include "support/shape.h"

namespace opweld::tile {

// Columns that belong together by parts: runs of `run` of them are of part 0, 1, ... in turn. With
// two parts, a run of half of the columns makes them halves, a run of one neighbours.
struct ColumnStretch {
  int columns = 0;  // a multiple of parts * run
  int run = 0;

  bool operator==(const ColumnStretch&) const = default;
};

struct Param {
  // Shared: what tasks hand to each other, with no meaning before and after the run. Counter: the
  // same, zero when the kernel starts.
  enum class Role : std::uint8_t { Input, Output, Shared, Counter };
  std::string name;
  DType dtype = DType::F32;
  Shape shape;  // as stored: for a packed operand the packed shape
  Role role = Role::Input;
  // Non-zero: a constant matrix [.., K, N] handed over as panels [.., ceil(N / c), K, c] of c
  // columns, zero-padded, packed once when the executable is built.
  int packed_columns = 0;
  // The packed constant was stored transposed, [.., N, K].
  bool packed_from_transposed = false;
  // The columns are those of several matrices of equal width N / parts, one after the other, and a
  // panel holds c / parts columns of each, in that order: what a task makes of element n of all of
  // them is in one register tile.
  int packed_parts = 1;
  // Not empty: the matrix is a row of heads, each of them these stretches one after the other, and
  // the parts are those of a stretch, not of the whole. Panels take element after element of all
  // parts, and do not care where a head ends.
  std::vector<ColumnStretch> packed_stretches = {};
  // The depth goes in pairs, as matrix units read it: zeros pad K to a multiple of kMatrixDepth,
  // and the panels are [.., ceil(N / c), K / 2, c, 2]; the last two axes are counted as one.
  bool packed_pairs = false;
};

// The depth of a MatrixDot is a multiple of this.
constexpr int kMatrixDepth = 32;
// Rows and columns of a MatrixDot are at most so many.
constexpr int kMatrixRows = 32;
constexpr int kMatrixColumns = 32;

struct Buffer {
  enum class Space : std::uint8_t { Cache, Outer, Register };
  std::string name;
  DType dtype = DType::F32;  // a compute type, or a storage type for packed operands
  Shape shape;
  Space space = Space::Cache;
};

struct Access {
  enum class Memory : std::uint8_t { Param, Buffer };
  Memory memory = Memory::Param;
  int target = 0;           // index of the param or buffer
  std::vector<Expr> index;  // i64; one per dimension, or a single linear offset when `linear`
  bool linear = false;
};

enum class Combiner : std::uint8_t {
  Sum,
  Prod,
  Max,        // NaN wins
  MaxNumber,  // of floats; NaN is passed over
  Min,        // NaN wins
  Any,
  All,
  // Index of the first (last) greatest (least) element; NaN counts as the greatest (least). `index`
  // of Reduce gives the position, never negative; of positions the least is the first. Result type
  // i64, 0 when there is no element.
  ArgMaxFirst,
  ArgMaxLast,
  ArgMinFirst,
  ArgMinLast,
};

struct Statement;
using Block = std::vector<Statement>;

struct ForLoop {
  enum class Kind : std::uint8_t { Serial, Vector, Unroll };
  int loop = 0;           // the loop variable
  Expr extent = kNoExpr;  // i64; the variable takes 0, step, 2 * step ... below it
  std::int64_t step = 1;  // Serial and Unroll; a Vector loop steps by the lanes
  Kind kind = Kind::Serial;
  int unroll = 1;  // Vector: vectors (and accumulators) per iteration
  int lanes = 0;   // Vector: lanes, 0 for the target's full width of the widest value
  Block body;
};

struct If {
  Expr condition = kNoExpr;
  Block then;
};

// What the body stores into buffers stays there for the tasks that the same thread takes after this
// one: those that come here with the same key go past the body, unless `again` holds. The buffers
// are written nowhere else. A program has one at most, in no loop but the grid. Which tasks a
// thread takes is chance, so the body computes the same for all of a key; what else it does, it
// does under conditions of which `again` is one.
struct Keep {
  Expr key = kNoExpr;    // i64, not negative
  Expr again = kNoExpr;  // bool; kNoExpr: it never does
  Block body;
};

struct Load {
  int local = 0;
  Access from;
  Expr where = kNoExpr;
};

struct Map {
  int local = 0;
  Expr value = kNoExpr;
};

struct Reduce {
  int local = 0;
  Combiner combiner = Combiner::Sum;
  Expr value = kNoExpr;
  Expr index = kNoExpr;  // arg-reductions only
  int over = 0;          // a loop variable
};

// accumulator[i, j] += sum over kk of a(i, kk) * b(kk, j), for i < rows, j < columns, kk < depth.
// a(i, kk) is at a.offset + i * a_row_stride + kk * a_depth_stride, b(kk, j) at
// b.offset + kk * b_depth_stride + j; both accesses are linear. With b_panel_columns = c the
// columns are spread over columns / c panels: b(kk, j) is at b.offset + j / c * b_panel_stride + kk
// * b_depth_stride + j % c. Products accumulate in f32 (f64 for f64, i32 for integers) in order of
// kk, one fused multiply-add each, so the result does not depend on rows or columns. The
// accumulator is a register buffer [rows, columns].
struct Dot {
  int accumulator = 0;
  Access a;
  Expr a_row_stride = kNoExpr;
  Expr a_depth_stride = kNoExpr;
  Access b;
  Expr b_depth_stride = kNoExpr;
  int b_panel_columns = 0;  // 0: all columns side by side; else a divisor of columns
  Expr b_panel_stride = kNoExpr;
  Expr depth = kNoExpr;
  int rows = 0;
  int columns = 0;

  // Where dots after this one will read: while this one computes, `stride` elements a step of kk
  // may be fetched from there into a cache. The place may lie outside the memory, and nothing is
  // read. `rates` are strides that there is to be a loop for, in ascending order; the one taken is
  // the first that is enough, or the last.
  struct Ahead {
    Access start;  // linear
    Expr stride = kNoExpr;
    std::vector<int> rates;
  };
  std::optional<Ahead> ahead;
};

// accumulator(i, j) += sum over kk of a(i, kk) * b(kk, j), for i < row_count, j < kMatrixColumns,
// kk < depth, on a unit that multiplies small matrices: AMX tiles, the cube unit of an NPU, tensor
// cores. Where `from_zero` holds, what the accumulator held counts for nothing. All accesses are
// linear. a(i, kk) is at a.offset + i *
// a_row_stride + kk; b(kk, j) at b.offset + (kk / 2 * kMatrixColumns + j) * 2 + kk % 2, so that the
// pair of products which a unit adds in one step lies together (Param::packed_pairs);
// accumulator(i, j) at accumulator.offset + i * accumulator_row_stride + j in a cache buffer,
// whence vector code reads it. Operands are bf16 and the accumulator is f32. Products are exact and
// are added in f32, in an order that is the unit's own but the same for every element and for any
// row_count; the unit may take subnormals, of operands and of sums, for zero.
struct MatrixDot {
  Access accumulator;
  Expr accumulator_row_stride = kNoExpr;
  Expr from_zero = kNoExpr;  // kNoExpr: it never does
  Access a;
  Expr a_row_stride = kNoExpr;
  Access b;
  Expr depth = kNoExpr;      // a multiple of kMatrixDepth
  Expr row_count = kNoExpr;  // 1 to kMatrixRows; rows past it are neither read nor written

  // What a dot after this one will read of its b: while this one computes, `stride` elements a step
  // of kMatrixDepth may be fetched from there into a cache. The place may lie outside the memory,
  // and nothing is read.
  struct Ahead {
    Access start;           // linear
    Expr stride = kNoExpr;  // not negative
  };
  std::optional<Ahead> ahead;
};

// to(j, i) <- from(i, j) for i < rows, j < columns. Elements have one dtype of 2 or 4 bytes; with
// `pairs`, two neighbours of 2 bytes move together and count as one. from(i, j) is at from.offset +
// i * from_row_stride + j * n, to(j, i) at to.offset + j * to_row_stride + i * n in a cache buffer,
// where n = 2 for pairs, else 1; both accesses are linear. Blocks of kTransposedRows by
// kTransposedBytes are written whole: zeros stand past the last row and column.
struct Transpose {
  Access to;
  Expr to_row_stride = kNoExpr;
  Access from;
  Expr from_row_stride = kNoExpr;
  Expr rows = kNoExpr;
  Expr columns = kNoExpr;
  bool pairs = false;
};
constexpr int kTransposedRows = 16;
constexpr int kTransposedBytes = 64;

// to[2 i] <- first, to[2 i + 1] <- second, where i is the offset of the linear access, into a cache
// buffer of bf16 that a MatrixDot reads: values are rounded to nearest even, and subnormals may be
// taken for zero, as the unit would. In a vector loop i goes up by one from lane to lane.
struct StorePair {
  Access to;
  Expr first = kNoExpr;
  Expr second = kNoExpr;
};

struct Store {
  Access to;
  Expr value = kNoExpr;
  Expr where = kNoExpr;
  // A hint, equal for a whole run: where it holds, the memory is larger than caches are, and every
  // element is stored once. To bring its lines into a cache before they are overwritten would be a
  // third way to memory beside reading and writing. kNoExpr: it does not hold.
  Expr past_caches = kNoExpr;
};

// to <- first, and the element behind it <- second. In a vector loop the places of neighbouring
// lanes are two elements apart, so that the lanes of both values fill one run of memory. Values are
// narrowed as by Store. Not into registers.
struct StoreInterleaved {
  Access to;
  Expr first = kNoExpr;
  Expr second = kNoExpr;
};

// What a later task, most likely the next one, will load may be brought into the nearest cache. The
// place may lie outside the memory, and nothing is read.
struct Prefetch {
  Access from;
};

struct Check {
  Expr condition = kNoExpr;
  std::string message;  // names the source node and what to do
  // Numbers that belong to the message: "message (group 3, rows -1)".
  struct Shown {
    std::string name;
    Expr value = kNoExpr;
  };
  std::vector<Shown> shown = {};
};

// Adds one to the counter, an element of an i32 param of that role; `local` is whether that made
// it `count`.
struct Arrive {
  int local = 0;  // bool
  Access counter;
  Expr count = kNoExpr;  // i64
};

struct Statement {
  std::variant<ForLoop, If, Keep, Load, Map, Reduce, Dot, MatrixDot, Transpose, Store, StorePair,
               StoreInterleaved, Prefetch, Check, Arrive>
      node;
};

struct GridAxis {
  int loop = 0;
  Expr extent = kNoExpr;
  std::int64_t step = 1;
};

struct TileProgram {
  std::string name;
  std::vector<Param> params;
  std::vector<Buffer> buffers;
  std::vector<GridAxis> grid;  // empty: one task
  Block body;
  ExprPool exprs;
  std::vector<std::string> loop_names;   // by loop variable
  std::vector<std::string> local_names;  // by local
  std::vector<DType> local_types;        // compute types
  std::vector<Dim> symbols;              // every symbol of any Size or shape, sorted by name
};

// Fills `symbols` with every symbol of a Size or a shape.
void collect_symbols(TileProgram& program);

// Stable text in the grammar above; golden tests and dumps show it.
std::string to_text(const TileProgram& program);

// Checks the rules in the head comment that can be checked; the first violation is named.
Status verify(const TileProgram& program);

// Whether the program has a MatrixDot, which only targets with a matrix unit can run.
bool uses_matrix_unit(const TileProgram& program);

// What the program keeps from task to task, or null.
const Keep* keep_of(const TileProgram& program);

// Number of tasks, as a Dim over the program's symbols.
Dim num_tasks(const TileProgram& program);
// Bytes of a shared param or counter, rounded up to kSharedAlignment; 0 for other params.
inline constexpr std::int64_t kSharedAlignment = 64;
Dim shared_bytes(const Param& param);

}  // namespace opweld::tile
