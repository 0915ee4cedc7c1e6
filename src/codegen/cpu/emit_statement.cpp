#include "codegen/cpu/emit_statement.h"

#include <cassert>

#include "tile/walk.h"

namespace opweld::cpu {

using tile::ForLoop;

namespace {

// The extent when it is known at compile time.
std::optional<std::int64_t> constant_extent(const llvm::Value* extent) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(extent);
  return constant == nullptr ? std::nullopt : std::optional(constant->getSExtValue());
}

}  // namespace

StatementEmitter::StatementEmitter(Emission& emission)
    : emission_(emission),
      exprs_(emission),
      memory_(emission, exprs_),
      reduces_(emission, exprs_),
      dots_(emission, exprs_, memory_),
      matrix_dots_(emission, exprs_, memory_),
      transposes_(emission, exprs_, memory_) {
  tile::for_each_statement(emission.program.body, [this](const tile::Statement& statement) {
    const auto* check = std::get_if<tile::Check>(&statement.node);
    const auto code = static_cast<std::uint32_t>(check_codes_.size() + 1);
    if (check != nullptr) check_codes_.emplace(check, code);
  });
}

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
  branch(exprs_.value(statement.condition), /*barrier=*/true, [&] { emit(statement.then); });
}

// The scratch memory begins with one more than the key of what is kept, or zero.
void StatementEmitter::emit(const tile::Keep& keep) {
  auto& builder = emission_.builder;
  llvm::Value* const kept = emission_.function->getArg(4);
  llvm::Value* const wanted = builder.CreateAdd(exprs_.value(keep.key), builder.getInt64(1));
  llvm::Value* goes_in =
      builder.CreateICmpNE(builder.CreateLoad(builder.getInt64Ty(), kept), wanted);
  if (keep.again != kNoExpr) goes_in = builder.CreateOr(goes_in, exprs_.value(keep.again));
  branch(goes_in, /*barrier=*/true, [&] {
    emit(keep.body);
    builder.CreateStore(wanted, kept);
  });
}

void StatementEmitter::branch(llvm::Value* condition, bool barrier, FunctionRef<void()> then) {
  auto& builder = emission_.builder;
  llvm::BasicBlock* const then_block = emission_.new_block("then");
  llvm::BasicBlock* const after = emission_.new_block("after");
  llvm::BranchInst* const entry = builder.CreateCondBr(condition, then_block, after);
  builder.SetInsertPoint(then_block);
  emission_.scopes.open(entry, barrier);
  then();
  emission_.scopes.close();
  builder.CreateBr(after);
  builder.SetInsertPoint(after);
}

// A lane that fails ends the function, which returns the code of the check and leaves the numbers
// that belong to it at the beginning of the scratch memory, which nothing reads any more.
void StatementEmitter::emit(const tile::Check& check) {
  auto& builder = emission_.builder;
  llvm::Value* failed = builder.CreateNot(exprs_.value(check.condition));
  std::vector<llvm::Value*> shown;  // before the branch, since what is emitted once is used again
  for (const auto& [name, value] : check.shown) shown.push_back(exprs_.value(value));
  if (Emission::is_vector(failed)) {
    if (emission_.lanes->mask != nullptr) failed = builder.CreateAnd(failed, emission_.lanes->mask);
    failed = builder.CreateOrReduce(failed);
  }
  llvm::BasicBlock* const leave = emission_.new_block("check.failed");
  llvm::BasicBlock* const after = emission_.new_block("check.passed");
  builder.CreateCondBr(failed, leave, after);
  builder.SetInsertPoint(leave);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    builder.CreateStore(shown[i], builder.CreateConstGEP1_64(shown[i]->getType(),
                                                             emission_.function->getArg(4), i));
  }
  matrix_dots_.release();
  builder.CreateRet(builder.getInt32(check_codes_.at(&check)));
  builder.SetInsertPoint(after);
}

// Releases what this task stored and acquires what those before it did.
void StatementEmitter::emit(const tile::Arrive& arrive) {
  auto& builder = emission_.builder;
  llvm::Value* const before = builder.CreateAtomicRMW(
      llvm::AtomicRMWInst::Add, memory_.address(arrive.counter), builder.getInt32(1),
      llvm::Align(4), llvm::AtomicOrdering::AcquireRelease);
  llvm::Value* const count = builder.CreateTrunc(exprs_.value(arrive.count), builder.getInt32Ty());
  llvm::Value* const last =
      builder.CreateICmpEQ(builder.CreateAdd(before, builder.getInt32(1)), count);
  emission_.locals[static_cast<std::size_t>(arrive.local)] = {last, emission_.scopes.depth()};
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
                            std::int64_t step, FunctionRef<void(llvm::Value*)> body) {
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

}  // namespace opweld::cpu
