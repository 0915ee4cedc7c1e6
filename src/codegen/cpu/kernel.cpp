#include "codegen/cpu/kernel.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "codegen/cpu/emit_program.h"
#include "codegen/cpu/jit_llvm.h"
#include "support/digest.h"
#include "support/function_ref.h"

namespace opweld::cpu {

using Function = CompiledKernel::Function;

struct KernelCompiler::Impl {
  Impl(Jit made, const Target& target, const Options& chosen)
      : jit(std::make_shared<Jit>(std::move(made))),
        vector_bits(target.vector_bits),
        has_matrix_unit(target.has_amx_bf16),
        options(chosen) {}

  // The machine code of every kernel made here lives as long as any of them.
  std::shared_ptr<Jit> jit;
  int vector_bits;
  bool has_matrix_unit;
  Options options;
  // Code that is ready to be called, and what it was linked from where that is to be kept.
  struct Code {
    Function function = nullptr;
    std::shared_ptr<const CompiledKernel::Object> object;
  };
  std::unordered_map<std::string, Code> functions;  // by canonical text
  std::atomic<int> found{0};  // of the functions, those that were kept from before

  // Well-formed, and for this target.
  [[nodiscard]] Status check(const tile::TileProgram& program) const;
  Expected<Code> compile(const tile::TileProgram& program, const std::string& text);
  // Adds the code of the function to `jit`, as it was kept, else newly made, and gives the object.
  Expected<std::string> add_code(const tile::TileProgram& program, const std::string& text,
                                 const std::string& symbol);
  Expected<std::unique_ptr<llvm::Module>> make_module(const tile::TileProgram& program,
                                                      llvm::LLVMContext& context, bool optimize);
};

namespace {

void clear_messages(tile::Block& block) {
  for (tile::Statement& statement : block) {
    if (auto* check = std::get_if<tile::Check>(&statement.node)) {
      check->message.clear();
      for (tile::Check::Shown& shown : check->shown) shown.name.clear();
    }
    if (auto* loop = std::get_if<tile::ForLoop>(&statement.node)) clear_messages(loop->body);
    if (auto* condition = std::get_if<tile::If>(&statement.node)) clear_messages(condition->then);
    if (auto* keep = std::get_if<tile::Keep>(&statement.node)) clear_messages(keep->body);
  }
}

// What the code depends on: the program without the names, which only readers need, and without the
// messages of its checks.
std::string canonical_text(tile::TileProgram program) {
  const auto rename = [](auto& names, const char* letter) {
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = letter + std::to_string(i);
  };
  program.name = "k";
  for (std::size_t i = 0; i < program.params.size(); ++i) {
    program.params[i].name = "p" + std::to_string(i);
  }
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    program.buffers[i].name = "b" + std::to_string(i);
  }
  rename(program.loop_names, "l");
  rename(program.local_names, "v");
  clear_messages(program.body);
  return to_text(program);
}

// All of the kernel but its code.
Expected<std::shared_ptr<CompiledKernel>> describe(const tile::TileProgram& program) {
  auto kernel = std::make_shared<CompiledKernel>();
  std::vector<std::string>& names = kernel->symbols;
  for (const Dim& symbol : program.symbols) names.push_back(symbol.as_symbol()->name);
  OPWELD_TRY(kernel->num_tasks, CompiledDim::compile(num_tasks(program), names));
  OPWELD_TRY(kernel->scratch_bytes, CompiledDim::compile(scratch_bytes(program), names));
  for (const tile::Check* check : checks_of(program)) {
    kernel->checks.push_back({check->message, {}});
    for (const auto& shown : check->shown) kernel->checks.back().shown.push_back(shown.name);
  }
  for (const tile::Param& param : program.params) {
    const bool counter = param.role == tile::Param::Role::Counter;
    if (!counter && param.role != tile::Param::Role::Shared) continue;
    OPWELD_TRY(CompiledDim bytes, CompiledDim::compile(tile::shared_bytes(param), names));
    kernel->shared.push_back({std::move(bytes), counter});
  }
  return kernel;
}

// Calls work(i) for all i below `count` on up to `threads` threads, this one among them.
void for_each_in_parallel(std::size_t count, int threads, FunctionRef<void(std::size_t)> work) {
  std::atomic<std::size_t> next{0};
  const auto take_turns = [&] {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
  };
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < std::min(static_cast<std::size_t>(threads), count); ++i) {
    helpers.emplace_back(take_turns);
  }
  take_turns();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

Expected<KernelCompiler> KernelCompiler::create(const Target& target, const Options& options) {
  // A foreign target can still be looked at; it is compile() that needs to run the code.
  const JitTarget jit_target{target.cpu, target.features, target.vector_bits};
  OPWELD_TRY(Jit jit, Jit::create(jit_target, Foreign::Allow));
  return KernelCompiler(std::make_unique<Impl>(std::move(jit), target, options));
}

KernelCompiler::KernelCompiler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelCompiler::KernelCompiler(KernelCompiler&&) noexcept = default;
KernelCompiler& KernelCompiler::operator=(KernelCompiler&&) noexcept = default;
KernelCompiler::~KernelCompiler() = default;

Status KernelCompiler::Impl::check(const tile::TileProgram& program) const {
  OPWELD_CHECK(verify(program));
  if (has_matrix_unit || !uses_matrix_unit(program)) return {};
  return fail("kernel '{}' needs a matrix unit, which the target lacks", program.name);
}

Expected<std::string> KernelCompiler::Impl::add_code(const tile::TileProgram& program,
                                                     const std::string& text,
                                                     const std::string& symbol) {
  const JitTarget& target = jit->target();
  const std::string key =
      fmt::format("code by LLVM {} for {} {} {} {}\n{}", llvm_version(), target.cpu,
                  target.features, target.vector_bits, has_matrix_unit, text);
  if (options.kept != nullptr) {
    if (auto object = options.kept->find(key)) {
      ++found;
      OPWELD_CHECK(jit->add_object(*object, symbol));
      return std::move(*object);
    }
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = new_module(*jit, context, symbol);
  emit_program(program, vector_bits, *module, symbol);
  OPWELD_TRY(std::string object, add_module(*jit, std::move(module)));
  if (options.kept != nullptr) options.kept->store(key, object);
  return object;
}

Expected<KernelCompiler::Impl::Code> KernelCompiler::Impl::compile(const tile::TileProgram& program,
                                                                   const std::string& text) {
  // By what it does, since kept code has its name in it.
  const std::string symbol = "kernel_" + digest(text);
  OPWELD_TRY(std::string object, add_code(program, text, symbol));
  OPWELD_TRY(void* const address, jit->lookup(symbol));
  Code code{reinterpret_cast<Function>(address), nullptr};
  if (options.keep_objects) {
    code.object =
        std::make_shared<CompiledKernel::Object>(CompiledKernel::Object{symbol, std::move(object)});
  }
  return code;
}

Expected<std::vector<std::shared_ptr<const CompiledKernel>>> KernelCompiler::compile(
    std::span<const tile::TileProgram* const> programs) {
  struct Job {
    const tile::TileProgram* program;
    std::string text;
    Expected<Impl::Code> code = Impl::Code{};
  };
  std::vector<Job> jobs;
  std::vector<std::string> texts;
  std::set<std::string_view> queued;
  for (const tile::TileProgram* program : programs) {
    OPWELD_CHECK(impl_->check(*program));
    texts.push_back(canonical_text(*program));
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (impl_->functions.contains(texts[i]) || !queued.insert(texts[i]).second) continue;
    jobs.push_back({programs[i], texts[i]});
  }
  // The longest first, so that no thread has a long one left while the others are done.
  std::ranges::stable_sort(jobs, std::greater(), [](const Job& job) { return job.text.size(); });
  for_each_in_parallel(jobs.size(), impl_->options.threads, [&](std::size_t i) {
    jobs[i].code = impl_->compile(*jobs[i].program, jobs[i].text);
  });
  for (Job& job : jobs) {
    if (!job.code) return tl::unexpected(job.code.error().with_context(job.program->name));
    impl_->functions.emplace(job.text, std::move(*job.code));
  }
  std::vector<std::shared_ptr<const CompiledKernel>> kernels;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    OPWELD_TRY(auto kernel, describe(*programs[i]));
    const Impl::Code& code = impl_->functions.at(texts[i]);
    kernel->function = code.function;
    kernel->object = code.object;
    kernel->code_owner = impl_->jit;
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

std::vector<std::string> KernelCompiler::features() const {
  return impl_->jit->features();
}

KernelCompiler::Made KernelCompiler::made() const {
  return {static_cast<int>(impl_->functions.size()), impl_->found};
}

Expected<std::unique_ptr<llvm::Module>> KernelCompiler::Impl::make_module(
    const tile::TileProgram& program, llvm::LLVMContext& context, bool optimize) {
  OPWELD_CHECK(check(program));
  auto module = new_module(*jit, context, program.name);
  emit_program(program, vector_bits, *module, program.name);
  if (optimize) OPWELD_CHECK(cpu::optimize(*jit, *module));
  return module;
}

Expected<std::string> KernelCompiler::llvm_ir(const tile::TileProgram& program, bool optimized) {
  llvm::LLVMContext context;
  OPWELD_TRY(const auto module, impl_->make_module(program, context, optimized));
  return ir_text(*module);
}

Expected<std::string> KernelCompiler::assembly(const tile::TileProgram& program) {
  llvm::LLVMContext context;
  OPWELD_TRY(const auto module, impl_->make_module(program, context, true));
  return emit_assembly(*impl_->jit, *module);
}

Expected<VectorSpills> KernelCompiler::vector_spills(const tile::TileProgram& program) {
  llvm::LLVMContext context;
  OPWELD_TRY(const auto module, impl_->make_module(program, context, true));
  OPWELD_TRY(const std::string text, emit_assembly(*impl_->jit, *module, AssemblyComments::Yes));
  return count_vector_spills(text);
}

}  // namespace opweld::cpu
