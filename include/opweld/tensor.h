// Tensors with data: views of the caller's memory, and tensors that own theirs. All are dense and
// row-major (the last axis is contiguous). Bytes are in the machine's order; a bool is a byte, 0 or
// 1; f16 is IEEE binary16, bf16 the upper half of an f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "opweld/dtype.h"
#include "opweld/export.h"
#include "opweld/result.h"

namespace opweld {

// Sizes of a tensor that exists; each is >= 0. Empty for a scalar, which has one element.
using Sizes = std::vector<std::int64_t>;

// The dtype of a C++ type. f16 and bf16 have none: give their dtype and bytes.
template <typename T>
inline constexpr std::optional<DType> kDTypeOf = std::nullopt;
template <>
inline constexpr std::optional<DType> kDTypeOf<double> = DType::F64;
template <>
inline constexpr std::optional<DType> kDTypeOf<float> = DType::F32;
template <>
inline constexpr std::optional<DType> kDTypeOf<std::int64_t> = DType::I64;
template <>
inline constexpr std::optional<DType> kDTypeOf<std::int32_t> = DType::I32;
template <>
inline constexpr std::optional<DType> kDTypeOf<std::int16_t> = DType::I16;
template <>
inline constexpr std::optional<DType> kDTypeOf<std::int8_t> = DType::I8;
template <>
inline constexpr std::optional<DType> kDTypeOf<std::uint8_t> = DType::U8;
template <>
inline constexpr std::optional<DType> kDTypeOf<bool> = DType::Bool;

template <typename T>
concept Element = kDTypeOf<std::remove_cv_t<T>>.has_value();

// An array, vector or span of elements.
template <typename Range>
concept ElementRange = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
                       Element<std::ranges::range_value_t<Range>>;

// Memory that somebody else keeps, for reading. Where a view is used, `bytes` must be exactly what
// the sizes need, `data` aligned to the element, and neither null unless the tensor is empty.
struct TensorView {
  DType dtype = DType::F32;
  Sizes sizes;
  const void* data = nullptr;
  std::size_t bytes = 0;

  TensorView() = default;
  TensorView(DType dtype, Sizes sizes, const void* data, std::size_t bytes)
      : dtype(dtype), sizes(std::move(sizes)), data(data), bytes(bytes) {}
  // TensorView(values, {2, 3}) of a std::vector<float>.
  template <ElementRange Range>
  TensorView(const Range& elements, Sizes sizes)
      : TensorView(*kDTypeOf<std::remove_cv_t<std::ranges::range_value_t<Range>>>, std::move(sizes),
                   std::ranges::data(elements),
                   std::ranges::size(elements) * sizeof(std::ranges::range_value_t<Range>)) {}
};

// The same for writing.
struct MutableTensorView {
  DType dtype = DType::F32;
  Sizes sizes;
  void* data = nullptr;
  std::size_t bytes = 0;

  MutableTensorView() = default;
  MutableTensorView(DType dtype, Sizes sizes, void* data, std::size_t bytes)
      : dtype(dtype), sizes(std::move(sizes)), data(data), bytes(bytes) {}
  template <ElementRange Range>
    requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
  MutableTensorView(Range& elements, Sizes sizes)
      : MutableTensorView(*kDTypeOf<std::ranges::range_value_t<Range>>, std::move(sizes),
                          std::ranges::data(elements),
                          std::ranges::size(elements) * sizeof(std::ranges::range_value_t<Range>)) {
  }
};

// A tensor that owns its memory; copies share it.
class OPWELD_API HostTensor {
 public:
  // Empty: f32[0].
  HostTensor() = default;
  HostTensor(const HostTensor&) = default;
  HostTensor& operator=(const HostTensor&) = default;
  ~HostTensor() = default;
  // Zeros. Fails when a size is negative, the product overflows, or memory cannot be had.
  static Result<HostTensor> allocate(DType dtype, Sizes sizes);
  static Result<HostTensor> copy_of(const TensorView& view);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  [[nodiscard]] std::int64_t num_elements() const { return num_elements_; }
  [[nodiscard]] std::size_t num_bytes() const;
  [[nodiscard]] const void* data() const { return data_.get(); }
  [[nodiscard]] void* data() { return data_.get(); }

  [[nodiscard]] TensorView view() const { return {dtype_, sizes_, data(), num_bytes()}; }
  operator TensorView() const { return view(); }
  [[nodiscard]] MutableTensorView mutable_view() { return {dtype_, sizes_, data(), num_bytes()}; }

  // The elements as T in row-major order; a usage error where T is not of this tensor's dtype.
  template <Element T>
  [[nodiscard]] Result<std::span<T>> elements() const {
    if (kDTypeOf<std::remove_cv_t<T>> != dtype_) return wrong_dtype(*kDTypeOf<std::remove_cv_t<T>>);
    return std::span<T>(reinterpret_cast<T*>(data_.get()), static_cast<std::size_t>(num_elements_));
  }
  // All elements as double, whatever the dtype, in row-major order.
  [[nodiscard]] std::vector<double> to_doubles() const;

 private:
  friend struct HostTensorAccess;
  [[nodiscard]] Error wrong_dtype(DType asked) const;

  DType dtype_ = DType::F32;
  Sizes sizes_ = {0};
  std::int64_t num_elements_ = 0;
  std::shared_ptr<std::byte> data_;
};

}  // namespace opweld
