// What the command line says to each subcommand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opweld::cli {

// Whether it is the name of a model that was compiled ahead of time.
inline bool is_compiled_file(std::string_view path) {
  return path.ends_with(".opw");
}

// Flags shared by the subcommands that compile.
struct ModelOptions {
  std::string model;
  std::vector<std::string> plugins;
  std::vector<std::string> dims;      // "seq=128"
  std::vector<std::string> in_place;  // "present_key=past_key"
  std::string fusion = "auto";
  int threads = 0;
  std::string target = "host";
  std::string numerics = "default";
  std::vector<std::string> without;  // schedules by name
  std::string dump_after;
  bool single_launch = false;
  bool attention_chains = false;
  bool chains_of_any_rows = false;
  bool linear_rules = false;
  bool json = false;
  bool tune = false;
  double tune_seconds = 60;
  bool no_tuned = false;
  bool no_cache = false;
  std::vector<std::string> require;  // patterns of fusions that must be there
};

// Flags that say where a run's inputs come from.
struct InputOptions {
  std::vector<std::string> inputs;  // "NAME=FILE", or one .npz
  unsigned seed = 1;
};

struct RunArguments {
  ModelOptions model;
  InputOptions inputs;
  std::string output;
  std::string trace;
};

struct CompileArguments {
  ModelOptions model;
  std::string output;
  bool no_account = false;
};

struct ExplainArguments {
  ModelOptions model;
  std::string file;
  std::vector<std::string> why;  // one node or two
  bool all_edges = false;
  bool measure = false;
  bool passes = false;
};

struct ReportArguments {
  ModelOptions model;
  InputOptions inputs;
  std::string output = "report.html";
  bool no_measure = false;
  int repeats = 10;
};

struct VerifyArguments {
  ModelOptions model;
  InputOptions inputs;
};

struct BenchArguments {
  ModelOptions model;
  InputOptions inputs;
  std::string output;
  int repeats = 20;
  int warmup = 3;
  bool compare = false;
  bool profile = false;
  bool paced = false;
  bool cache = false;
  std::string trace;
};

struct DiffArguments {
  std::string before;
  std::string after;
  bool json = false;
};

struct DoctorArguments {
  bool json = false;
};

struct InfoArguments {
  std::string model;
  std::vector<std::string> plugins;
  bool json = false;
};

struct OperatorsArguments {
  std::vector<std::string> plugins;
  bool json = false;
};

struct RunCasesArguments {
  std::string list;
  std::vector<std::string> plugins;
  int threads = 1;
  bool json = true;
};

}  // namespace opweld::cli
