// What a compiled model asks of the tensors of a run, and where it writes.
#include "runtime/executable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "compile.h"
#include "ops/builder.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Executable compile_text(const char* text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().message;
  auto compiled = compile(std::move(*graph));
  EXPECT_TRUE(compiled) << compiled.error().message;
  return std::move(compiled->executable);
}

Tensor iota(DType dtype, Sizes sizes, double first = 0) {
  Tensor tensor = Tensor::allocate(dtype, std::move(sizes)).value();
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.set_double(i, first + static_cast<double>(i));
  }
  return tensor;
}

constexpr const char* kAdd = R"(
  graph g(%a: f32[n], %b: f32[m]) { %y = add(%a, %b) return %y as "y" })";

std::string failure(Executable& model, const std::vector<Tensor>& inputs) {
  const auto outputs = model.run(inputs);
  EXPECT_FALSE(outputs);
  if (outputs) return {};
  EXPECT_EQ(outputs.error().kind, ErrorKind::Usage);
  return outputs.error().message;
}

// Each of these would have kernels read past the end of an input.
TEST(ExecutableInputs, WrongDtypeIsRefused) {
  Executable model = compile_text(kAdd);
  const std::string message = failure(model, {iota(DType::F16, {4}), iota(DType::F32, {4})});
  EXPECT_THAT(message, AllOf(HasSubstr("'a'"), HasSubstr("f32"), HasSubstr("f16")));
}

TEST(ExecutableInputs, SizesAssumedEqualMustBeEqual) {
  Executable model = compile_text(kAdd);
  EXPECT_TRUE(model.run(std::vector{iota(DType::F32, {4}), iota(DType::F32, {4})}));
  const std::string message = failure(model, {iota(DType::F32, {400}), iota(DType::F32, {4})});
  EXPECT_THAT(message, AllOf(HasSubstr("add"), HasSubstr("400"), HasSubstr("4")));
}

TEST(ExecutableInputs, ThereMustBeData) {
  Executable model = compile_text(kAdd);
  const Tensor nothing = Tensor::borrow(DType::F32, {4}, nullptr, nullptr);
  EXPECT_THAT(failure(model, {nothing, iota(DType::F32, {4})}), HasSubstr("'a' has no data"));
  const Tensor empty = Tensor::borrow(DType::F32, {0}, nullptr, nullptr);
  EXPECT_TRUE(model.run(std::vector{empty, empty}));
}

TEST(ExecutableInputs, SizesMustNotMakeOthersNegative) {
  Executable model = compile_text(R"(
    graph g(%x: f32[s]) {
      %y = slice(%x) {starts = <0>, sizes = <s - 2>, steps = [1]}
      return %y as "y"
    })");
  EXPECT_TRUE(model.run(std::vector{iota(DType::F32, {2})}));
  EXPECT_THAT(failure(model, {iota(DType::F32, {1})}), AllOf(HasSubstr("slice"), HasSubstr("-1")));
}

std::string failure_into(Executable& model, std::vector<Tensor> outputs) {
  const std::vector inputs{iota(DType::F32, {4}), iota(DType::F32, {4})};
  if (outputs.empty()) outputs = {inputs[0]};
  const Status status = model.run_into(inputs, outputs);
  return status ? "" : status.error().message;
}

TEST(ExecutableOutputs, MustFit) {
  Executable model = compile_text(kAdd);
  EXPECT_THAT(failure_into(model, {iota(DType::F32, {3})}),
              AllOf(HasSubstr("'y'"), HasSubstr("f32[4]"), HasSubstr("f32[3]")));
  EXPECT_THAT(failure_into(model, {iota(DType::F64, {4})}), HasSubstr("f64[4]"));
  EXPECT_THAT(failure_into(model, {iota(DType::F32, {4}), iota(DType::F32, {4})}),
              HasSubstr("1 outputs, but 2"));
  EXPECT_THAT(failure_into(model, {Tensor::borrow(DType::F32, {4}, nullptr, nullptr)}),
              HasSubstr("no memory"));
  EXPECT_THAT(failure_into(model, {}), HasSubstr("overlaps"));
  EXPECT_EQ(failure_into(model, {iota(DType::F32, {4})}), "");
}

// Memory that ends where the pages do: reading or writing one element too far is a crash.
class GuardedTensor {
 public:
  GuardedTensor(DType dtype, const Sizes& sizes) {
    const std::int64_t bytes = num_elements(sizes) * byte_size(dtype);
    const std::int64_t page = sysconf(_SC_PAGESIZE);
    body_ = static_cast<std::size_t>((bytes + page - 1) / page * page);
    total_ = body_ + static_cast<std::size_t>(page);
    base_ = static_cast<std::byte*>(
        mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(static_cast<void*>(base_), MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + body_, static_cast<std::size_t>(page), PROT_NONE), 0);
    tensor_ = Tensor::borrow_mutable(dtype, sizes, base_ + body_ - bytes, nullptr);
  }
  ~GuardedTensor() { munmap(base_, total_); }
  GuardedTensor(const GuardedTensor&) = delete;
  GuardedTensor& operator=(const GuardedTensor&) = delete;

  Tensor& operator*() { return tensor_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t body_ = 0;
  std::size_t total_ = 0;
  Tensor tensor_;
};

// y = softmax(x w) + x[:, 0]: a matmul, reductions and a broadcast, at vector multiples and tails.
TEST(ExecutableMemory, NothingBeyondTheCallersTensorsIsTouched) {
  Executable model = compile_text(R"(
    graph g(%x: f32[s, k], %w: f32[k, n], %h: f16[s, n]) {
      %p = matmul(%x, %w)
      %c = cast(%h) {to = f32}
      %q = add(%p, %c)
      %y = softmax(%q) {axis = -1}
      %z = cast(%q) {to = f16}
      return %y as "y", %z as "z"
    })");
  for (const std::int64_t n : {1, 3, 7, 8, 15, 16, 17, 31, 33}) {
    for (const std::int64_t s : {1, 2, 5, 16, 17}) {
      GuardedTensor x(DType::F32, {s, n});
      GuardedTensor w(DType::F32, {n, n});
      GuardedTensor h(DType::F16, {s, n});
      GuardedTensor y(DType::F32, {s, n});
      GuardedTensor z(DType::F16, {s, n});
      for (std::int64_t i = 0; i < n; ++i) (*w).set_double(i * n + i, 1);  // so that x w = x
      for (std::int64_t i = 0; i < s * n; ++i) {
        (*x).set_double(i, static_cast<double>(i % 5));
        (*h).set_double(i, static_cast<double>(i % 3));
      }
      std::vector outputs{*y, *z};
      const Status status = model.run_into(std::vector{*x, *w, *h}, outputs);
      ASSERT_TRUE(status) << status.error().message;
      for (std::int64_t row = 0; row < s; ++row) {
        double sum = 0;
        for (std::int64_t i = row * n; i < (row + 1) * n; ++i) {
          EXPECT_EQ((*z).get_double(i), static_cast<double>(i % 5 + i % 3)) << n << " " << s;
          sum += (*y).get_double(i);
        }
        EXPECT_NEAR(sum, 1, 1e-5) << n << " " << s;
      }
    }
  }
}

TEST(ExecutableOutputs, SizesAreToldBeforeTheRun) {
  Executable model = compile_text(R"(
    graph g(%a: f32[n, 3], %b: f32[m, 3]) {
      %y = concat(%a, %b) {axis = 0}
      return %y as "y"
    })");
  const std::vector<Tensor> shapes{Tensor::borrow(DType::F32, {4, 3}, nullptr, nullptr),
                                   Tensor::borrow(DType::F32, {2, 3}, nullptr, nullptr)};
  EXPECT_EQ(model.output_sizes(shapes).value(), (std::vector<Sizes>{{6, 3}}));
}

}  // namespace
}  // namespace opweld
