// Compiles hand-made tile programs and runs them on memory that ends where it ends: an access past
// the last element of an array faults, one before the first is found afterwards.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/cpu/kernel.h"
#include "graph/tensor.h"
#include "ops/scalar_expr.h"
#include "target/target.h"
#include "tile/program_builder.h"

namespace opweld::testing {

inline constexpr std::int64_t kLengths[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 640};

// `count` elements of T that end at a page nobody may touch.
template <typename T>
class GuardedArray {
 public:
  explicit GuardedArray(std::size_t count) : count_(count) {
    const std::size_t bytes = count * sizeof(T);
    mapped_ = (bytes + kFence + kPage - 1) / kPage * kPage + kPage;
    void* const memory =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = static_cast<std::byte*>(memory);
    mprotect(base_ + mapped_ - kPage, kPage, PROT_NONE);
    data_ = reinterpret_cast<T*>(base_ + mapped_ - kPage - bytes);
    std::memset(base_, 0x5a, mapped_ - kPage);
  }
  explicit GuardedArray(const std::vector<T>& values) : GuardedArray(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;
  ~GuardedArray() {
    const auto* const start = reinterpret_cast<const std::byte*>(data_);
    EXPECT_TRUE(std::all_of<const std::byte*>(base_, start, [](std::byte each) {
      return each == std::byte{0x5a};
    })) << "wrote before the first element";
    munmap(base_, mapped_);
  }

  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return data_[i]; }
  [[nodiscard]] std::vector<T> values() const { return {data_, data_ + count_}; }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kFence = 64;  // what a stray vector store would hit
  std::size_t count_;
  std::size_t mapped_ = 0;
  std::byte* base_ = nullptr;
  T* data_ = nullptr;
};

// Vectors of 256 bits, vectors of 512 that LLVM has to take apart, and no AVX at all.
inline std::vector<Target> test_targets() {
  std::vector<Target> targets;
  for (const char* name : {"host-avx2", "host-generic"}) {
    if (auto target = find_target(name)) targets.push_back(*target);
  }
  Target wide = targets.front();
  wide.name += " as 512 bits";
  wide.vector_bits = 512;
  targets.push_back(wide);
  return targets;
}

class KernelRunner {
 public:
  explicit KernelRunner(const tile::TileProgram& program, const Target& target = host_target()) {
    auto compiler = cpu::KernelCompiler::create(target, {});
    if (!compiler) {
      ADD_FAILURE() << compiler.error().message;
      return;
    }
    const tile::TileProgram* const pointer = &program;
    auto kernels = compiler->compile({&pointer, 1});
    if (!kernels) {
      ADD_FAILURE() << kernels.error().message << "\n" << to_text(program);
      return;
    }
    kernel_ = kernels->front();
  }

  [[nodiscard]] const CompiledKernel& kernel() const { return *kernel_; }

  // All tasks, or those of [begin, end); the code that the function returns.
  std::int32_t operator()(const std::vector<void*>& params,
                          const std::vector<std::int64_t>& symbols = {}) const {
    return run(params, symbols, 0, kernel_->num_tasks.evaluate(symbols).value());
  }
  [[nodiscard]] std::int32_t run(const std::vector<void*>& params,
                                 const std::vector<std::int64_t>& symbols, std::int64_t begin,
                                 std::int64_t end) const {
    const auto bytes = static_cast<std::size_t>(kernel_->scratch_bytes.evaluate(symbols).value());
    // Whole pages, so that the scratch memory is aligned and ends at the fence all the same. Pages
    // are zero: a thread that had no task of this kernel yet.
    GuardedArray<std::byte> scratch((bytes + 63) / 64 * 64);
    return kernel_->function(params.data(), symbols.data(), begin, end, scratch.data());
  }

 private:
  std::shared_ptr<const CompiledKernel> kernel_;
};

// A tensor on guarded memory, read and written in any dtype by value.
class GuardedTensor {
 public:
  GuardedTensor(DType dtype, std::int64_t count)
      : dtype_(dtype),
        count_(count),
        bytes_(static_cast<std::size_t>(count) * static_cast<std::size_t>(byte_size(dtype))) {}
  // Rounded to the dtype.
  GuardedTensor(DType dtype, const std::vector<ScalarValue>& values)
      : GuardedTensor(dtype, static_cast<std::int64_t>(values.size())) {
    Tensor made = Tensor::allocate(dtype, {count_}).value();
    for (std::int64_t i = 0; i < count_; ++i) {
      const ScalarValue& value = values[static_cast<std::size_t>(i)];
      if (is_float(dtype)) {
        made.set_double(i, value.real);
      } else {
        made.set_int(i, value.integer);
      }
    }
    std::memcpy(bytes_.data(), made.data(), bytes_.size());
  }

  [[nodiscard]] void* data() { return bytes_.data(); }
  [[nodiscard]] std::int64_t size() const { return count_; }
  // Floats in .real, the rest in .integer.
  [[nodiscard]] ScalarValue at(std::int64_t i) {
    const Tensor view = Tensor::borrow(dtype_, {count_}, bytes_.data(), nullptr);
    return is_float(dtype_) ? ScalarValue{view.get_double(i), 0} : ScalarValue{0, view.get_int(i)};
  }

 private:
  DType dtype_;
  std::int64_t count_;
  GuardedArray<std::byte> bytes_;
};

// Equal bits, but any NaN for any NaN.
inline bool same(const ScalarValue& a, const ScalarValue& b) {
  if (std::isnan(a.real) || std::isnan(b.real)) return std::isnan(a.real) && std::isnan(b.real);
  return a.real == b.real && std::signbit(a.real) == std::signbit(b.real) && a.integer == b.integer;
}

}  // namespace opweld::testing
