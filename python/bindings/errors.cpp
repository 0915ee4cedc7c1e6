#include <nanobind/stl/string.h>

#include "bindings.h"

namespace opweld::python {

namespace {

// Looked up where it is needed, so that no object of Python outlives its interpreter in here.
nb::object exception_type(const char* name) {
  return nb::module_::import_("opweld._core").attr(name);
}

nb::object make_type(const char* name, const char* doc, const nb::tuple& bases) {
  PyObject* type = PyErr_NewExceptionWithDoc(name, doc, bases.ptr(), nullptr);
  if (type == nullptr) throw nb::python_error();
  return nb::steal(type);
}

}  // namespace

void raise(const Error& error) {
  const bool usage = error.kind == ErrorKind::Usage;
  const nb::object type = exception_type(usage ? "UsageError" : "Error");
  // A message may quote a file whose names are no UTF-8.
  const nb::object message = nb::steal(PyUnicode_DecodeUTF8(
      error.message.data(), static_cast<Py_ssize_t>(error.message.size()), "replace"));
  if (message.is_valid()) PyErr_SetObject(type.ptr(), message.ptr());
  throw nb::python_error();
}

void raise_usage(std::string message) {
  raise(Error{ErrorKind::Usage, std::move(message)});
}

void bind_errors(nb::module_& module) {
  const nb::handle runtime_error(PyExc_RuntimeError);
  const nb::handle value_error(PyExc_ValueError);
  module.attr("Error") = make_type("opweld.Error", "What went wrong, where, and the way out.",
                                   nb::make_tuple(runtime_error));
  module.attr("UsageError") =
      make_type("opweld.UsageError",
                "The request is wrong: an unknown name, a wrong shape or dtype of an input.",
                nb::make_tuple(module.attr("Error"), value_error));
}

}  // namespace opweld::python
