// verify: the rules of tile_ir.h that can be checked without running.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tile/tile_ir.h"
#include "tile/walk.h"

namespace opweld::tile {
namespace {

bool is_compute_type(DType type) {
  return compute_dtype(type) == type;
}
bool is_arg_reduction(Combiner combiner) {
  return combiner >= Combiner::ArgMaxFirst;
}

class Verifier {
 public:
  explicit Verifier(const TileProgram& program) : program_(program), pool_(program.exprs) {}

  Status run() {
    OPWELD_CHECK(names());
    OPWELD_CHECK(shared_params());
    OPWELD_CHECK(buffers());
    OPWELD_CHECK(grid());
    return block(program_.body);
  }

 private:
  template <typename... Args>
  [[nodiscard]] tl::unexpected<Error> wrong(fmt::format_string<Args...> format,
                                            Args&&... args) const {
    return fail("kernel '{}': {}", program_.name, fmt::format(format, std::forward<Args>(args)...));
  }

  Status names() const {
    std::set<std::string> seen;
    const auto add = [&](const std::string& name) {
      return !name.empty() && seen.insert(name).second;
    };
    for (const Param& param : program_.params) {
      if (!add(param.name)) return wrong("the name '{}' is taken or empty", param.name);
    }
    for (const Buffer& buffer : program_.buffers) {
      if (!add(buffer.name)) return wrong("the name '{}' is taken or empty", buffer.name);
    }
    for (const auto* list : {&program_.loop_names, &program_.local_names}) {
      for (const std::string& name : *list) {
        if (!add(name)) return wrong("the name '{}' is taken or empty", name);
      }
    }
    if (program_.local_types.size() != program_.local_names.size()) {
      return wrong("every local needs a name and a type");
    }
    return {};
  }

  // The runtime appends their addresses to those of the inputs and outputs.
  Status shared_params() const {
    bool shared = false;
    for (const Param& param : program_.params) {
      const bool own = param.role == Param::Role::Shared || param.role == Param::Role::Counter;
      if (shared && !own) return wrong("{} comes after what tasks share", param.name);
      shared = own;
    }
    return {};
  }

  Status buffers() const {
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.space != Buffer::Space::Register) continue;
      const bool constant = std::all_of(buffer.shape.begin(), buffer.shape.end(),
                                        [](const Dim& dim) { return dim.is_constant(); });
      if (!constant) return wrong("register buffer {} has a size that is no number", buffer.name);
      if (!is_compute_type(buffer.dtype)) {
        return wrong("register buffer {} holds {}, which is not computed in", buffer.name,
                     to_string(buffer.dtype));
      }
    }
    return {};
  }

  Status grid() {
    for (const GridAxis& axis : program_.grid) {
      if (axis.step < 1) return wrong("a grid axis needs a positive step");
      if (!as_dim(pool_, axis.extent)) return wrong("a grid axis depends on more than sizes");
      loops_.push_back({axis.loop, nullptr});
      OPWELD_CHECK(fresh_loop(axis.loop));
    }
    return {};
  }

  struct OpenLoop {
    int loop;
    const ForLoop* statement;  // null for an axis of the grid
  };

  Status fresh_loop(int loop) {
    if (loop < 0 || loop >= static_cast<int>(program_.loop_names.size())) {
      return wrong("loop variable {} is not declared", loop);
    }
    if (!seen_loops_.insert(loop).second) {
      return wrong("loop variable {} belongs to two loops", loop_name(loop));
    }
    return {};
  }

  Status block(const Block& statements) {
    const auto visible = visible_;
    for (const Statement& each : statements) {
      OPWELD_CHECK(std::visit([this](const auto& node) { return statement(node); }, each.node));
      if (nested_block(each) != nullptr) finish_reductions(each);
    }
    visible_ = visible;
    return {};
  }

  // A reduction can be read once the loop it runs over has ended.
  void finish_reductions(const Statement& ended) {
    const auto* loop = std::get_if<ForLoop>(&ended.node);
    if (loop == nullptr) return;
    for (const auto& [local, over] : reductions_) {
      if (over == loop->loop) visible_.insert(local);
    }
  }

  Status statement(const ForLoop& loop) {
    OPWELD_CHECK(fresh_loop(loop.loop));
    OPWELD_CHECK(uniform(loop.extent, DType::I64, "the extent of a loop"));
    if (loop.step < 1 || loop.unroll < 1) return wrong("a loop needs a positive step and unroll");
    if (loop.kind == ForLoop::Kind::Vector) {
      if (vector_ != nullptr)
        return wrong("vector loop {} is inside another", loop_name(loop.loop));
      if (loop.step != 1) return wrong("vector loop {} has a step", loop_name(loop.loop));
      if (loop.lanes < 0 || (loop.lanes & (loop.lanes - 1)) != 0) {
        return wrong("vector loop {} has lanes that are no power of two", loop_name(loop.loop));
      }
    } else if (loop.unroll != 1 || loop.lanes != 0) {
      return wrong("loop {} has lanes or an unroll factor, and is no vector loop",
                   loop_name(loop.loop));
    }
    if (loop.kind == ForLoop::Kind::Unroll && !constant(loop.extent)) {
      return wrong("unrolled loop {} has an extent that is no number", loop_name(loop.loop));
    }
    std::optional<Variance> variance;
    if (loop.kind == ForLoop::Kind::Vector) {
      variance.emplace(program_, loop);
      vector_ = &*variance;
    }
    loops_.push_back({loop.loop, &loop});
    OPWELD_CHECK(block(loop.body));
    loops_.pop_back();
    if (variance) vector_ = nullptr;
    return {};
  }

  Status statement(const If& condition) {
    OPWELD_CHECK(uniform(condition.condition, DType::Bool, "the condition of an if"));
    return block(condition.then);
  }

  Status statement(const Keep& keep) {
    OPWELD_CHECK(uniform(keep.key, DType::I64, "the key of a keep"));
    if (keep.again != kNoExpr)
      OPWELD_CHECK(uniform(keep.again, DType::Bool, "the way into a keep"));
    if (std::exchange(has_keep_, true)) return wrong("there are two keeps");
    if (loops_.size() != program_.grid.size()) return wrong("a keep is inside a loop");
    const std::map<int, int> inside = stores_into_buffers(keep.body);
    for (const auto& [target, stores] : stores_into_buffers(program_.body)) {
      const auto kept = inside.find(target);
      if (kept != inside.end() && kept->second != stores) {
        return wrong("{} is kept, and written outside of the keep", buffer(target).name);
      }
    }
    return block(keep.body);
  }

  // How many store into each that is no register buffer.
  [[nodiscard]] std::map<int, int> stores_into_buffers(const Block& block) const {
    std::map<int, int> stores;
    for_each_statement(block, [&](const Statement& each) {
      const auto* store = std::get_if<Store>(&each.node);
      if (store == nullptr || store->to.memory != Access::Memory::Buffer) return;
      if (buffer(store->to.target).space != Buffer::Space::Register) ++stores[store->to.target];
    });
    return stores;
  }

  Status statement(const Load& load) {
    OPWELD_CHECK(access(load.from));
    OPWELD_CHECK(optional_condition(load.where));
    return define(load.local, compute_dtype(memory_dtype(program_, load.from)));
  }

  Status statement(const Map& map) {
    OPWELD_CHECK(readable(map.value));
    return define(map.local, pool_[map.value].type);
  }

  Status statement(const Reduce& reduce) {
    OPWELD_CHECK(readable(reduce.value));
    const DType type = pool_[reduce.value].type;
    const bool arg = is_arg_reduction(reduce.combiner);
    if (arg != (reduce.index != kNoExpr)) {
      return wrong("an index is for arg-reductions, and needed there");
    }
    if (arg) OPWELD_CHECK(typed(reduce.index, DType::I64, "the index of a reduction"));
    const bool logic = reduce.combiner == Combiner::Any || reduce.combiner == Combiner::All;
    if (!arg && logic != (type == DType::Bool)) {
      return wrong("{} does not suit the combiner of {}", to_string(type),
                   local_name(reduce.local));
    }
    if (!is_open(reduce.over)) {
      return wrong("reduction {} is not inside the loop it runs over", local_name(reduce.local));
    }
    OPWELD_CHECK(define(reduce.local, arg ? DType::I64 : type));
    visible_.erase(reduce.local);
    reductions_.emplace_back(reduce.local, reduce.over);
    return {};
  }

  Status statement(const Dot& dot) {
    if (dot.accumulator < 0 || dot.accumulator >= static_cast<int>(program_.buffers.size())) {
      return wrong("a dot needs a register buffer");
    }
    const Buffer& buffer = program_.buffers[static_cast<std::size_t>(dot.accumulator)];
    if (buffer.space != Buffer::Space::Register ||
        buffer.shape != Shape{Dim(dot.rows), Dim(dot.columns)}) {
      return wrong("the accumulator {} of a dot is no register buffer of {} x {}", buffer.name,
                   dot.rows, dot.columns);
    }
    if (vector_ != nullptr) return wrong("a dot is inside a vector loop");
    OPWELD_CHECK(access(dot.a));
    OPWELD_CHECK(access(dot.b));
    if (!dot.a.linear || !dot.b.linear) return wrong("a dot needs linear accesses");
    for (const Expr expr : {dot.a_row_stride, dot.a_depth_stride, dot.b_depth_stride, dot.depth}) {
      OPWELD_CHECK(uniform(expr, DType::I64, "a stride or depth of a dot"));
    }
    if (dot.b_panel_columns != 0) {
      if (dot.columns % dot.b_panel_columns != 0) {
        return wrong("{} columns do not make panels of {}", dot.columns, dot.b_panel_columns);
      }
      OPWELD_CHECK(uniform(dot.b_panel_stride, DType::I64, "the panel stride of a dot"));
    }
    if (const auto& ahead = dot.ahead) {
      OPWELD_CHECK(access(ahead->start));
      if (!ahead->start.linear) return wrong("what a dot fetches ahead is no linear access");
      OPWELD_CHECK(uniform(ahead->stride, DType::I64, "what a dot fetches ahead"));
      const auto& rates = ahead->rates;
      if (rates.empty() || rates.front() <= 0 ||
          std::ranges::adjacent_find(rates, std::greater_equal()) != rates.end()) {
        return wrong("a dot fetches ahead at rates that do not ascend from above 0");
      }
    }
    for (const Access* operand : {&dot.a, &dot.b}) {
      if (compute_dtype(memory_dtype(program_, *operand)) != buffer.dtype) {
        return wrong("a dot into {} reads {}", to_string(buffer.dtype),
                     to_string(memory_dtype(program_, *operand)));
      }
    }
    return {};
  }

  Status statement(const MatrixDot& dot) {
    if (vector_ != nullptr) return wrong("a matrix_dot is inside a vector loop");
    for (const Access* each : {&dot.accumulator, &dot.a, &dot.b}) {
      OPWELD_CHECK(access(*each));
      if (!each->linear) return wrong("a matrix_dot needs linear accesses");
    }
    for (const Access* operand : {&dot.a, &dot.b}) {
      if (memory_dtype(program_, *operand) != DType::BF16) {
        return wrong("a matrix_dot reads {}", to_string(memory_dtype(program_, *operand)));
      }
    }
    if (dot.accumulator.memory != Access::Memory::Buffer ||
        buffer(dot.accumulator.target).space != Buffer::Space::Cache ||
        buffer(dot.accumulator.target).dtype != DType::F32) {
      return wrong("the accumulator {} of a matrix_dot is no cache buffer of f32",
                   memory_name(program_, dot.accumulator));
    }
    for (const Expr expr :
         {dot.accumulator_row_stride, dot.a_row_stride, dot.depth, dot.row_count}) {
      OPWELD_CHECK(uniform(expr, DType::I64, "a stride, depth or row count of a matrix_dot"));
    }
    if (dot.ahead) {
      OPWELD_CHECK(access(dot.ahead->start));
      if (!dot.ahead->start.linear) return wrong("a matrix_dot needs linear accesses");
      OPWELD_CHECK(uniform(dot.ahead->stride, DType::I64, "what a matrix_dot fetches ahead"));
    }
    if (dot.from_zero != kNoExpr) {
      OPWELD_CHECK(uniform(dot.from_zero, DType::Bool, "whether a matrix_dot starts from zero"));
    }
    return {};
  }

  Status statement(const Transpose& transpose) {
    if (vector_ != nullptr) return wrong("a transpose is inside a vector loop");
    for (const Access* each : {&transpose.to, &transpose.from}) {
      OPWELD_CHECK(access(*each));
      if (!each->linear) return wrong("a transpose needs linear accesses");
    }
    OPWELD_CHECK(to_cache_buffer(transpose.to, "a transpose"));
    const DType dtype = memory_dtype(program_, transpose.from);
    if (memory_dtype(program_, transpose.to) != dtype) {
      return wrong("a transpose of {} into {}", to_string(dtype),
                   to_string(memory_dtype(program_, transpose.to)));
    }
    const int bytes = byte_size(dtype);
    if (bytes != 2 && (bytes != 4 || transpose.pairs)) {
      return wrong("a transpose of {}{}", transpose.pairs ? "pairs of " : "", to_string(dtype));
    }
    for (const Expr expr :
         {transpose.to_row_stride, transpose.from_row_stride, transpose.rows, transpose.columns}) {
      OPWELD_CHECK(uniform(expr, DType::I64, "a stride or count of a transpose"));
    }
    return {};
  }

  Status statement(const StorePair& store) {
    OPWELD_CHECK(access(store.to));
    if (!store.to.linear) return wrong("a store_pair needs a linear access");
    OPWELD_CHECK(to_cache_buffer(store.to, "a store_pair"));
    if (memory_dtype(program_, store.to) != DType::BF16) {
      return wrong("a store_pair into {}", to_string(memory_dtype(program_, store.to)));
    }
    for (const Expr value : {store.first, store.second}) {
      OPWELD_CHECK(typed(value, DType::F32, "a value of a pair"));
    }
    return {};
  }

  Status statement(const Store& store) {
    OPWELD_CHECK(access(store.to));
    OPWELD_CHECK(stored_to(store.to));
    OPWELD_CHECK(
        typed(store.value, compute_dtype(memory_dtype(program_, store.to)), "a stored value"));
    OPWELD_CHECK(optional_condition(store.past_caches));
    return optional_condition(store.where);
  }

  Status statement(const StoreInterleaved& store) {
    OPWELD_CHECK(access(store.to));
    OPWELD_CHECK(stored_to(store.to));
    if (store.to.memory == Access::Memory::Buffer &&
        buffer(store.to.target).space == Buffer::Space::Register) {
      return wrong("a store_interleaved into registers");
    }
    for (const Expr value : {store.first, store.second}) {
      OPWELD_CHECK(typed(value, compute_dtype(memory_dtype(program_, store.to)), "a stored value"));
    }
    return {};
  }

  Status statement(const Prefetch& prefetch) {
    OPWELD_CHECK(access(prefetch.from));
    if (prefetch.from.memory == Access::Memory::Param) return {};
    return wrong("a prefetch from the buffer {}", memory_name(program_, prefetch.from));
  }

  Status statement(const Check& check) {
    for (const Check::Shown& shown : check.shown) {
      OPWELD_CHECK(uniform(shown.value, DType::I64, "a number that a check shows"));
    }
    return typed(check.condition, DType::Bool, "the condition of a check");
  }

  Status statement(const Arrive& arrive) {
    OPWELD_CHECK(access(arrive.counter));
    const bool counter = arrive.counter.memory == Access::Memory::Param &&
                         param(arrive.counter.target).role == Param::Role::Counter;
    if (!counter || param(arrive.counter.target).dtype != DType::I32) {
      return wrong("an arrival at {}, which is no counter", memory_name(program_, arrive.counter));
    }
    if (vector_ != nullptr) return wrong("an arrival is inside a vector loop");
    OPWELD_CHECK(typed(arrive.count, DType::I64, "the count of an arrival"));
    return define(arrive.local, DType::Bool);
  }

  [[nodiscard]] Status stored_to(const Access& access) const {
    if (access.memory != Access::Memory::Param) return {};
    const Param& to = param(access.target);
    if (to.role == Param::Role::Input) return wrong("a store to the input {}", to.name);
    if (to.role == Param::Role::Counter) return wrong("a store to the counter {}", to.name);
    return {};
  }

  [[nodiscard]] Status to_cache_buffer(const Access& to, std::string_view what) const {
    const bool cache =
        to.memory == Access::Memory::Buffer && buffer(to.target).space == Buffer::Space::Cache;
    return cache ? Status()
                 : wrong("{} into {}, which is no cache buffer", what, memory_name(program_, to));
  }

  Status access(const Access& access) const {
    const std::size_t count =
        access.memory == Access::Memory::Param ? program_.params.size() : program_.buffers.size();
    if (access.target < 0 || static_cast<std::size_t>(access.target) >= count) {
      return wrong("an access to param or buffer {}, which there is not", access.target);
    }
    const std::size_t rank = access.linear ? 1 : memory_shape(program_, access).size();
    if (access.index.size() != rank) {
      return wrong("an access to {} has {} indices for {} dimensions",
                   memory_name(program_, access), access.index.size(), rank);
    }
    for (const Expr index : access.index) {
      OPWELD_CHECK(typed(index, DType::I64, "an index"));
      OPWELD_CHECK(register_index(access, index));
    }
    return {};
  }

  // Registers have no address: what varies in an index must be gone when loops are unrolled.
  Status register_index(const Access& access, Expr index) const {
    if (access.memory != Access::Memory::Buffer) return {};
    const Buffer& buffer = program_.buffers[static_cast<std::size_t>(access.target)];
    if (buffer.space != Buffer::Space::Register) return {};
    for (const Expr expr : reachable_exprs(pool_, index)) {
      const ExprNode& node = pool_[expr];
      const bool constant_loop = node.kind == ExprKind::Loop && unrolls(node.index);
      if (node.num_arguments == 0 && node.kind != ExprKind::Constant && !constant_loop) {
        return wrong("the index into register buffer {} is no number after unrolling", buffer.name);
      }
    }
    return {};
  }

  // Vector loops of constant extent are unrolled whole where they index registers.
  [[nodiscard]] bool unrolls(int loop) const {
    const auto open = std::find_if(loops_.begin(), loops_.end(),
                                   [loop](const OpenLoop& each) { return each.loop == loop; });
    return open != loops_.end() && open->statement != nullptr &&
           open->statement->kind != ForLoop::Kind::Serial && constant(open->statement->extent);
  }

  Status define(int local, DType type) {
    if (local < 0 || local >= static_cast<int>(program_.local_types.size())) {
      return wrong("local {} is not declared", local);
    }
    if (!defined_.insert(local).second)
      return wrong("local {} is assigned twice", local_name(local));
    if (program_.local_types[static_cast<std::size_t>(local)] != type) {
      return wrong("local {} is declared {} and assigned {}", local_name(local),
                   to_string(program_.local_types[static_cast<std::size_t>(local)]),
                   to_string(type));
    }
    visible_.insert(local);
    return {};
  }

  // All that the expression reads is there to be read.
  Status readable(Expr expr) const {
    if (expr == kNoExpr || static_cast<std::size_t>(expr) >= pool_.size()) {
      return wrong("an expression is missing");
    }
    for (const Expr each : reachable_exprs(pool_, expr)) {
      const ExprNode& node = pool_[each];
      if (node.kind == ExprKind::Input) {
        if (!visible_.contains(node.index)) {
          return wrong("local {} is read where it has no value", local_name(node.index));
        }
        if (program_.local_types[static_cast<std::size_t>(node.index)] != node.type) {
          return wrong("local {} is read as {}", local_name(node.index), to_string(node.type));
        }
      }
      if (node.kind == ExprKind::Loop && !is_open(node.index)) {
        return wrong("loop variable {} is read outside its loop", loop_name(node.index));
      }
    }
    return {};
  }

  Status typed(Expr expr, DType type, std::string_view what) const {
    OPWELD_CHECK(readable(expr));
    if (pool_[expr].type == type) return {};
    return wrong("{} is {} and should be {}", what, to_string(pool_[expr].type), to_string(type));
  }

  Status uniform(Expr expr, DType type, std::string_view what) const {
    OPWELD_CHECK(typed(expr, type, what));
    if (vector_ == nullptr || !vector_->varies(expr)) return {};
    return wrong("{} differs between the lanes of a vector loop", what);
  }

  Status optional_condition(Expr where) const {
    if (where == kNoExpr) return {};
    return typed(where, DType::Bool, "a where");
  }

  [[nodiscard]] bool constant(Expr expr) const { return pool_[expr].kind == ExprKind::Constant; }
  [[nodiscard]] bool is_open(int loop) const {
    return std::any_of(loops_.begin(), loops_.end(),
                       [loop](const OpenLoop& each) { return each.loop == loop; });
  }
  [[nodiscard]] const Param& param(int index) const {
    return program_.params[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const Buffer& buffer(int index) const {
    return program_.buffers[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const std::string& loop_name(int loop) const {
    return program_.loop_names[static_cast<std::size_t>(loop)];
  }
  [[nodiscard]] const std::string& local_name(int local) const {
    return program_.local_names[static_cast<std::size_t>(local)];
  }

  const TileProgram& program_;
  const ExprPool& pool_;
  std::vector<OpenLoop> loops_;  // from the outermost
  std::set<int> seen_loops_;
  std::set<int> defined_;
  std::set<int> visible_;
  bool has_keep_ = false;
  std::vector<std::pair<int, int>> reductions_;  // local and the loop it runs over
  const Variance* vector_ = nullptr;             // of the open vector loop
};

}  // namespace

Status verify(const TileProgram& program) {
  return Verifier(program).run();
}

}  // namespace opweld::tile
