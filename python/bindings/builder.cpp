#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "arrays.h"

namespace opweld::python {

namespace {

// What a list holds decides: text makes it sizes, a float makes it reals.
AttributeValue list_attribute(nb::handle list) {
  bool any_text = false;
  bool any_real = false;
  for (const nb::handle each : list) {
    any_text |= nb::isinstance<nb::str>(each);
    any_real |= nb::isinstance<nb::float_>(each);
  }
  if (any_text) return {to_sizes(list)};
  if (!any_real) return {to_numbers(list)};
  std::vector<double> reals;
  for (const nb::handle each : list) reals.push_back(nb::cast<double>(each));
  return {std::move(reals)};
}

AttributeValue to_attribute(nb::handle value) {
  if (nb::isinstance<DType>(value)) return {nb::cast<DType>(value)};
  if (nb::isinstance<nb::bool_>(value)) return {nb::cast<bool>(value) ? 1 : 0};
  if (nb::isinstance<nb::int_>(value)) return {nb::cast<std::int64_t>(value)};
  if (nb::isinstance<nb::float_>(value)) return {nb::cast<double>(value)};
  if (nb::isinstance<nb::str>(value)) return {nb::cast<std::string>(value)};
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    return list_attribute(value);
  }
  raise_usage("an attribute cannot be " + nb::cast<std::string>(nb::repr(value)));
}

AttributeList to_attributes(const nb::dict& values) {
  AttributeList attributes;
  for (const auto& [name, value] : values) {
    attributes.emplace_back(nb::cast<std::string>(name), to_attribute(value));
  }
  return attributes;
}

std::vector<GraphTensor> to_operands(const nb::list& list) {
  std::vector<GraphTensor> operands;
  for (const nb::handle each : list) {
    operands.push_back(each.is_none() ? GraphTensor() : nb::cast<GraphTensor>(each));
  }
  return operands;
}

// Keeps a Python object for as long as somebody in C++ needs it, and lets it go from any thread.
std::shared_ptr<const void> hold(nb::handle object) {
  PyObject* pointer = object.inc_ref().ptr();
  return {pointer, [](const void* held) {
            if (Py_IsInitialized() == 0) return;
            const nb::gil_scoped_acquire acquire;
            Py_DECREF(static_cast<PyObject*>(const_cast<void*>(held)));
          }};
}

GraphTensor weight_at(GraphBuilder& builder, const std::string& name, nb::handle dtype,
                      nb::handle sizes, std::uintptr_t address, nb::handle owner) {
  const DType type = to_dtype(dtype);
  Sizes numbers = to_numbers(sizes);
  std::int64_t count = 1;
  for (const std::int64_t each : numbers) count *= each;
  const auto bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(byte_size(type));
  const TensorView view(type, std::move(numbers), reinterpret_cast<const void*>(address), bytes);
  return builder.weight(name, view, hold(owner));
}

}  // namespace

void bind_builder(nb::module_& module) {
  nb::class_<GraphTensor>(module, "GraphTensor", "A tensor of a graph: a type and no data.")
      .def("valid", &GraphTensor::valid)
      .def("dtype",
           [](const GraphTensor& tensor) { return std::string(to_string(tensor.dtype())); })
      .def(
          "sizes", [](const GraphTensor& tensor) { return from_sizes(tensor.sizes()); },
          nb::sig("def sizes(self) -> list[int | str]"))
      .def("__repr__", &GraphTensor::type);

  nb::class_<GraphBuilder>(module, "GraphBuilder",
                           "Builds a graph. Errors stick: after the first one every call gives an\n"
                           "invalid tensor, and check() and finish() raise it.")
      .def(nb::init<std::string>(), nb::arg("name") = "graph")
      .def("symbol", &GraphBuilder::symbol, nb::arg("name"), nb::arg("min"), nb::arg("max"),
           nb::arg("divisor") = 1)
      .def(
          "input",
          [](GraphBuilder& builder, const std::string& name, nb::handle dtype, nb::handle sizes) {
            return builder.input(name, to_dtype(dtype), to_sizes(sizes));
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("sizes"),
          nb::sig("def input(self, name: str, dtype: DType | str, "
                  "sizes: collections.abc.Sequence[int | str]) -> GraphTensor"))
      .def("weight_at", &weight_at, nb::arg("name"), nb::arg("dtype"), nb::arg("sizes"),
           nb::arg("address"), nb::arg("owner"),
           nb::sig("def weight_at(self, name: str, dtype: DType | str, "
                   "sizes: collections.abc.Sequence[int], address: int, owner: object) -> "
                   "GraphTensor"),
           "A constant in memory that `owner` keeps, dense and unchanged.")
      .def(
          "constant",
          [](GraphBuilder& builder, nb::handle array) {
            nb::list items;
            items.append(array);
            const InputArrays arrays(items);
            return builder.constant(arrays.views().front());
          },
          nb::arg("array"), nb::sig("def constant(self, array: object) -> GraphTensor"),
          "A constant that is copied.")
      .def(
          "scalar",
          [](GraphBuilder& builder, double value, nb::handle dtype) {
            return builder.scalar(value, to_dtype(dtype));
          },
          nb::arg("value"), nb::arg("dtype"),
          nb::sig("def scalar(self, value: float, dtype: DType | str) -> GraphTensor"))
      .def("output", &GraphBuilder::output, nb::arg("name"), nb::arg("tensor"))
      .def(
          "op",
          [](GraphBuilder& builder, const std::string& name, const nb::list& operands,
             const nb::dict& attributes, std::size_t results) {
            return builder.op_results(name, results, to_operands(operands),
                                      to_attributes(attributes));
          },
          nb::arg("name"), nb::arg("operands"), nb::arg("attributes"), nb::arg("results") = 1,
          nb::sig("def op(self, name: str, operands: list[GraphTensor | None], "
                  "attributes: dict[str, object], results: int = 1) -> list[GraphTensor]"),
          "Any operator by its name; None stands for an optional operand that is absent.")
      .def("layer", &GraphBuilder::layer, nb::arg("name"))
      .def("check", [](const GraphBuilder& builder) { value_or_raise(builder.status()); })
      .def("finish", [](GraphBuilder& builder) { return value_or_raise(builder.finish()); });
}

}  // namespace opweld::python
