// Runs emitted vector math over arrays, at any number of lanes.
#pragma once

#include <gtest/gtest.h>
#include <llvm/IR/IRBuilder.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cpu/jit.h"
#include "codegen/cpu/jit_llvm.h"

namespace opweld::cpu::testing {

using Emit = std::function<llvm::Value*(llvm::IRBuilderBase&, llvm::Value*, llvm::Value*)>;

// void name(const In* x, const In* y, Out* out, int64 count): out[i] = emit(x[i], y[i]) for count >
// 0 a multiple of `lanes`. One lane is a scalar, no vector of one.
inline std::unique_ptr<llvm::Module> map_module(const Jit& jit, llvm::LLVMContext& context,
                                                const std::string& name, llvm::Type* in,
                                                llvm::Type* out, unsigned lanes, const Emit& emit) {
  auto module = new_module(jit, context, name);
  llvm::IRBuilder<> builder(context);
  llvm::FastMathFlags fast;
  fast.setFast();
  builder.setFastMathFlags(fast);  // what is emitted must not care
  llvm::Type* const pointer = builder.getPtrTy();
  auto* function = llvm::Function::Create(
      llvm::FunctionType::get(builder.getVoidTy(),
                              {pointer, pointer, pointer, builder.getInt64Ty()}, false),
      llvm::Function::ExternalLinkage, name, *module);
  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* loop = llvm::BasicBlock::Create(context, "loop", function);
  auto* exit = llvm::BasicBlock::Create(context, "exit", function);
  builder.SetInsertPoint(entry);
  builder.CreateBr(loop);

  builder.SetInsertPoint(loop);
  auto* index = builder.CreatePHI(builder.getInt64Ty(), 2);
  const auto load = [&](unsigned argument) {
    auto* type = lanes == 1 ? in : llvm::FixedVectorType::get(in, lanes);
    auto* address = builder.CreateInBoundsGEP(in, function->getArg(argument), index);
    return builder.CreateAlignedLoad(type, address, llvm::Align(in->getScalarSizeInBits() / 8));
  };
  llvm::Value* const x = load(0);
  llvm::Value* const y = load(1);
  builder.CreateAlignedStore(emit(builder, x, y),
                             builder.CreateInBoundsGEP(out, function->getArg(2), index),
                             llvm::Align(out->getScalarSizeInBits() / 8));
  auto* next = builder.CreateNUWAdd(index, builder.getInt64(lanes));
  index->addIncoming(builder.getInt64(0), entry);
  index->addIncoming(next, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateICmpULT(next, function->getArg(3)), loop, exit);
  builder.SetInsertPoint(exit);
  builder.CreateRetVoid();
  return module;
}

template <typename T>
llvm::Type* llvm_type(llvm::LLVMContext& context) {
  if constexpr (std::is_same_v<T, float>) return llvm::Type::getFloatTy(context);
  if constexpr (std::is_same_v<T, double>) return llvm::Type::getDoubleTy(context);
  return llvm::Type::getIntNTy(context, 8 * sizeof(T));
}

// A function of one or two arguments, compiled for `target` at `lanes` lanes.
template <typename In, typename Out>
class VectorFunction {
 public:
  VectorFunction(const JitTarget& target, unsigned lanes, const Emit& emit)
      : jit_(Jit::create(target).value()), lanes_(lanes) {
    llvm::LLVMContext context;
    auto module = map_module(jit_, context, "map", llvm_type<In>(context), llvm_type<Out>(context),
                             lanes, emit);
    const auto added = add_module(jit_, std::move(module));
    EXPECT_TRUE(added) << added.error().message;
    function_ = jit_.function<void(const In*, const In*, Out*, std::int64_t)>("map").value();
  }

  std::vector<Out> operator()(std::vector<In> x, std::vector<In> y) const {
    const std::size_t count = x.size();
    const std::size_t whole = (count + lanes_ - 1) / lanes_ * lanes_;
    x.resize(whole);
    y.resize(whole);
    std::vector<Out> out(whole);
    if (whole > 0) function_(x.data(), y.data(), out.data(), static_cast<std::int64_t>(whole));
    out.resize(count);
    return out;
  }
  std::vector<Out> operator()(const std::vector<In>& x) const { return (*this)(x, x); }
  Out operator()(In x, In y) const { return (*this)(std::vector<In>{x}, std::vector<In>{y})[0]; }
  Out operator()(In x) const { return (*this)(x, x); }

 private:
  Jit jit_;
  unsigned lanes_;
  void (*function_)(const In*, const In*, Out*, std::int64_t) = nullptr;
};

// |actual - exact| in units of the last place that f32 has at `exact`; 0 for the same infinity or
// two NaN. An infinity counts as the number that would follow the largest.
inline double ulp_error(float actual, double exact) {
  if (std::isnan(exact) || std::isnan(actual)) {
    return std::isnan(exact) && std::isnan(actual) ? 0 : INFINITY;
  }
  if (std::isinf(exact)) return static_cast<double>(actual) == exact ? 0 : INFINITY;
  const double given = std::isinf(actual) ? std::copysign(0x1p128, actual) : actual;
  if (std::isinf(actual) && std::fabs(exact) >= 0x1p128)
    return std::signbit(actual) == std::signbit(exact) ? 0 : INFINITY;
  const int exponent = std::fabs(exact) < 0x1p-126 ? -126 : std::ilogb(exact);
  return std::fabs(given - exact) / std::ldexp(1.0, exponent - 23);
}

// Every `stride`-th bit pattern, specials and NaN of both signs among them.
inline std::vector<float> floats_by_bits(std::uint32_t stride) {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits <= 0xffffffffU; bits += stride) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return values;
}

}  // namespace opweld::cpu::testing
