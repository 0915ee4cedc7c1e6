// opweld run-cases: many small models against known outputs, in one process.
//
// LIST.json is a list of {"name", "model", "inputs": [.pb ...], "outputs": [.pb ...], "rtol",
// "atol"}. For every case and level of fusion one line of JSON tells {"name", "fusion", "status":
// "passed", "failed", "error" or "unsupported", "message", "compiled"}. Cases that name the same
// model share one compile; "compiled" is true where it happened. A run in one launch must give the
// same bits, or the case has failed.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "aot/model_file.h"
#include "compiler/plugins.h"
#include "compiler/session.h"
#include "compiler/subcommands.h"
#include "import/onnx/import.h"
#include "runtime/compare.h"

namespace opweld::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Case {
  std::string name;
  std::string model;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  Tolerance tolerance;
};

bool is_text(const Json& value) {
  return value.is_string();
}

bool are_texts(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), is_text);
}

Expected<double> tolerance_of(const Json& entry, const char* key, double otherwise) {
  if (!entry.contains(key)) return otherwise;
  if (!entry[key].is_number()) return usage_error("{} is not a number", key);
  return entry[key].get<double>();
}

Expected<Case> read_case(const Json& entry) {
  if (!entry.is_object()) return usage_error("it is not an object");
  for (const char* key : {"name", "model"}) {
    if (!entry.contains(key) || !is_text(entry[key])) return usage_error("{} is not text", key);
  }
  for (const char* key : {"inputs", "outputs"}) {
    if (entry.contains(key) && are_texts(entry[key])) continue;
    return usage_error("{} is not a list of file names", key);
  }
  OPWELD_TRY(const double relative, tolerance_of(entry, "rtol", 1e-3));
  OPWELD_TRY(const double absolute, tolerance_of(entry, "atol", 1e-7));
  return Case{
      entry["name"], entry["model"], entry["inputs"], entry["outputs"], {relative, absolute}};
}

Expected<std::vector<Case>> read_list(const std::string& path) {
  std::ifstream file(path);
  if (!file) return usage_error("cannot open '{}'", path);
  const Json list = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return usage_error("{}: is not a JSON list of cases", path);
  std::vector<Case> cases;
  for (const Json& entry : list) {
    auto read = read_case(entry);
    if (!read) {
      return tl::unexpected(
          read.error().with_context(fmt::format("{}: case {}", path, cases.size() + 1)));
    }
    cases.push_back(std::move(*read));
  }
  return cases;
}

// A folder that is gone with its owner.
class ScratchFolder {
 public:
  ScratchFolder() : path_(std::filesystem::temp_directory_path() / "opweld_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Cases {
 public:
  Cases(int threads, bool with_files, std::string folder)
      : with_files_(with_files), file_(std::move(folder) + "/model.opw") {
    options_.threads = threads;
    options_.no_tuned = true;  // the same answers on every machine
  }

  void run(const Case& test) {
    for (const char* level : {"none", "ops", "auto"}) {
      bool compiled = false;
      std::string status = "passed";
      std::string message;
      if (const Status outcome = run_level(test, level, compiled, status); !outcome) {
        message = outcome.error().message;
      }
      const Json line = {{"name", test.name},
                         {"fusion", level},
                         {"status", status},
                         {"message", message},
                         {"compiled", compiled}};
      // Each line at once: should a case end the process, the answers before it count.
      std::cout << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
    }
  }

 private:
  Status run_level(const Case& test, const char* level, bool& compiled, std::string& status) {
    status = "unsupported";
    OPWELD_TRY(const Graph* graph, graph_of(test.model));
    status = "error";
    OPWELD_TRY(Executable * executable, executable_of(test.model, *graph, level, compiled));
    std::vector<Tensor> inputs;
    for (const std::string& path : test.inputs) {
      OPWELD_TRY(Tensor tensor, read_tensor_pb(path));
      inputs.push_back(std::move(tensor));
    }
    OPWELD_TRY(const auto outputs, executable->run(inputs));
    status = "failed";
    if (outputs.size() != test.outputs.size()) {
      return fail("it has {} outputs instead of {}", outputs.size(), test.outputs.size());
    }
    for (std::size_t i = 0; i < test.outputs.size(); ++i) {
      OPWELD_TRY(const Tensor expected, read_tensor_pb(test.outputs[i]));
      if (outputs[i].dtype() != expected.dtype()) {
        return fail("output {} is {} instead of {}", i, to_string(outputs[i].dtype()),
                    to_string(expected.dtype()));
      }
      const Comparison comparison = compare_strictly(outputs[i], expected, test.tolerance);
      if (!comparison.equal) return fail("output {}: {}", i, comparison.message);
    }
    OPWELD_CHECK(check_single_launch(*executable, inputs, outputs));
    if (with_files_) OPWELD_CHECK(check_file(*executable, inputs, outputs));
    status = "passed";
    return {};
  }

  // The same bits as of kernels one after another.
  static Status check_single_launch(Executable& executable, const std::vector<Tensor>& inputs,
                                    const std::vector<Tensor>& apart) {
    RunOptions options;
    options.single_launch = true;
    OPWELD_TRY(const auto together, executable.run(inputs, nullptr, options));
    for (std::size_t i = 0; i < apart.size(); ++i) {
      if (!identical(together[i], apart[i])) return fail("output {} in one launch", i);
    }
    return {};
  }

  // The same bits of what is written and read again.
  Status check_file(const Executable& executable, const std::vector<Tensor>& inputs,
                    const std::vector<Tensor>& expected) const {
    OPWELD_CHECK(aot::write_model(file_, executable, {}, "", ""));
    aot::LoadOptions loading;
    loading.threads = executable.threads();
    OPWELD_TRY(aot::LoadedModel loaded, aot::load_model_file(file_, loading));
    OPWELD_TRY(const auto outputs, loaded.executable.run(inputs));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!identical(outputs[i], expected[i])) return fail("output {} of the compiled file", i);
    }
    return {};
  }

  // One model is kept at a time: cases of one model follow each other.
  Expected<const Graph*> graph_of(const std::string& model) {
    if (model != model_) {
      model_ = model;
      executables_.clear();
      graph_ = std::make_unique<Expected<Graph>>(load_graph(model));
    }
    if (!*graph_) return tl::unexpected(graph_->error());
    return &**graph_;
  }

  Expected<Executable*> executable_of(const std::string& model, const Graph& graph,
                                      const std::string& level, bool& compiled) {
    const auto found = executables_.find(level);
    if (found != executables_.end()) return &found->second;
    options_.model = model;
    OPWELD_TRY(const FusionLevel fusion, parse_level(level));
    CompileOptions compiling;
    compiling.keep_objects = with_files_;
    OPWELD_TRY(Compiled made, compile_model(graph, options_, fusion, compiling));
    compiled = true;
    return &executables_.emplace(level, std::move(made.executable)).first->second;
  }

  ModelOptions options_;
  bool with_files_;
  std::string file_;  // written anew by each case
  std::string model_;
  std::unique_ptr<Expected<Graph>> graph_;
  std::map<std::string, Executable> executables_;
};

}  // namespace

Status run_list_of_cases(const RunCasesArguments& arguments) {
  OPWELD_CHECK(load_plugins(arguments.plugins));
  OPWELD_TRY(const std::vector<Case> cases, read_list(arguments.list));
  const ScratchFolder folder;
  if (folder.path().empty()) return fail("cannot make a folder for files");
  Cases runner(arguments.threads, arguments.plugins.empty(), folder.path());
  for (const Case& test : cases) runner.run(test);
  return {};
}

}  // namespace opweld::cli
