// What can be told about integer expressions without running: signs, divisors, and how they step
// from lane to lane. Private to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ops/scalar_expr.h"
#include "tile/walk.h"

namespace opweld::cpu {

class IndexFacts {
 public:
  // Loop variables are never negative.
  IndexFacts(ExprPool& pool, std::size_t loops) : pool_(pool), loop_multiples_(loops, 1) {}

  // Loop variable `loop` (of a vector loop: in lane 0) is always a multiple of `multiple`.
  void set_loop_multiple(int loop, std::int64_t multiple) {
    loop_multiples_[static_cast<std::size_t>(loop)] = multiple;
  }

  bool is_nonnegative(Expr expr);
  // The largest known divisor of the expression (in lane 0); 0 for the constant zero.
  std::int64_t known_divisor(Expr expr);

 private:
  bool compute_nonnegative(const ExprNode& node);
  std::int64_t compute_divisor(const ExprNode& node);

  ExprPool& pool_;
  std::vector<std::int64_t> loop_multiples_;
  std::unordered_map<Expr, bool> nonnegative_;
};

// How expressions differ between the lanes of one vector loop.
class LaneFacts {
 public:
  LaneFacts(ExprPool& pool, IndexFacts& index, const tile::TileProgram& program,
            const tile::ForLoop& loop, int lanes)
      : pool_(pool), index_(index), variance_(program, loop), loop_(loop.loop), lanes_(lanes) {}

  [[nodiscard]] int lanes() const { return lanes_; }
  [[nodiscard]] int loop() const { return loop_; }
  bool varies(Expr expr);
  [[nodiscard]] bool local_varies(int local) const { return variance_.local_varies(local); }
  // How far neighbouring lanes are apart, an expression without lanes, if it is the same distance
  // between all of them: 0 where nothing varies.
  std::optional<Expr> stride(Expr expr);

 private:
  std::optional<Expr> compute_stride(Expr expr);
  std::optional<Expr> stride_of_division(const ExprNode& node);
  [[nodiscard]] std::optional<std::int64_t> number(Expr expr) const;

  ExprPool& pool_;
  IndexFacts& index_;
  tile::Variance variance_;
  int loop_;
  int lanes_;
  std::unordered_map<Expr, bool> varies_;
  std::unordered_map<Expr, std::optional<Expr>> strides_;
};

}  // namespace opweld::cpu
