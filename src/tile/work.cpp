#include "tile/work.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "support/shape.h"
#include "tile/walk.h"

namespace opweld::tile {

namespace {

// Instructions of one vector, or the time of as many: of polynomials (codegen/cpu/elementary) their
// terms and the reduction before them, of divisions and roots what they keep a unit busy for.
double instructions_of(ExprKind kind) {
  if (arity(kind) == 0) return 0;
  switch (kind) {
    case ExprKind::Exp:
      return 14;
    case ExprKind::Log:
    case ExprKind::Tanh:
    case ExprKind::Sigmoid:
      return 20;
    case ExprKind::Erf:
    case ExprKind::Sin:
    case ExprKind::Cos:
      return 24;
    case ExprKind::Pow:
      return 40;
    case ExprKind::Div:
    case ExprKind::Reciprocal:
    case ExprKind::Sqrt:
      return 16;
    case ExprKind::Rsqrt:
      return 32;
    case ExprKind::Mod:
    case ExprKind::Fmod:
      return 24;
    case ExprKind::Min:
    case ExprKind::Max:
    case ExprKind::Sign:
      return 3;
    case ExprKind::Store:
      return 4;
    default:
      return 1;
  }
}

// A loop of so few trips that decides what is done is walked trip by trip.
constexpr double kWalkedTrips = 4;
// Of more loops than any schedule nests, those beyond are taken to be read by every index.
constexpr std::size_t kKnownLoops = 128;

class WorkWalk {
  using Loops = std::bitset<kKnownLoops>;

 public:
  WorkWalk(const TileProgram& program, const Target& target, const Bindings& sizes)
      : program_(program), target_(target), sizes_(sizes) {
    loops_.resize(program.loop_names.size());
    moved_.resize(program.params.size());
    made_within_.resize(program.local_types.size());
    // Arguments come before what reads them.
    for (std::size_t i = 0; i < program.exprs.size(); ++i) {
      const ExprNode& node = program.exprs[static_cast<Expr>(i)];
      bool reads = node.kind == ExprKind::Input;
      Loops loops;
      if (node.kind == ExprKind::Loop && std::size_t(node.index) < kKnownLoops) {
        loops.set(static_cast<std::size_t>(node.index));
      }
      for (int j = 0; j < node.num_arguments; ++j) {
        reads = reads || reads_data(node.arguments[j]);
        loops |= loops_read_[static_cast<std::size_t>(node.arguments[j])];
      }
      reads_data_.push_back(reads);
      loops_read_.push_back(loops);
    }
    known_.resize(program.exprs.size());
    is_made_.resize(program.exprs.size(), false);
    for_each_statement(program.body, [this](const Statement& statement) {
      if (const auto* condition = std::get_if<If>(&statement.node)) {
        decide_ |= loops_read_[static_cast<std::size_t>(condition->condition)];
      } else if (const auto* loop = std::get_if<ForLoop>(&statement.node)) {
        shape_ |= loops_read_[static_cast<std::size_t>(loop->extent)];
      } else if (const auto* dot = std::get_if<Dot>(&statement.node)) {
        shape_ |= loops_read_[static_cast<std::size_t>(dot->depth)];
      }
    });
  }

  Expected<Work> run() {
    for (std::size_t i = 0; i < program_.exprs.size(); ++i) {
      const ExprNode& node = program_.exprs[static_cast<Expr>(i)];
      if (node.kind != ExprKind::Size) continue;
      OPWELD_TRY(const std::int64_t size, node.size.evaluate(sizes_));
      size_values_[static_cast<Expr>(i)] = static_cast<double>(size);
    }
    double tasks = 1;
    for (const GridAxis& axis : program_.grid) {
      const double extent = value_of(axis.extent).value_or(1);
      tasks *= open(axis.loop, extent, static_cast<double>(axis.step));
    }
    work_.tasks = tasks;
    if (tasks > 0) visit(program_.body, tasks);
    OPWELD_CHECK(sum_streamed_bytes());
    return work_;
  }

 private:
  struct OpenLoop {
    bool is_open = false;
    double value = 0;  // half way
    double trips = 1;
    double step = 1;
  };

  // How often the loop goes around.
  double open(int loop, double extent, double step) {
    OpenLoop& opened = loops_[static_cast<std::size_t>(loop)];
    opened.is_open = true;
    opened.step = step;
    opened.trips = std::max(0.0, std::ceil(extent / step));
    opened.value = step * std::max(0.0, std::floor((opened.trips - 1) / 2));
    ++changes_;
    return opened.trips;
  }

  void close(int loop) {
    loops_[static_cast<std::size_t>(loop)].is_open = false;
    ++changes_;
  }

  void set_value(OpenLoop& loop, double value) {
    loop.value = value;
    ++changes_;
  }

  // Nothing where it depends on data. Remembered for as long as no loop changes: expressions share
  // what they are made of.
  std::optional<double> value_of(Expr expr) {
    if (expr == kNoExpr) return std::nullopt;
    Known& known = known_[static_cast<std::size_t>(expr)];
    if (known.at != changes_) known = {changes_, computed_value_of(expr)};
    return known.value;
  }

  std::optional<double> computed_value_of(Expr expr) {
    const ExprNode& node = program_.exprs[expr];
    switch (node.kind) {
      case ExprKind::Constant:
        return is_float(node.type) || node.type == DType::Bool ? node.number
                                                               : static_cast<double>(node.integer);
      case ExprKind::Size:
        return size_values_.at(expr);
      case ExprKind::Loop: {
        const OpenLoop& loop = loops_[static_cast<std::size_t>(node.index)];
        return loop.is_open ? std::optional(loop.value) : std::nullopt;
      }
      case ExprKind::Input:
        return std::nullopt;
      default:
        break;
    }
    std::optional<double> arguments[3];
    for (int i = 0; i < node.num_arguments; ++i) arguments[i] = value_of(node.arguments[i]);
    return value_of(node, arguments);
  }

  static std::optional<double> value_of(const ExprNode& node,
                                        const std::optional<double> (&arguments)[3]) {
    const auto& [a, b, c] = arguments;
    // A bound that only data tells is as large as the other allows.
    if (node.kind == ExprKind::Min || node.kind == ExprKind::Max) {
      if (!a || !b) return a ? a : b;
      return node.kind == ExprKind::Min ? std::min(*a, *b) : std::max(*a, *b);
    }
    // Comparing a number that was computed with another asks whether something went wrong.
    const bool is_guard = node.kind == ExprKind::Ne && (!a || !b);
    if (is_guard) return 0;
    if (node.kind == ExprKind::And && ((a && *a == 0) || (b && *b == 0))) return 0;
    if (node.kind == ExprKind::Or && ((a && *a != 0) || (b && *b != 0))) return 1;
    if (node.kind == ExprKind::Select && a) return *a != 0 ? b : c;
    for (int i = 0; i < node.num_arguments; ++i) {
      if (!arguments[i]) return std::nullopt;
    }
    const bool is_integer = !is_float(node.type) && node.type != DType::Bool;
    const auto bits = [](double value) { return static_cast<std::int64_t>(value); };
    switch (node.kind) {
      case ExprKind::Add:
        return *a + *b;
      case ExprKind::Sub:
        return *a - *b;
      case ExprKind::Mul:
        return *a * *b;
      case ExprKind::Div:
        if (*b == 0) return 0;
        return is_integer ? std::trunc(*a / *b) : *a / *b;
      case ExprKind::Mod:
        return *b == 0 ? 0 : *a - *b * std::floor(*a / *b);
      case ExprKind::Neg:
        return -*a;
      case ExprKind::Eq:
        return *a == *b;
      case ExprKind::Ne:
        return *a != *b;
      case ExprKind::Lt:
        return *a < *b;
      case ExprKind::Le:
        return *a <= *b;
      case ExprKind::And:
        return is_integer ? bits(*a) & bits(*b) : std::int64_t{*a != 0 && *b != 0};
      case ExprKind::Or:
        return is_integer ? bits(*a) | bits(*b) : std::int64_t{*a != 0 || *b != 0};
      case ExprKind::Not:
        return *a == 0;
      case ExprKind::Convert:
        return *a;
      default:
        return std::nullopt;
    }
  }

  // The share of times that the condition holds; 1 where only data tells.
  double share_of(Expr condition) {
    std::vector<OpenLoop*> read;
    for (const Expr expr : reachable_exprs(program_.exprs, condition)) {
      const ExprNode& node = program_.exprs[expr];
      if (node.kind != ExprKind::Loop) continue;
      OpenLoop& loop = loops_[static_cast<std::size_t>(node.index)];
      if (loop.is_open && loop.trips > 1) read.push_back(&loop);
    }
    return share_of(condition, read);
  }

  // Over samples of each loop: the first and the last, which conditions ask for, and some between.
  double share_of(Expr condition, std::span<OpenLoop* const> read) {
    if (read.empty()) {
      const ExprNode& node = program_.exprs[condition];
      if (node.kind == ExprKind::Input) {
        const auto arrival = last_of_.find(node.index);
        if (arrival != last_of_.end()) return 1 / std::max(1.0, arrival->second);
      }
      const std::optional<double> value = value_of(condition);
      return value ? (*value != 0 ? 1.0 : 0.0) : 1.0;
    }
    // Fewer where several loops are read: these multiply.
    const double samples = read.size() == 1 ? 8 : 4;
    OpenLoop& loop = *read.front();
    const double half_way = loop.value;
    const double last = loop.trips - 1;
    const double between = std::min(samples - 2, last - 1);
    double share = 0;
    const auto sample = [&](double trip, double weight) {
      set_value(loop, trip * loop.step);
      share += weight * share_of(condition, read.subspan(1));
    };
    sample(0, 1 / loop.trips);
    sample(last, 1 / loop.trips);
    for (double i = 1; i <= between; ++i) {
      sample(std::round(i * last / (between + 1)), (loop.trips - 2) / loop.trips / between);
    }
    set_value(loop, half_way);
    return share;
  }

  // Every thread once for each key, or every task where these are fewer.
  double share_of(const Keep& keep) const {
    const Loops& read = loops_read_[static_cast<std::size_t>(keep.key)];
    double tasks = 1;
    for (const GridAxis& axis : program_.grid) {
      if (!is_in(read, axis.loop)) tasks *= loops_[static_cast<std::size_t>(axis.loop)].trips;
    }
    return std::min(1.0, target_.cores / std::max(tasks, 1.0));
  }

  void visit(const Block& block, double times) {
    const std::size_t made_around = made_.size();
    for (const Statement& statement : block) visit(statement, times);
    for (std::size_t i = made_around; i < made_.size(); ++i) {
      is_made_[static_cast<std::size_t>(made_[i])] = false;
    }
    made_.resize(made_around);
  }

  void visit(const Statement& statement, double times) {
    if (const auto local = defined_local(statement)) {
      Loops& within = made_within_[static_cast<std::size_t>(*local)];
      for (const LoopAround& around : around_) {
        if (std::size_t(around.loop) < kKnownLoops) within.set(std::size_t(around.loop));
      }
    }
    if (const auto* loop = std::get_if<ForLoop>(&statement.node)) {
      visit(*loop, times);
    } else if (const auto* condition = std::get_if<If>(&statement.node)) {
      const double share = share_of(condition->condition);
      if (share > 0) visit(condition->then, times * share);
    } else if (const auto* keep = std::get_if<Keep>(&statement.node)) {
      visit(keep->body, times * share_of(*keep));
    } else if (const auto* dot = std::get_if<Dot>(&statement.node)) {
      const double depth = value_of(dot->depth).value_or(0);
      const Buffer& sums = program_.buffers[static_cast<std::size_t>(dot->accumulator)];
      const double vectors = double(byte_size(sums.dtype)) / byte_size(DType::F32);
      work_.vector_multiply_adds += times * vectors * dot->rows * dot->columns * depth;
      move(dot->a, times * dot->rows * depth);
      move(dot->b, times * dot->columns * depth);
    } else if (const auto* matrix_dot = std::get_if<MatrixDot>(&statement.node)) {
      const double depth = value_of(matrix_dot->depth).value_or(0);
      const double rows = value_of(matrix_dot->row_count).value_or(kMatrixRows);
      work_.matrix_multiply_adds += times * rows * kMatrixColumns * depth;
      move(matrix_dot->a, times * rows * depth);
      move(matrix_dot->b, times * kMatrixColumns * depth);
    } else if (const auto* transpose = std::get_if<Transpose>(&statement.node)) {
      const double elements = value_of(transpose->rows).value_or(kTransposedRows) *
                              value_of(transpose->columns).value_or(kTransposedRows) *
                              (transpose->pairs ? 2 : 1);
      move(transpose->from, times * elements);
      // A block of 16 vectors goes through four rounds of shuffles, a load and a store.
      constexpr double kRounds = 6;
      work_.instructions += times * kRounds * elements *
                            byte_size(memory_dtype(program_, transpose->to)) / kTransposedBytes;
    } else {
      visit_element(statement, times);
    }
  }

  void visit(const ForLoop& loop, double times) {
    const double extent = value_of(loop.extent).value_or(1);
    const bool in_lanes = loop.kind == ForLoop::Kind::Vector;
    const double vector = loop.lanes > 0 ? loop.lanes : lanes_of(loop.body);
    const double trips = open(loop.loop, extent, in_lanes ? vector : double(loop.step));
    if (trips > 0) {
      around_.push_back({loop.loop, trips});
      in_lanes ? visit_vectors(loop, extent, vector, times) : visit_trips(loop, times);
      around_.pop_back();
    }
    close(loop.loop);
  }

  void visit_vectors(const ForLoop& loop, double extent, double lanes, double times) {
    const double trips = around_.back().trips;
    Variance variance(program_, loop);
    const Lanes outer = std::exchange(lanes_, Lanes{&variance, extent / trips});
    visit(loop.body, times * trips);
    lanes_ = outer;
    // What the lanes came to is combined by halves: a shuffle and a step each.
    work_.instructions += times * 2 * std::log2(lanes) * reductions_over(loop);
  }

  void visit_trips(const ForLoop& loop, double times) {
    const double trips = around_.back().trips;
    OpenLoop& opened = loops_[static_cast<std::size_t>(loop.loop)];
    if (trips <= kWalkedTrips && is_in(decide_, loop.loop)) {
      for (double trip = 0; trip < trips; ++trip) {
        opened.trips = 1;
        set_value(opened, trip * opened.step);
        visit(loop.body, times);
      }
    } else if (trips > 1 && is_in(shape_, loop.loop)) {
      // What is left for the last trip may be less than a whole block.
      visit(loop.body, times * (trips - 1));
      set_value(opened, (trips - 1) * opened.step);
      visit(loop.body, times);
    } else {
      visit(loop.body, times * trips);
    }
  }

  // Of those that stand in the loop itself.
  static double reductions_over(const ForLoop& loop) {
    return static_cast<double>(std::ranges::count_if(loop.body, [&](const Statement& statement) {
      const auto* reduce = std::get_if<Reduce>(&statement.node);
      return reduce != nullptr && reduce->over == loop.loop;
    }));
  }

  // As many as the widest value of the loop allows.
  double lanes_of(const Block& body) const {
    int widest = byte_size(DType::F32);
    for_each_statement(body, [&](const Statement& statement) {
      const auto local = defined_local(statement);
      if (!local) return;
      const DType type = program_.local_types[static_cast<std::size_t>(*local)];
      if (type == DType::F64) widest = byte_size(type);
    });
    return target_.lanes(widest);
  }

  // Statements of single elements, or of a vector of them.
  void visit_element(const Statement& statement, double times) {
    if (const auto* load = std::get_if<Load>(&statement.node)) {
      access(load->from, times);
    } else if (const auto* store = std::get_if<Store>(&statement.node)) {
      compute(store->value, times);
      access(store->to, times);
    } else if (const auto* both = std::get_if<StoreInterleaved>(&statement.node)) {
      compute(both->first, times);
      compute(both->second, times);
      access(both->to, 2 * times);
    } else if (const auto* pair = std::get_if<StorePair>(&statement.node)) {
      compute(pair->first, times);
      compute(pair->second, times);
      work_.instructions += 2 * times;
    } else if (const auto* map = std::get_if<Map>(&statement.node)) {
      compute(map->value, times);
    } else if (const auto* reduce = std::get_if<Reduce>(&statement.node)) {
      compute(reduce->value, times);
      work_.instructions += times;
    } else if (const auto* check = std::get_if<Check>(&statement.node)) {
      compute(check->condition, times);
      work_.instructions += times;
    } else {
      if (const auto* arrive = std::get_if<Arrive>(&statement.node)) {
        if (const auto count = value_of(arrive->count)) last_of_[arrive->local] = *count;
      }
      work_.instructions += times;  // a prefetch, an arrival
    }
  }

  void compute(Expr expr, double times) {
    const auto index = static_cast<std::size_t>(expr);
    if (expr == kNoExpr || is_address(expr) || is_made_[index]) return;
    is_made_[index] = true;
    made_.push_back(expr);
    const ExprNode& node = program_.exprs[expr];
    for (int i = 0; i < node.num_arguments; ++i) compute(node.arguments[i], times);
    // What is equal in all lanes moves out of the loop.
    const bool moves_out = lanes_.variance != nullptr && !lanes_.variance->varies(expr);
    if (!moves_out) work_.instructions += times * instructions_of(node.kind);
  }

  // Integers made of loop variables and sizes alone.
  bool is_address(Expr expr) const {
    return program_.exprs[expr].type == DType::I64 && !reads_data(expr);
  }

  bool reads_data(Expr expr) const { return reads_data_[static_cast<std::size_t>(expr)]; }

  void access(const Access& place, double times) {
    const bool in_lanes =
        lanes_.variance != nullptr && std::ranges::any_of(place.index, [this](Expr index) {
          return lanes_.variance->varies(index);
        });
    const bool widens = byte_size(memory_dtype(program_, place)) < byte_size(DType::F32);
    if (in_lanes || lanes_.variance == nullptr) work_.instructions += times * (widens ? 2 : 1);
    move(place, times * (in_lanes ? lanes_.active : 1));
  }

  // A task has what it moved before: in loops that the place does not depend on, it goes there
  // once. What data tells of a place is the same in all loops inside of those in which it was read.
  void move(const Access& place, double elements) {
    if (place.memory != Access::Memory::Param) return;
    Loops read;
    for (const Expr index : place.index) {
      read |= loops_read_[static_cast<std::size_t>(index)];
      if (reads_data(index)) read |= loops_of_locals(index);
    }
    double times_there = 1;
    for (const LoopAround& around : around_) {
      if (!is_in(read, around.loop)) times_there *= around.trips;
    }
    moved_[static_cast<std::size_t>(place.target)] +=
        elements / times_there * byte_size(memory_dtype(program_, place));
  }

  // Around where the locals that it reads were made.
  Loops loops_of_locals(Expr expr) const {
    Loops loops;
    for (const Expr each : reachable_exprs(program_.exprs, expr)) {
      const ExprNode& node = program_.exprs[each];
      if (node.kind == ExprKind::Input) loops |= made_within_[std::size_t(node.index)];
    }
    return loops;
  }

  Status sum_streamed_bytes() {
    if (work_.tasks <= 0) return {};
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      const Param& param = program_.params[i];
      OPWELD_TRY(const std::int64_t elements, num_elements(param.shape).evaluate(sizes_));
      const double whole = static_cast<double>(elements) * byte_size(param.dtype);
      const double streamed = work_.tasks * std::min(moved_[i] / work_.tasks, whole);
      work_.streamed_bytes += streamed;
      if (param.packed_columns > 0) work_.streamed_weight_bytes += streamed;
    }
    return {};
  }

  static bool is_in(const Loops& loops, int loop) {
    return std::size_t(loop) >= kKnownLoops || loops[static_cast<std::size_t>(loop)];
  }

  // An open loop of a task, and how often it goes around in all.
  struct LoopAround {
    int loop;
    double trips;
  };

  // Of the open vector loop.
  struct Lanes {
    const Variance* variance = nullptr;
    double active = 1;  // of a vector, on average
  };

  struct Known {
    std::int64_t at = -1;  // of changes_
    std::optional<double> value;
  };

  const TileProgram& program_;
  const Target& target_;
  const Bindings& sizes_;
  std::vector<bool> reads_data_;    // by expression: whether it reads a local
  std::vector<Loops> loops_read_;   // by expression
  std::vector<Loops> made_within_;  // by local
  Loops decide_;                    // that conditions read
  Loops shape_;                     // that extents of other loops, or depths of products, read
  std::map<int, double> last_of_;   // by local of an arrival: of how many tasks one is the last
  std::map<Expr, double> size_values_;
  std::vector<OpenLoop> loops_;  // by loop variable
  std::vector<LoopAround> around_;
  Lanes lanes_;
  std::int64_t changes_ = 0;   // of loops' values
  std::vector<Known> known_;   // by expression
  std::vector<Expr> made_;     // computed in this block or around it
  std::vector<bool> is_made_;  // the same, by expression
  std::vector<double> moved_;  // bytes by param
  Work work_;
};

}  // namespace

Expected<Work> count_work(const TileProgram& program, const Target& target, const Bindings& sizes) {
  return WorkWalk(program, target, sizes).run();
}

}  // namespace opweld::tile
