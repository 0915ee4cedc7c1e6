// A model before it is compiled: read from a file, or built with GraphBuilder.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opweld/compile_settings.h"
#include "opweld/export.h"
#include "opweld/program.h"
#include "opweld/result.h"
#include "opweld/size.h"
#include "opweld/tensor.h"
#include "opweld/verification.h"

namespace opweld {

namespace detail {
struct ModelState;
}

// What a page of a report shows.
struct PageSettings {
  std::string name = {};  // of the model; empty: that of its graph
  // Where no inputs are given, it is run on random ones of these sizes; 1 for a batch and 128 for
  // anything else where a size has no value.
  SymbolValues sizes = {};
  int repeats = 10;  // timed runs, of which the median is shown; 0: the page has no times
};

// A handle: copies are the same model. Safe to use from several threads.
class OPWELD_API Model {
 public:
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;
  ~Model() = default;

  // An ONNX file, or a graph in its textual form if the name ends in ".graph". Weights stay in the
  // mapped file, which must not change while the model or a program made of it is in use.
  [[nodiscard]] static Result<Model> load(const std::string& path);
  // The textual form, "graph name(%x: f32[s, 8]) { %y = relu(%x) return %y as \"y\" }".
  [[nodiscard]] static Result<Model> parse(std::string_view text);

  [[nodiscard]] std::vector<TensorInfo> inputs() const;
  [[nodiscard]] std::vector<TensorInfo> outputs() const;
  // Names of the free sizes, sorted.
  [[nodiscard]] std::vector<std::string> symbols() const;
  // The textual form; large weights are shown by a hash and cannot be read back.
  [[nodiscard]] std::string text() const;

  // What the model means: evaluated operator by operator in plain loops and double precision,
  // without any compiler. Inputs as for Program::run; floats come out as f64. Slow, and there to
  // hold programs against.
  [[nodiscard]] Result<std::vector<HostTensor>> reference(
      const std::vector<TensorView>& inputs) const;

  // The model stays as it is and can be compiled again with other settings.
  [[nodiscard]] Result<Program> compile(const CompileSettings& settings = {}) const;

  // Compiles it with these settings and unfused, runs both, and holds them, kernel by kernel and
  // from end to end, against the model in double precision; as slow as reference(). That something
  // differs is no error of the call, but in what it gives. With single_launch, a run in one launch
  // must have the bits of kernels run one after another.
  [[nodiscard]] Result<Verification> verify(const std::vector<TensorView>& inputs,
                                            const CompileSettings& settings = {}) const;

  // Writes the page of `opweld report`, a file that any browser opens without a network: the graph
  // before and after, the kernels with what bounds them, and what each level of fusion moves and
  // takes. The model is compiled at every level and run; kernels run one after another, whatever
  // settings.single_launch says. It is a failure if the file cannot be written, or if Opweld was
  // built without the page.
  [[nodiscard]] Result<void> write_report(const std::string& path,
                                          const CompileSettings& settings = {},
                                          const PageSettings& page = {},
                                          const std::vector<TensorView>& inputs = {}) const;

 private:
  friend class GraphBuilder;
  explicit Model(std::shared_ptr<const detail::ModelState> state);
  std::shared_ptr<const detail::ModelState> state_;
};

}  // namespace opweld
