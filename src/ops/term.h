// Formulas of the scalar language, written as formulas.
//
// A Term is an Expr together with its pool. Numbers take the type of the other operand. Nothing
// here simplifies or reassociates: the operations are those that the formula shows.
#pragma once

#include "ops/scalar_expr.h"

namespace opweld {

class Term {
 public:
  Term(ExprPool& pool, Expr expr) : pool_(&pool), expr_(expr) {}

  [[nodiscard]] ExprPool& pool() const { return *pool_; }
  [[nodiscard]] Expr expr() const { return expr_; }
  [[nodiscard]] DType type() const { return (*pool_)[expr_].type; }
  // A constant of this term's type.
  [[nodiscard]] Term number(double value) const { return {*pool_, pool_->constant(value, type())}; }

 private:
  ExprPool* pool_;
  Expr expr_;
};

inline Term apply(ExprKind kind, Term a) {
  return {a.pool(), a.pool().unary(kind, a.expr())};
}
inline Term apply(ExprKind kind, Term a, Term b) {
  return {a.pool(), a.pool().binary(kind, a.expr(), b.expr())};
}

inline Term operator+(Term a, Term b) {
  return apply(ExprKind::Add, a, b);
}
inline Term operator+(Term a, double b) {
  return a + a.number(b);
}
inline Term operator+(double a, Term b) {
  return b.number(a) + b;
}
inline Term operator-(Term a, Term b) {
  return apply(ExprKind::Sub, a, b);
}
inline Term operator-(Term a, double b) {
  return a - a.number(b);
}
inline Term operator-(double a, Term b) {
  return b.number(a) - b;
}
inline Term operator-(Term a) {
  return apply(ExprKind::Neg, a);
}
inline Term operator*(Term a, Term b) {
  return apply(ExprKind::Mul, a, b);
}
inline Term operator*(Term a, double b) {
  return a * a.number(b);
}
inline Term operator*(double a, Term b) {
  return b.number(a) * b;
}
inline Term operator/(Term a, Term b) {
  return apply(ExprKind::Div, a, b);
}
inline Term operator/(Term a, double b) {
  return a / a.number(b);
}
inline Term operator/(double a, Term b) {
  return b.number(a) / b;
}

// Comparisons give a bool term.
inline Term operator<(Term a, Term b) {
  return apply(ExprKind::Lt, a, b);
}
inline Term operator<(Term a, double b) {
  return a < a.number(b);
}
inline Term operator<=(Term a, double b) {
  return apply(ExprKind::Le, a, a.number(b));
}
inline Term operator>(Term a, double b) {
  return a.number(b) < a;
}
inline Term equal(Term a, Term b) {
  return apply(ExprKind::Eq, a, b);
}
inline Term equal(Term a, double b) {
  return equal(a, a.number(b));
}

inline Term select(Term condition, Term a, Term b) {
  return {a.pool(), a.pool().select(condition.expr(), a.expr(), b.expr())};
}
inline Term select(Term condition, Term a, double b) {
  return select(condition, a, a.number(b));
}
inline Term select(Term condition, double a, Term b) {
  return select(condition, b.number(a), b);
}

// NaN if either is NaN.
inline Term min(Term a, double b) {
  return apply(ExprKind::Min, a, a.number(b));
}
inline Term max(Term a, double b) {
  return apply(ExprKind::Max, a, a.number(b));
}

inline Term abs(Term x) {
  return apply(ExprKind::Abs, x);
}
inline Term exp(Term x) {
  return apply(ExprKind::Exp, x);
}
inline Term log(Term x) {
  return apply(ExprKind::Log, x);
}
inline Term sqrt(Term x) {
  return apply(ExprKind::Sqrt, x);
}
inline Term tanh(Term x) {
  return apply(ExprKind::Tanh, x);
}
inline Term erf(Term x) {
  return apply(ExprKind::Erf, x);
}
inline Term sigmoid(Term x) {
  return apply(ExprKind::Sigmoid, x);
}
inline Term sin(Term x) {
  return apply(ExprKind::Sin, x);
}
inline Term cos(Term x) {
  return apply(ExprKind::Cos, x);
}

}  // namespace opweld
