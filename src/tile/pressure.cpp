#include "tile/pressure.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "support/shape.h"
#include "tile/walk.h"

namespace opweld::tile {

namespace {

// The time between which values are alive, in steps of the walk over a program.
struct Lifetime {
  int begin = 0;
  int end = 0;
  int registers = 1;
};

class PressureWalk {
 public:
  PressureWalk(const TileProgram& program, const Target& target)
      : program_(program),
        vector_bytes_(target.vector_bits / 8),
        reads_of_locals_(program.local_types.size(), kNoExpr),
        values_(program.exprs.size()) {
    for (std::size_t i = 0; i < program.exprs.size(); ++i) {
      const auto expr = static_cast<Expr>(i);
      const ExprNode& node = program.exprs[expr];
      // Arguments come before what reads them.
      bool is_index = node.type == DType::I64 && node.kind != ExprKind::Input;
      for (int k = 0; k < node.num_arguments; ++k) {
        is_index = is_index && is_index_[static_cast<std::size_t>(node.arguments[k])];
      }
      is_index_.push_back(is_index);
      if (node.kind != ExprKind::Input) continue;
      reads_of_locals_[static_cast<std::size_t>(node.index)] = expr;
    }
  }

  int peak() {
    visit(program_.body);
    std::vector<int> changes(static_cast<std::size_t>(time_) + 2, 0);  // by time
    for (const Lifetime& lifetime : finished_) {
      changes[static_cast<std::size_t>(lifetime.begin)] += lifetime.registers;
      changes[static_cast<std::size_t>(lifetime.end) + 1] -= lifetime.registers;
    }
    int alive = register_buffers();
    int most = alive;
    for (const int change : changes) {
      alive += change;
      most = std::max(most, alive);
    }
    return most;
  }

 private:
  // Values are expressions; a local is the Input expression that reads it.
  struct Value {
    Lifetime lifetime;
    std::size_t loops = 0;  // how many loops were open where it was made
  };

  struct OpenLoop {
    const ForLoop* loop;
    int begin;
    std::vector<Expr> used = {};  // made outside of it
    int accumulators = 0;
  };

  int register_buffers() const {
    std::int64_t vectors = 0;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.space != Buffer::Space::Register) continue;
      const std::int64_t bytes = *num_elements(buffer.shape).constant() * byte_size(buffer.dtype);
      vectors += (bytes + vector_bytes_ - 1) / vector_bytes_;
    }
    return static_cast<int>(vectors);
  }

  void visit(const Block& block) {
    for (const Statement& statement : block) {
      if (variance_) for_each_expr(statement, [this](Expr expr) { use(expr); });
      if (const auto* dot = std::get_if<Dot>(&statement.node)) hold(operand_vectors(*dot));
      if (const auto local = defined_local(statement)) define(statement, *local);
      if (const auto* loop = std::get_if<ForLoop>(&statement.node)) {
        visit(*loop);
      } else if (const Block* nested = nested_block(statement)) {
        visit(*nested);
      }
      ++time_;
    }
  }

  void visit(const ForLoop& loop) {
    const bool vector = loop.kind == ForLoop::Kind::Vector;
    if (vector) variance_.emplace(program_, loop);
    loops_.push_back({&loop, time_});
    visit(loop.body);
    const OpenLoop ended = std::move(loops_.back());
    loops_.pop_back();
    finished_.push_back({ended.begin, time_, ended.accumulators});
    // The next time around needs it again.
    for (const Expr expr : ended.used) read(expr);
    if (!vector) return;
    for (const Expr expr : made_) {
      std::optional<Value>& value = value_of(expr);
      finished_.push_back(value->lifetime);
      value.reset();
    }
    made_.clear();
    variance_.reset();
  }

  // A value that differs between lanes is made here, if it was not made before, and read.
  void use(Expr root) {
    for (const Expr expr : reachable_exprs(program_.exprs, root)) {
      if (!variance_->varies(expr)) continue;
      const ExprNode& node = program_.exprs[expr];
      // Loop variables are addresses and constants added to them.
      if (node.kind == ExprKind::Loop || is_index(expr)) continue;
      for (int i = 0; i < node.num_arguments; ++i) read(node.arguments[i]);
      ++time_;
      if (node.kind != ExprKind::Input) make(expr);
    }
    read(root);
  }

  // Integers made of loop variables and sizes alone.
  bool is_index(Expr expr) const { return is_index_[static_cast<std::size_t>(expr)]; }

  void define(const Statement& statement, int local) {
    if (const auto* reduce = std::get_if<Reduce>(&statement.node)) add_accumulators(*reduce);
    const Expr read = reads_of_locals_[static_cast<std::size_t>(local)];
    if (read == kNoExpr || !variance_ || !variance_->local_varies(local)) return;
    ++time_;
    make(read);
  }

  std::optional<Value>& value_of(Expr expr) { return values_[static_cast<std::size_t>(expr)]; }

  void make(Expr expr) {
    std::optional<Value>& value = value_of(expr);
    if (value) return;
    value = Value{{time_, time_, 1}, loops_.size()};
    made_.push_back(expr);
  }

  void read(Expr expr) {
    std::optional<Value>& value = value_of(expr);
    if (!value) return;
    value->lifetime.end = time_;
    if (loops_.size() <= value->loops) return;
    std::vector<Expr>& used = loops_[value->loops].used;
    if (std::ranges::find(used, expr) == used.end()) used.push_back(expr);
  }

  void add_accumulators(const Reduce& reduce) {
    const auto over = std::find_if(loops_.begin(), loops_.end(), [&reduce](const OpenLoop& each) {
      return each.loop->loop == reduce.over;
    });
    if (over == loops_.end()) return;
    const auto lanes = std::find_if(over, loops_.end(), [](const OpenLoop& each) {
      return each.loop->kind == ForLoop::Kind::Vector;
    });
    if (lanes != loops_.end()) {
      over->accumulators += lanes->loop->unroll;
    } else if (variance_ && variance_->local_varies(reduce.local)) {
      over->accumulators += 1;
    }
  }

  int operand_vectors(const Dot& dot) const {
    const Buffer& buffer = program_.buffers[static_cast<std::size_t>(dot.accumulator)];
    const int lanes = vector_bytes_ / byte_size(buffer.dtype);
    return std::min(dot.rows, (dot.columns + lanes - 1) / lanes) + 1;
  }

  void hold(int registers) { finished_.push_back({time_, time_, registers}); }

  const TileProgram& program_;
  int vector_bytes_;
  std::vector<Expr> reads_of_locals_;  // by local
  std::vector<bool> is_index_;         // by expression
  int time_ = 0;
  std::optional<Variance> variance_;
  std::vector<OpenLoop> loops_;
  std::vector<std::optional<Value>> values_;  // of the open vector loop, by expression
  std::vector<Expr> made_;                    // those that there are
  std::vector<Lifetime> finished_;
};

}  // namespace

Pressure estimate_pressure(const TileProgram& program, const Target& target) {
  return {.cache_bytes = buffer_bytes(program, Buffer::Space::Cache),
          .outer_bytes = buffer_bytes(program, Buffer::Space::Outer),
          .vector_registers = PressureWalk(program, target).peak(),
          .tasks = num_tasks(program),
          .rows_per_task = 0};
}

Pressure estimate_pressure(const LoweredKernel& kernel, const Target& target) {
  Pressure pressure = estimate_pressure(kernel.program, target);
  pressure.rows_per_task = kernel.rows_per_task;
  return pressure;
}

}  // namespace opweld::tile
