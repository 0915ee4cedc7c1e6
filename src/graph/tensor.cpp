#include "graph/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <limits>
#include <utility>

#include "graph/convert.h"
#include "graph/half.h"
#include "support/memory_block.h"

namespace opweld {
namespace {

template <typename T>
T load(const std::byte* data, std::int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* data, std::int64_t index, T value) {
  std::memcpy(data + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

// One element of an integer or bool tensor.
std::int64_t load_integer(DType dtype, const std::byte* data, std::int64_t index) {
  switch (dtype) {
    case DType::I64:
      return load<std::int64_t>(data, index);
    case DType::I32:
      return load<std::int32_t>(data, index);
    case DType::I16:
      return load<std::int16_t>(data, index);
    case DType::I8:
      return load<std::int8_t>(data, index);
    case DType::U8:
      return load<std::uint8_t>(data, index);
    default:
      return load<std::uint8_t>(data, index) != 0 ? 1 : 0;
  }
}

double load_float(DType dtype, const std::byte* data, std::int64_t index) {
  switch (dtype) {
    case DType::F64:
      return load<double>(data, index);
    case DType::F32:
      return load<float>(data, index);
    case DType::F16:
      return from_f16_bits(load<std::uint16_t>(data, index));
    default:
      return from_bf16_bits(load<std::uint16_t>(data, index));
  }
}

void store_float(DType dtype, std::byte* data, std::int64_t index, double value) {
  switch (dtype) {
    case DType::F64:
      return store<double>(data, index, value);
    case DType::F32:
      return store<float>(data, index, static_cast<float>(value));
    case DType::F16:
      return store<std::uint16_t>(data, index, to_f16_bits(value));
    default:
      return store<std::uint16_t>(data, index, to_bf16_bits(value));
  }
}

}  // namespace

std::optional<std::int64_t> checked_num_elements(const Sizes& sizes) {
  std::int64_t count = 1;
  bool empty = false;
  bool overflow = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(count, size, &count);
  }
  if (empty) return 0;  // whatever the other sizes multiply to
  if (overflow) return std::nullopt;
  return count;
}

std::optional<std::int64_t> checked_num_bytes(DType dtype, const Sizes& sizes) {
  const auto count = checked_num_elements(sizes);
  constexpr auto kLimit = std::numeric_limits<std::int64_t>::max() / 16;
  if (!count || *count > kLimit) return std::nullopt;
  return *count * byte_size(dtype);
}

std::int64_t num_elements(const Sizes& sizes) {
  const auto count = checked_num_elements(sizes);
  assert(count);
  return *count;
}

std::string to_string(const Sizes& sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

Expected<Tensor> Tensor::allocate(DType dtype, Sizes sizes) {
  const auto bytes = checked_num_bytes(dtype, sizes);
  if (!bytes) {
    return fail("a tensor cannot have the sizes {} (negative, or too large to address)",
                to_string(sizes));
  }
  std::shared_ptr<std::byte> block = allocate_block(static_cast<std::size_t>(*bytes));
  if (block == nullptr) {
    return fail("out of memory: a tensor of {} {} needs {} bytes", to_string(dtype),
                to_string(sizes), *bytes);
  }
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.sizes_ = std::move(sizes);
  tensor.data_ = block.get();
  tensor.owner_ = std::move(block);
  tensor.writable_ = true;
  return tensor;
}

Tensor Tensor::borrow(DType dtype, Sizes sizes, const std::byte* data,
                      std::shared_ptr<const void> owner) {
  assert(checked_num_elements(sizes));
  assert(reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(byte_size(dtype)) ==
         0);
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.sizes_ = std::move(sizes);
  tensor.data_ = data;
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::borrow_mutable(DType dtype, Sizes sizes, std::byte* data,
                              std::shared_ptr<const void> owner) {
  Tensor tensor = borrow(dtype, std::move(sizes), data, std::move(owner));
  tensor.writable_ = true;
  return tensor;
}

std::byte* Tensor::mutable_data() {
  assert(writable_);
  return const_cast<std::byte*>(data_);
}

double Tensor::get_double(std::int64_t index) const {
  assert(index >= 0 && index < num_elements());
  if (is_float(dtype_)) return load_float(dtype_, data_, index);
  return static_cast<double>(load_integer(dtype_, data_, index));
}

std::int64_t Tensor::get_int(std::int64_t index) const {
  assert(index >= 0 && index < num_elements());
  if (is_float(dtype_)) {
    return saturate_to_integer(load_float(dtype_, data_, index), DType::I64);
  }
  return load_integer(dtype_, data_, index);
}

void Tensor::set_double(std::int64_t index, double value) {
  assert(index >= 0 && index < num_elements());
  if (is_float(dtype_)) {
    store_float(dtype_, mutable_data(), index, value);
  } else {
    set_int(index, float_to_integer(value, dtype_));
  }
}

void Tensor::set_int(std::int64_t index, std::int64_t value) {
  assert(index >= 0 && index < num_elements());
  std::byte* data = mutable_data();
  switch (dtype_) {
    case DType::I64:
      return store<std::int64_t>(data, index, value);
    case DType::I32:
      return store<std::int32_t>(data, index, static_cast<std::int32_t>(value));
    case DType::I16:
      return store<std::int16_t>(data, index, static_cast<std::int16_t>(value));
    case DType::I8:
    case DType::U8:
      return store<std::uint8_t>(data, index, static_cast<std::uint8_t>(value));
    case DType::Bool:
      return store<std::uint8_t>(data, index, value != 0 ? 1 : 0);
    case DType::F32:  // straight from the integer: by way of double it would be rounded twice
      return store<float>(data, index, static_cast<float>(value));
    default:
      return store_float(dtype_, data, index, static_cast<double>(value));
  }
}

Tensor Tensor::reshaped(Sizes sizes) const {
  assert(opweld::num_elements(sizes) == num_elements());
  Tensor tensor = *this;
  tensor.sizes_ = std::move(sizes);
  return tensor;
}

Expected<Tensor> Tensor::clone() const {
  OPWELD_TRY(Tensor copy, allocate(dtype_, sizes_));
  const auto bytes = static_cast<std::size_t>(num_bytes());
  if (bytes > 0) std::memcpy(copy.mutable_data(), data_, bytes);
  return copy;
}

bool identical(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  if (a.data() == b.data()) return true;
  const auto bytes = static_cast<std::size_t>(a.num_bytes());
  if (bytes == 0) return true;
  if (a.data() == nullptr || b.data() == nullptr) return false;  // one was never given storage
  return std::memcmp(a.data(), b.data(), bytes) == 0;
}

}  // namespace opweld
