#include "arrays.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <optional>

namespace opweld::python {

namespace {

using Code = nb::dlpack::dtype_code;

nb::dlpack::dtype dlpack_dtype(DType dtype, bool bits) {
  const auto make = [&](Code code) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code),
                             static_cast<std::uint8_t>(8 * byte_size(dtype)), 1};
  };
  if (dtype == DType::BF16) return make(bits ? Code::UInt : Code::Bfloat);
  if (dtype == DType::Bool) return make(Code::Bool);
  if (dtype == DType::U8) return make(Code::UInt);
  return make(is_float(dtype) ? Code::Float : Code::Int);
}

std::optional<DType> known_dtype(const nb::dlpack::dtype& asked) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dlpack_dtype(dtype, false) == asked) return dtype;
  }
  return std::nullopt;
}

bool is_dense(const nb::ndarray<nb::ro>& array) {
  std::int64_t expected = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) != 1 && array.stride(axis) != expected) return false;
    expected *= static_cast<std::int64_t>(array.shape(axis));
  }
  return true;
}

// Copies along `axis` and all after it.
void copy_strided(const nb::ndarray<nb::ro>& array, std::size_t axis, const std::byte* source,
                  std::size_t width, std::byte*& target) {
  if (axis == array.ndim()) {
    std::memcpy(target, source, width);
    target += width;
    return;
  }
  for (std::size_t i = 0; i < array.shape(axis); ++i) {
    const auto step = static_cast<std::int64_t>(i) * array.stride(axis);
    copy_strided(array, axis + 1, source + step * static_cast<std::int64_t>(width), width, target);
  }
}

}  // namespace

InputArrays::InputArrays(const nb::list& items) {
  std::size_t index = 0;
  for (const nb::handle item : items) add(item, index++);
}

void InputArrays::add(nb::handle item, std::size_t index) {
  const std::string label = "input number " + std::to_string(index + 1);
  std::optional<DType> asked;
  nb::handle source = item;
  if (nb::isinstance<nb::tuple>(item)) {
    source = nb::borrow<nb::tuple>(item)[0];
    asked = to_dtype(nb::borrow<nb::tuple>(item)[1]);
  }
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(source, array)) {
    raise_usage(label + " is no array: " + nb::cast<std::string>(nb::str(source.type())) +
                " has neither __dlpack__ nor the buffer protocol, or refuses to be read");
  }
  if (array.device_type() != nb::device::cpu::value) {
    raise_usage(label + " is not in the memory of the processor; copy it there first");
  }
  const std::optional<DType> dtype = asked ? asked : known_dtype(array.dtype());
  if (!dtype || array.dtype().lanes != 1 || array.dtype().bits != 8 * byte_size(*dtype)) {
    raise_usage(label +
                " has a dtype that Opweld lacks; there are f64, f32, f16, bf16, i64, i32, "
                "i16, i8, u8 and bool");
  }
  Sizes sizes;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    sizes.push_back(static_cast<std::int64_t>(array.shape(axis)));
  }
  const auto width = static_cast<std::size_t>(byte_size(*dtype));
  const bool aligned = reinterpret_cast<std::uintptr_t>(array.data()) % width == 0;
  if (is_dense(array) && aligned) {
    views_.emplace_back(*dtype, std::move(sizes), array.data(), array.size() * width);
  } else {
    copies_.push_back(value_or_raise(HostTensor::allocate(*dtype, std::move(sizes))));
    auto* target = static_cast<std::byte*>(copies_.back().data());
    if (array.size() > 0) {
      copy_strided(array, 0, static_cast<const std::byte*>(array.data()), width, target);
    }
    views_.push_back(copies_.back().view());
  }
  arrays_.push_back(std::move(array));
}

nb::object to_array(const HostTensor& tensor, bool bits) {
  auto held = std::make_unique<HostTensor>(tensor);
  void* data = held->data();
  std::vector<std::size_t> shape(tensor.sizes().begin(), tensor.sizes().end());
  const nb::capsule owner(held.get(),
                          [](void* pointer) noexcept { delete static_cast<HostTensor*>(pointer); });
  (void)held.release();
  return nb::cast(nb::ndarray<nb::array_api>(data, shape.size(), shape.data(), owner, nullptr,
                                             dlpack_dtype(tensor.dtype(), bits),
                                             nb::device::cpu::value));
}

}  // namespace opweld::python
