#include "opweld/program.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "api/compile_options.h"
#include "api/convert.h"
#include "compiled_account.h"
#include "fusion/reasons.h"
#include "report/account.h"
#include "runtime/oversize.h"

namespace opweld {

Program::Program(std::shared_ptr<detail::ProgramState> state) : state_(std::move(state)) {}

std::vector<TensorInfo> Program::inputs() const {
  return input_infos(state_->compiled.executable.graph());
}

std::vector<TensorInfo> Program::outputs() const {
  return output_infos(state_->compiled.executable.graph());
}

double Program::compile_seconds() const {
  return state_->seconds;
}

int Program::threads() const {
  return state_->compiled.executable.threads();
}

// ---- running ----

std::string input_label(const Graph& graph, std::size_t index) {
  if (index < graph.inputs().size())
    return fmt::format("input '{}'", graph.inputs()[index]->name());
  return fmt::format("input number {}", index + 1);
}

namespace {

// What messages call the output at `index`.
std::string output_label(const Graph& graph, std::size_t index) {
  if (index < graph.outputs().size())
    return fmt::format("output '{}'", graph.outputs()[index].name);
  return fmt::format("output number {}", index + 1);
}

RunOptions options_for(const detail::ProgramState& program, const RunReport* report) {
  RunOptions options;
  options.profile = report != nullptr;
  options.single_launch = program.single_launch;
  return options;
}

void fill(RunReport* report, const RunStats& stats) {
  if (report == nullptr) return;
  *report = {stats.kernels, stats.bytes_read, stats.bytes_written, stats.arena_bytes, {}, 0, 0};
  for (const KernelStats& kernel : stats.by_kernel)
    report->kernel_seconds.push_back(kernel.seconds);
  report->launches = stats.launches;
  report->barriers = stats.barriers;
}

Expected<std::vector<HostTensor>> run_owned(detail::ProgramState& program,
                                            const std::vector<TensorView>& inputs,
                                            RunReport* report) {
  Executable& executable = program.compiled.executable;
  OPWELD_TRY(const std::vector<Tensor> tensors, input_tensors(executable.graph(), inputs));
  RunStats stats;
  OPWELD_TRY(std::vector<Tensor> outputs,
             executable.run(tensors, &stats, options_for(program, report)));
  fill(report, stats);
  std::vector<HostTensor> results;
  results.reserve(outputs.size());
  for (Tensor& output : outputs) results.push_back(to_host_tensor(std::move(output)));
  return results;
}

Expected<std::map<std::string, HostTensor>> run_by_name(
    detail::ProgramState& program, const std::map<std::string, TensorView>& inputs,
    RunReport* report) {
  const Graph& graph = program.compiled.executable.graph();
  std::vector<TensorView> ordered;
  std::vector<std::string_view> names;
  for (const Value* input : graph.inputs()) {
    names.push_back(input->name());
    const auto found = inputs.find(input->name());
    if (found == inputs.end()) return usage_error("input '{}' is missing", input->name());
    ordered.push_back(found->second);
  }
  for (const auto& [name, view] : inputs) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return usage_error("the model has no input '{}'; its inputs are {}", name,
                       fmt::join(names, ", "));
  }
  OPWELD_TRY(std::vector<HostTensor> outputs, run_owned(program, ordered, report));
  std::map<std::string, HostTensor> named;
  for (std::size_t i = 0; i < outputs.size(); ++i) named[graph.outputs()[i].name] = outputs[i];
  return named;
}

Status run_in_place(detail::ProgramState& program, const std::vector<TensorView>& inputs,
                    const std::vector<MutableTensorView>& outputs, RunReport* report) {
  Executable& executable = program.compiled.executable;
  const Graph& graph = executable.graph();
  OPWELD_TRY(const std::vector<Tensor> tensors, input_tensors(graph, inputs));
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    OPWELD_TRY(Tensor result, to_tensor(outputs[i], output_label(graph, i)));
    results.push_back(std::move(result));
  }
  RunStats stats;
  OPWELD_CHECK(executable.run_into(tensors, results, &stats, options_for(program, report)));
  fill(report, stats);
  return {};
}

Expected<std::vector<Sizes>> sizes_of_outputs(Executable& executable,
                                              const std::vector<Sizes>& inputs) {
  const Graph& graph = executable.graph();
  std::vector<Tensor> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!checked_num_elements(inputs[i])) {
      return usage_error("{} cannot have the sizes {} (negative, or too large to address)",
                         input_label(graph, i), to_string(inputs[i]));
    }
    shapes.push_back(Tensor::borrow(DType::F32, inputs[i], nullptr, nullptr));
  }
  return executable.output_sizes(shapes);
}

}  // namespace

Result<std::vector<HostTensor>> Program::run(const std::vector<TensorView>& inputs,
                                             RunReport* report) const {
  return to_result(run_owned(*state_, inputs, report));
}

Result<std::map<std::string, HostTensor>> Program::run_named(
    const std::map<std::string, TensorView>& inputs, RunReport* report) const {
  return to_result(run_by_name(*state_, inputs, report));
}

Result<void> Program::run_into(const std::vector<TensorView>& inputs,
                               const std::vector<MutableTensorView>& outputs,
                               RunReport* report) const {
  return to_result(run_in_place(*state_, inputs, outputs, report));
}

Result<std::vector<Sizes>> Program::output_sizes(const std::vector<Sizes>& inputs) const {
  return to_result(sizes_of_outputs(state_->compiled.executable, inputs));
}

// ---- the account ----

namespace {

// Every symbol of the inputs has a value that it may have, and nothing else has one.
Expected<Bindings> check_values(const Graph& graph, const SymbolValues& values) {
  Bindings bindings;
  std::vector<std::string> names;
  for (const Dim& dim : graph.symbols()) {
    const auto symbol = dim.as_symbol();
    names.push_back(symbol->name);
    const auto found = values.find(symbol->name);
    if (found == values.end()) return usage_error("the size '{}' has no value", symbol->name);
    OPWELD_CHECK(symbol->check(found->second));
    bindings.set(symbol->name, found->second);
  }
  for (const auto& [name, value] : values) {
    if (bindings.find(name)) continue;
    return usage_error("the model has no free size '{}'; it has {}", name,
                       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return bindings;
}

// What there is to tell of a program: of one that was loaded, what its file says.
Expected<AccountRecord> record_of(const detail::ProgramState& program) {
  const Compiled& compiled = program.compiled;
  if (program.account_record.empty()) return account_record(compiled, "", {});
  return parse_account_record(compiled.executable, program.account_record);
}

Expected<KernelAccount> kernel_account(const Kernel& kernel, const Bindings& bindings,
                                       const ModelNames& names) {
  KernelAccount account;
  account.name = kernel.name;
  account.kind = to_string(kernel.kind);
  account.operators = kernel.label;
  account.layer = kernel.scope;
  account.sources = sources_of(kernel, names);
  const auto read = FusionPlan::bytes_read(kernel).evaluate(bindings);
  if (!read) return too_large(kernel, read.error(), bindings);
  const auto written = FusionPlan::bytes_written(kernel).evaluate(bindings);
  if (!written) return too_large(kernel, written.error(), bindings);
  account.bytes_read = *read;
  account.bytes_written = *written;
  return account;
}

Expected<EdgeAccount> edge_account(const Verdict& verdict, const Bindings& bindings) {
  EdgeAccount account;
  account.from = verdict.producer->display_name();
  account.to = verdict.consumer->display_name();
  account.fused = verdict.code == ReasonCode::Fused;
  account.kernel = verdict.kernel;
  account.detail = verdict.detail;
  if (!account.fused) {
    const Reason& why = reason(verdict.code);
    account.code = why.name;
    account.sentence = why.sentence;
    account.remedy = why.remedy;
  }
  const auto bytes = verdict.bytes_saved.evaluate(bindings);
  if (!bytes) return too_large(*verdict.value, bindings);
  account.bytes = *bytes;
  OPWELD_TRY(account.flops, verdict.flops_added.evaluate(bindings));
  return account;
}

Expected<Account> make_account(const detail::ProgramState& program, const SymbolValues& values) {
  const Executable& executable = program.compiled.executable;
  OPWELD_TRY(const Bindings bindings, check_values(executable.graph(), values));
  OPWELD_TRY(const AccountRecord record, record_of(program));
  const std::size_t version = executable.version_for(bindings);
  const FusionPlan& plan = record.plans[version];
  OPWELD_TRY(const LaunchAccount launches, executable.launches(bindings, program.single_launch));
  Account account;
  account.launches = launches.launches;
  account.barriers = launches.barriers;
  const ModelNames names(executable.graph(), record.history ? &*record.history : nullptr);
  for (const Kernel& kernel : plan.kernels) {
    OPWELD_TRY(KernelAccount entry, kernel_account(kernel, bindings, names));
    if (!launches.stretch_of.empty()) entry.stretch = launches.stretch_of[account.kernels.size()];
    account.bytes_read += entry.bytes_read;
    account.bytes_written += entry.bytes_written;
    account.kernels.push_back(std::move(entry));
  }
  for (const Verdict& verdict : plan.verdicts) {
    OPWELD_TRY(EdgeAccount entry, edge_account(verdict, bindings));
    account.edges.push_back(std::move(entry));
  }
  OPWELD_TRY(account.log, fusion_log(plan, bindings, true));
  account.tuning = record.tuning[version];
  account.notes = record.notes;
  return account;
}

Expected<std::string> make_json(const detail::ProgramState& program, const SymbolValues& values) {
  const Executable& executable = program.compiled.executable;
  OPWELD_TRY(const Bindings bindings, check_values(executable.graph(), values));
  OPWELD_TRY(const AccountRecord record, record_of(program));
  OPWELD_TRY(const LaunchAccount launches, executable.launches(bindings, program.single_launch));
  const std::size_t version = executable.version_for(bindings);
  const ModelNames names(executable.graph(), record.history ? &*record.history : nullptr);
  return explain_json(record.plans[version], bindings, launches, record.tuning[version], &names);
}

}  // namespace

Result<Account> Program::account(const SymbolValues& values) const {
  return to_result(make_account(*state_, values));
}

Result<std::string> Program::account_json(const SymbolValues& values) const {
  return to_result(make_json(*state_, values));
}

}  // namespace opweld
