// The scalar language: what one element of a pointwise result is, as a small typed DAG.
//
// Operators state their meaning in it once; every backend prints vector code from it, and the
// reference evaluator can interpret it. Expressions live in an ExprPool and are named by Expr, an
// index; equal expressions get equal indices (hash-consing), so a subexpression used twice is
// computed once.
//
// Types are compute types only: f64, f32, i64, i32, bool (see compute_dtype). A value that must be
// rounded to a storage type passes through Round: to f16, bf16, i16, i8 or u8 and back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/dtype.h"
#include "support/dim.h"
#include "support/expected.h"
#include "support/position_index.h"

namespace opweld {

// Index into an ExprPool; kNoExpr means "absent".
enum class Expr : std::int32_t {};
inline constexpr Expr kNoExpr{-1};

enum class ExprKind : std::uint8_t {
  // Leaves.
  Input,  // the `index`-th operand element (operator definitions), or local value (tile programs)
  Constant,  // number (f64/f32/bool as double, integers as int64)
  Size,      // the value of a Dim at run time, i64
  Loop,      // the current value of loop variable `index`, i64 (tile programs only)
  // Arithmetic: both arguments and the result share one type.
  Add,
  Sub,
  Mul,
  Div,   // floats: IEEE; integers: truncates toward zero; x / 0 == 0 and min / -1 == min
  Mod,   // floored, sign of the divisor, as numpy.mod; integers: x mod 0 == 0
  Fmod,  // truncated, sign of the dividend, as C fmod; integers: x fmod 0 == 0
  Min,   // NaN if either is NaN
  Max,
  Pow,
  Fma,  // a * b + c with one rounding, only where an operator asks for it
  // Unary, floats (Neg, Abs, Sign: also integers).
  Neg,
  Abs,
  Sign,
  Exp,
  Log,
  Sqrt,
  Rsqrt,  // 1 / sqrt(x), both correctly rounded
  Tanh,
  Erf,
  Sigmoid,
  Sin,
  Cos,
  Floor,
  Ceil,
  Round,  // half to even
  Reciprocal,
  // Comparison: arguments of one type, result bool. Comparisons with NaN are false, Ne true.
  Eq,
  Ne,
  Lt,
  Le,
  // Logic on bool; bitwise on integers.
  And,
  Or,
  Xor,
  Not,
  ShiftLeft,   // integers; a shift by the width or more gives 0
  ShiftRight,  // logical for unsigned storage, else arithmetic
  IsNan,
  IsInf,
  Select,  // arguments: bool, a, b -> condition ? a : b
  // Conversion between compute types. Float to integer truncates toward zero; out of range and NaN
  // are documented in docs/numerics.md (saturate; NaN gives 0). To bool: x != 0.
  Convert,
  // Round the value to `storage` and back to the same compute type (f16/bf16: nearest even;
  // i16/i8/u8: wrap).
  Store,
};

struct ExprNode {
  ExprKind kind;
  DType type;                  // compute type of the result
  std::int32_t index = 0;      // Input, Loop
  DType storage = DType::F32;  // Store
  double number = 0;           // Constant of float or bool type
  std::int64_t integer = 0;    // Constant of integer type
  Dim size = 0;                // Size
  std::int8_t num_arguments = 0;
  Expr arguments[3] = {kNoExpr, kNoExpr, kNoExpr};

  // Constants compare by their bits: 0.0 is not -0.0, and NaN equals itself.
  friend bool operator==(const ExprNode& a, const ExprNode& b);
};

// How many arguments a kind takes; 0 for leaves.
int arity(ExprKind kind);

// A value of a compute type: floats in .real, integers and bools in .integer.
struct ScalarValue {
  double real = 0;
  std::int64_t integer = 0;
};

class ExprPool {
 public:
  [[nodiscard]] const ExprNode& operator[](Expr expr) const {
    return nodes_[static_cast<std::size_t>(expr)];
  }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  Expr input(int index, DType compute_type);
  Expr constant(double value, DType compute_type);  // converted to the type
  Expr integer(std::int64_t value, DType compute_type = DType::I64);
  Expr size_of(const Dim& dim);
  Expr loop(int index);
  // Checks arity and types by assertion. Constants are folded where run-time evaluation is certain
  // to give the same bits: integers, comparisons, what IEEE 754 rounds correctly; never a NaN and
  // never an elementary function. Nothing is rewritten that could change a NaN or the sign of a
  // zero.
  Expr make(ExprKind kind, std::span<const Expr> arguments);
  Expr unary(ExprKind kind, Expr a);
  Expr binary(ExprKind kind, Expr a, Expr b);
  Expr select(Expr condition, Expr a, Expr b);
  Expr convert(Expr a, DType compute_type);  // no-op when the type is right already
  Expr store(Expr a, DType storage);         // no-op when storage is a compute type itself

  // Copies `root` out of `other`, replacing Input(i) by replacements[i].
  Expr import(const ExprPool& other, Expr root, std::span<const Expr> replacements);

 private:
  Expr intern(ExprNode node);
  [[nodiscard]] std::optional<ScalarValue> fold(const ExprNode& node) const;
  Expr fold_or_intern(ExprNode node);
  Expr rebuild(ExprNode node, const Expr (&arguments)[3]);
  std::vector<ExprNode> nodes_;
  PositionIndex index_;  // of the nodes
};

std::string_view to_string(ExprKind kind);

// "t0 = exp(in0); div(t0, add(t0, 1.0))": subexpressions that are read twice are named first.
std::string to_string(const ExprPool& pool, Expr expr);

// `root` and all that it depends on, arguments before their users.
std::vector<Expr> reachable_exprs(const ExprPool& pool, Expr root);

// Interprets one expression for many elements: the oracle for generated code. Floats of type f32
// are computed in float, f64 in double, integers wrap to their width.
class ScalarInterpreter {
 public:
  // `bindings` gives the values of Size leaves. Fails when one of them cannot be evaluated.
  static Expected<ScalarInterpreter> make(const ExprPool& pool, Expr root,
                                          const Bindings& bindings = {});

  // `inputs[i]` holds Input(i), `loops[i]` Loop(i).
  ScalarValue operator()(std::span<const ScalarValue> inputs,
                         std::span<const std::int64_t> loops = {});

 private:
  struct Step {
    ExprNode node;
    DType argument_type;             // of the first argument
    std::int32_t arguments[3] = {};  // positions among the steps
  };
  std::vector<Step> steps_;
  std::vector<ScalarValue> values_;  // one for each step
};

// The same for one element of an expression without sizes or loops.
ScalarValue evaluate(const ExprPool& pool, Expr expr, std::span<const ScalarValue> inputs);

}  // namespace opweld
