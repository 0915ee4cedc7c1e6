// Tensors with data: constants of a graph, inputs and outputs of a run, values of the reference
// evaluator. Always dense and row-major.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/dtype.h"
#include "support/expected.h"

namespace opweld {

// Sizes of a tensor that exists; each is >= 0.
using Sizes = std::vector<std::int64_t>;

// Number of elements; 1 for a scalar. Asserts that it fits (checked where sizes enter the program).
std::int64_t num_elements(const Sizes& sizes);
// The same for sizes that nobody has checked: nothing when one is negative or the product
// overflows.
std::optional<std::int64_t> checked_num_elements(const Sizes& sizes);
// Bytes of a tensor of these sizes; nothing where checked_num_elements() is, or too many to
// address.
std::optional<std::int64_t> checked_num_bytes(DType dtype, const Sizes& sizes);
std::string to_string(const Sizes& sizes);  // "[2, 3]"

class Tensor {
 public:
  Tensor() = default;

  // Zero-filled storage; fails when the size overflows or memory cannot be had.
  static Expected<Tensor> allocate(DType dtype, Sizes sizes);
  // Shares bytes that somebody else keeps alive (a mapped file); `owner` is held for the lifetime.
  // `data` must be aligned to the element size and hold num_elements * byte_size bytes.
  static Tensor borrow(DType dtype, Sizes sizes, const std::byte* data,
                       std::shared_ptr<const void> owner);
  // The same of bytes that may be written through mutable_data().
  static Tensor borrow_mutable(DType dtype, Sizes sizes, std::byte* data,
                               std::shared_ptr<const void> owner);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  [[nodiscard]] int rank() const { return static_cast<int>(sizes_.size()); }
  [[nodiscard]] std::int64_t num_elements() const { return opweld::num_elements(sizes_); }
  [[nodiscard]] std::int64_t num_bytes() const { return num_elements() * byte_size(dtype_); }

  [[nodiscard]] const std::byte* data() const { return data_; }
  // Asserts that the tensor came from allocate() or borrow_mutable(); copies of it share the bytes.
  [[nodiscard]] std::byte* mutable_data();

  // Element access by linear row-major index, converting to and from the storage type: the
  // reference evaluator computes in double or int64 whatever the dtype. Halves round to nearest
  // even, integers wrap, bool is value != 0. A float becomes an integer as in graph/convert.h:
  // truncated, saturated to the compute type (i64 for get_int), NaN gives 0.
  [[nodiscard]] double get_double(std::int64_t index) const;
  [[nodiscard]] std::int64_t get_int(std::int64_t index) const;
  void set_double(std::int64_t index, double value);
  void set_int(std::int64_t index, std::int64_t value);

  template <typename T>
  [[nodiscard]] std::span<const T> view() const {
    assert(sizeof(T) == static_cast<std::size_t>(byte_size(dtype_)));
    return {reinterpret_cast<const T*>(data_), static_cast<std::size_t>(num_elements())};
  }
  template <typename T>
  [[nodiscard]] std::span<T> mutable_view() {
    assert(sizeof(T) == static_cast<std::size_t>(byte_size(dtype_)));
    return {reinterpret_cast<T*>(mutable_data()), static_cast<std::size_t>(num_elements())};
  }

  // The same bytes under other sizes with the same number of elements.
  [[nodiscard]] Tensor reshaped(Sizes sizes) const;
  // The same contents in storage of its own; fails when memory cannot be had.
  [[nodiscard]] Expected<Tensor> clone() const;

 private:
  DType dtype_ = DType::F32;
  Sizes sizes_;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  bool writable_ = false;
};

// Same dtype, sizes and bytes.
bool identical(const Tensor& a, const Tensor& b);

}  // namespace opweld
