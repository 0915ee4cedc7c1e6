// Programs as files.
#include <chrono>
#include <string>
#include <utility>

#include "aot/model_file.h"
#include "api/convert.h"
#include "compiled_account.h"
#include "opweld/program.h"
#include "report/usual_sizes.h"

namespace opweld {

namespace {

Status save_program(const Program& program, const detail::ProgramState& state,
                    const std::string& path) {
  if (!path.ends_with(".opw")) {
    return usage_error("'{}': the name of a compiled model ends in .opw", path);
  }
  if (!state.origin) return usage_error("the program was loaded from a file; copy that");
  const Compiled& compiled = state.compiled;
  const Graph& graph = compiled.executable.graph();
  const Bindings usual = usual_sizes(graph);
  SymbolValues sizes;
  for (const auto& [name, size] : usual) sizes[name] = size;
  const Result<std::string> account = program.account_json(sizes);
  if (!account) return tl::unexpected(account.error());
  const std::string verdicts = to_json(graph, account_record(compiled, "", usual));
  return aot::write_model(path, compiled.executable, *state.origin, *account, verdicts);
}

}  // namespace

Result<void> Program::save(const std::string& path) const {
  return to_result(save_program(*this, *state_, path));
}

Result<Program> Program::load(const std::string& path, int threads) {
  constexpr int kMostThreads = 1024;
  if (threads < 0 || threads > kMostThreads) {
    return Error{ErrorKind::Usage,
                 fmt::format("threads: {} is not in [0, {}]", threads, kMostThreads)};
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  aot::LoadOptions options;
  options.threads = threads;
  auto loaded = aot::load_model_file(path, options);
  if (!loaded) return std::move(loaded.error());
  const std::chrono::duration<double> seconds = Clock::now() - start;
  Compiled compiled{
      std::move(loaded->executable),     {{"load", seconds.count()}}, {}, {}, std::nullopt, {},
      std::move(loaded->origin.features)};
  return Program(std::make_shared<detail::ProgramState>(detail::ProgramState{
      std::move(compiled), seconds.count(), false, std::nullopt, std::move(loaded->verdicts)}));
}

}  // namespace opweld
