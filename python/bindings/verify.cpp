#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arrays.h"

namespace opweld::python {

namespace {

struct OutputCheck {
  std::string name;
  double to_unfused = 0;  // largest differences of elements
  double to_reference = 0;
  double of_tolerance = 0;  // the largest difference to the reference, as a part of the tolerance
};

struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

// That of one kernel; integers and bools are exact.
Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::F32:
      return {std::ldexp(1.0, -10), std::ldexp(1.0, -16)};
    case DType::F16:
      return {std::ldexp(1.0, -9), std::ldexp(1.0, -9)};
    case DType::BF16:
      return {std::ldexp(1.0, -6), std::ldexp(1.0, -6)};
    default:
      return {};
  }
}

// 0 for the same NaN or infinity; infinite where one side has it alone.
double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double apart = std::abs(a - b);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, difference(a[i], b[i]));
  }
  return largest;
}

double part_of_tolerance(const std::vector<double>& actual, const std::vector<double>& expected,
                         Tolerance tolerance) {
  double largest = 0;
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    const double apart = difference(actual[i], expected[i]);
    if (apart == 0) continue;
    largest = std::max(largest,
                       apart / (tolerance.absolute + tolerance.relative * std::abs(expected[i])));
  }
  return largest;
}

using Outputs = Result<std::vector<HostTensor>>;

std::vector<OutputCheck> verify(const Model& model, const Program& program, const Program& plain,
                                const nb::list& items) {
  const InputArrays arrays(items);
  Outputs fused = std::vector<HostTensor>();
  Outputs unfused = std::vector<HostTensor>();
  Outputs reference = std::vector<HostTensor>();
  {
    const nb::gil_scoped_release release;
    fused = program.run(arrays.views());
    unfused = plain.run(arrays.views());
    reference = model.reference(arrays.views());
  }
  const auto actual = value_or_raise(std::move(fused));
  const auto other = value_or_raise(std::move(unfused));
  const auto expected = value_or_raise(std::move(reference));
  const std::vector<TensorInfo> infos = program.outputs();
  std::vector<OutputCheck> checks;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::vector<double> values = actual[i].to_doubles();
    const std::vector<double> meant = expected[i].to_doubles();
    checks.push_back({infos[i].name, largest_difference(values, other[i].to_doubles()),
                      largest_difference(values, meant),
                      part_of_tolerance(values, meant, tolerance_of(actual[i].dtype()))});
  }
  return checks;
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
      .def("__repr__", [](const OutputCheck& check) {
        return check.name + ": " + std::to_string(check.to_reference) + " to the reference, " +
               std::to_string(check.of_tolerance) + " of the tolerance";
      });
  module.def("verify", &verify, nb::arg("model"), nb::arg("program"), nb::arg("plain"),
             nb::arg("inputs"),
             nb::sig("def verify(model: Model, program: Program, plain: Program, "
                     "inputs: list[object]) -> list[OutputCheck]"));
}

}  // namespace opweld::python
