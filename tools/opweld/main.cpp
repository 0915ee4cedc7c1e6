// The opweld command.
#include <fmt/ranges.h>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"

namespace {

constexpr const char* kDescription =
    "Opweld compiles transformers so that neighbouring operators share kernels, and says what it\n"
    "fused, what it did not, and why.\n\n"
    "  opweld info model.onnx                        what the model is, and what is unsupported\n"
    "  opweld run model.onnx --output out.npz        run it, on random inputs if none are given\n"
    "  opweld compile model.onnx -o model.opw        a file that runs without the compiler\n"
    "  opweld explain model.onnx --dim sequence=128  kernels, fusion log, traffic of each layer\n"
    "  opweld report model.onnx -o report.html       the same as a page for a browser, with times\n"
    "  opweld verify model.onnx                      fused against unfused against a reference\n"
    "  opweld bench model.onnx --compare             time of the three levels of fusion\n"
    "  opweld bench model.onnx --tune                measure block sizes first, and keep them\n"
    "  opweld explain model.onnx --why NODE          why an operator is in the kernel it is in\n"
    "  opweld diff before.json after.json            what changed between two plans\n"
    "  opweld doctor                                 whether all is well with this installation\n\n"
    "Environment:\n"
    "  OPWELD_LOG_LEVEL  1: a line for every kernel that fuses operators; 0: and for every edge,\n"
    "                    with the reason where it was not fused; 2 (default): none\n"
    "  OPWELD_LOG_FILE   append these lines to a file instead of standard error\n"
    "  OPWELD_CACHE_DIR  keep compiled code, and what --tune measures, in this folder instead of\n"
    "                    ~/.cache/opweld\n"
    "  OPWELD_COMPILED   0: compile anew and keep nothing, as --no-cache does\n"
    "  OPWELD_TUNED      0: leave what was measured before aside, as --no-tuned does\n";

// Where no subcommand was given, the word that stands in its place; empty if there is none.
std::string unknown_word(const CLI::App& app) {
  if (!app.get_subcommands().empty()) return {};
  const std::vector<std::string> words = app.remaining();
  return words.empty() ? std::string() : words.front();
}

std::string names_of(const std::vector<std::pair<CLI::App*, opweld::cli::Command>>& commands) {
  std::vector<std::string> names;
  for (const auto& [command, run] : commands) names.push_back(command->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

int run_command(int argc, char** argv) {
  CLI::App app(kDescription, "opweld");
  app.set_version_flag("--version", OPWELD_VERSION);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, opweld::cli::Command>> commands;
  const auto add = [&](const char* name, const char* description,
                       opweld::cli::Command (*define)(CLI::App&)) {
    CLI::App* const command = app.add_subcommand(name, description);
    commands.emplace_back(command, define(*command));
  };
  using namespace opweld::cli;
  add("run", "Run a model and print or keep its outputs", add_run);
  add("compile", "Compile a model ahead of time, into a file that runs without the compiler",
      add_compile);
  add("explain", "Show what was fused, what was not, why, and what it saves", add_explain);
  add("report", "Write a page that shows the graph, the kernels, their time and memory",
      add_report);
  add("verify", "Compare the fused model with the unfused one and with a reference", add_verify);
  add("bench", "Time a model", add_bench);
  add("diff", "Show what changed between two plans that explain --explain=FILE wrote", add_diff);
  add("doctor", "Show what Opweld runs with, and what of it is wrong", add_doctor);
  add("info", "Show inputs, outputs and operators of a model, and what is unsupported", add_info);
  add("reasons", "Explain the codes that say why an edge was not fused", add_reasons);
  add("operators", "List the operators and element types that models may use", add_operators);
  add("run-cases", "Run a list of test cases and compare their outputs", add_run_cases);

  constexpr int kUsageExit = 2;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string word = unknown_word(app);
    if (error.get_exit_code() != 0 && !word.empty()) {
      fmt::print(stderr, "opweld: there is no {} '{}'; the subcommands are {}\n",
                 word.starts_with('-') ? "option" : "subcommand", word, names_of(commands));
      return kUsageExit;
    }
    return app.exit(error) == 0 ? 0 : kUsageExit;
  }
  for (const auto& [command, run] : commands) {
    if (!command->parsed()) continue;
    if (const opweld::Status status = run(); !status) {
      fmt::print(stderr, "opweld: {}\n", status.error().message);
      return status.error().kind == opweld::ErrorKind::Usage ? kUsageExit : 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Nothing of ours throws, but the standard library may, when memory runs out.
  try {
    return run_command(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opweld: %s\n", error.what());
    return 1;
  }
}
