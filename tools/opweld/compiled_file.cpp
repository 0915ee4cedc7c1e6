#include "compiled_file.h"

#include <string_view>
#include <utility>

#include "aot/container.h"
#include "both/inputs.h"
#include "support/mapped_file.h"

namespace opweld::cli {

namespace {

// Of the options that decide how a model is compiled, the first that was given.
std::string_view given_for_compiling(const ModelOptions& options) {
  const ModelOptions usual;
  const std::pair<bool, std::string_view> given[] = {
      {!options.plugins.empty(), "--plugin"},
      {!options.in_place.empty(), "--in-place"},
      {options.fusion != usual.fusion, "--fusion"},
      {options.target != usual.target, "--target"},
      {options.numerics != usual.numerics, "--numerics"},
      {!options.without.empty(), "--without"},
      {options.linear_rules, "--rules"},
      {options.attention_chains, "--attention-chains"},
      {options.chains_of_any_rows, "--chains-of-any-rows"},
      {!options.dump_after.empty(), "--dump-after"},
      {options.tune, "--tune"},
  };
  for (const auto& [is_given, name] : given) {
    if (is_given) return name;
  }
  return {};
}

}  // namespace

Expected<aot::LoadedModel> load_compiled_file(const ModelOptions& options, Purpose purpose) {
  if (const auto name = given_for_compiling(options); !name.empty()) {
    return usage_error(
        "{}: {} is for 'opweld compile': what it decides was decided when the model was compiled",
        options.model, name);
  }
  aot::LoadOptions loading;
  loading.threads = options.threads;
  loading.check_processor = purpose == Purpose::Run;
  return aot::load_model_file(options.model, loading);
}

namespace {

tl::unexpected<Error> without_account(const std::string& path) {
  return fail("{}: it was compiled with --no-account", path);
}

}  // namespace

Expected<std::string> stored_account(const std::string& path) {
  OPWELD_TRY(const SharedBytes file, map_file(path));
  const auto sections = aot::read_sections(file.bytes);
  if (!sections) return tl::unexpected(sections.error().with_context(path));
  const std::string_view account = sections->text(aot::Section::Account);
  if (account.empty()) return without_account(path);
  return std::string(account);
}

Expected<AccountRecord> account_record(const aot::LoadedModel& loaded, const std::string& path) {
  if (loaded.verdicts.empty()) return without_account(path);
  auto record = parse_account_record(loaded.executable, loaded.verdicts);
  if (!record) return tl::unexpected(record.error().with_context(path));
  return record;
}

Status check_requirements(const aot::LoadedModel& loaded, const ModelOptions& options,
                          const Bindings& sizes) {
  if (options.require.empty()) return {};
  OPWELD_TRY(const AccountRecord record, account_record(loaded, options.model));
  const Graph& graph = loaded.executable.graph();
  const ModelNames names(graph, record.history ? &*record.history : nullptr);
  const FusionPlan& plan = record.plans[loaded.executable.version_for(sizes)];
  return check_requirements(PlannedModel{graph, plan, sizes, names}, options);
}

}  // namespace opweld::cli
