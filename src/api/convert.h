// Between the public types and the compiler's.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "aot/model_file.h"
#include "compile.h"
#include "graph/graph.h"
#include "opweld/model.h"
#include "opweld/program.h"
#include "opweld/result.h"
#include "opweld/size.h"
#include "opweld/tensor.h"
#include "support/expected.h"

namespace opweld {

namespace detail {

struct ModelState {
  Graph graph;
};

struct ProgramState {
  Compiled compiled;
  double seconds = 0;
  bool single_launch = false;
  std::optional<aot::Origin> origin = {};  // absent: it was loaded from a file
  // Of a program that was loaded: the text that its account is told from (report/account_record.h).
  // Empty: it is told without edges, and of any other program from `compiled`.
  std::string account_record = {};
};

}  // namespace detail

template <typename T>
Result<T> to_result(Expected<T> expected) {
  if (!expected) return std::move(expected.error());
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(*expected);
  }
}

// Whether it is one of the enumerators: a user may cast any number to a DType.
bool is_dtype(DType dtype);

// The caller's memory as a tensor; a usage error that begins with `what` ("input 'x'") where the
// view does not say truly what is there.
Expected<Tensor> to_tensor(const TensorView& view, const std::string& what,
                           std::shared_ptr<const void> owner = nullptr);
Expected<Tensor> to_tensor(const MutableTensorView& view, const std::string& what);

// A tensor that nobody else has a hand on, given to the user.
HostTensor to_host_tensor(Tensor tensor);

// What messages call the input at `index`.
std::string input_label(const Graph& graph, std::size_t index);

Size to_size(const Dim& dim);
std::vector<Size> to_sizes(const Shape& shape);
std::vector<TensorInfo> input_infos(const Graph& graph);
std::vector<TensorInfo> output_infos(const Graph& graph);

}  // namespace opweld
