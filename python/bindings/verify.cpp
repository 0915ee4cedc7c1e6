#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace opweld::python {

namespace {

std::string text_of(const OutputCheck& check) {
  const std::string figures = check.name + ": " + std::to_string(check.to_reference) +
                              " to the reference, " + std::to_string(check.of_tolerance) +
                              " of the tolerance";
  return check.fault.empty() ? figures : figures + "; " + check.fault;
}

std::string text_of(const KernelCheck& check) {
  const std::string name = check.name + " (" + check.operators + "): ";
  return name + (check.fault.empty() ? "agrees" : check.fault);
}

}  // namespace

void bind_verify(nb::module_& module) {
  nb::class_<OutputCheck>(module, "OutputCheck", "How far an output is from what it should be.")
      .def_ro("name", &OutputCheck::name)
      .def_ro("to_unfused", &OutputCheck::to_unfused, "Largest difference to the unfused program.")
      .def_ro("to_reference", &OutputCheck::to_reference,
              "Largest difference to the model evaluated in double precision.")
      .def_ro("of_tolerance", &OutputCheck::of_tolerance,
              "The largest of those as a part of the dtype's tolerance for one kernel.")
      .def_ro("fault", &OutputCheck::fault, "What differs; empty where it agrees.")
      .def("__repr__", [](const OutputCheck& check) { return text_of(check); });

  nb::class_<KernelCheck>(
      module, "KernelCheck",
      "How far a kernel is from its operators in double precision, on the very\n"
      "inputs that it had.")
      .def_ro("name", &KernelCheck::name)
      .def_ro("operators", &KernelCheck::operators)
      .def_ro("layer", &KernelCheck::layer, "Empty where it belongs to none.")
      .def_ro("largest_difference", &KernelCheck::largest_difference,
              "Of an element of any output to what it should be.")
      .def_ro("fault", &KernelCheck::fault, "The node and what differs; empty where it agrees.")
      .def("__repr__", [](const KernelCheck& check) { return text_of(check); });

  nb::class_<Verification>(module, "Verification",
                           "Whether a model is right; opweld.Verification is what users get.")
      .def_ro("outputs", &Verification::outputs)
      .def_ro("kernels", &Verification::kernels)
      .def_ro("custom_operators", &Verification::custom_operators)
      .def_ro("fault", &Verification::fault);
}

}  // namespace opweld::python
