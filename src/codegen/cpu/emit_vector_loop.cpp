// Vector loops: whole iterations without masks, then what is left over.
#include <algorithm>

#include "codegen/cpu/emit_statement.h"
#include "codegen/cpu/vector_lanes.h"
#include "tile/walk.h"

namespace opweld::cpu {

using tile::ForLoop;

namespace {

// Whether lanes of the loop end up in accumulators, so that it matters which vector goes to which.
// That is when a reduction inside runs over this loop or one around it.
bool reduces_lanes(const ForLoop& loop) {
  std::vector<int> inner;
  std::vector<int> over;
  tile::for_each_statement(loop.body, [&](const tile::Statement& statement) {
    if (const auto* nested = std::get_if<ForLoop>(&statement.node)) inner.push_back(nested->loop);
    if (const auto* reduce = std::get_if<tile::Reduce>(&statement.node)) {
      over.push_back(reduce->over);
    }
  });
  return std::any_of(over.begin(), over.end(), [&inner](int each) {
    return std::find(inner.begin(), inner.end(), each) == inner.end();
  });
}

bool reads_loop(const ExprPool& pool, Expr expr, int loop) {
  const auto reachable = reachable_exprs(pool, expr);
  return std::any_of(reachable.begin(), reachable.end(), [&](Expr each) {
    return pool[each].kind == ExprKind::Loop && pool[each].index == loop;
  });
}

// Registers have no addresses: a loop that indexes them is unrolled whole.
bool indexes_registers(const tile::TileProgram& program, const ForLoop& loop) {
  bool found = false;
  tile::for_each_statement(loop.body, [&](const tile::Statement& statement) {
    const tile::Access* access = nullptr;
    if (const auto* load = std::get_if<tile::Load>(&statement.node)) access = &load->from;
    if (const auto* store = std::get_if<tile::Store>(&statement.node)) access = &store->to;
    if (access == nullptr || access->memory != tile::Access::Memory::Buffer) return;
    const auto target = static_cast<std::size_t>(access->target);
    if (program.buffers[target].space != tile::Buffer::Space::Register) return;
    for (const Expr index : access->index) {
      found = found || reads_loop(program.exprs, index, loop.loop);
    }
  });
  return found;
}

}  // namespace

struct StatementEmitter::VectorLoop {
  VectorLoop(Emission& emission, const ForLoop& loop, int lanes)
      : statement(loop),
        facts(emission.pool, emission.index_facts, emission.program, loop, lanes),
        accumulates(reduces_lanes(loop)) {}

  [[nodiscard]] std::int64_t step() const { return std::int64_t{facts.lanes()} * statement.unroll; }

  const ForLoop& statement;
  LaneFacts facts;
  bool accumulates;
  bool whole_vectors = false;  // the extent is a multiple of the lanes
};

void StatementEmitter::emit_vector(const ForLoop& statement) {
  auto& builder = emission_.builder;
  const int lanes = lanes_of(emission_.program, statement, emission_.vector_bits);
  VectorLoop loop(emission_, statement, lanes);
  emission_.index_facts.set_loop_multiple(statement.loop, lanes);
  const std::int64_t step = loop.step();
  llvm::Value* const extent = exprs_.value(statement.extent);
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(extent)) {
    const std::int64_t count = known->getSExtValue();
    // At most one whole iteration needs no loop.
    if (count < 2 * step || indexes_registers(emission_.program, statement)) {
      emit_straight(loop, count);
      return;
    }
  }
  const std::int64_t divisor = emission_.index_facts.known_divisor(statement.extent);
  loop.whole_vectors = divisor % lanes == 0;
  llvm::Value* const steps = builder.getInt64(static_cast<std::uint64_t>(step));
  llvm::Value* const whole =
      divisor % step == 0 ? extent : builder.CreateMul(builder.CreateSDiv(extent, steps), steps);
  const auto index = static_cast<std::size_t>(statement.loop);
  this->loop(emission_.program.loop_names[index], builder.getInt64(0), whole, step,
             [&](llvm::Value* first) {
               for (int i = 0; i < statement.unroll; ++i) {
                 llvm::Value* const offset = builder.getInt64(static_cast<std::uint64_t>(i) *
                                                              static_cast<std::uint64_t>(lanes));
                 emit_lanes(loop, builder.CreateAdd(first, offset), nullptr, i);
               }
             });
  if (divisor % step != 0) emit_rest(loop, whole, extent);
}

// All vectors one after the other, at constant indices.
void StatementEmitter::emit_straight(VectorLoop& loop, std::int64_t extent) {
  auto& builder = emission_.builder;
  const int lanes = loop.facts.lanes();
  int accumulator = 0;
  for (std::int64_t at = 0; at < extent; at += lanes) {
    llvm::Value* const base = builder.getInt64(static_cast<std::uint64_t>(at));
    loop.whole_vectors = at + lanes <= extent;
    emit_last_lanes(loop, base, builder.getInt64(static_cast<std::uint64_t>(extent)), accumulator);
    accumulator = (accumulator + 1) % loop.statement.unroll;
  }
}

// What whole iterations leave over: fewer vectors than one iteration takes. Vector i goes to
// accumulator i, as it would there.
void StatementEmitter::emit_rest(VectorLoop& loop, llvm::Value* first, llvm::Value* extent) {
  auto& builder = emission_.builder;
  const int lanes = loop.facts.lanes();
  if (!loop.accumulates && loop.statement.unroll > 1) {
    this->loop("rest", first, extent, lanes,
               [&](llvm::Value* base) { emit_last_lanes(loop, base, extent, 0); });
    return;
  }
  for (int i = 0; i < loop.statement.unroll; ++i) {
    llvm::Value* const base = builder.CreateAdd(
        first, builder.getInt64(static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(lanes)));
    branch(builder.CreateICmpSLT(base, extent), /*barrier=*/false,
           [&] { emit_last_lanes(loop, base, extent, i); });
  }
}

// The lanes from `base` on that lie below the extent; there is at least one.
void StatementEmitter::emit_last_lanes(VectorLoop& loop, llvm::Value* base, llvm::Value* extent,
                                       int accumulator) {
  llvm::Value* const mask =
      loop.whole_vectors ? nullptr : lanes_below(loop, emission_.builder.CreateSub(extent, base));
  emit_lanes(loop, base, mask, accumulator);
}

// Counted in i32, which makes as wide a mask as f32 data needs.
llvm::Value* StatementEmitter::lanes_below(VectorLoop& loop, llvm::Value* count) {
  auto& builder = emission_.builder;
  const auto lanes = static_cast<unsigned>(loop.facts.lanes());
  llvm::Value* const capped =
      builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count, builder.getInt64(lanes));
  llvm::Value* const limit =
      builder.CreateVectorSplat(lanes, builder.CreateTrunc(capped, builder.getInt32Ty()));
  std::vector<std::uint32_t> numbers(lanes);
  for (unsigned lane = 0; lane < lanes; ++lane) numbers[lane] = lane;
  return builder.CreateICmpSLT(llvm::ConstantDataVector::get(emission_.context, numbers), limit);
}

void StatementEmitter::emit_lanes(VectorLoop& loop, llvm::Value* base, llvm::Value* mask,
                                  int accumulator) {
  const auto index = static_cast<std::size_t>(loop.statement.loop);
  emission_.scopes.open(nullptr);
  emission_.lanes = Lanes{&loop.facts, base, mask, accumulator};
  emission_.loops[index] = {base, emission_.scopes.depth()};
  emit(loop.statement.body);
  emission_.lanes.reset();
  emission_.scopes.close();
}

}  // namespace opweld::cpu
