#include "aot/imports.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace opweld::aot {

namespace {

struct Import {
  std::string_view name;
  const void* address;
};

using OfMemory = void* (*)(void*, const void*, std::size_t);
using OfF32 = float (*)(float);
using OfF64 = double (*)(double);
using OfTwoF32 = float (*)(float, float);
using OfTwoF64 = double (*)(double, double);
using OfThreeF32 = float (*)(float, float, float);
using OfThreeF64 = double (*)(double, double, double);

template <typename Function>
const void* address_of(Function function) {
  return reinterpret_cast<const void*>(function);
}

}  // namespace

const void* find_import(std::string_view name) {
  // Elementary functions that kernels call (codegen/cpu/vector_math.h), then what LLVM calls where
  // an instruction set lacks the operation.
  static const Import kImports[] = {
      {"cos", address_of<OfF64>(::cos)},
      {"cosf", address_of<OfF32>(::cosf)},
      {"erf", address_of<OfF64>(::erf)},
      {"exp", address_of<OfF64>(::exp)},
      {"fmod", address_of<OfTwoF64>(::fmod)},
      {"fmodf", address_of<OfTwoF32>(::fmodf)},
      {"log", address_of<OfF64>(::log)},
      {"pow", address_of<OfTwoF64>(::pow)},
      {"powf", address_of<OfTwoF32>(::powf)},
      {"sin", address_of<OfF64>(::sin)},
      {"sinf", address_of<OfF32>(::sinf)},
      {"tanh", address_of<OfF64>(::tanh)},

      {"ceil", address_of<OfF64>(::ceil)},
      {"ceilf", address_of<OfF32>(::ceilf)},
      {"floor", address_of<OfF64>(::floor)},
      {"floorf", address_of<OfF32>(::floorf)},
      {"fma", address_of<OfThreeF64>(::fma)},
      {"fmaf", address_of<OfThreeF32>(::fmaf)},
      {"roundeven", address_of<OfF64>(::roundeven)},
      {"roundevenf", address_of<OfF32>(::roundevenf)},
      {"memcpy", address_of<OfMemory>(::memcpy)},
      {"memmove", address_of<OfMemory>(::memmove)},
      {"memset", address_of(::memset)},
  };
  const auto* const found = std::ranges::find(kImports, name, &Import::name);
  return found == std::end(kImports) ? nullptr : found->address;
}

}  // namespace opweld::aot
