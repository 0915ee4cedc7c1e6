#include "compiled_file.h"

#include <chrono>
#include <utility>

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
      {!options.require.empty(), "--require"},
  };
  for (const auto& [is_given, name] : given) {
    if (is_given) return name;
  }
  return {};
}

}  // namespace

bool is_compiled_file(const std::string& path) {
  return path.ends_with(".opw");
}

Expected<aot::LoadedModel> load_compiled_file(const ModelOptions& options) {
  if (const auto name = given_for_compiling(options); !name.empty()) {
    return usage_error(
        "{}: {} is for 'opweld compile': what it decides was decided when the model was compiled",
        options.model, name);
  }
  aot::LoadOptions loading;
  loading.threads = options.threads;
  return aot::load_model_file(options.model, loading);
}

Expected<Compiled> load_compiled(const ModelOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  OPWELD_TRY(aot::LoadedModel loaded, load_compiled_file(options));
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return Compiled{
      std::move(loaded.executable),     {{"load", seconds.count()}}, {}, {}, std::nullopt, {},
      std::move(loaded.origin.features)};
}

}  // namespace opweld::cli
