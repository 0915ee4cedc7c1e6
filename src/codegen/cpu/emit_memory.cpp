#include "codegen/cpu/emit_memory.h"

#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <cassert>

#include "codegen/cpu/operations.h"
#include "codegen/cpu/vector_math.h"
#include "support/shape.h"
#include "tile/buffer_lifetimes.h"

namespace opweld::cpu {

using tile::Access;

namespace {

// Emission::branch() of one value, or of none, which is null.
template <typename Then, typename Otherwise>
llvm::Value* branch(Emission& emission, llvm::Value* condition, const Then& then,
                    const Otherwise& otherwise) {
  const auto as_values = [](llvm::Value* value) {
    return value == nullptr ? Emission::Values{} : Emission::Values{value};
  };
  const Emission::Values values = emission.branch(
      condition, [&] { return as_values(then()); }, [&] { return as_values(otherwise()); });
  return values.empty() ? nullptr : values.front();
}

llvm::Value* nothing() {
  return nullptr;
}

}  // namespace

llvm::Value* MemoryEmitter::load(const Access& access, Expr where) {
  // Addresses and conditions come before any branch, since what is emitted once is used again.
  const Place from = place(access);
  llvm::Value* const condition = where == kNoExpr ? nullptr : exprs_.value(where);
  llvm::Value* const elements = load_where(from, condition);
  llvm::Value* const wide = emit_widen(emission_.builder, elements, from.dtype);
  // A byte that stands for true may be any but 0, and is stored as 1.
  if (wide != elements && from.dtype != DType::Bool) stored_as_[wide] = {elements, from.dtype};
  return wide;
}

llvm::Value* MemoryEmitter::load_where(const Place& place, llvm::Value* condition) {
  auto& builder = emission_.builder;
  const bool uniform = place.kind == Place::Kind::Uniform;
  llvm::Value* const lane_mask = uniform ? nullptr : current_mask();
  if (condition == nullptr) return load_elements(place, lane_mask);
  llvm::Value* const zero =
      llvm::Constant::getNullValue(uniform ? place.type : emission_.vector_of(place.type));
  const auto give_zero = [zero] { return zero; };
  if (!Emission::is_vector(condition)) {
    return branch(emission_, condition, [&] { return load_elements(place, lane_mask); }, give_zero);
  }
  llvm::Value* const mask = with_current_mask(condition);
  if (uniform) {
    llvm::Value* const element = branch(
        emission_, builder.CreateOrReduce(mask), [&] { return load_elements(place, nullptr); },
        give_zero);
    llvm::Value* const elements = emission_.splat(element);
    return builder.CreateSelect(mask, elements, llvm::Constant::getNullValue(elements->getType()));
  }
  if (place.registers != nullptr) return builder.CreateSelect(mask, load_registers(place), zero);
  if (has_masked_instruction(place)) return load_elements(place, mask);
  // Lane by lane under a mask is slow, and mostly all lanes are wanted.
  return branch(
      emission_, builder.CreateAndReduce(mask), [&] { return load_elements(place, nullptr); },
      [&] { return load_elements(place, mask); });
}

void MemoryEmitter::store(const tile::Store& store) {
  const Place to = place(store.to);
  llvm::Value* const condition = store.where == kNoExpr ? nullptr : exprs_.value(store.where);
  llvm::Value* elements = narrowed(store.value, to.dtype);
  if (to.kind != Place::Kind::Uniform) elements = emission_.splat(elements);
  const bool is_whole = condition == nullptr && current_mask() == nullptr;
  if (store.past_caches != kNoExpr && is_whole && to.kind == Place::Kind::Contiguous &&
      to.registers == nullptr) {
    store_past_caches(to, elements, exprs_.value(store.past_caches));
  } else {
    store_where(to, elements, condition);
  }
}

void MemoryEmitter::store_past_caches(const Place& place, llvm::Value* elements,
                                      llvm::Value* condition) {
  auto& builder = emission_.builder;
  // Such instructions ask for whole vectors, and memory that a caller brings lies anywhere.
  const auto bytes = static_cast<std::uint64_t>(byte_size(place.dtype)) *
                     static_cast<std::uint64_t>(emission_.lanes->facts->lanes());
  llvm::Value* const address = builder.CreatePtrToInt(place.pointer, builder.getInt64Ty());
  llvm::Value* const rest = builder.CreateAnd(address, builder.getInt64(bytes - 1));
  llvm::Value* const aligned = builder.CreateICmpEQ(rest, builder.getInt64(0));
  const auto past = [&] {
    auto* const store = builder.CreateAlignedStore(elements, place.pointer, llvm::Align(bytes));
    llvm::Metadata* const one = llvm::ConstantAsMetadata::get(builder.getInt32(1));
    store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                       llvm::MDNode::get(emission_.context, one));
    add_alias_facts(store, place.alias);
    return nothing();
  };
  const auto through = [&] {
    store_elements(place, elements, nullptr);
    return nothing();
  };
  branch(emission_, builder.CreateAnd(condition, aligned), past, through);
}

llvm::Value* MemoryEmitter::narrowed(Expr value, DType dtype) {
  llvm::Value* const wide = exprs_.value(value);
  // What is only moved stays as it is stored.
  const auto loaded = stored_as_.find(wide);
  const bool is_moved = loaded != stored_as_.end() && loaded->second.second == dtype;
  return is_moved ? loaded->second.first : emit_narrow(emission_.builder, wide, dtype);
}

void MemoryEmitter::store_interleaved(const Access& access, Expr first, Expr second) {
  auto& builder = emission_.builder;
  Place to = place(access);
  llvm::Value* a = narrowed(first, to.dtype);
  llvm::Value* b = narrowed(second, to.dtype);
  if (to.kind != Place::Kind::Uniform) {
    a = emission_.splat(a);
    b = emission_.splat(b);
  }
  const auto* const distance = llvm::dyn_cast_or_null<llvm::ConstantInt>(to.stride);
  const bool is_run = to.kind == Place::Kind::Strided && distance != nullptr &&
                      distance->equalsInt(2) && current_mask() == nullptr;
  if (is_run) {
    const int lanes = emission_.lanes->facts->lanes();
    llvm::SmallVector<int, 32> order;
    for (int lane = 0; lane < lanes; ++lane) {
      order.push_back(lane);
      order.push_back(lanes + lane);
    }
    add_alias_facts(
        builder.CreateAlignedStore(builder.CreateShuffleVector(a, b, order), to.pointer, align(to)),
        to.alias);
    return;
  }
  store_where(to, a, nullptr);
  to.pointer = builder.CreateGEP(to.type, to.pointer, builder.getInt64(1));
  store_where(to, b, nullptr);
}

void MemoryEmitter::store_pair(const Access& access, Expr first, Expr second) {
  auto& builder = emission_.builder;
  const Place to = place(access, builder.getInt32Ty());
  const auto value = [&](Expr expr) {
    llvm::Value* const element = exprs_.value(expr);
    return to.kind == Place::Kind::Uniform ? element : emission_.splat(element);
  };
  store_where(to, emit_bf16_pairs_from_f32(builder, value(first), value(second)), nullptr);
}

void MemoryEmitter::store_where(const Place& place, llvm::Value* elements, llvm::Value* condition) {
  auto& builder = emission_.builder;
  const auto under = [&](llvm::Value* mask) {
    return [this, &place, elements, mask]() -> llvm::Value* {
      store_elements(place, elements, mask);
      return nullptr;
    };
  };
  if (condition == nullptr) {
    under(current_mask())();
  } else if (!Emission::is_vector(condition)) {
    branch(emission_, condition, under(current_mask()), nothing);
  } else {
    llvm::Value* const mask = with_current_mask(condition);
    if (!Emission::is_vector(elements)) {
      branch(emission_, builder.CreateOrReduce(mask), under(nullptr), nothing);
    } else if (place.registers != nullptr || has_masked_instruction(place)) {
      under(mask)();
    } else {
      branch(emission_, builder.CreateAndReduce(mask), under(nullptr), under(mask));
    }
  }
}

void MemoryEmitter::prefetch(const Access& access) {
  const Place from = place(access);
  if (from.kind == Place::Kind::Scattered || from.kind == Place::Kind::Strided) return;
  const bool contiguous = from.kind == Place::Kind::Contiguous;
  const int bytes = byte_size(from.dtype) * (contiguous ? emission_.lanes->facts->lanes() : 1);
  auto& builder = emission_.builder;
  for (int byte = 0; byte < bytes; byte += kCacheLine) {
    llvm::Value* const line =
        builder.CreateConstGEP1_64(builder.getInt8Ty(), from.pointer, static_cast<unsigned>(byte));
    // To read, into all levels of the cache, as data.
    builder.CreateIntrinsic(llvm::Intrinsic::prefetch, {line->getType()},
                            {line, builder.getInt32(0), builder.getInt32(3), builder.getInt32(1)});
  }
}

llvm::Value* MemoryEmitter::current_mask() const {
  return emission_.lanes ? emission_.lanes->mask : nullptr;
}

llvm::Value* MemoryEmitter::with_current_mask(llvm::Value* condition) {
  llvm::Value* const mask = current_mask();
  return mask == nullptr ? condition : emission_.builder.CreateAnd(mask, condition);
}

// AVX2 masks moves of 4 and 8 bytes, AVX-512 of all sizes.
bool MemoryEmitter::has_masked_instruction(const Place& place) const {
  return place.kind == Place::Kind::Contiguous &&
         (byte_size(place.dtype) >= 4 || emission_.vector_bits >= 512);
}

llvm::Value* MemoryEmitter::load_elements(const Place& place, llvm::Value* mask) {
  auto& builder = emission_.builder;
  if (place.registers != nullptr) return load_registers(place);
  switch (place.kind) {
    case Place::Kind::Uniform: {
      auto* const element = builder.CreateAlignedLoad(place.type, place.pointer, align(place));
      add_alias_facts(element, place.alias);
      return element;
    }
    case Place::Kind::Strided:
      if (mask == nullptr) return load_lane_by_lane(place);
      break;
    case Place::Kind::Contiguous: {
      llvm::Type* const type = emission_.vector_of(place.type);
      llvm::Instruction* elements = nullptr;
      if (mask == nullptr) {
        elements = builder.CreateAlignedLoad(type, place.pointer, align(place));
      } else {
        elements = builder.CreateMaskedLoad(type, place.pointer, align(place), mask,
                                            llvm::Constant::getNullValue(type));
      }
      add_alias_facts(elements, place.alias);
      return elements;
    }
    case Place::Kind::Scattered:
      break;
  }
  llvm::Type* const type = emission_.vector_of(place.type);
  auto* const elements = builder.CreateMaskedGather(type, lane_pointers(place), align(place), mask,
                                                    llvm::Constant::getNullValue(type));
  add_alias_facts(elements, place.alias);
  return elements;
}

void MemoryEmitter::store_elements(const Place& place, llvm::Value* elements, llvm::Value* mask) {
  auto& builder = emission_.builder;
  if (place.registers != nullptr) return store_registers(place, elements, mask);
  const bool is_vector = Emission::is_vector(elements);
  if (is_vector && place.kind == Place::Kind::Strided && mask == nullptr) {
    return store_lane_by_lane(place, elements);
  }
  const bool contiguous = place.kind == Place::Kind::Contiguous;
  llvm::Instruction* instruction = nullptr;
  if (!is_vector || (contiguous && mask == nullptr)) {
    instruction = builder.CreateAlignedStore(elements, place.pointer, align(place));
  } else if (contiguous) {
    instruction = builder.CreateMaskedStore(elements, place.pointer, align(place), mask);
  } else {
    instruction = builder.CreateMaskedScatter(elements, lane_pointers(place), align(place), mask);
  }
  add_alias_facts(instruction, place.alias);
}

// Lanes at one distance need no vector of addresses, which the processor would take apart again.
llvm::Value* MemoryEmitter::load_lane_by_lane(const Place& place) {
  auto& builder = emission_.builder;
  llvm::Value* elements = llvm::PoisonValue::get(emission_.vector_of(place.type));
  for (int lane = 0; lane < emission_.lanes->facts->lanes(); ++lane) {
    auto* const element =
        builder.CreateAlignedLoad(place.type, lane_pointer(place, lane), align(place));
    add_alias_facts(element, place.alias);
    elements = builder.CreateInsertElement(elements, element, static_cast<std::uint64_t>(lane));
  }
  return elements;
}

void MemoryEmitter::store_lane_by_lane(const Place& place, llvm::Value* elements) {
  auto& builder = emission_.builder;
  for (int lane = 0; lane < emission_.lanes->facts->lanes(); ++lane) {
    auto* const store = builder.CreateAlignedStore(
        builder.CreateExtractElement(elements, static_cast<std::uint64_t>(lane)),
        lane_pointer(place, lane), align(place));
    add_alias_facts(store, place.alias);
  }
}

llvm::Value* MemoryEmitter::lane_pointer(const Place& place, int lane) {
  auto& builder = emission_.builder;
  llvm::Value* const number = builder.getInt64(static_cast<std::uint64_t>(lane));
  return builder.CreateGEP(place.type, place.pointer, builder.CreateMul(number, place.stride));
}

llvm::Value* MemoryEmitter::lane_pointers(const Place& place) {
  if (Emission::is_vector(place.pointer)) return place.pointer;
  auto& builder = emission_.builder;
  llvm::Value* const stride = place.stride == nullptr ? builder.getInt64(0) : place.stride;
  llvm::Value* const offsets = builder.CreateMul(emission_.lane_numbers(), emission_.splat(stride));
  return builder.CreateGEP(place.type, emission_.splat(place.pointer), offsets);
}

llvm::Align MemoryEmitter::align(const Place& place) const {
  return llvm::Align(static_cast<std::uint64_t>(byte_size(place.dtype)));
}

llvm::Value* MemoryEmitter::address(const Access& access) {
  return place(access).pointer;
}

MemoryEmitter::Place MemoryEmitter::place(const Access& access, llvm::Type* type) {
  const auto target = static_cast<std::size_t>(access.target);
  auto& builder = emission_.builder;
  Place place;
  place.dtype = tile::memory_dtype(emission_.program, access);
  place.type = type != nullptr ? type : emission_.storage_type(place.dtype);
  place.alias = alias_facts(access);
  llvm::Value* const base =
      access.memory == Access::Memory::Param ? emission_.params[target] : emission_.buffers[target];
  const Expr offset = linear_offset(access);
  const auto stride = emission_.lanes ? emission_.lanes->facts->stride(offset)
                                      : std::optional(emission_.pool.integer(0));
  if (!stride) {
    place.kind = Place::Kind::Scattered;
    place.pointer = builder.CreateGEP(place.type, emission_.splat(base), exprs_.value(offset));
    return place;
  }
  llvm::Value* const first = exprs_.lane0(offset);
  place.pointer = builder.CreateGEP(place.type, base, first);
  place.stride = exprs_.value(*stride);
  const auto* const distance = llvm::dyn_cast<llvm::ConstantInt>(place.stride);
  const bool known = distance != nullptr;
  place.kind = known && distance->isZero()  ? Place::Kind::Uniform
               : known && distance->isOne() ? Place::Kind::Contiguous
                                            : Place::Kind::Strided;
  if (access.memory == Access::Memory::Buffer &&
      emission_.program.buffers[target].space == tile::Buffer::Space::Register) {
    assert(llvm::isa<llvm::ConstantInt>(first) && "checked by verify()");
    place.registers = &emission_.program.buffers[target];
    place.first = llvm::cast<llvm::ConstantInt>(first)->getSExtValue();
  }
  return place;
}

Expr MemoryEmitter::linear_offset(const Access& access) {
  if (access.linear) return access.index.front();
  ExprPool& pool = emission_.pool;
  const auto strides = row_major_strides(tile::memory_shape(emission_.program, access));
  const Expr zero = pool.integer(0);
  std::vector<Expr> terms;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (access.index[i] == zero) continue;
    const Expr stride = pool.size_of(strides[i]);
    terms.push_back(stride == pool.integer(1)
                        ? access.index[i]
                        : pool.binary(ExprKind::Mul, access.index[i], stride));
  }
  // What does not vary comes first, so that it is summed up before the loop.
  std::stable_partition(terms.begin(), terms.end(),
                        [this](Expr term) { return !exprs_.varies(term); });
  Expr sum = zero;
  for (const Expr term : terms) {
    sum = sum == zero ? term : pool.binary(ExprKind::Add, sum, term);
  }
  return sum;
}

void MemoryEmitter::make_alias_facts() {
  const tile::TileProgram& program = emission_.program;
  llvm::MDBuilder metadata(emission_.context);
  llvm::MDNode* const domain = metadata.createAnonymousAliasScopeDomain(program.name);
  std::vector<llvm::MDNode*> scopes;
  scopes.reserve(program.params.size() + program.buffers.size());
  for (std::size_t i = 0; i < program.params.size() + program.buffers.size(); ++i) {
    scopes.push_back(metadata.createAnonymousAliasScope(domain));
  }
  // An output may lie over an input of the same shape and dtype, and buffers in each other's place
  // where they are needed one after the other; nothing else shares memory.
  const std::vector<tile::BufferLifetime> lifetimes = tile::buffer_lifetimes(program);
  const auto may_alias = [&](std::size_t a, std::size_t b) {
    if (a == b) return true;
    const std::size_t params = program.params.size();
    if (std::min(a, b) >= params) return !lifetimes[a - params].overlaps(lifetimes[b - params]);
    if (std::max(a, b) >= params) return false;
    const tile::Param& one = program.params[a];
    const tile::Param& other = program.params[b];
    const auto of_graph = [](const tile::Param& param) {
      return param.role == tile::Param::Role::Input || param.role == tile::Param::Role::Output;
    };
    if (!of_graph(one) || !of_graph(other)) return false;
    return one.role != other.role && one.dtype == other.dtype && one.shape == other.shape;
  };
  for (std::size_t a = 0; a < scopes.size(); ++a) {
    std::vector<llvm::Metadata*> others;
    for (std::size_t b = 0; b < scopes.size(); ++b) {
      if (!may_alias(a, b)) others.push_back(scopes[b]);
    }
    const AliasFacts facts{llvm::MDNode::get(emission_.context, scopes[a]),
                           llvm::MDNode::get(emission_.context, others)};
    (a < program.params.size() ? param_facts_ : buffer_facts_).push_back(facts);
  }
}

MemoryEmitter::AliasFacts MemoryEmitter::alias_facts(const Access& access) const {
  const auto target = static_cast<std::size_t>(access.target);
  return access.memory == Access::Memory::Param ? param_facts_[target] : buffer_facts_[target];
}

void MemoryEmitter::add_alias_facts(llvm::Instruction* instruction, const AliasFacts& facts) {
  instruction->setMetadata(llvm::LLVMContext::MD_alias_scope, facts.scope);
  instruction->setMetadata(llvm::LLVMContext::MD_noalias, facts.no_alias);
}

}  // namespace opweld::cpu
