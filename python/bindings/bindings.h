// The Python module opweld._core: the public C++ interface, and nothing of src/.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "opweld/opweld.h"

namespace opweld::python {

namespace nb = nanobind;

// Sets the Python exception that belongs to the error (opweld.UsageError, which is a ValueError
// too, or opweld.Error) and throws. The caller holds the GIL.
[[noreturn]] void raise(const Error& error);
[[noreturn]] void raise_usage(std::string message);

// The value, or the exception.
template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// From Python's int or str; from "f32" or an opweld._core.DType.
Size to_size(nb::handle value);
std::vector<Size> to_sizes(nb::handle sequence);
DType to_dtype(nb::handle value);
// Sizes of a tensor that exists: a sequence of ints.
Sizes to_numbers(nb::handle sequence);
nb::list from_sizes(const std::vector<Size>& sizes);

void bind_errors(nb::module_& module);
void bind_types(nb::module_& module);
void bind_model(nb::module_& module);
void bind_program(nb::module_& module);
void bind_builder(nb::module_& module);
void bind_plugin(nb::module_& module);
void bind_verify(nb::module_& module);
void bind_sample(nb::module_& module);

}  // namespace opweld::python
