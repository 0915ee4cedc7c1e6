#include "tile/program_builder.h"

#include <algorithm>
#include <cassert>

#include "tile/walk.h"

namespace opweld::tile {
namespace {

// The number, if the expression is one.
std::optional<std::int64_t> known(const ExprPool& pool, Expr expr) {
  const ExprNode& node = pool[expr];
  if (node.kind == ExprKind::Constant) return node.integer;
  if (node.kind == ExprKind::Size) return node.size.constant();
  return std::nullopt;
}

bool is_arg_reduction(Combiner combiner) {
  return combiner >= Combiner::ArgMaxFirst;
}

}  // namespace

Expr IndexValue::in(ExprPool& pool) const {
  if (const Expr* expr = std::get_if<Expr>(&value_)) return *expr;
  const Dim& dim = std::get<Dim>(value_);
  const auto number = dim.constant();
  return number ? pool.integer(*number) : pool.size_of(dim);
}

MemoryRef ProgramBuilder::input(std::string_view name, DType dtype, Shape shape) {
  return packed_input(name, dtype, std::move(shape), 0, false);
}

MemoryRef ProgramBuilder::output(std::string_view name, DType dtype, Shape shape) {
  program_.params.push_back({unique(name), dtype, std::move(shape), Param::Role::Output, 0, false});
  return {Access::Memory::Param, static_cast<int>(program_.params.size()) - 1};
}

MemoryRef ProgramBuilder::packed_input(std::string_view name, DType dtype, Shape shape, int columns,
                                       bool from_transposed, int parts, bool pairs,
                                       std::vector<ColumnStretch> stretches) {
  program_.params.push_back({unique(name), dtype, std::move(shape), Param::Role::Input, columns,
                             from_transposed, parts, std::move(stretches), pairs});
  return {Access::Memory::Param, static_cast<int>(program_.params.size()) - 1};
}

MemoryRef ProgramBuilder::shared(std::string_view name, DType dtype, Shape shape) {
  program_.params.push_back({unique(name), dtype, std::move(shape), Param::Role::Shared, 0, false});
  return {Access::Memory::Param, static_cast<int>(program_.params.size()) - 1};
}

MemoryRef ProgramBuilder::counter(std::string_view name, Shape shape) {
  const MemoryRef made = shared(name, DType::I32, std::move(shape));
  program_.params.back().role = Param::Role::Counter;
  return made;
}

MemoryRef ProgramBuilder::buffer(std::string_view name, DType dtype, Shape shape,
                                 Buffer::Space space) {
  program_.buffers.push_back({unique(name), dtype, std::move(shape), space});
  return {Access::Memory::Buffer, static_cast<int>(program_.buffers.size()) - 1};
}

Expr ProgramBuilder::grid(std::string_view name, const IndexValue& extent, std::int64_t step) {
  assert(open_.size() == 1 && open_.front().empty() && "the grid comes before the body");
  const Expr variable = new_loop(name);
  program_.grid.push_back({exprs()[variable].index, extent.in(exprs()), step});
  return variable;
}

Expr ProgramBuilder::serial(std::string_view name, const IndexValue& extent, const LoopBody& body) {
  return serial(name, extent, 1, body);
}

Expr ProgramBuilder::serial(std::string_view name, const IndexValue& extent, std::int64_t step,
                            const LoopBody& body) {
  ForLoop loop;
  loop.step = step;
  return emit_loop(name, std::move(loop), extent, body);
}

Expr ProgramBuilder::unrolled(std::string_view name, const IndexValue& extent,
                              const LoopBody& body) {
  return unrolled(name, extent, 1, body);
}

Expr ProgramBuilder::unrolled(std::string_view name, const IndexValue& extent, std::int64_t step,
                              const LoopBody& body) {
  ForLoop loop;
  loop.kind = ForLoop::Kind::Unroll;
  loop.step = step;
  return emit_loop(name, std::move(loop), extent, body);
}

Expr ProgramBuilder::vector(std::string_view name, const IndexValue& extent, const LoopBody& body) {
  return vector(name, extent, VectorOptions(), body);
}

Expr ProgramBuilder::vector(std::string_view name, const IndexValue& extent, VectorOptions options,
                            const LoopBody& body) {
  ForLoop loop;
  loop.kind = ForLoop::Kind::Vector;
  loop.unroll = options.unroll;
  loop.lanes = options.lanes;
  return emit_loop(name, std::move(loop), extent, body);
}

void ProgramBuilder::when(Expr condition, const std::function<void()>& body) {
  emit({If{condition, take_block(body)}});
}

void ProgramBuilder::keep(Expr key, Expr again, const std::function<void()>& body) {
  emit({Keep{key, again, take_block(body)}});
}

Access ProgramBuilder::at(MemoryRef memory, const std::vector<IndexValue>& index) {
  Access access{memory.memory, memory.target, {}, false};
  for (const IndexValue& value : index) access.index.push_back(value.in(exprs()));
  return access;
}

Access ProgramBuilder::at_offset(MemoryRef memory, const IndexValue& offset) {
  return {memory.memory, memory.target, {offset.in(exprs())}, true};
}

Expr ProgramBuilder::load(Access from, Expr where, std::string_view name) {
  const Expr local = new_local(name, compute_dtype(memory_dtype(program_, from)));
  emit({Load{exprs()[local].index, std::move(from), where}});
  return local;
}

Expr ProgramBuilder::map(Expr value, std::string_view name) {
  const Expr local = new_local(name, exprs()[value].type);
  emit({Map{exprs()[local].index, value}});
  return local;
}

Expr ProgramBuilder::reduce(Combiner combiner, Expr value, Expr over, std::string_view name) {
  assert(!is_arg_reduction(combiner));
  const Expr local = new_local(name, exprs()[value].type);
  emit({Reduce{exprs()[local].index, combiner, value, kNoExpr, exprs()[over].index}});
  return local;
}

Expr ProgramBuilder::arg_reduce(Combiner combiner, Expr value, Expr position, Expr over,
                                std::string_view name) {
  assert(is_arg_reduction(combiner));
  const Expr local = new_local(name, DType::I64);
  emit({Reduce{exprs()[local].index, combiner, value, position, exprs()[over].index}});
  return local;
}

void ProgramBuilder::store(Access to, Expr value, Expr where, Expr past_caches) {
  emit({Store{std::move(to), value, where, past_caches}});
}

void ProgramBuilder::dot(Dot dot) {
  emit({std::move(dot)});
}

void ProgramBuilder::matrix_dot(MatrixDot dot) {
  emit({std::move(dot)});
}

void ProgramBuilder::transpose(Transpose transpose) {
  emit({std::move(transpose)});
}

void ProgramBuilder::store_pair(Access to, Expr first, Expr second) {
  emit({StorePair{std::move(to), first, second}});
}

void ProgramBuilder::store_interleaved(Access to, Expr first, Expr second) {
  emit({StoreInterleaved{std::move(to), first, second}});
}

void ProgramBuilder::prefetch(Access from) {
  emit({Prefetch{std::move(from)}});
}

void ProgramBuilder::check(Expr condition, std::string message, std::vector<Check::Shown> shown) {
  emit({Check{condition, std::move(message), std::move(shown)}});
}

Expr ProgramBuilder::arrive(Access counter, const IndexValue& count) {
  const Expr local = new_local("last", DType::Bool);
  emit({Arrive{exprs()[local].index, std::move(counter), count.in(exprs())}});
  return local;
}

Expr ProgramBuilder::add(const IndexValue& a, const IndexValue& b) {
  const Expr left = a.in(exprs());
  const Expr right = b.in(exprs());
  if (known(exprs(), left) == 0) return right;
  if (known(exprs(), right) == 0) return left;
  return exprs().binary(ExprKind::Add, left, right);
}

Expr ProgramBuilder::sub(const IndexValue& a, const IndexValue& b) {
  const Expr left = a.in(exprs());
  const Expr right = b.in(exprs());
  if (known(exprs(), right) == 0) return left;
  return exprs().binary(ExprKind::Sub, left, right);
}

Expr ProgramBuilder::mul(const IndexValue& a, const IndexValue& b) {
  const Expr left = a.in(exprs());
  const Expr right = b.in(exprs());
  if (known(exprs(), left) == 0 || known(exprs(), right) == 1) return left;
  if (known(exprs(), right) == 0 || known(exprs(), left) == 1) return right;
  return exprs().binary(ExprKind::Mul, left, right);
}

Expr ProgramBuilder::min(const IndexValue& a, const IndexValue& b) {
  const Expr left = a.in(exprs());
  const Expr right = b.in(exprs());
  return left == right ? left : exprs().binary(ExprKind::Min, left, right);
}

TileProgram ProgramBuilder::finish() {
  assert(open_.size() == 1 && "a block is still open");
  program_.body = std::move(open_.front());
  collect_symbols(program_);
  assert((is_draft_ || verify(program_)) && "a schedule made a malformed program");
  return std::move(program_);
}

Expr ProgramBuilder::new_loop(std::string_view name) {
  program_.loop_names.push_back(unique(name));
  return exprs().loop(static_cast<int>(program_.loop_names.size()) - 1);
}

Expr ProgramBuilder::new_local(std::string_view name, DType type) {
  program_.local_names.push_back(unique(name));
  program_.local_types.push_back(type);
  return exprs().input(static_cast<int>(program_.local_names.size()) - 1, type);
}

Expr ProgramBuilder::emit_loop(std::string_view name, ForLoop loop, const IndexValue& extent,
                               const LoopBody& body) {
  const Expr variable = new_loop(name);
  loop.loop = exprs()[variable].index;
  loop.extent = extent.in(exprs());
  const Expr outer = vector_loop_;
  if (loop.kind == ForLoop::Kind::Vector) vector_loop_ = variable;
  loop.body = take_block([&] { body(variable); });
  vector_loop_ = outer;
  emit({std::move(loop)});
  return variable;
}

bool ProgramBuilder::may_vary(Expr expr) const {
  if (vector_loop_ == kNoExpr) return false;
  const auto parts = reachable_exprs(program_.exprs, expr);
  return std::any_of(parts.begin(), parts.end(), [&](Expr part) {
    return part == vector_loop_ || program_.exprs[part].kind == ExprKind::Input;
  });
}

void ProgramBuilder::emit(Statement statement) {
  open_.back().push_back(std::move(statement));
}

Block ProgramBuilder::take_block(const std::function<void()>& body) {
  open_.emplace_back();
  body();
  Block block = std::move(open_.back());
  open_.pop_back();
  return block;
}

std::string ProgramBuilder::unique(std::string_view name) {
  if (is_draft_) return {};
  const int count = names_[std::string(name)]++;
  if (count == 0) return std::string(name);
  // "v_1" may have been asked for by that very name.
  return unique(std::string(name) + "_" + std::to_string(count));
}

}  // namespace opweld::tile
