// Compiling: sharing, several threads, targets, errors.
#include "codegen/cpu/kernel.h"

#include <gmock/gmock.h>

#include <thread>

#include "kernel_runner.h"

namespace opweld {
namespace {

using testing::GuardedTensor;
using ::testing::HasSubstr;
using tile::MemoryRef;
using tile::ProgramBuilder;

// y = x + number; names are the caller's.
tile::TileProgram add(const std::string& name, double number, const std::string& message = "none") {
  ProgramBuilder program(name);
  const MemoryRef x = program.input(name + ".x", DType::F32, {100});
  const MemoryRef y = program.output(name + ".y", DType::F32, {100});
  program.check(program.exprs().constant(1, DType::Bool), message);
  program.vector("i", 100, [&](Expr i) {
    const Expr v = program.load(program.at(x, {i}), kNoExpr, name + ".v");
    program.store(
        program.at(y, {i}),
        program.exprs().binary(ExprKind::Add, v, program.exprs().constant(number, DType::F32)));
  });
  return program.finish();
}

cpu::KernelCompiler compiler(int threads = 1) {
  return cpu::KernelCompiler::create(host_target(), {.threads = threads}).value();
}

TEST(KernelCompiler, SharesTheCodeOfEqualKernels) {
  auto made = compiler();
  const auto a = add("layer0", 1, "node a");
  const auto b = add("layer1", 1, "node b");
  const auto c = add("layer0", 2);
  const tile::TileProgram* const first[] = {&a, &b, &c};
  const auto kernels = made.compile(first).value();
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_EQ(kernels[0]->function, kernels[1]->function);
  EXPECT_NE(kernels[0]->function, kernels[2]->function);
  EXPECT_EQ(kernels[0]->failure(1, nullptr), "node a");
  EXPECT_EQ(kernels[1]->failure(1, nullptr), "node b");
  const tile::TileProgram* const second[] = {&b};
  EXPECT_EQ(made.compile(second).value()[0]->function, kernels[0]->function);
}

TEST(KernelCompiler, CompilesOnSeveralThreads) {
  std::vector<tile::TileProgram> programs;
  for (int i = 0; i < 24; ++i) programs.push_back(add("k", i));
  std::vector<const tile::TileProgram*> pointers;
  for (const auto& program : programs) pointers.push_back(&program);
  const auto kernels =
      compiler(4).compile(pointers).value();  // the compiler is gone, the code stays
  GuardedTensor x(DType::F32, std::vector<ScalarValue>(100, {5, 0}));
  for (int i = 0; i < 24; ++i) {
    GuardedTensor y(DType::F32, 100);
    const std::vector<void*> params = {x.data(), y.data()};
    ASSERT_EQ(kernels[static_cast<std::size_t>(i)]->function(params.data(), nullptr, 0, 1, nullptr),
              0);
    EXPECT_EQ(y.at(99).real, 5 + i);
  }
}

// Two threads run tasks of one kernel at once, each with scratch memory of its own.
TEST(KernelCompiler, MakesKernelsForSeveralThreads) {
  constexpr std::int64_t kTasks = 64;
  ProgramBuilder program("shared");
  const MemoryRef y = program.output("y", DType::I64, {kTasks, 100});
  const MemoryRef t = program.buffer("t", DType::I64, {100}, tile::Buffer::Space::Cache);
  const Expr task = program.grid("task", kTasks);
  program.vector("i", 100, [&](Expr i) {
    program.store(program.at(t, {i}), program.add(program.mul(task, 1000), i));
  });
  program.vector("k", 100, [&](Expr k) {
    program.store(program.at(y, {task, k}), program.load(program.at(t, {program.sub(99, k)})));
  });
  const testing::KernelRunner kernel(program.finish());
  GuardedTensor output(DType::I64, kTasks * 100);
  const std::vector<void*> params = {output.data()};
  std::thread other([&] { EXPECT_EQ(kernel.run(params, {}, 0, kTasks / 2), 0); });
  EXPECT_EQ(kernel.run(params, {}, kTasks / 2, kTasks), 0);
  other.join();
  for (std::int64_t at = 0; at < kTasks * 100; ++at) {
    ASSERT_EQ(output.at(at).integer, at / 100 * 1000 + 99 - at % 100);
  }
}

TEST(KernelCompiler, RefusesAMalformedProgram) {
  tile::TileProgram program = add("broken", 1);
  std::get<tile::Check>(program.body[0].node).condition = program.exprs.integer(3);
  const tile::TileProgram* const pointer = &program;
  auto made = compiler();
  const auto result = made.compile({&pointer, 1});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("kernel 'broken'"));
  // Nothing of it is kept.
  EXPECT_FALSE(made.compile({&pointer, 1}));
}

// Code for a processor that this one need not be: it can be looked at.
TEST(KernelCompiler, ShowsCodeForAWiderMachine) {
  Target target = host_target();
  target.cpu = "x86-64-v4";
  target.features = "";
  target.vector_bits = 512;
  auto made = cpu::KernelCompiler::create(target, {}).value();
  const auto program = add("wide", 1);
  EXPECT_THAT(made.assembly(program).value(), HasSubstr("zmm"));
  EXPECT_THAT(made.llvm_ir(program).value(), HasSubstr("<16 x float>"));
  EXPECT_THAT(made.llvm_ir(program, false).value(), HasSubstr("define i32 @wide"));
}

TEST(KernelCompiler, NamesATargetThatLlvmDoesNotKnow) {
  Target target = host_target();
  target.cpu = "pentium-12";
  EXPECT_THAT(cpu::KernelCompiler::create(target, {}).error().message, HasSubstr("pentium-12"));
}

}  // namespace
}  // namespace opweld
