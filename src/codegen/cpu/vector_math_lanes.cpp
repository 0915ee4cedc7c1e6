#include "codegen/cpu/vector_math_lanes.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <vector>

#include "codegen/cpu/jit_llvm.h"

namespace opweld::cpu {

LaneMath::LaneMath(llvm::IRBuilderBase& builder, llvm::Type* type)
    : builder_(builder), flags_(builder), type_(type) {
  builder.clearFastMathFlags();
  bits_type_ = type->getWithNewType(builder.getIntNTy(type->getScalarSizeInBits()));
}

llvm::Value* LaneMath::abs(llvm::Value* a) {
  return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
}

llvm::Value* LaneMath::floor(llvm::Value* a) {
  return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, a);
}

llvm::Value* LaneMath::copy_sign(llvm::Value* magnitude, llvm::Value* sign) {
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
}

llvm::Value* LaneMath::fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  return builder_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {a, b, c});
}

llvm::Value* LaneMath::at_most(llvm::Value* a, double bound) {
  return builder_.CreateSelect(builder_.CreateFCmpOGT(a, real(bound)), real(bound), a);
}

llvm::Value* LaneMath::at_least(llvm::Value* a, double bound) {
  return builder_.CreateSelect(builder_.CreateFCmpOLT(a, real(bound)), real(bound), a);
}

llvm::Value* LaneMath::polynomial(llvm::Value* x, std::span<const float> coefficients) {
  const std::vector<double> widened(coefficients.begin(), coefficients.end());
  return polynomial(x, widened);
}

llvm::Value* LaneMath::polynomial(llvm::Value* x, std::span<const double> coefficients) {
  llvm::Value* sum = real(coefficients[0]);
  for (const double coefficient : coefficients.subspan(1)) sum = fma(sum, x, real(coefficient));
  return sum;
}

LaneMath::Nearest LaneMath::nearest(llvm::Value* x, llvm::Value* factor) {
  // Adding 1.5 * 2^(mantissa bits) leaves no place for a fraction: the sum's last bits are the
  // integer, and taking the addend off again gives it as a real.
  const double shift = is_double() ? 0x1.8p52 : 0x1.8p23;
  llvm::Value* const shifted = fma(x, factor, real(shift));
  return {sub(shifted, real(shift)), builder_.CreateSub(bits(shifted), bits(real(shift)))};
}

llvm::Value* LaneMath::power_of_two(llvm::Value* n) {
  llvm::Value* const exponent = builder_.CreateAdd(n, integer(exponent_bias()));
  return from_bits(builder_.CreateShl(exponent, integer(mantissa_bits())));
}

llvm::Value* LaneMath::power_of_two(const Nearest& n) {
  llvm::Value* const power = scaled_by_target(real(1), n);
  return power != nullptr ? power : power_of_two(n.integer);
}

llvm::Value* LaneMath::scaled(llvm::Value* x, const Nearest& n) {
  if (llvm::Value* const product = scaled_by_target(x, n)) return product;
  // 2^n itself may be no normal number; two halves are, and only the last product rounds.
  llvm::Value* const half = builder_.CreateAShr(n.integer, integer(1));
  llvm::Value* const other_half = builder_.CreateSub(n.integer, half);
  return mul(mul(x, power_of_two(half)), power_of_two(other_half));
}

llvm::Value* LaneMath::scaled_by_target(llvm::Value* x, const Nearest& n) {
  const auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
  const bool is_full = vector != nullptr && vector->getNumElements() == 16 && !is_double();
  if (!is_full || !has_avx512f(*builder_.GetInsertBlock()->getModule())) return nullptr;
  constexpr int kCurrentRounding = 4;
  return builder_.CreateIntrinsic(
      llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
      {x, n.real, x, builder_.getInt16(0xffff), builder_.getInt32(kCurrentRounding)});
}

llvm::Value* call_library(llvm::IRBuilderBase& builder, const std::string& name,
                          std::span<llvm::Value* const> arguments) {
  llvm::Type* const type = arguments[0]->getType();
  llvm::Type* const element = type->getScalarType();
  const std::vector<llvm::Type*> parameters(arguments.size(), element);
  llvm::Module* const module = builder.GetInsertBlock()->getModule();
  const llvm::FunctionCallee function =
      module->getOrInsertFunction(element->isFloatTy() ? name + "f" : name,
                                  llvm::FunctionType::get(element, parameters, false));
  const auto call = [&](llvm::ArrayRef<llvm::Value*> of) {
    llvm::CallInst* const made = builder.CreateCall(function, of);
    // errno is nobody's concern here; without it equal calls merge and invariant ones move.
    made->setDoesNotAccessMemory();
    made->setDoesNotThrow();
    made->addFnAttr(llvm::Attribute::WillReturn);
    return made;
  };
  const auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (vector == nullptr) return call({arguments.data(), arguments.size()});
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (std::uint64_t lane = 0; lane < vector->getNumElements(); ++lane) {
    std::vector<llvm::Value*> elements;
    for (llvm::Value* const argument : arguments) {
      elements.push_back(builder.CreateExtractElement(argument, lane));
    }
    result = builder.CreateInsertElement(result, call(elements), lane);
  }
  return result;
}

}  // namespace opweld::cpu
