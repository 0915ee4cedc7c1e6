#include "tile/walk.h"

#include <algorithm>

namespace opweld::tile {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

}  // namespace

DType memory_dtype(const TileProgram& program, const Access& access) {
  const auto target = static_cast<std::size_t>(access.target);
  return access.memory == Access::Memory::Param ? program.params[target].dtype
                                                : program.buffers[target].dtype;
}

const Shape& memory_shape(const TileProgram& program, const Access& access) {
  const auto target = static_cast<std::size_t>(access.target);
  return access.memory == Access::Memory::Param ? program.params[target].shape
                                                : program.buffers[target].shape;
}

const std::string& memory_name(const TileProgram& program, const Access& access) {
  const auto target = static_cast<std::size_t>(access.target);
  return access.memory == Access::Memory::Param ? program.params[target].name
                                                : program.buffers[target].name;
}

const Block* nested_block(const Statement& statement) {
  if (const auto* loop = std::get_if<ForLoop>(&statement.node)) return &loop->body;
  if (const auto* condition = std::get_if<If>(&statement.node)) return &condition->then;
  if (const auto* keep = std::get_if<Keep>(&statement.node)) return &keep->body;
  return nullptr;
}

void for_each_statement(const Block& block, const std::function<void(const Statement&)>& visit) {
  for (const Statement& statement : block) {
    visit(statement);
    if (const Block* nested = nested_block(statement)) for_each_statement(*nested, visit);
  }
}

void for_each_access(const Statement& statement, const std::function<void(const Access&)>& visit) {
  std::visit(Overloaded{
                 [&](const Load& load) { visit(load.from); },
                 [&](const Dot& dot) {
                   visit(dot.a);
                   visit(dot.b);
                 },
                 [&](const MatrixDot& dot) {
                   visit(dot.accumulator);
                   visit(dot.a);
                   visit(dot.b);
                 },
                 [&](const Transpose& transpose) {
                   visit(transpose.to);
                   visit(transpose.from);
                 },
                 [&](const Store& store) { visit(store.to); },
                 [&](const StorePair& store) { visit(store.to); },
                 [&](const StoreInterleaved& store) { visit(store.to); },
                 [&](const Arrive& arrive) { visit(arrive.counter); },
                 [](const auto&) {},  // loops, conditions, values and hints
             },
             statement.node);
}

void for_each_expr(const Statement& statement, const std::function<void(Expr)>& visit) {
  const auto one = [&visit](Expr expr) {
    if (expr != kNoExpr) visit(expr);
  };
  const auto access = [&one](const Access& place) {
    std::for_each(place.index.begin(), place.index.end(), one);
  };
  std::visit(Overloaded{
                 [&](const ForLoop& loop) { one(loop.extent); },
                 [&](const If& condition) { one(condition.condition); },
                 [&](const Keep& keep) {
                   one(keep.key);
                   one(keep.again);
                 },
                 [&](const Load& load) {
                   access(load.from);
                   one(load.where);
                 },
                 [&](const Map& map) { one(map.value); },
                 [&](const Reduce& reduce) {
                   one(reduce.value);
                   one(reduce.index);
                 },
                 [&](const Dot& dot) {
                   access(dot.a);
                   one(dot.a_row_stride);
                   one(dot.a_depth_stride);
                   access(dot.b);
                   one(dot.b_depth_stride);
                   one(dot.b_panel_stride);
                   one(dot.depth);
                   if (dot.ahead) {
                     access(dot.ahead->start);
                     one(dot.ahead->stride);
                   }
                 },
                 [&](const MatrixDot& dot) {
                   access(dot.accumulator);
                   one(dot.accumulator_row_stride);
                   one(dot.from_zero);
                   access(dot.a);
                   one(dot.a_row_stride);
                   access(dot.b);
                   one(dot.depth);
                   one(dot.row_count);
                   if (dot.ahead) {
                     access(dot.ahead->start);
                     one(dot.ahead->stride);
                   }
                 },
                 [&](const Transpose& transpose) {
                   access(transpose.to);
                   one(transpose.to_row_stride);
                   access(transpose.from);
                   one(transpose.from_row_stride);
                   one(transpose.rows);
                   one(transpose.columns);
                 },
                 [&](const StoreInterleaved& store) {
                   access(store.to);
                   one(store.first);
                   one(store.second);
                 },
                 [&](const StorePair& store) {
                   access(store.to);
                   one(store.first);
                   one(store.second);
                 },
                 [&](const Store& store) {
                   access(store.to);
                   one(store.value);
                   one(store.where);
                   one(store.past_caches);
                 },
                 [&](const Prefetch& prefetch) { access(prefetch.from); },
                 [&](const Check& check) {
                   one(check.condition);
                   for (const Check::Shown& shown : check.shown) one(shown.value);
                 },
                 [&](const Arrive& arrive) {
                   access(arrive.counter);
                   one(arrive.count);
                 },
             },
             statement.node);
}

std::optional<int> defined_local(const Statement& statement) {
  if (const auto* load = std::get_if<Load>(&statement.node)) return load->local;
  if (const auto* map = std::get_if<Map>(&statement.node)) return map->local;
  if (const auto* reduce = std::get_if<Reduce>(&statement.node)) return reduce->local;
  if (const auto* arrive = std::get_if<Arrive>(&statement.node)) return arrive->local;
  return std::nullopt;
}

std::optional<Dim> as_dim(const ExprPool& pool, Expr expr) {
  const ExprNode& node = pool[expr];
  if (node.type != DType::I64) return std::nullopt;
  if (node.kind == ExprKind::Constant) return Dim(node.integer);
  if (node.kind == ExprKind::Size) return node.size;
  if (node.num_arguments != 2) return std::nullopt;
  const auto a = as_dim(pool, node.arguments[0]);
  const auto b = as_dim(pool, node.arguments[1]);
  if (!a || !b) return std::nullopt;
  switch (node.kind) {
    case ExprKind::Add:
      return *a + *b;
    case ExprKind::Sub:
      return *a - *b;
    case ExprKind::Mul:
      return *a * *b;
    case ExprKind::Div:
      return floor_div(*a, *b);
    case ExprKind::Mod:
      return mod(*a, *b);
    case ExprKind::Min:
      return min(*a, *b);
    case ExprKind::Max:
      return max(*a, *b);
    default:
      return std::nullopt;
  }
}

Variance::Variance(const TileProgram& program, const ForLoop& vector_loop)
    : program_(program),
      loop_(vector_loop.loop),
      locals_(program.local_types.size(), false),
      answers_(program.exprs.size(), Answer::None) {
  visit(vector_loop.body);
}

// Locals are defined before they are read, so an answer stays right while more of them are visited.
bool Variance::varies(Expr expr) const {
  if (expr == kNoExpr) return false;
  Answer& answer = answers_[static_cast<std::size_t>(expr)];
  if (answer != Answer::None) return answer == Answer::Yes;
  const ExprNode& node = program_.exprs[expr];
  bool result = (node.kind == ExprKind::Loop && node.index == loop_) ||
                (node.kind == ExprKind::Input && local_varies(node.index));
  for (int i = 0; i < node.num_arguments && !result; ++i) result = varies(node.arguments[i]);
  answer = result ? Answer::Yes : Answer::No;
  return result;
}

void Variance::visit(const Block& block) {
  for (const Statement& statement : block) {
    if (const auto local = defined_local(statement)) {
      bool varying = false;
      for_each_expr(statement, [&](Expr expr) { varying = varying || varies(expr); });
      // A reduction over the vector loop itself ends with the loop, as one value.
      const auto* reduce = std::get_if<Reduce>(&statement.node);
      if (reduce != nullptr && reduce->over == loop_) varying = false;
      locals_[static_cast<std::size_t>(*local)] = varying;
    }
    if (const Block* nested = nested_block(statement)) visit(*nested);
  }
}

}  // namespace opweld::tile
