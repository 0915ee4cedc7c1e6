#include "opweld/tensor.h"

#include <cstring>

#include "api/convert.h"
#include "graph/tensor.h"

namespace opweld {

// Fills the private parts of a HostTensor.
struct HostTensorAccess {
  static HostTensor make(Tensor tensor) {
    HostTensor result;
    result.dtype_ = tensor.dtype();
    result.sizes_ = tensor.sizes();
    result.num_elements_ = tensor.num_elements();
    // The shared pointer keeps the tensor, and so its bytes.
    auto kept = std::make_shared<Tensor>(std::move(tensor));
    std::byte* const data = kept->mutable_data();
    result.data_ = std::shared_ptr<std::byte>(std::move(kept), data);
    return result;
  }
};

bool is_dtype(DType dtype) {
  return static_cast<int>(dtype) < kDTypeCount;
}

HostTensor to_host_tensor(Tensor tensor) {
  return HostTensorAccess::make(std::move(tensor));
}

namespace {

Status check_view(DType dtype, const Sizes& sizes, const void* data, std::size_t bytes,
                  const std::string& what) {
  if (!is_dtype(dtype)) return usage_error("{} has no valid dtype", what);
  const auto count = checked_num_elements(sizes);
  const auto element = static_cast<std::size_t>(byte_size(dtype));
  if (!count || *count > INT64_MAX / byte_size(dtype)) {
    return usage_error("{} cannot have the sizes {} (negative, or too large to address)", what,
                       to_string(sizes));
  }
  const std::size_t needed = static_cast<std::size_t>(*count) * element;
  if (bytes != needed) {
    return usage_error("{}, {}{}, takes {} bytes, but {} are given", what, to_string(dtype),
                       to_string(sizes), needed, bytes);
  }
  if (needed == 0) return {};
  if (data == nullptr) return usage_error("{} has no data (a null pointer)", what);
  if (reinterpret_cast<std::uintptr_t>(data) % element != 0) {
    return usage_error("{} must lie at a multiple of {} bytes, the size of its elements", what,
                       element);
  }
  return {};
}

}  // namespace

Expected<Tensor> to_tensor(const TensorView& view, const std::string& what,
                           std::shared_ptr<const void> owner) {
  OPWELD_CHECK(check_view(view.dtype, view.sizes, view.data, view.bytes, what));
  // An empty tensor's pointer is never followed, and may be anything.
  const auto* data = view.bytes == 0 ? nullptr : static_cast<const std::byte*>(view.data);
  return Tensor::borrow(view.dtype, view.sizes, data, std::move(owner));
}

Expected<Tensor> to_tensor(const MutableTensorView& view, const std::string& what) {
  OPWELD_CHECK(check_view(view.dtype, view.sizes, view.data, view.bytes, what));
  auto* data = view.bytes == 0 ? nullptr : static_cast<std::byte*>(view.data);
  return Tensor::borrow_mutable(view.dtype, view.sizes, data, nullptr);
}

Result<HostTensor> HostTensor::allocate(DType dtype, Sizes sizes) {
  if (!is_dtype(dtype)) return Error{ErrorKind::Usage, "a tensor was asked for without a dtype"};
  auto tensor = Tensor::allocate(dtype, std::move(sizes));
  if (!tensor) return std::move(tensor.error());
  return to_host_tensor(std::move(*tensor));
}

Result<HostTensor> HostTensor::copy_of(const TensorView& view) {
  const auto tensor = to_tensor(view, "the tensor to copy");
  if (!tensor) return tensor.error();
  auto copy = allocate(view.dtype, view.sizes);
  if (copy && view.bytes > 0) std::memcpy(copy->data(), view.data, view.bytes);
  return copy;
}

std::size_t HostTensor::num_bytes() const {
  return static_cast<std::size_t>(num_elements_ * byte_size(dtype_));
}

std::vector<double> HostTensor::to_doubles() const {
  const Tensor tensor = Tensor::borrow(dtype_, sizes_, data_.get(), nullptr);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(num_elements_));
  for (std::int64_t i = 0; i < num_elements_; ++i) values.push_back(tensor.get_double(i));
  return values;
}

Error HostTensor::wrong_dtype(DType asked) const {
  return {ErrorKind::Usage,
          fmt::format("the tensor's elements are {}, not {}", to_string(dtype_), to_string(asked))};
}

}  // namespace opweld
