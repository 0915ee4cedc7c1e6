#include "codegen/cpu/emit_statement.h"

#include <cassert>

#include "codegen/cpu/vector_lanes.h"
#include "tile/walk.h"

namespace opweld::cpu {

using tile::ForLoop;

namespace {

// The extent when it is known at compile time.
std::optional<std::int64_t> constant_extent(const llvm::Value* extent) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(extent);
  return constant == nullptr ? std::nullopt : std::optional(constant->getSExtValue());
}

bool has_reduction_over_lanes(const tile::Block& block) {
  bool found = false;
  tile::for_each_statement(block, [&found](const tile::Statement& statement) {
    found = found || std::holds_alternative<tile::Reduce>(statement.node);
  });
  return found;
}

}  // namespace

void StatementEmitter::emit(const tile::Block& block) {
  for (const tile::Statement& statement : block) emit(statement);
}

void StatementEmitter::emit(const tile::Statement& statement) {
  std::visit([this](const auto& node) { emit(node); }, statement.node);
}

void StatementEmitter::emit(const tile::Load& load) {
  emission_.locals[static_cast<std::size_t>(load.local)] = {memory_.load(load.from, load.where),
                                                            emission_.scopes.depth()};
}

void StatementEmitter::emit(const tile::Map& map) {
  emission_.locals[static_cast<std::size_t>(map.local)] = {exprs_.value(map.value),
                                                           emission_.scopes.depth()};
}

void StatementEmitter::emit(const tile::If& statement) {
  branch(exprs_.value(statement.condition), [&] { emit(statement.then); });
}

void StatementEmitter::branch(llvm::Value* condition, const std::function<void()>& then) {
  auto& builder = emission_.builder;
  llvm::BasicBlock* const then_block = emission_.new_block("then");
  llvm::BasicBlock* const after = emission_.new_block("after");
  builder.CreateCondBr(condition, then_block, after);
  builder.SetInsertPoint(then_block);
  emission_.scopes.open(nullptr, /*barrier=*/true);
  then();
  emission_.scopes.close();
  builder.CreateBr(after);
  builder.SetInsertPoint(after);
}

// A lane that fails ends the task: the function returns the number of the check.
void StatementEmitter::emit(const tile::Check& check) {
  auto& builder = emission_.builder;
  check_messages_.push_back(check.message);
  llvm::Value* failed = builder.CreateNot(exprs_.value(check.condition));
  if (Emission::is_vector(failed)) {
    if (emission_.lanes->mask != nullptr) failed = builder.CreateAnd(failed, emission_.lanes->mask);
    failed = builder.CreateOrReduce(failed);
  }
  llvm::BasicBlock* const leave = emission_.new_block("check.failed");
  llvm::BasicBlock* const after = emission_.new_block("check.passed");
  builder.CreateCondBr(failed, leave, after);
  builder.SetInsertPoint(leave);
  builder.CreateRet(builder.getInt32(static_cast<std::uint32_t>(check_messages_.size())));
  builder.SetInsertPoint(after);
}

void StatementEmitter::emit(const ForLoop& loop) {
  reduces_.open(loop);
  switch (loop.kind) {
    case ForLoop::Kind::Serial:
      emit_serial(loop);
      break;
    case ForLoop::Kind::Unroll:
      emit_unrolled(loop);
      break;
    case ForLoop::Kind::Vector:
      emit_vector(loop);
      break;
  }
  reduces_.close(loop);
}

void StatementEmitter::loop(const std::string& name, llvm::Value* begin, llvm::Value* end,
                            std::int64_t step, const std::function<void(llvm::Value*)>& body) {
  auto& builder = emission_.builder;
  llvm::BasicBlock* const before = builder.GetInsertBlock();
  llvm::BasicBlock* const inside = emission_.new_block(name);
  llvm::BasicBlock* const after = emission_.new_block(name + ".end");
  llvm::BranchInst* const entry =
      builder.CreateCondBr(builder.CreateICmpSLT(begin, end), inside, after);
  builder.SetInsertPoint(inside);
  auto* const variable = builder.CreatePHI(builder.getInt64Ty(), 2, name);
  variable->addIncoming(begin, before);
  emission_.scopes.open(entry);
  body(variable);
  emission_.scopes.close();
  llvm::Value* const next = builder.CreateNSWAdd(
      variable, builder.getInt64(static_cast<std::uint64_t>(step)), name + ".next");
  variable->addIncoming(next, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateICmpSLT(next, end), inside, after);
  builder.SetInsertPoint(after);
}

void StatementEmitter::emit_serial(const ForLoop& loop) {
  const auto index = static_cast<std::size_t>(loop.loop);
  emission_.index_facts.set_loop_multiple(loop.loop, loop.step);
  this->loop(emission_.program.loop_names[index], emission_.builder.getInt64(0),
             exprs_.value(loop.extent), loop.step, [&](llvm::Value* variable) {
               emission_.loops[index] = {variable, emission_.scopes.depth()};
               emit(loop.body);
             });
}

void StatementEmitter::emit_unrolled(const ForLoop& loop) {
  const auto extent = constant_extent(exprs_.value(loop.extent));
  assert(extent && "checked by verify()");
  emission_.index_facts.set_loop_multiple(loop.loop, loop.step);
  for (std::int64_t at = 0; at < *extent; at += loop.step) {
    emission_.scopes.open(nullptr);
    emission_.loops[static_cast<std::size_t>(loop.loop)] = {
        emission_.builder.getInt64(static_cast<std::uint64_t>(at)), emission_.scopes.depth()};
    emit(loop.body);
    emission_.scopes.close();
  }
}

void StatementEmitter::emit_lanes(const ForLoop& loop, LaneFacts& facts, llvm::Value* base,
                                  llvm::Value* mask, int accumulator) {
  emission_.scopes.open(nullptr);
  emission_.lanes = Lanes{&facts, base, mask, accumulator};
  emission_.loops[static_cast<std::size_t>(loop.loop)] = {base, emission_.scopes.depth()};
  emit(loop.body);
  emission_.lanes.reset();
  emission_.scopes.close();
}

void StatementEmitter::emit_masked(const ForLoop& loop, LaneFacts& facts, llvm::Value* base,
                                   llvm::Value* extent, int accumulator) {
  auto& builder = emission_.builder;
  emission_.lanes = Lanes{&facts, base, nullptr, accumulator};  // for the width of the mask
  llvm::Value* const left = emission_.splat(builder.CreateSub(extent, base));
  llvm::Value* const mask = builder.CreateICmpSLT(emission_.lane_numbers(), left);
  emission_.lanes.reset();
  emit_lanes(loop, facts, base, mask, accumulator);
}

void StatementEmitter::emit_vector(const ForLoop& loop) {
  auto& builder = emission_.builder;
  const int lanes = lanes_of(emission_.program, loop, emission_.vector_bits);
  const std::int64_t step = std::int64_t{lanes} * loop.unroll;
  LaneFacts facts(emission_.pool, emission_.index_facts, emission_.program, loop, lanes);
  emission_.index_facts.set_loop_multiple(loop.loop, lanes);
  llvm::Value* const extent = exprs_.value(loop.extent);
  const auto vectors = [&](llvm::Value* first) {
    for (int i = 0; i < loop.unroll; ++i) {
      llvm::Value* const offset = builder.getInt64(static_cast<std::uint64_t>(i * lanes));
      emit_lanes(loop, facts, builder.CreateAdd(first, offset), nullptr, i);
    }
  };
  llvm::Value* const zero = builder.getInt64(0);
  const auto known = constant_extent(extent);
  if (known && *known < 2 * step) {
    // At most one whole iteration: no loop, and constant indices throughout.
    if (*known >= step) vectors(zero);
    if (*known % step != 0) {
      emit_rest(loop, facts, builder.getInt64(static_cast<std::uint64_t>(*known / step * step)),
                extent);
    }
    return;
  }
  llvm::Value* const steps = builder.getInt64(static_cast<std::uint64_t>(step));
  llvm::Value* const whole = builder.CreateMul(builder.CreateSDiv(extent, steps), steps);
  const std::string& name = emission_.program.loop_names[static_cast<std::size_t>(loop.loop)];
  this->loop(name, zero, whole, step, vectors);
  if (known && *known % step == 0) return;
  emit_rest(loop, facts, whole, extent);
}

// Vector i of the rest goes to accumulator i, as it would in a whole iteration. Without reductions
// the accumulator does not matter, and one copy of the body in a loop will do.
void StatementEmitter::emit_rest(const ForLoop& loop, LaneFacts& facts, llvm::Value* first,
                                 llvm::Value* extent) {
  auto& builder = emission_.builder;
  const int lanes = facts.lanes();
  if (!has_reduction_over_lanes(loop.body)) {
    const auto begin = constant_extent(first);
    const auto end = constant_extent(extent);
    if (begin && end) {
      for (std::int64_t at = *begin; at < *end; at += lanes) {
        llvm::Value* const base = builder.getInt64(static_cast<std::uint64_t>(at));
        if (at + lanes <= *end) {
          emit_lanes(loop, facts, base, nullptr, 0);
        } else {
          emit_masked(loop, facts, base, extent, 0);
        }
      }
      return;
    }
    this->loop("rest", first, extent, lanes,
               [&](llvm::Value* base) { emit_masked(loop, facts, base, extent, 0); });
    return;
  }
  for (int i = 0; i < loop.unroll; ++i) {
    llvm::Value* const base =
        builder.CreateAdd(first, builder.getInt64(static_cast<std::uint64_t>(i * lanes)));
    llvm::Value* const some_left = builder.CreateICmpSLT(base, extent);
    if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(some_left)) {
      if (constant->isOne()) emit_masked(loop, facts, base, extent, i);
      continue;
    }
    branch(some_left, [&] { emit_masked(loop, facts, base, extent, i); });
  }
}

}  // namespace opweld::cpu
