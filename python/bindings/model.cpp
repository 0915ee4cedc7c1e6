#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"

namespace opweld::python {

namespace {

FusionLevel to_level(const std::string& text) {
  if (text == "none") return FusionLevel::None;
  if (text == "ops") return FusionLevel::Ops;
  if (text == "auto") return FusionLevel::Auto;
  raise_usage("fusion is 'none', 'ops' or 'auto', not '" + text + "'");
}

Numerics to_numerics(const std::string& text) {
  if (text == "default") return Numerics::Default;
  if (text == "strict") return Numerics::Strict;
  raise_usage("numerics is 'default' or 'strict', not '" + text + "'");
}

// Reading and compiling take a while, in which Python may go on.
template <typename Work>
auto without_gil(const Work& work) {
  const nb::gil_scoped_release release;
  return work();
}

void make_settings(CompileSettings* settings, const std::string& fusion,
                   const std::string& numerics, int threads, const std::string& target,
                   bool single_launch, const std::map<std::string, std::string>& in_place,
                   bool tuned, double tune_seconds, const SymbolValues& tune_sizes) {
  const FusionLevel level = to_level(fusion);
  const Numerics rounding = to_numerics(numerics);
  new (settings) CompileSettings();
  settings->fusion = level;
  settings->numerics = rounding;
  settings->threads = threads;
  settings->target = target;
  settings->single_launch = single_launch;
  settings->in_place = in_place;
  settings->tuned = tuned;
  settings->tune_seconds = tune_seconds;
  settings->tune_sizes = tune_sizes;
}

Program compile(const Model& model, const CompileSettings& settings) {
  return value_or_raise(without_gil([&] { return model.compile(settings); }));
}

Verification verify(const Model& model, const nb::list& inputs, const CompileSettings& settings) {
  const InputArrays arrays(inputs);
  return value_or_raise(without_gil([&] { return model.verify(arrays.views(), settings); }));
}

void write_report(const Model& model, const std::string& path, const CompileSettings& settings,
                  const std::string& name, const SymbolValues& sizes, int repeats,
                  const nb::list& inputs) {
  const InputArrays arrays(inputs);
  const PageSettings page{name, sizes, repeats};
  value_or_raise(
      without_gil([&] { return model.write_report(path, settings, page, arrays.views()); }));
}

void bind_settings(nb::module_& module) {
  nb::class_<CompileSettings>(module, "CompileSettings",
                              "How a model is compiled; opweld.compile says what each means.")
      .def("__init__", &make_settings, nb::kw_only(), nb::arg("fusion") = "auto",
           nb::arg("numerics") = "default", nb::arg("threads") = 0, nb::arg("target") = "host",
           nb::arg("single_launch") = false,
           nb::arg("in_place") = std::map<std::string, std::string>(), nb::arg("tuned") = true,
           nb::arg("tune_seconds") = 0.0, nb::arg("tune_sizes") = SymbolValues());
}

}  // namespace

void bind_model(nb::module_& module) {
  bind_settings(module);
  nb::class_<Model>(module, "Model", "A model before it is compiled.")
      .def("inputs", &Model::inputs)
      .def("outputs", &Model::outputs)
      .def("symbols", &Model::symbols, "Names of the free sizes, sorted.")
      .def("text", &Model::text, "The textual form; large weights are shown by a hash.")
      .def("compile", &compile, nb::arg("settings"))
      .def("verify", &verify, nb::arg("inputs"), nb::arg("settings"),
           nb::sig("def verify(self, inputs: list[object], settings: CompileSettings) -> "
                   "Verification"),
           "Compiles it twice, runs it, and compares; arrays as for Program.run.")
      .def("write_report", &write_report, nb::arg("path"), nb::arg("settings"), nb::kw_only(),
           nb::arg("name"), nb::arg("sizes"), nb::arg("repeats"), nb::arg("inputs"),
           nb::sig("def write_report(self, path: str, settings: CompileSettings, *, name: str, "
                   "sizes: dict[str, int], repeats: int, inputs: list[object]) -> None"),
           "Writes the page of `opweld report`.");
  module.def(
      "load",
      [](const std::string& path) {
        return value_or_raise(without_gil([&] { return Model::load(path); }));
      },
      nb::arg("path"), "Reads an ONNX file, or a graph in its textual form (\".graph\").");
  module.def(
      "parse", [](const std::string& text) { return value_or_raise(Model::parse(text)); },
      nb::arg("text"), "Reads the textual form of a graph.");
}

}  // namespace opweld::python
