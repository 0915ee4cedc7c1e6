#include "codegen/cpu/jit.h"

#include <llvm-c/Core.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "codegen/cpu/jit_llvm.h"

namespace opweld::cpu {

namespace {

// The linker says only "failed to materialize" to whoever looks a symbol up, and the reason, such
// as a symbol nobody defines, to its session.
class LinkErrors {
 public:
  void add(llvm::Error error) {
    const std::scoped_lock lock(mutex_);
    text_ += "; " + llvm::toString(std::move(error));
  }
  std::string take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(text_, {});
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

}  // namespace

std::string llvm_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  LLVMGetVersion(&major, &minor, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

struct Jit::Impl {
  JitTarget target;
  std::string triple;
  llvm::DataLayout layout{""};
  bool has_f16c = false;
  bool has_avx512f = false;
  bool has_avx512_bf16 = false;
  std::vector<std::string> features;
  std::string missing;  // features the host lacks; empty if it can run the code
  LinkErrors errors;
  std::unique_ptr<llvm::orc::LLJIT> link;  // null if the host cannot run the code
};

// Lets the LLVM-facing functions below see inside a Jit without naming LLVM in its header.
struct JitAccess {
  static const Jit::Impl& of(const Jit& jit) { return *jit.impl_; }
};

namespace {

constexpr const char* kF16cFlag = "opweld.f16c";
constexpr const char* kAvx512Flag = "opweld.avx512f";
constexpr const char* kAvx512Bf16Flag = "opweld.avx512bf16";

bool has_flag(const llvm::Module& module, const char* name) {
  const auto* const flag =
      llvm::mdconst::extract_or_null<llvm::ConstantInt>(module.getModuleFlag(name));
  return flag != nullptr && flag->isOne();
}

void initialize_llvm() {
  [[maybe_unused]] static const bool once = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    return true;
  }();
}

// A TargetMachine may serve one compilation at a time, hence one for each.
Expected<std::unique_ptr<llvm::TargetMachine>> target_machine(const std::string& triple,
                                                              const JitTarget& target) {
  std::string why;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, why);
  if (backend == nullptr) return fail("LLVM has no back end for '{}': {}", triple, why);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, target.cpu, target.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine) return fail("LLVM has no code generator for '{}'", triple);
  return machine;
}

// LLVM only warns on standard error about names it does not know.
Status check_names(const std::string& triple, const JitTarget& target) {
  OPWELD_TRY(const auto machine, target_machine(triple, JitTarget{}));
  const llvm::MCSubtargetInfo& known = *machine->getMCSubtargetInfo();
  if (!known.isCPUStringValid(target.cpu)) {
    return usage_error("unknown processor '{}'; 'llc-19 -mcpu=help' lists those there are",
                       target.cpu);
  }
  llvm::SmallVector<llvm::StringRef> features;
  llvm::StringRef(target.features).split(features, ',', -1, /*KeepEmpty=*/false);
  for (const llvm::StringRef feature : features) {
    const bool is_known =
        (feature.starts_with("+") || feature.starts_with("-")) &&
        std::ranges::any_of(known.getAllProcessorFeatures(),
                            [&](const auto& entry) { return feature.drop_front() == entry.Key; });
    if (!is_known) {
      return usage_error(
          "unknown processor feature '{}'; 'llc-19 -mattr=help' lists those there are",
          feature.str());
    }
  }
  return {};
}

// What the target uses of the features that can be looked for in a host.
std::vector<std::string> used_features(const llvm::MCSubtargetInfo& target) {
  const auto host = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> used;
  for (const auto& feature : target.getAllProcessorFeatures()) {
    if (!target.getFeatureBits().test(feature.Value)) continue;
    if (host.contains(feature.Key)) used.emplace_back(feature.Key);
  }
  return used;
}

// Those of them that the host has not, as "avx512f, avx512bw".
std::string missing_on_host(std::span<const std::string> used) {
  const auto host = llvm::sys::getHostCPUFeatures();
  std::string missing;
  for (const std::string& feature : used) {
    if (host.lookup(feature)) continue;
    if (!missing.empty()) missing += ", ";
    missing += feature;
  }
  return missing;
}

Expected<std::unique_ptr<llvm::orc::LLJIT>> make_linker(const std::string& triple,
                                                        const JitTarget& target) {
  llvm::orc::JITTargetMachineBuilder builder{llvm::Triple(triple)};
  builder.setCPU(target.cpu);
  auto made = llvm::orc::LLJITBuilder()
                  .setJITTargetMachineBuilder(std::move(builder))
                  .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                  .create();
  if (!made) return fail("LLVM's JIT did not start: {}", llvm::toString(made.takeError()));
  auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      (*made)->getDataLayout().getGlobalPrefix());
  if (!process) {
    return fail("cannot look up symbols of this process: {}", llvm::toString(process.takeError()));
  }
  (*made)->getMainJITDylib().addGenerator(std::move(*process));
  return std::move(*made);
}

void mark_for_target(llvm::Module& module, const JitTarget& target) {
  const std::string bits = std::to_string(target.vector_bits);
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", target.cpu);
    if (!target.features.empty()) function.addFnAttr("target-features", target.features);
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
    function.setDoesNotThrow();
  }
}

llvm::FunctionPassManager short_pipeline() {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::GVNPass());
  passes.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(2, /*OnlyWhenForced=*/true)));
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::ADCEPass());
  return passes;
}

Status verify(const llvm::Module& module) {
  std::string why;
  llvm::raw_string_ostream stream(why);
  if (!llvm::verifyModule(module, &stream)) return {};
  return fail("module '{}' is not well-formed: {}", module.getName().str(), why);
}

// Rewrites the module on the way.
Expected<std::string> emit(llvm::TargetMachine& machine, llvm::Module& module,
                           llvm::CodeGenFileType type,
                           AssemblyComments comments = AssemblyComments::No) {
  machine.Options.MCOptions.AsmVerbose = comments == AssemblyComments::Yes;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
    return fail("LLVM cannot emit code for '{}'", machine.getTargetTriple().str());
  }
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

Expected<std::string> emit_copy(const Jit& jit, const llvm::Module& module,
                                llvm::CodeGenFileType type,
                                AssemblyComments comments = AssemblyComments::No) {
  const auto& impl = JitAccess::of(jit);
  OPWELD_TRY(const auto machine, target_machine(impl.triple, impl.target));
  return emit(*machine, *llvm::CloneModule(module), type, comments);
}

Status optimize_for(llvm::TargetMachine& machine, const JitTarget& target, llvm::Module& module) {
  OPWELD_CHECK(verify(module));
  mark_for_target(module, target);

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager call_graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(call_graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, call_graph, modules);

  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(short_pipeline()));
  passes.run(module, modules);
  return {};
}

}  // namespace

Expected<Jit> Jit::create(const JitTarget& target, Foreign foreign) {
  initialize_llvm();
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->triple = llvm::sys::getProcessTriple();
  OPWELD_CHECK(check_names(impl->triple, target));
  OPWELD_TRY(const auto machine, target_machine(impl->triple, target));
  impl->layout = machine->createDataLayout();
  impl->has_f16c = machine->getMCSubtargetInfo()->checkFeatures("+f16c");
  impl->has_avx512f = machine->getMCSubtargetInfo()->checkFeatures("+avx512f");
  impl->has_avx512_bf16 = machine->getMCSubtargetInfo()->checkFeatures("+avx512bf16");
  impl->features = used_features(*machine->getMCSubtargetInfo());
  impl->missing = missing_on_host(impl->features);
  if (impl->missing.empty()) {
    OPWELD_TRY(impl->link, make_linker(impl->triple, target));
    impl->link->getExecutionSession().setErrorReporter(
        [errors = &impl->errors](llvm::Error error) { errors->add(std::move(error)); });
  } else if (foreign == Foreign::Reject) {
    return usage_error("this machine cannot run code for '{}': it lacks {}; choose another target",
                       target.cpu, impl->missing);
  }
  return Jit(std::move(impl));
}

Jit::Jit(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Jit::Jit(Jit&&) noexcept = default;
Jit& Jit::operator=(Jit&&) noexcept = default;
Jit::~Jit() = default;

const JitTarget& Jit::target() const {
  return impl_->target;
}

const std::vector<std::string>& Jit::features() const {
  return impl_->features;
}

bool Jit::can_run() const {
  return impl_->link != nullptr;
}

Status Jit::define(std::string_view symbol, const void* address) {
  if (!can_run()) return {};
  auto& link = *impl_->link;
  const llvm::orc::SymbolMap symbols = {
      {link.mangleAndIntern(llvm::StringRef(symbol)),
       {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported}}};
  if (auto error = link.getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols))) {
    return fail("cannot define symbol '{}': {}", symbol, llvm::toString(std::move(error)));
  }
  return {};
}

Status Jit::add_object(std::string_view object, const std::string& name) {
  if (!can_run()) {
    return usage_error("cannot load '{}' on this machine: it lacks {}", name, impl_->missing);
  }
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object), name);
  if (auto error = impl_->link->addObjectFile(std::move(buffer))) {
    return fail("cannot load object '{}': {}", name, llvm::toString(std::move(error)));
  }
  return {};
}

Expected<void*> Jit::lookup(const std::string& symbol) const {
  if (!can_run()) {
    return usage_error("cannot run '{}' on this machine: it lacks {}", symbol, impl_->missing);
  }
  auto address = impl_->link->lookup(symbol);
  if (!address) {
    return fail("no compiled function '{}': {}{}", symbol, llvm::toString(address.takeError()),
                impl_->errors.take());
  }
  return address->toPtr<void*>();
}

std::unique_ptr<llvm::Module> new_module(const Jit& jit, llvm::LLVMContext& context,
                                         const std::string& name) {
  const auto& impl = JitAccess::of(jit);
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setTargetTriple(impl.triple);
  module->setDataLayout(impl.layout);
  module->addModuleFlag(llvm::Module::Error, kF16cFlag, impl.has_f16c ? 1 : 0);
  module->addModuleFlag(llvm::Module::Error, kAvx512Flag, impl.has_avx512f ? 1 : 0);
  module->addModuleFlag(llvm::Module::Error, kAvx512Bf16Flag, impl.has_avx512_bf16 ? 1 : 0);
  return module;
}

bool has_f16c(const llvm::Module& module) {
  return has_flag(module, kF16cFlag);
}

bool has_avx512f(const llvm::Module& module) {
  return has_flag(module, kAvx512Flag);
}

bool has_avx512_bf16(const llvm::Module& module) {
  return has_flag(module, kAvx512Bf16Flag);
}

void request_unroll(llvm::BranchInst* latch, int count) {
  llvm::LLVMContext& context = latch->getContext();
  llvm::Metadata* const hint[] = {
      llvm::MDString::get(context, "llvm.loop.unroll.count"),
      llvm::ConstantAsMetadata::get(
          llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), static_cast<uint64_t>(count)))};
  llvm::Metadata* const loop[] = {nullptr, llvm::MDNode::get(context, hint)};
  llvm::MDNode* const id = llvm::MDNode::getDistinct(context, loop);
  id->replaceOperandWith(0, id);  // a loop id names itself, so that no two loops share one
  latch->setMetadata(llvm::LLVMContext::MD_loop, id);
}

Status optimize(const Jit& jit, llvm::Module& module) {
  const auto& impl = JitAccess::of(jit);
  OPWELD_TRY(const auto machine, target_machine(impl.triple, impl.target));
  return optimize_for(*machine, impl.target, module);
}

Expected<std::string> emit_object(const Jit& jit, const llvm::Module& module) {
  return emit_copy(jit, module, llvm::CodeGenFileType::ObjectFile);
}

Expected<std::string> emit_assembly(const Jit& jit, const llvm::Module& module,
                                    AssemblyComments comments) {
  return emit_copy(jit, module, llvm::CodeGenFileType::AssemblyFile, comments);
}

std::string ir_text(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

Expected<std::string> add_module(Jit& jit, std::unique_ptr<llvm::Module> module) {
  const auto& impl = JitAccess::of(jit);
  OPWELD_TRY(const auto machine, target_machine(impl.triple, impl.target));
  OPWELD_CHECK(optimize_for(*machine, impl.target, *module));
  OPWELD_TRY(std::string object, emit(*machine, *module, llvm::CodeGenFileType::ObjectFile));
  OPWELD_CHECK(jit.add_object(object, module->getName().str()));
  return object;
}

}  // namespace opweld::cpu
