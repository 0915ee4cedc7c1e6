// Building a graph by hand.
//
//   opweld::GraphBuilder builder("mlp");
//   auto x = builder.input("x", DType::F32, {"batch", 384});
//   auto w = builder.weight("w", TensorView(weights, {384, 1536}));
//   builder.output("y", gelu(matmul(x, w)));
//   opweld::Result<opweld::Model> model = builder.finish();
//
// The everyday operators are functions (opweld/functions.h); op() reaches all of them by name.
//
// Errors stick: after the first one every call gives an invalid tensor and does nothing else, and
// status() and finish() tell what it was. A builder is used by one thread at a time.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "opweld/dtype.h"
#include "opweld/export.h"
#include "opweld/model.h"
#include "opweld/result.h"
#include "opweld/size.h"
#include "opweld/tensor.h"

namespace opweld {

namespace detail {
struct BuilderState;
struct BuilderAccess;
}  // namespace detail

// A tensor of a graph: it has a type and no data. A default-constructed one stands for an optional
// operand that is not given. It may outlive its builder.
class OPWELD_API GraphTensor {
 public:
  GraphTensor() = default;

  // False for one that is absent, and for what is made after an error.
  [[nodiscard]] bool valid() const { return state_ != nullptr && index_ >= 0; }
  [[nodiscard]] DType dtype() const;              // f32 if invalid
  [[nodiscard]] std::vector<Size> sizes() const;  // empty if invalid
  [[nodiscard]] int rank() const { return static_cast<int>(sizes().size()); }
  [[nodiscard]] std::string type() const;  // "f32[b, s, 384]", "invalid"

 private:
  friend struct detail::BuilderAccess;
  std::shared_ptr<detail::BuilderState> state_;
  int index_ = -1;
};

// An attribute of an operator: an axis, an epsilon, a target shape. Flags are integers 0 or 1.
// Numbers become what the operator wants where nothing is lost (an integer a real, a list of
// integers a shape).
class AttributeValue {
 public:
  using Content = std::variant<std::int64_t, double, std::string, DType, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<Size>, TensorView>;

  template <std::integral Integer>
  AttributeValue(Integer value) : content_(static_cast<std::int64_t>(value)) {}
  template <std::floating_point Real>
  AttributeValue(Real value) : content_(static_cast<double>(value)) {}
  AttributeValue(const char* text) : content_(std::string(text == nullptr ? "" : text)) {}
  AttributeValue(std::string text) : content_(std::move(text)) {}
  AttributeValue(DType dtype) : content_(dtype) {}
  AttributeValue(std::vector<std::int64_t> values) : content_(std::move(values)) {}
  AttributeValue(std::vector<double> values) : content_(std::move(values)) {}
  AttributeValue(std::vector<Size> sizes) : content_(std::move(sizes)) {}
  AttributeValue(TensorView tensor) : content_(std::move(tensor)) {}  // copied when it is used

  [[nodiscard]] const Content& content() const { return content_; }

 private:
  Content content_;
};

using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;

class OPWELD_API GraphBuilder {
 public:
  explicit GraphBuilder(std::string name = "graph");
  ~GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // Declares a free size and what it may be: a multiple of `divisor` in [min, max]. A symbol that
  // an input has alone as a size need not be declared; it is then any number from 0 to 2^40.
  void symbol(const std::string& name, std::int64_t min, std::int64_t max,
              std::int64_t divisor = 1);
  // Inputs, in the order in which a run takes them. Names are unique.
  GraphTensor input(const std::string& name, DType dtype, const std::vector<Size>& sizes);
  // A constant in the caller's memory, which is not copied and must stay valid and unchanged as
  // long as the model, and programs made of it, exist; `owner`, if given, is held that long.
  GraphTensor weight(const std::string& name, const TensorView& view,
                     std::shared_ptr<const void> owner = nullptr);
  // A constant that is copied.
  GraphTensor constant(const TensorView& view);
  GraphTensor scalar(double value, DType dtype = DType::F32);  // rank 0
  // Gives a tensor out. Names are unique; a tensor may be given out several times.
  void output(const std::string& name, const GraphTensor& tensor);

  // Any operator by name, with its operands in order and its attributes; src/ops/README.md lists
  // them. Absent optional operands are GraphTensor(). Operators have one result, but for a few.
  GraphTensor op(std::string_view name, const std::vector<GraphTensor>& operands,
                 const AttributeList& attributes = {});
  // The same for an operator of `count` results (top_k has 2); always gives that many tensors.
  std::vector<GraphTensor> op_results(std::string_view name, std::size_t count,
                                      const std::vector<GraphTensor>& operands,
                                      const AttributeList& attributes = {});

  // What is built from here on belongs to this layer ("layers.0"), for the account.
  void layer(std::string name);

  [[nodiscard]] Result<void> status() const;
  // The model. The builder has then done its work, and using it again is an error.
  [[nodiscard]] Result<Model> finish();

 private:
  friend struct detail::BuilderAccess;
  std::shared_ptr<detail::BuilderState> state_;
};

}  // namespace opweld
