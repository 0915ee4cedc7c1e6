// opweld compile: a model compiled ahead of time, as a file that runs without the compiler.
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "aot/container.h"
#include "aot/model_file.h"
#include "compiled_account.h"
#include "compiler/session.h"
#include "compiler/subcommands.h"
#include "report/account.h"

namespace opweld::cli {

namespace {

using Json = nlohmann::ordered_json;

// What became of the model.
struct Written {
  std::int64_t bytes = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t code_bytes = 0;
  aot::Origin origin;
};

struct CompileCommand : CompileArguments {
  Status operator()() const {
    if (!is_compiled_file(output)) {
      return usage_error("-o '{}': the name of a compiled model ends in .opw", output);
    }
    OPWELD_TRY(const Graph graph, load_model(model));
    OPWELD_TRY(const FusionLevel level, parse_level(model.fusion));
    OPWELD_TRY(const Bindings sizes, choose_sizes(graph, model.dims));
    CompileOptions compiling;
    compiling.keep_objects = true;
    compiling.history = true;
    OPWELD_TRY(const Compiled compiled, compile_model(graph, model, level, compiling));
    OPWELD_CHECK(check_requirements(compiled, model, sizes));
    std::string account;
    std::string verdicts;
    if (!no_account) {
      const AccountRecord record = account_record(compiled, model_name(), sizes);
      verdicts = to_json(compiled.executable.graph(), record);
      OPWELD_TRY(account, account_of(compiled, sizes));
    }
    aot::Origin origin{OPWELD_VERSION,
                       model.target,
                       compiled.features,
                       model.fusion,
                       model.numerics == "strict",
                       compiled.executable.threads()};
    OPWELD_CHECK(
        aot::write_model(output, compiled.executable, std::move(origin), account, verdicts));
    OPWELD_TRY(const Written written, look_at_file());
    return tell(compiled, written);
  }

 private:
  [[nodiscard]] std::string model_name() const {
    return std::filesystem::path(model.model).filename().string();
  }

  // The one that programs in C are given, and that `opweld explain` tells where it is asked for no
  // other sizes.
  Expected<std::string> account_of(const Compiled& compiled, const Bindings& sizes) const {
    const std::size_t version = compiled.executable.version_for(sizes);
    OPWELD_TRY(const LaunchAccount launches,
               compiled.executable.launches(sizes, model.single_launch));
    const ModelNames names(compiled.executable.graph(), &*compiled.history);
    OPWELD_TRY(const std::string account,
               explain_json(compiled.executable.versions()[version].plan, sizes, launches,
                            compiled.tuning_log(version), &names));
    Json document = {{"model", model_name()}, {"target", {{"name", model.target}}}};
    document.update(Json::parse(account));
    document["notes"] = compiled.notes;
    return document.dump(1);
  }

  // Read as whoever runs it will read it: what cannot be loaded is not called written.
  Expected<Written> look_at_file() const {
    aot::LoadOptions loading;
    loading.threads = 1;
    loading.check_weights = true;
    OPWELD_TRY(aot::LoadedModel loaded, aot::load_model_file(output, loading));
    OPWELD_TRY(const SharedBytes file, map_file(output));
    OPWELD_TRY(const aot::Sections sections, aot::read_sections(file.bytes));
    return Written{static_cast<std::int64_t>(file.bytes.size()),
                   static_cast<std::int64_t>(sections.bytes(aot::Section::Weights).size()),
                   static_cast<std::int64_t>(sections.bytes(aot::Section::Code).size()),
                   std::move(loaded.origin)};
  }

  Status tell(const Compiled& compiled, const Written& written) const {
    const auto versions = compiled.executable.versions();
    if (model.json) {
      const Json json = {{"file", output},
                         {"bytes", written.bytes},
                         {"weight_bytes", written.weight_bytes},
                         {"code_bytes", written.code_bytes},
                         {"kernels", versions.back().kernels.size()},
                         {"versions", versions.size()},
                         {"functions", compiled.found.all_functions},
                         {"fusion", written.origin.fusion},
                         {"target", written.origin.target},
                         {"features", written.origin.features},
                         {"threads", written.origin.threads},
                         {"compile_seconds", compiled.seconds()}};
      fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
      return {};
    }
    const auto size = [](std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
    std::vector<std::string> kernels;
    for (const PlanVersion& version : versions) {
      kernels.push_back(std::to_string(version.kernels.size()));
    }
    fmt::print("{}: {}, of it {} weights and {} code; {} kernels, for target {}\n", output,
               size(written.bytes), size(written.weight_bytes), size(written.code_bytes),
               fmt::join(kernels, " or "), written.origin.target);
    for (const std::string& note : compiled.notes) fmt::print("note: {}\n", note);
    fmt::print("opweld run {} runs it\n", output);
    return {};
  }
};

}  // namespace

Status compile_to_file(const CompileArguments& arguments) {
  return CompileCommand{arguments}();
}

}  // namespace opweld::cli
