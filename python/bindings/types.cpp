#include <nanobind/stl/string.h>

#include "bindings.h"

namespace opweld::python {

Size to_size(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return {nb::cast<std::string>(value)};
  if (nb::isinstance<nb::int_>(value)) return {nb::cast<std::int64_t>(value)};
  raise_usage(std::string("a size is an int or a str such as \"2*s + 1\", not ") +
              nb::cast<std::string>(nb::repr(value)));
}

std::vector<Size> to_sizes(nb::handle sequence) {
  std::vector<Size> sizes;
  for (const nb::handle each : sequence) sizes.push_back(to_size(each));
  return sizes;
}

Sizes to_numbers(nb::handle sequence) {
  Sizes sizes;
  for (const nb::handle each : sequence) sizes.push_back(nb::cast<std::int64_t>(each));
  return sizes;
}

DType to_dtype(nb::handle value) {
  if (nb::isinstance<DType>(value)) return nb::cast<DType>(value);
  if (nb::isinstance<nb::str>(value)) {
    const auto text = nb::cast<std::string>(value);
    if (const auto dtype = parse_dtype(text)) return *dtype;
    raise_usage("there is no dtype '" + text +
                "'; there are f64, f32, f16, bf16, i64, i32, i16, i8, u8 and bool");
  }
  raise_usage("a dtype is a str such as \"f32\", not " + nb::cast<std::string>(nb::repr(value)));
}

nb::list from_sizes(const std::vector<Size>& sizes) {
  nb::list list;
  for (const Size& size : sizes) {
    if (const auto constant = size.constant()) {
      list.append(nb::int_(*constant));
    } else {
      list.append(nb::str(size.text().c_str()));
    }
  }
  return list;
}

void bind_types(nb::module_& module) {
  auto dtype = nb::enum_<DType>(module, "DType", "Element types of tensors.");
  constexpr const char* kNames[kDTypeCount] = {"F64", "F32", "F16", "BF16", "I64",
                                               "I32", "I16", "I8",  "U8",   "Bool"};
  for (int i = 0; i < kDTypeCount; ++i) dtype.value(kNames[i], static_cast<DType>(i));

  nb::class_<TensorInfo>(module, "TensorInfo", "An input or output of a model.")
      .def_ro("name", &TensorInfo::name)
      .def_prop_ro(
          "dtype", [](const TensorInfo& info) { return std::string(to_string(info.dtype)); },
          "\"f32\", \"bf16\", \"i64\", \"bool\" ...")
      .def_prop_ro(
          "sizes", [](const TensorInfo& info) { return from_sizes(info.sizes); },
          nb::sig("def sizes(self) -> list[int | str]"),
          "A number, or an expression over the free sizes: [1, 's', '2*s + 1'].")
      .def("__repr__", [](const TensorInfo& info) { return info.to_string(); });
}

}  // namespace opweld::python
