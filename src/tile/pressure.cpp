#include "tile/pressure.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "support/shape.h"
#include "tile/buffer_lifetimes.h"
#include "tile/walk.h"

namespace opweld::tile {

namespace {

// The time between which values are alive, in steps of the walk over a program.
struct Lifetime {
  int begin = 0;
  int end = 0;
  int registers = 1;
};

// The vectors that the code of an elementary function (codegen/cpu/elementary.h) needs at once
// beside its operands and its result, constants left out: they are read where they are wanted. Of
// what is a call, all that there are, since no vector outlives one in its register.
int temporaries_of(ExprKind kind, DType type, int all) {
  const bool is_single = type == DType::F32;
  switch (kind) {
    case ExprKind::Exp:
    case ExprKind::Erf:
      return is_single ? 6 : all;
    case ExprKind::Tanh:
    case ExprKind::Sigmoid:
      return is_single ? 7 : all;
    case ExprKind::Log:
      return is_single ? 8 : all;
    case ExprKind::Pow:
      return is_single ? 12 : all;  // computed in f64, twice as many vectors
    case ExprKind::Sin:
    case ExprKind::Cos:
      return all;
    case ExprKind::Mod:
    case ExprKind::Fmod:
      return is_float(type) ? all : 0;
    default:
      return 0;
  }
}

// Where the same is done to several vectors in turn, LLVM begins the second before the first ends.
constexpr int kAtOnce = 2;

class PressureWalk {
 public:
  PressureWalk(const TileProgram& program, const Target& target)
      : program_(program),
        target_(target),
        vector_bytes_(target.vector_bits / 8),
        reads_of_locals_(program.local_types.size(), kNoExpr),
        values_(program.exprs.size()),
        touched_(program.buffers.size()) {
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
    for (const auto& buffer : touched_) {
      if (buffer) finished_.push_back(buffer->lifetime);
    }
    std::vector<int> changes(static_cast<std::size_t>(time_) + 2, 0);  // by time
    for (const Lifetime& lifetime : finished_) {
      changes[static_cast<std::size_t>(lifetime.begin)] += lifetime.registers;
      changes[static_cast<std::size_t>(lifetime.end) + 1] -= lifetime.registers;
    }
    int alive = 0;
    int most = 0;
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
    bool is_loaded = false;
    bool is_read = false;
  };

  // A register buffer.
  struct Touched {
    Lifetime lifetime;
    std::size_t loops = 0;  // the fewest that were open where it was touched
  };

  struct OpenLoop {
    const ForLoop* loop;
    int begin;
    std::vector<Expr> used = {};    // made outside of it
    std::vector<int> buffers = {};  // touched outside of it, and inside
    int accumulators = 0;
  };

  bool is_register(int buffer) const {
    return program_.buffers[static_cast<std::size_t>(buffer)].space == Buffer::Space::Register;
  }

  int vectors_of(const Buffer& buffer) const {
    const std::int64_t bytes = *num_elements(buffer.shape).constant() * byte_size(buffer.dtype);
    return static_cast<int>((bytes + vector_bytes_ - 1) / vector_bytes_);
  }

  static const Access* accessed(const Statement& statement) {
    if (const auto* load = std::get_if<Load>(&statement.node)) return &load->from;
    if (const auto* store = std::get_if<Store>(&statement.node)) return &store->to;
    return nullptr;
  }

  void touch(const Statement& statement) {
    if (const auto* dot = std::get_if<Dot>(&statement.node)) touch(dot->accumulator);
    const Access* const access = accessed(statement);
    if (access != nullptr && access->memory == Access::Memory::Buffer) touch(access->target);
  }

  void touch(int index) {
    if (!is_register(index)) return;
    std::optional<Touched>& buffer = touched_[static_cast<std::size_t>(index)];
    const int registers = vectors_of(program_.buffers[static_cast<std::size_t>(index)]);
    if (!buffer) buffer = {{time_, time_, registers}, loops_.size()};
    buffer->lifetime.end = time_;
    buffer->loops = std::min(buffer->loops, loops_.size());
    if (loops_.size() == buffer->loops) return;
    std::vector<int>& inside = loops_[buffer->loops].buffers;
    if (std::ranges::find(inside, index) == inside.end()) inside.push_back(index);
  }

  void visit(const Block& block) {
    for (const Statement& statement : block) {
      if (variance_) for_each_expr(statement, [this](Expr expr) { use(expr); });
      touch(statement);
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
    for (const int buffer : ended.buffers) touch(buffer);
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
    // Of what all that follows is for there is nothing in these.
    const bool is_nothing = program_.exprs[root].kind == ExprKind::Loop || is_index(root);
    if (is_nothing || !variance_->varies(root)) return;
    for (const Expr expr : reachable_exprs(program_.exprs, root)) {
      if (!variance_->varies(expr)) continue;
      const ExprNode& node = program_.exprs[expr];
      // Loop variables are addresses and constants added to them.
      if (node.kind == ExprKind::Loop || is_index(expr)) continue;
      if (node.kind != ExprKind::Input && value_of(expr)) continue;  // it has been made
      for (int i = 0; i < node.num_arguments; ++i) read(node.arguments[i]);
      ++time_;
      hold(temporaries(node));
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
    if (const auto* load = std::get_if<Load>(&statement.node)) {
      Value& value = *value_of(read);
      value.is_loaded = true;
      // It is in a register already.
      const bool is_copy =
          load->from.memory == Access::Memory::Buffer && is_register(load->from.target);
      if (is_copy) value.lifetime.registers = 0;
    }
  }

  int temporaries(const ExprNode& node) const {
    // What is not here has instructions for such functions.
    if (target_.planned_only || node.num_arguments == 0) return 0;
    const int all = target_.vector_registers;
    const int one = temporaries_of(node.kind, node.type, all);
    return std::min(all, one * (repeats() ? kAtOnce : 1));
  }

  // Whether the same follows for further vectors, with no jump between.
  bool repeats() const {
    return std::ranges::any_of(loops_, [](const OpenLoop& each) {
      return each.loop->kind == ForLoop::Kind::Unroll ||
             (each.loop->kind == ForLoop::Kind::Vector && each.loop->unroll > 1);
    });
  }

  std::optional<Value>& value_of(Expr expr) { return values_[static_cast<std::size_t>(expr)]; }

  void make(Expr expr) {
    std::optional<Value>& value = value_of(expr);
    if (value) return;
    value = Value{{time_, time_}, loops_.size()};
    made_.push_back(expr);
  }

  void read(Expr expr) {
    std::optional<Value>& value = value_of(expr);
    if (!value) return;
    if (value->is_loaded && !value->is_read) {
      // What is loaded is fetched where it is first read, or before the loop in which it is.
      const bool is_inside = loops_.size() > value->loops;
      value->lifetime.begin = is_inside ? loops_[value->loops].begin : time_;
    }
    value->is_read = true;
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
  const Target& target_;
  int vector_bytes_;
  std::vector<Expr> reads_of_locals_;  // by local
  std::vector<bool> is_index_;         // by expression
  int time_ = 0;
  std::optional<Variance> variance_;
  std::vector<OpenLoop> loops_;
  std::vector<std::optional<Value>> values_;     // of the open vector loop, by expression
  std::vector<Expr> made_;                       // those that there are
  std::vector<std::optional<Touched>> touched_;  // by buffer
  std::vector<Lifetime> finished_;
};

}  // namespace

Pressure estimate_pressure(const TileProgram& program, const Target& target) {
  return {.cache_bytes = buffer_bytes(program, Buffer::Space::Cache),
          .outer_bytes = buffer_bytes(program, Buffer::Space::Outer),
          .vector_registers = PressureWalk(program, target).peak(),
          .tasks = num_tasks(program),
          .rows_per_task = 0,
          .rows_per_weight = 0};
}

Pressure estimate_pressure(const LoweredKernel& kernel, const Target& target) {
  Pressure pressure = estimate_pressure(kernel.program, target);
  pressure.rows_per_task = kernel.rows_per_task;
  pressure.rows_per_weight = kernel.rows_per_weight;
  return pressure;
}

}  // namespace opweld::tile
