// Between arrays of Python, taken by DLPack or the buffer protocol, and tensors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <deque>
#include <string>
#include <vector>

#include "bindings.h"

namespace opweld::python {

// Arrays held for the time of a run, as the views that it takes.
class InputArrays {
 public:
  // Each item is an array, or a pair of an array and the dtype that its bits are to be read as,
  // since numpy has no bf16 of its own. What is dense, row-major and aligned is used where it lies,
  // and anything else is copied.
  explicit InputArrays(const nb::list& items);

  [[nodiscard]] const std::vector<TensorView>& views() const { return views_; }
  // How many had to be copied.
  [[nodiscard]] int copies() const { return static_cast<int>(copies_.size()); }

 private:
  void add(nb::handle item, std::size_t index);

  std::vector<nb::ndarray<nb::ro>> arrays_;
  std::deque<HostTensor> copies_;
  std::vector<TensorView> views_;
};

// An array that keeps the tensor's memory alive; `bits` shows bf16 as u16.
nb::object to_array(const HostTensor& tensor, bool bits);

}  // namespace opweld::python
