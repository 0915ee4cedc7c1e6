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

namespace opweld {

namespace detail {
struct ModelState;
}

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

 private:
  friend class GraphBuilder;
  explicit Model(std::shared_ptr<const detail::ModelState> state);
  std::shared_ptr<const detail::ModelState> state_;
};

}  // namespace opweld
