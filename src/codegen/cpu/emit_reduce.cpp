#include "codegen/cpu/emit_reduce.h"

#include <cassert>
#include <limits>

#include "codegen/cpu/vector_lanes.h"

namespace opweld::cpu {

using tile::Combiner;

namespace {

llvm::Constant* least(llvm::Type* type) {
  if (type->isFloatingPointTy()) return llvm::ConstantFP::getInfinity(type, true);
  return llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(type->getIntegerBitWidth()));
}

llvm::Constant* greatest(llvm::Type* type) {
  if (type->isFloatingPointTy()) return llvm::ConstantFP::getInfinity(type);
  return llvm::ConstantInt::get(type, llvm::APInt::getSignedMaxValue(type->getIntegerBitWidth()));
}

llvm::Constant* number(llvm::Type* type, int value) {
  if (type->isFloatingPointTy()) return llvm::ConstantFP::get(type, value);
  return llvm::ConstantInt::getSigned(type, value);
}

}  // namespace

void ReduceEmitter::open(const tile::ForLoop& loop) {
  open_in_block(loop.body, loop.loop, loop.kind == tile::ForLoop::Kind::Vector ? &loop : nullptr);
}

void ReduceEmitter::open_in_block(const tile::Block& block, int over,
                                  const tile::ForLoop* vector_loop) {
  for (const tile::Statement& statement : block) {
    if (const auto* reduce = std::get_if<tile::Reduce>(&statement.node)) {
      if (reduce->over == over) open_reduction(*reduce, vector_loop);
    }
    const auto* inner = std::get_if<tile::ForLoop>(&statement.node);
    const bool vector = inner != nullptr && inner->kind == tile::ForLoop::Kind::Vector;
    if (const tile::Block* nested = tile::nested_block(statement)) {
      open_in_block(*nested, over, vector ? inner : vector_loop);
    }
  }
}

// `vector_loop` lies at or inside the loop that the reduction runs over; null if none does.
void ReduceEmitter::open_reduction(const tile::Reduce& reduce, const tile::ForLoop* vector_loop) {
  Accumulators accumulators{&reduce, vector_loop != nullptr, {}, {}};
  const Item start = identity(reduce);
  const std::string& name = emission_.program.local_names[static_cast<std::size_t>(reduce.local)];
  int lanes = 0;
  if (vector_loop != nullptr) {
    lanes = lanes_of(emission_.program, *vector_loop, emission_.vector_bits);
  } else if (emission_.lanes && emission_.lanes->facts->local_varies(reduce.local)) {
    lanes = emission_.lanes->facts->lanes();
  }
  const auto slot = [&](llvm::Value* value, const char* suffix) {
    if (lanes != 0) {
      value = emission_.builder.CreateVectorSplat(static_cast<unsigned>(lanes), value);
    }
    llvm::AllocaInst* const made = emission_.new_alloca(value->getType(), name + suffix);
    emission_.builder.CreateStore(value, made);
    return made;
  };
  const int count = vector_loop != nullptr ? vector_loop->unroll : 1;
  for (int i = 0; i < count; ++i) {
    accumulators.values.push_back(slot(start.value, ""));
    if (start.position != nullptr) accumulators.positions.push_back(slot(start.position, ".at"));
  }
  open_.insert_or_assign(reduce.local, std::move(accumulators));
}

ReduceEmitter::Item ReduceEmitter::identity(const tile::Reduce& reduce) const {
  llvm::Type* const type = emission_.scalar_type(emission_.pool[reduce.value].type);
  llvm::Constant* const nowhere =
      llvm::ConstantInt::getSigned(llvm::Type::getInt64Ty(emission_.context), -1);
  switch (reduce.combiner) {
    case Combiner::Sum:
      return {number(type, 0), nullptr};
    case Combiner::Prod:
      return {number(type, 1), nullptr};
    case Combiner::Max:
    case Combiner::MaxNumber:
      return {least(type), nullptr};
    case Combiner::Min:
      return {greatest(type), nullptr};
    case Combiner::Any:
      return {llvm::ConstantInt::getFalse(type), nullptr};
    case Combiner::All:
      return {llvm::ConstantInt::getTrue(type), nullptr};
    default:
      return {llvm::Constant::getNullValue(type), nowhere};
  }
}

void ReduceEmitter::accumulate(const tile::Reduce& reduce) {
  auto& builder = emission_.builder;
  const Accumulators& accumulators = open_.at(reduce.local);
  const std::size_t index =
      accumulators.combines_lanes ? static_cast<std::size_t>(emission_.lanes->accumulator) : 0;
  const Item before = load(accumulators, index);
  const bool vector = Emission::is_vector(before.value);
  const auto widen = [&](Expr expr) {
    llvm::Value* const value = exprs_.value(expr);
    return vector ? emission_.splat(value) : value;
  };
  const Item item{widen(reduce.value), reduce.index == kNoExpr ? nullptr : widen(reduce.index)};
  Item after = combine(reduce, before, item);
  // Lanes that do not count keep what they had, which needs no identity and is exact.
  llvm::Value* const mask = vector ? emission_.lanes->mask : nullptr;
  if (mask != nullptr) {
    after.value = builder.CreateSelect(mask, after.value, before.value);
    if (after.position != nullptr) {
      after.position = builder.CreateSelect(mask, after.position, before.position);
    }
  }
  builder.CreateStore(after.value, accumulators.values[index]);
  if (after.position != nullptr) builder.CreateStore(after.position, accumulators.positions[index]);
}

ReduceEmitter::Item ReduceEmitter::combine(const tile::Reduce& reduce, const Item& a,
                                           const Item& b) {
  auto& builder = emission_.builder;
  const bool real = is_float(emission_.pool[reduce.value].type);
  const auto intrinsic = [&](llvm::Intrinsic::ID for_floats, llvm::Intrinsic::ID for_integers) {
    return builder.CreateBinaryIntrinsic(real ? for_floats : for_integers, a.value, b.value);
  };
  switch (reduce.combiner) {
    case Combiner::Sum:
      return {real ? builder.CreateFAdd(a.value, b.value) : builder.CreateAdd(a.value, b.value),
              nullptr};
    case Combiner::Prod:
      return {real ? builder.CreateFMul(a.value, b.value) : builder.CreateMul(a.value, b.value),
              nullptr};
    case Combiner::Max:
      return {intrinsic(llvm::Intrinsic::maximum, llvm::Intrinsic::smax), nullptr};
    case Combiner::MaxNumber:
      // Nothing gathered so far is NaN, and a NaN is greater than none of it: one instruction,
      // where a maximum that keeps NaN takes five.
      return {builder.CreateSelect(builder.CreateFCmpOGT(b.value, a.value), b.value, a.value),
              nullptr};
    case Combiner::Min:
      return {intrinsic(llvm::Intrinsic::minimum, llvm::Intrinsic::smin), nullptr};
    case Combiner::Any:
      return {builder.CreateOr(a.value, b.value), nullptr};
    case Combiner::All:
      return {builder.CreateAnd(a.value, b.value), nullptr};
    default: {
      llvm::Value* const second = arg_wins(reduce.combiner, b, a);
      return {builder.CreateSelect(second, b.value, a.value),
              builder.CreateSelect(second, b.position, a.position)};
    }
  }
}

// Whether `a` comes before `b` in an arg-reduction: any element before none, then NaN, then the
// greater (or lesser) value, then the earlier (or later) position.
llvm::Value* ReduceEmitter::arg_wins(Combiner combiner, const Item& a, const Item& b) {
  auto& builder = emission_.builder;
  const bool greatest = combiner == Combiner::ArgMaxFirst || combiner == Combiner::ArgMaxLast;
  const bool first = combiner == Combiner::ArgMaxFirst || combiner == Combiner::ArgMinFirst;
  llvm::Value* better = nullptr;
  llvm::Value* equal = nullptr;
  if (a.value->getType()->isFPOrFPVectorTy()) {
    llvm::Value* const a_nan = builder.CreateFCmpUNO(a.value, a.value);
    llvm::Value* const b_nan = builder.CreateFCmpUNO(b.value, b.value);
    llvm::Value* const beats = greatest ? builder.CreateFCmpOGT(a.value, b.value)
                                        : builder.CreateFCmpOLT(a.value, b.value);
    better = builder.CreateOr(beats, builder.CreateAnd(a_nan, builder.CreateNot(b_nan)));
    equal =
        builder.CreateOr(builder.CreateFCmpOEQ(a.value, b.value), builder.CreateAnd(a_nan, b_nan));
  } else {
    const bool logic = a.value->getType()->isIntOrIntVectorTy(1);
    const auto greater = logic ? llvm::CmpInst::ICMP_UGT : llvm::CmpInst::ICMP_SGT;
    const auto lesser = logic ? llvm::CmpInst::ICMP_ULT : llvm::CmpInst::ICMP_SLT;
    better = builder.CreateICmp(greatest ? greater : lesser, a.value, b.value);
    equal = builder.CreateICmpEQ(a.value, b.value);
  }
  llvm::Value* const none = llvm::Constant::getAllOnesValue(a.position->getType());
  llvm::Value* const a_exists = builder.CreateICmpNE(a.position, none);
  llvm::Value* const b_missing = builder.CreateICmpEQ(b.position, none);
  llvm::Value* const sooner = first ? builder.CreateICmpSLT(a.position, b.position)
                                    : builder.CreateICmpSGT(a.position, b.position);
  llvm::Value* const wins = builder.CreateOr(better, builder.CreateAnd(equal, sooner));
  return builder.CreateAnd(a_exists, builder.CreateOr(b_missing, wins));
}

ReduceEmitter::Item ReduceEmitter::load(const Accumulators& accumulators, std::size_t index) {
  auto& builder = emission_.builder;
  const auto value = [&builder](llvm::AllocaInst* slot) {
    return builder.CreateLoad(slot->getAllocatedType(), slot);
  };
  return {value(accumulators.values[index]),
          accumulators.positions.empty() ? nullptr : value(accumulators.positions[index])};
}

void ReduceEmitter::close(const tile::ForLoop& loop) {
  auto& builder = emission_.builder;
  for (auto entry = open_.begin(); entry != open_.end();) {
    const Accumulators& accumulators = entry->second;
    const tile::Reduce& reduce = *accumulators.reduce;
    if (reduce.over != loop.loop) {
      ++entry;
      continue;
    }
    std::vector<Item> items;
    items.reserve(accumulators.values.size());
    for (std::size_t i = 0; i < accumulators.values.size(); ++i) {
      items.push_back(load(accumulators, i));
    }
    // Neighbours in pairs; an odd one out waits for the next round.
    while (items.size() > 1) {
      std::vector<Item> halved;
      for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
        halved.push_back(combine(reduce, items[i], items[i + 1]));
      }
      if (items.size() % 2 == 1) halved.push_back(items.back());
      items = std::move(halved);
    }
    Item result = items.front();
    if (accumulators.combines_lanes) result = combine_lanes(reduce, result);
    if (result.position != nullptr) {
      // No element at all gives position 0.
      llvm::Value* const zero = llvm::Constant::getNullValue(result.position->getType());
      result.value = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, result.position, zero);
    }
    emission_.locals[static_cast<std::size_t>(reduce.local)] = {result.value,
                                                                emission_.scopes.depth()};
    entry = open_.erase(entry);
  }
}

// The upper half onto the lower half, until one lane is left.
ReduceEmitter::Item ReduceEmitter::combine_lanes(const tile::Reduce& reduce, Item item) {
  auto& builder = emission_.builder;
  const auto* const type = llvm::cast<llvm::FixedVectorType>(item.value->getType());
  for (int half = static_cast<int>(type->getNumElements()) / 2; half >= 1; half /= 2) {
    const auto part = [&](llvm::Value* value, int first) -> llvm::Value* {
      if (value == nullptr) return nullptr;
      std::vector<int> lanes(static_cast<std::size_t>(half));
      for (int i = 0; i < half; ++i) lanes[static_cast<std::size_t>(i)] = first + i;
      return builder.CreateShuffleVector(value, lanes);
    };
    item = combine(reduce, {part(item.value, 0), part(item.position, 0)},
                   {part(item.value, half), part(item.position, half)});
  }
  const auto only = [&builder](llvm::Value* value) -> llvm::Value* {
    return value == nullptr ? nullptr : builder.CreateExtractElement(value, std::uint64_t{0});
  };
  return {only(item.value), only(item.position)};
}

}  // namespace opweld::cpu
