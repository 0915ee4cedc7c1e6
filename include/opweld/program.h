// A compiled model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "opweld/account.h"
#include "opweld/compile_settings.h"
#include "opweld/export.h"
#include "opweld/result.h"
#include "opweld/size.h"
#include "opweld/tensor.h"

namespace opweld {

namespace detail {
struct ProgramState;
}

// An input or output of a model.
struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<Size> sizes;

  [[nodiscard]] OPWELD_API std::string to_string() const;  // "x: f32[b, s, 384]"
};

// What one run did. Bytes are counted as in Account, at the sizes of the run.
struct RunReport {
  std::int64_t kernels = 0;
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  std::int64_t arena_bytes = 0;  // memory for intermediates, all of it reused within a run
  // By kernel, in the order of Account::kernels. In a single launch from a kernel's first task to
  // the end of its last one, which may overlap with others of its stretch; no waiting at barriers.
  std::vector<double> kernel_seconds;
  std::int64_t launches = 0;  // hand-overs to the threads
  std::int64_t barriers = 0;  // where threads waited for each other inside of launches
};

// Runs for any sizes of its symbols, from any number of threads at once (they take turns). Where
// some kernels pay only from some size on, there are two plans, and each run takes the one for its
// sizes.
// A handle: copies are the same program.
class OPWELD_API Program {
 public:
  Program(const Program&) = default;
  Program& operator=(const Program&) = default;
  ~Program() = default;

  [[nodiscard]] std::vector<TensorInfo> inputs() const;
  [[nodiscard]] std::vector<TensorInfo> outputs() const;

  // Writes the program to a file that load(), `opweld run` and programs in C (opweld/runtime.h) run
  // without compiling: code for the target that it was compiled for, and weights. The name ends in
  // ".opw". A usage error where an operator of a plugin is left in it, and for a program that was
  // itself loaded from a file.
  [[nodiscard]] Result<void> save(const std::string& path) const;
  // What save() or `opweld compile` wrote, on so many threads; 0: one for each processor there is.
  // Weights stay in the mapped file, which must not change while the program is in use. The code in
  // it is run as it is: load only files from whom you would load a shared library. Runs give the
  // same bits as before it was saved, and its account tells the same at any sizes; without edges if
  // `opweld compile` was given --no-account.
  [[nodiscard]] static Result<Program> load(const std::string& path, int threads = 0);

  // Inputs in the order of inputs(), results in that of outputs(). It is a usage error, which names
  // the tensor and the axis, if a count, dtype, rank or size does not fit, if bytes are missing or
  // memory is null or misaligned; and a failure if the data asks for something impossible, such as
  // to gather a row that is not there.
  [[nodiscard]] Result<std::vector<HostTensor>> run(const std::vector<TensorView>& inputs,
                                                    RunReport* report = nullptr) const;
  // The same by name.
  [[nodiscard]] Result<std::map<std::string, HostTensor>> run_named(
      const std::map<std::string, TensorView>& inputs, RunReport* report = nullptr) const;
  // The same into the caller's memory, without a copy. Outputs must have the sizes that
  // output_sizes() tells, and overlap neither each other nor an input, but for an output that is
  // declared in place of an input (CompileSettings::in_place): it may be the memory of that input.
  // After a failure their contents are undefined; of an output that was updated in place the rows
  // that were to be written are, and the others hold what they held.
  [[nodiscard]] Result<void> run_into(const std::vector<TensorView>& inputs,
                                      const std::vector<MutableTensorView>& outputs,
                                      RunReport* report = nullptr) const;
  [[nodiscard]] Result<std::vector<Sizes>> output_sizes(const std::vector<Sizes>& inputs) const;

  // What was fused and what that moves, at the given values of all symbols of the inputs.
  [[nodiscard]] Result<Account> account(const SymbolValues& values = {}) const;
  // The same as one JSON object: "level", "sizes", "conditions", "kernels", "edges", "layers",
  // "equal_layers", "totals", "log", "tuning". `opweld diff` compares two of them.
  [[nodiscard]] Result<std::string> account_json(const SymbolValues& values = {}) const;

  [[nodiscard]] double compile_seconds() const;
  [[nodiscard]] int threads() const;

 private:
  friend class Model;
  explicit Program(std::shared_ptr<detail::ProgramState> state);
  std::shared_ptr<detail::ProgramState> state_;
};

}  // namespace opweld
