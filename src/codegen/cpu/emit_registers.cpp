// Loads and stores of register buffers: stack slots at known offsets, so that LLVM's SROA takes
// each for a register. Masked instructions would stop it; a slot has room for whole vectors
// instead.
#include <cassert>

#include "codegen/cpu/emit_memory.h"

namespace opweld::cpu {

// Calls visit(lane, element) for the lanes that lie in the buffer at all.
template <typename Visit>
void MemoryEmitter::for_each_register(const Place& place, const Visit& visit) {
  const std::int64_t size = *num_elements(place.registers->shape).constant();
  const std::int64_t stride = llvm::cast<llvm::ConstantInt>(place.stride)->getSExtValue();
  for (int lane = 0; lane < emission_.lanes->facts->lanes(); ++lane) {
    const std::int64_t element = place.first + lane * stride;
    if (element >= 0 && element < size) visit(static_cast<std::uint64_t>(lane), lane);
  }
}

llvm::Value* MemoryEmitter::load_registers(const Place& place) {
  auto& builder = emission_.builder;
  if (place.kind == Place::Kind::Uniform) {
    return builder.CreateAlignedLoad(place.type, place.pointer, align(place));
  }
  llvm::Type* const type = emission_.vector_of(place.type);
  if (place.kind == Place::Kind::Contiguous) {
    return builder.CreateAlignedLoad(type, place.pointer, align(place));
  }
  llvm::Value* elements = llvm::Constant::getNullValue(type);
  for_each_register(place, [&](std::uint64_t number, int lane) {
    auto* const element =
        builder.CreateAlignedLoad(place.type, lane_pointer(place, lane), align(place));
    elements = builder.CreateInsertElement(elements, element, number);
  });
  return elements;
}

void MemoryEmitter::store_registers(const Place& place, llvm::Value* elements, llvm::Value* mask) {
  auto& builder = emission_.builder;
  if (!Emission::is_vector(elements)) {
    builder.CreateAlignedStore(elements, place.pointer, align(place));
    return;
  }
  assert(place.kind != Place::Kind::Uniform && "lanes would store to one place");
  llvm::Value* const merged =
      mask == nullptr ? elements : builder.CreateSelect(mask, elements, load_registers(place));
  if (place.kind == Place::Kind::Contiguous) {
    builder.CreateAlignedStore(merged, place.pointer, align(place));
    return;
  }
  for_each_register(place, [&](std::uint64_t number, int lane) {
    builder.CreateAlignedStore(builder.CreateExtractElement(merged, number),
                               lane_pointer(place, lane), align(place));
  });
}

}  // namespace opweld::cpu
