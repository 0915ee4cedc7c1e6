#include "bindings.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  // A cache of PyTorch may hold programs to the end of the process, which is no leak of ours.
  nb::set_leak_warnings(false);
  module.doc() = "The public C++ interface of Opweld, as the package opweld uses it.";
  opweld::python::bind_errors(module);
  opweld::python::bind_types(module);
  opweld::python::bind_program(module);
  opweld::python::bind_model(module);
  opweld::python::bind_builder(module);
  opweld::python::bind_plugin(module);
  opweld::python::bind_verify(module);
  opweld::python::bind_sample(module);
}
