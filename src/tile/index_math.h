// Arithmetic on index expressions, kept simple enough that strides stay visible.
//
// Index maps of views turn loop variables into offsets; a reshape that merges dimensions
// linearises, one that splits them divides. Most of those divisions cancel, given that a loop
// variable is below its extent; what is left is emitted as written. All values are i64 and every
// index is >= 0 unless said.
#pragma once

#include <optional>
#include <vector>

#include "ops/scalar_expr.h"
#include "support/dim.h"
#include "support/shape.h"

namespace opweld::tile {

class IndexMath {
 public:
  explicit IndexMath(ExprPool& pool) : pool_(pool) {}

  // The expression (a loop variable, or a sum of two that together walk an axis) stays in
  // [0, extent) until the scope closes; without this a loop variable is taken as unbounded.
  void set_bound(Expr expr, const Dim& extent) { bounds_.push_back({expr, extent}); }

  // What was set since the scope was opened is forgotten when it closes. One per loop, and one per
  // case of several that say different things of the same expression.
  class Scope {
   public:
    explicit Scope(IndexMath& math) : math_(math), outside_(math.bounds_.size()) {}
    ~Scope() { math_.bounds_.resize(outside_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    IndexMath& math_;
    std::size_t outside_;
  };

  Expr constant(std::int64_t value) { return pool_.integer(value); }
  Expr size(const Dim& dim);
  Expr add(Expr a, Expr b);
  Expr sub(Expr a, Expr b);
  // a - start, where a is a sum that shows to be no less; its other terms are >= 0, as indices are.
  std::optional<Expr> past(Expr a, const Dim& start);
  Expr mul(Expr a, const Dim& factor);
  Expr div(Expr a, const Dim& divisor);  // floor; a >= 0, divisor > 0
  Expr mod(Expr a, const Dim& divisor);
  Expr clamp(Expr a, const Dim& extent);  // into [0, max(extent - 1, 0)]

  // Row-major linear offset of `index` in a dense tensor of `shape`, and back.
  Expr linearize(std::span<const Expr> index, const Shape& shape);
  // The linear offset, if it is free of the divisions that the index has.
  std::optional<Expr> undivided_offset(std::span<const Expr> index, const Shape& shape);
  std::vector<Expr> delinearize(Expr linear, const Shape& shape);

  // The index into a tensor of shape `from` of the element that stands at `index` of its reshape to
  // `to`. Dimensions are matched in the smallest groups of equal product, so that only what was
  // really merged is divided.
  std::vector<Expr> through_reshape(std::span<const Expr> index, const Shape& from,
                                    const Shape& to);

  // The value if the expression is a Dim known without running.
  [[nodiscard]] std::optional<Dim> known(Expr a) const;
  // An exclusive upper bound, if one can be shown.
  [[nodiscard]] std::optional<Dim> bound(Expr a) const;
  [[nodiscard]] bool below(Expr a, const Dim& limit) const;

 private:
  // a == base * factor
  struct Term {
    Expr base;
    Dim factor;
  };
  [[nodiscard]] Term term(Expr a) const;
  // a + b where a term of one is the quotient and a term of the other the remainder of a division.
  std::optional<Expr> join_split(Expr a, Expr b);
  std::optional<Expr> joined(Expr quotient, Expr remainder);
  // a == quotient * divisor exactly, for a whole term; absent when that cannot be shown.
  std::optional<Expr> exact_quotient(Expr a, const Dim& divisor);

  ExprPool& pool_;
  // As they were set; the last one of an expression holds. There are few at a time.
  struct Bound {
    Expr of = kNoExpr;
    Dim extent;
  };
  std::vector<Bound> bounds_;
};

}  // namespace opweld::tile
