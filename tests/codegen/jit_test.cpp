#include "codegen/cpu/jit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llvm/IR/IRBuilder.h>

#include <array>
#include <cmath>
#include <thread>

#include "codegen/cpu/jit_llvm.h"

namespace opweld::cpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// No processor has both: one is AMD's of long ago, the other Intel's of today.
const JitTarget kNobodysTarget{"x86-64-v3", "+xop,+amx-fp16", 256};

Jit host_jit() {
  auto jit = Jit::create(JitTarget::host());
  EXPECT_TRUE(jit) << jit.error().message;
  return std::move(*jit);
}

llvm::Function* new_function(llvm::Module& module, const std::string& name, llvm::Type* result,
                             std::vector<llvm::Type*> parameters) {
  auto* type = llvm::FunctionType::get(result, parameters, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  llvm::BasicBlock::Create(module.getContext(), "entry", function);
  return function;
}

// float name(float a, float b, float c) { return a * b + c; }
std::unique_ptr<llvm::Module> multiply_add(const Jit& jit, llvm::LLVMContext& context,
                                           const std::string& name, bool contract) {
  auto module = new_module(jit, context, name);
  auto* f32 = llvm::Type::getFloatTy(context);
  auto* function = new_function(*module, name, f32, {f32, f32, f32});
  llvm::IRBuilder<> builder(&function->getEntryBlock());
  llvm::FastMathFlags flags;
  flags.setAllowContract(contract);
  builder.setFastMathFlags(flags);
  auto* product = builder.CreateFMul(function->getArg(0), function->getArg(1));
  builder.CreateRet(builder.CreateFAdd(product, function->getArg(2)));
  return module;
}

// void name(float* data, int64_t count): data[i] = data[i] * 2 by vectors of `lanes`; the loop is
// to be unrolled `unroll` times.
std::unique_ptr<llvm::Module> double_all(const Jit& jit, llvm::LLVMContext& context,
                                         const std::string& name, unsigned lanes, int unroll) {
  auto module = new_module(jit, context, name);
  llvm::IRBuilder<> builder(context);
  auto* function =
      new_function(*module, name, builder.getVoidTy(), {builder.getPtrTy(), builder.getInt64Ty()});
  auto* entry = &function->getEntryBlock();
  auto* loop = llvm::BasicBlock::Create(context, "loop", function);
  auto* exit = llvm::BasicBlock::Create(context, "exit", function);
  builder.SetInsertPoint(entry);
  builder.CreateBr(loop);
  builder.SetInsertPoint(loop);
  auto* index = builder.CreatePHI(builder.getInt64Ty(), 2);
  auto* address = builder.CreateGEP(builder.getFloatTy(), function->getArg(0), index);
  auto* vector = llvm::FixedVectorType::get(builder.getFloatTy(), lanes);
  auto* value = builder.CreateAlignedLoad(vector, address, llvm::Align(4));
  builder.CreateAlignedStore(builder.CreateFAdd(value, value), address, llvm::Align(4));
  auto* next = builder.CreateNUWAdd(index, builder.getInt64(lanes));
  index->addIncoming(builder.getInt64(0), entry);
  index->addIncoming(next, loop);
  auto* latch = builder.CreateCondBr(builder.CreateICmpULT(next, function->getArg(1)), loop, exit);
  if (unroll > 1) request_unroll(latch, unroll);
  builder.SetInsertPoint(exit);
  builder.CreateRetVoid();
  return module;
}

size_t count(const std::string& text, const std::string& part) {
  size_t result = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++result;
  return result;
}

TEST(Jit, RunsAVectorLoop) {
  for (const auto& target : {JitTarget::host(), JitTarget::host_avx2()}) {
    auto jit = Jit::create(target).value();
    llvm::LLVMContext context;
    for (const unsigned lanes : {1U, 4U, 8U, 16U}) {
      const std::string name = "double_all_" + std::to_string(lanes);
      ASSERT_TRUE(add_module(jit, double_all(jit, context, name, lanes, 4)));
      auto* function = jit.function<void(float*, int64_t)>(name).value();
      // 176 = 11 * 16: the unrolled loop leaves three vectors to its remainder.
      std::array<float, 177> data;
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
      function(data.data(), 176);
      for (size_t i = 0; i < 176; ++i) ASSERT_EQ(data[i], 2.0F * static_cast<float>(i));
      EXPECT_EQ(data[176], 176.0F) << "wrote past the end";
    }
  }
}

TEST(Jit, ContractsOnlyWhereAsked) {
  auto jit = host_jit();
  llvm::LLVMContext context;
  ASSERT_TRUE(add_module(jit, multiply_add(jit, context, "separate", false)));
  ASSERT_TRUE(add_module(jit, multiply_add(jit, context, "contracted", true)));
  using Function = float(float, float, float);
  auto* separate = jit.function<Function>("separate").value();
  auto* contracted = jit.function<Function>("contracted").value();
  // (1 + e)^2 - (1 + 2e) is e^2 when the product is not rounded, else 0.
  const float e = std::ldexp(1.0F, -23);
  EXPECT_EQ(separate(1 + e, 1 + e, -(1 + 2 * e)), 0.0F);
  EXPECT_EQ(contracted(1 + e, 1 + e, -(1 + 2 * e)), e * e);
}

TEST(Jit, UnrollsOnlyTheLoopThatAsksForIt) {
  auto jit = host_jit();
  llvm::LLVMContext context;
  for (const auto& [unroll, stores] : {std::pair{1, 1U}, std::pair{4, 5U}}) {
    auto module = double_all(jit, context, "unroll_" + std::to_string(unroll), 8, unroll);
    ASSERT_TRUE(optimize(jit, *module));
    // Four copies in the main loop, and the remainder.
    EXPECT_EQ(count(ir_text(*module), "store <8 x float>"), stores);
  }
}

TEST(Jit, CompilesForAProcessorThatTheHostIsNot) {
  auto jit = Jit::create({"x86-64-v4", "", 512}, Foreign::Allow).value();
  llvm::LLVMContext context;
  auto module = double_all(jit, context, "wide", 16, 1);
  ASSERT_TRUE(optimize(jit, *module));
  EXPECT_THAT(emit_assembly(jit, *module).value(), HasSubstr("zmm"));

  auto narrow_jit = Jit::create(JitTarget::host_avx2()).value();
  auto narrow = double_all(narrow_jit, context, "narrow", 16, 1);
  ASSERT_TRUE(optimize(narrow_jit, *narrow));
  const std::string assembly = emit_assembly(narrow_jit, *narrow).value();
  EXPECT_THAT(assembly, HasSubstr("ymm"));
  EXPECT_THAT(assembly, Not(HasSubstr("zmm")));
}

TEST(Jit, RefusesWhatTheHostCannotRun) {
  const auto rejected = Jit::create(kNobodysTarget);
  ASSERT_FALSE(rejected);
  EXPECT_EQ(rejected.error().kind, ErrorKind::Usage);
  EXPECT_THAT(rejected.error().message, HasSubstr("cannot run code for 'x86-64-v3'"));

  auto jit = Jit::create(kNobodysTarget, Foreign::Allow).value();
  EXPECT_FALSE(jit.can_run());
  llvm::LLVMContext context;
  auto module = multiply_add(jit, context, "foreign", false);
  ASSERT_TRUE(optimize(jit, *module));
  const std::string object = emit_object(jit, *module).value();
  EXPECT_THAT(jit.add_object(object, "foreign").error().message, HasSubstr("cannot load"));
  EXPECT_THAT(jit.lookup("foreign").error().message, HasSubstr("cannot run"));
}

TEST(Jit, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(Jit::create({"pentium-12", "", 256}).error().message, HasSubstr("'pentium-12'"));
  EXPECT_THAT(Jit::create({"x86-64-v3", "+sse42x", 256}).error().message, HasSubstr("'+sse42x'"));
  EXPECT_THAT(Jit::create({"x86-64-v3", "avx2", 256}).error().message, HasSubstr("'avx2'"));
}

TEST(Jit, ReportsSymbolsThatAreMissingOrTwice) {
  auto jit = host_jit();
  EXPECT_THAT(jit.lookup("nothing").error().message, HasSubstr("'nothing'"));

  llvm::LLVMContext context;
  ASSERT_TRUE(add_module(jit, multiply_add(jit, context, "once", false)));
  EXPECT_THAT(add_module(jit, multiply_add(jit, context, "once", false)).error().message,
              HasSubstr("once"));

  auto module = new_module(jit, context, "caller");
  auto* caller = new_function(*module, "caller", llvm::Type::getVoidTy(context), {});
  llvm::IRBuilder<> builder(&caller->getEntryBlock());
  builder.CreateCall(module->getOrInsertFunction("opweld_nowhere", builder.getVoidTy()));
  builder.CreateRetVoid();
  ASSERT_TRUE(add_module(jit, std::move(module)));
  EXPECT_THAT(jit.lookup("caller").error().message, HasSubstr("opweld_nowhere"));
}

TEST(Jit, RejectsAMalformedModule) {
  auto jit = host_jit();
  llvm::LLVMContext context;
  auto module = new_module(jit, context, "unfinished");
  new_function(*module, "no_terminator", llvm::Type::getVoidTy(context), {});
  const auto result = add_module(jit, std::move(module));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("'unfinished' is not well-formed"));
}

double add_one(double x) {
  return x + 1;
}

TEST(Jit, CallsTheCLibraryAndDefinedFunctions) {
  auto jit = host_jit();
  ASSERT_TRUE(jit.define("opweld_test_add_one", reinterpret_cast<const void*>(&add_one)));
  llvm::LLVMContext context;
  auto module = new_module(jit, context, "calls");
  auto* f64 = llvm::Type::getDoubleTy(context);
  for (const std::string callee : {"opweld_test_add_one", "lgamma"}) {
    auto* caller = new_function(*module, "call_" + callee, f64, {f64});
    llvm::IRBuilder<> builder(&caller->getEntryBlock());
    builder.CreateRet(
        builder.CreateCall(module->getOrInsertFunction(callee, f64, f64), {caller->getArg(0)}));
  }
  ASSERT_TRUE(add_module(jit, std::move(module)));
  EXPECT_EQ(jit.function<double(double)>("call_opweld_test_add_one").value()(41), 42);
  EXPECT_EQ(jit.function<double(double)>("call_lgamma").value()(10), std::lgamma(10.0));
}

TEST(Jit, LoadsAnObjectKeptFromAnother) {
  std::string object;
  {
    auto first = host_jit();
    llvm::LLVMContext context;
    object = add_module(first, multiply_add(first, context, "kept", false)).value();
  }
  auto second = host_jit();
  ASSERT_TRUE(second.add_object(object, "kept"));
  EXPECT_EQ(second.function<float(float, float, float)>("kept").value()(3, 4, 5), 17);

  EXPECT_FALSE(second.add_object("not an object file", "damaged"));
}

TEST(Jit, CompilesOnTwoThreads) {
  auto jit = host_jit();
  const auto compile = [&jit](int thread) {
    for (int i = 0; i < 8; ++i) {
      llvm::LLVMContext context;
      const std::string name = "kernel_" + std::to_string(thread) + "_" + std::to_string(i);
      ASSERT_TRUE(add_module(jit, multiply_add(jit, context, name, false)));
      auto function = jit.function<float(float, float, float)>(name);
      ASSERT_TRUE(function);
      ASSERT_EQ((*function)(2, 3, static_cast<float>(i)), 6 + i);
    }
  };
  std::thread other(compile, 0);
  compile(1);
  other.join();
}

TEST(JitTarget, IsTheSameEachTimeAndNamesItsWidth) {
  EXPECT_EQ(JitTarget::host(), JitTarget::host());
  EXPECT_EQ(JitTarget::host_avx2().vector_bits, 256);
  EXPECT_EQ(JitTarget::host_avx512().vector_bits, 512);
  EXPECT_THAT(JitTarget::host_avx2().features, HasSubstr("-avx512f"));
}

}  // namespace
}  // namespace opweld::cpu
