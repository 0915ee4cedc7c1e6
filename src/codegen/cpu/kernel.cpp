#include "codegen/cpu/kernel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "codegen/cpu/emit_program.h"
#include "codegen/cpu/jit_llvm.h"

namespace opweld::cpu {

struct KernelCompiler::Impl {
  explicit Impl(Jit the_jit, const Target& the_target, const Options& the_options)
      : jit(std::make_shared<Jit>(std::move(the_jit))), target(the_target), options(the_options) {}

  // The machine code of every kernel made here lives as long as any of them.
  std::shared_ptr<Jit> jit;
  Target target;
  Options options;
  std::unordered_map<std::string, std::shared_ptr<const CompiledKernel>> compiled;  // by text
  int next_number = 0;

  Expected<std::shared_ptr<const CompiledKernel>> compile(const tile::TileProgram& program,
                                                          const std::string& symbol);
};

namespace {

std::vector<std::string> symbol_names(const tile::TileProgram& program) {
  std::vector<std::string> names;
  for (const Dim& symbol : program.symbols) names.push_back(symbol.as_symbol()->name);
  return names;
}

JitTarget jit_target(const Target& target) {
  return {target.cpu, target.features, target.vector_bits};
}

}  // namespace

Expected<KernelCompiler> KernelCompiler::create(const Target& target, const Options& options) {
  OPWELD_TRY(Jit jit, Jit::create(jit_target(target)));
  return KernelCompiler(std::make_unique<Impl>(std::move(jit), target, options));
}

KernelCompiler::KernelCompiler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelCompiler::KernelCompiler(KernelCompiler&&) noexcept = default;
KernelCompiler& KernelCompiler::operator=(KernelCompiler&&) noexcept = default;
KernelCompiler::~KernelCompiler() = default;

Expected<std::shared_ptr<const CompiledKernel>> KernelCompiler::Impl::compile(
    const tile::TileProgram& program, const std::string& symbol) {
  auto kernel = std::make_shared<CompiledKernel>();
  const std::vector<std::string> names = symbol_names(program);
  OPWELD_TRY(kernel->num_tasks, CompiledDim::compile(num_tasks(program), names));
  OPWELD_TRY(kernel->scratch_bytes, CompiledDim::compile(scratch_bytes(program), names));
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = new_module(*jit, context, symbol);
  kernel->check_messages = emit_program(program, target.vector_bits, *module, symbol);
  OPWELD_CHECK(add_module(*jit, std::move(module)));
  OPWELD_TRY(void* const address, jit->lookup(symbol));
  kernel->function = reinterpret_cast<CompiledKernel::Function>(address);
  kernel->code_owner = jit;
  return kernel;
}

Expected<std::vector<std::shared_ptr<const CompiledKernel>>> KernelCompiler::compile(
    std::span<const tile::TileProgram* const> programs) {
  struct Job {
    const tile::TileProgram* program;
    std::string text;
    std::string symbol;
  };
  std::vector<Job> jobs;
  std::vector<std::string> texts;
  for (const tile::TileProgram* program : programs) {
    texts.push_back(to_text(*program));
    if (!impl_->compiled.try_emplace(texts.back()).second) continue;
    OPWELD_CHECK(verify(*program));
    jobs.push_back({program, texts.back(), fmt::format("kernel_{}", impl_->next_number++)});
  }
  std::mutex mutex;
  std::optional<Error> error;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(1); i < jobs.size(); i = next.fetch_add(1)) {
      auto kernel = impl_->compile(*jobs[i].program, jobs[i].symbol);
      const std::lock_guard lock(mutex);
      if (kernel) {
        impl_->compiled[jobs[i].text] = std::move(*kernel);
      } else {
        error = kernel.error().with_context(jobs[i].program->name);
      }
    }
  };
  std::vector<std::thread> helpers;
  const auto wanted =
      std::min<std::size_t>(static_cast<std::size_t>(impl_->options.threads), jobs.size());
  for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (error) {
    for (const Job& job : jobs) impl_->compiled.erase(job.text);
    return tl::unexpected(*error);
  }
  std::vector<std::shared_ptr<const CompiledKernel>> kernels;
  for (const std::string& text : texts) kernels.push_back(impl_->compiled.at(text));
  return kernels;
}

Expected<std::string> KernelCompiler::llvm_ir(const tile::TileProgram& program, bool optimized) {
  OPWELD_CHECK(verify(program));
  llvm::LLVMContext context;
  const std::unique_ptr<llvm::Module> module = new_module(*impl_->jit, context, program.name);
  emit_program(program, impl_->target.vector_bits, *module, program.name);
  if (optimized) OPWELD_CHECK(optimize(*impl_->jit, *module));
  return ir_text(*module);
}

Expected<std::string> KernelCompiler::assembly(const tile::TileProgram& program) {
  OPWELD_CHECK(verify(program));
  llvm::LLVMContext context;
  const std::unique_ptr<llvm::Module> module = new_module(*impl_->jit, context, program.name);
  emit_program(program, impl_->target.vector_bits, *module, program.name);
  OPWELD_CHECK(optimize(*impl_->jit, *module));
  return emit_assembly(*impl_->jit, *module);
}

}  // namespace opweld::cpu
