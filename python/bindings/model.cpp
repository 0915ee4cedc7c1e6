#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

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

Program compile(const Model& model, const std::string& fusion, const std::string& numerics,
                int threads, const std::string& target, bool single_launch,
                const std::map<std::string, std::string>& in_place, bool tuned, double tune_seconds,
                const SymbolValues& tune_sizes) {
  CompileSettings settings;
  settings.fusion = to_level(fusion);
  settings.numerics = to_numerics(numerics);
  settings.threads = threads;
  settings.target = target;
  settings.single_launch = single_launch;
  settings.in_place = in_place;
  settings.tuned = tuned;
  settings.tune_seconds = tune_seconds;
  settings.tune_sizes = tune_sizes;
  return value_or_raise(without_gil([&] { return model.compile(settings); }));
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<Model>(module, "Model", "A model before it is compiled.")
      .def("inputs", &Model::inputs)
      .def("outputs", &Model::outputs)
      .def("symbols", &Model::symbols, "Names of the free sizes, sorted.")
      .def("text", &Model::text, "The textual form; large weights are shown by a hash.")
      .def("compile", &compile, nb::kw_only(), nb::arg("fusion") = "auto",
           nb::arg("numerics") = "default", nb::arg("threads") = 0, nb::arg("target") = "host",
           nb::arg("single_launch") = false,
           nb::arg("in_place") = std::map<std::string, std::string>(), nb::arg("tuned") = true,
           nb::arg("tune_seconds") = 0.0, nb::arg("tune_sizes") = SymbolValues());
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
