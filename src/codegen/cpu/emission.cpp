#include "codegen/cpu/emission.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace opweld::cpu {

void ScopeStack::open(llvm::Instruction* entry, bool barrier) {
  scopes_.emplace_back();
  scopes_.back().entry = entry;
  scopes_.back().barrier = barrier;
}

int ScopeStack::placement(int depth) const {
  for (int each = this->depth(); each > depth; --each) {
    if (scopes_[static_cast<std::size_t>(each)].barrier) return each;
  }
  return depth;
}

llvm::Instruction* ScopeStack::insertion_point(int depth) const {
  // Scopes without a branch at their entry run on from the one around them.
  for (std::size_t each = static_cast<std::size_t>(depth) + 1; each < scopes_.size(); ++each) {
    if (scopes_[each].entry != nullptr) return scopes_[each].entry;
  }
  return nullptr;
}

std::optional<Scoped> ScopeStack::find(Part part, Expr expr) const {
  for (int depth = this->depth(); depth >= 0; --depth) {
    const auto& values = scopes_[static_cast<std::size_t>(depth)].values[static_cast<int>(part)];
    if (const auto found = values.find(expr); found != values.end()) {
      return Scoped{found->second, depth};
    }
  }
  return std::nullopt;
}

void ScopeStack::remember(Part part, Expr expr, Scoped value) {
  scopes_[static_cast<std::size_t>(value.depth)].values[static_cast<int>(part)].emplace(
      expr, value.value);
}

llvm::Type* Emission::scalar_type(DType type) const {
  switch (type) {
    case DType::F64:
      return llvm::Type::getDoubleTy(context);
    case DType::F32:
      return llvm::Type::getFloatTy(context);
    case DType::I64:
      return llvm::Type::getInt64Ty(context);
    case DType::Bool:
      return llvm::Type::getInt1Ty(context);
    default:
      return llvm::Type::getInt32Ty(context);
  }
}

llvm::Type* Emission::storage_type(DType type) const {
  if (is_float(type) && type != DType::BF16 && type != DType::F16) return scalar_type(type);
  if (type == DType::F16) return llvm::Type::getHalfTy(context);
  return llvm::Type::getIntNTy(context, static_cast<unsigned>(8 * byte_size(type)));
}

llvm::Type* Emission::vector_of(llvm::Type* element) const {
  return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes->facts->lanes()));
}

llvm::Value* Emission::splat(llvm::Value* value) {
  if (is_vector(value)) return value;
  return builder.CreateVectorSplat(static_cast<unsigned>(lanes->facts->lanes()), value);
}

llvm::Constant* Emission::lane_numbers() const {
  std::vector<std::uint64_t> numbers(static_cast<std::size_t>(lanes->facts->lanes()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  return llvm::ConstantDataVector::get(context, numbers);
}

llvm::AllocaInst* Emission::new_alloca(llvm::Type* type, const llvm::Twine& name) {
  llvm::BasicBlock& entry = function->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  return at_entry.CreateAlloca(type, nullptr, name);
}

llvm::BasicBlock* Emission::new_block(const llvm::Twine& name) {
  return llvm::BasicBlock::Create(context, name, function);
}

Emission::Values Emission::branch(llvm::Value* condition, FunctionRef<Values()> then,
                                  FunctionRef<Values()> otherwise) {
  llvm::BasicBlock* const then_block = new_block("then");
  llvm::BasicBlock* const else_block = new_block("else");
  llvm::BasicBlock* const join = new_block("join");
  builder.CreateCondBr(condition, then_block, else_block);
  const auto emit_side = [&](llvm::BasicBlock* block, FunctionRef<Values()> side) {
    builder.SetInsertPoint(block);
    Values values = side();
    llvm::BasicBlock* const end = builder.GetInsertBlock();
    builder.CreateBr(join);
    return std::pair{std::move(values), end};
  };
  const auto [then_values, then_end] = emit_side(then_block, then);
  const auto [else_values, else_end] = emit_side(else_block, otherwise);
  assert(then_values.size() == else_values.size());
  builder.SetInsertPoint(join);
  Values values;
  for (std::size_t i = 0; i < then_values.size(); ++i) {
    auto* const value = builder.CreatePHI(then_values[i]->getType(), 2);
    value->addIncoming(then_values[i], then_end);
    value->addIncoming(else_values[i], else_end);
    values.push_back(value);
  }
  return values;
}

void Emission::loop(const llvm::Twine& name, llvm::Value* end, std::int64_t step,
                    FunctionRef<void(llvm::Value* variable)> body) {
  llvm::BasicBlock* const before = builder.GetInsertBlock();
  llvm::BasicBlock* const inside = new_block(name);
  llvm::BasicBlock* const after = new_block("loop.end");
  llvm::Value* const zero = builder.getInt64(0);
  builder.CreateCondBr(builder.CreateICmpSLT(zero, end), inside, after);
  builder.SetInsertPoint(inside);
  auto* const variable = builder.CreatePHI(builder.getInt64Ty(), 2);
  variable->addIncoming(zero, before);
  body(variable);
  llvm::Value* const next =
      builder.CreateNSWAdd(variable, builder.getInt64(static_cast<std::uint64_t>(step)));
  variable->addIncoming(next, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateICmpSLT(next, end), inside, after);
  builder.SetInsertPoint(after);
}

}  // namespace opweld::cpu
