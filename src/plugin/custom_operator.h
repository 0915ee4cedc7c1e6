// A custom operator as an operator like any other: the OpDef that follows from a declaration.
//
// With an expression it is pointwise, with a body composite, else opaque. Nothing behind the
// registry knows it for a plugin's but by OpDef::origin.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "ops/op.h"
#include "plugin/declaration.h"
#include "support/expected.h"

namespace opweld {

class CustomOperator {
 public:
  // Checks what can be checked without operands. `origin` must outlive the operator, which must
  // stay as long as anybody may look for its definition.
  static Expected<std::unique_ptr<CustomOperator>> create(Declaration declaration,
                                                          const OpOrigin& origin);
  CustomOperator(const CustomOperator&) = delete;
  CustomOperator& operator=(const CustomOperator&) = delete;

  [[nodiscard]] const OpDef& def() const { return def_; }
  [[nodiscard]] const Declaration& declaration() const { return declaration_; }

 private:
  CustomOperator(Declaration declaration, const OpOrigin& origin);

  void define();
  [[nodiscard]] Status check_expression() const;
  [[nodiscard]] Status check_expression_of(std::span<const DType> operands,
                                           const Attributes& attributes) const;

  Expected<std::vector<TensorType>> infer(const OpContext& context);
  Expected<std::vector<TensorType>> infer_checked(const OpContext& context);
  Expected<std::vector<TensorType>> declared_types(const OpContext& context);
  Expected<std::vector<TensorType>> types_of_body(const OpContext& context) const;
  Status check_shapes(const OpContext& context, std::span<const TensorType> types);
  Expected<std::vector<Sizes>> shapes_of(const OpContext& context, bool& known);

  Expected<Expr> scalar(std::span<const Expr> arguments, const Attributes& given, DType result,
                        bool wide, ExprPool& pool) const;
  [[nodiscard]] Status evaluate_expression(const EvalContext& context) const;
  Expected<std::vector<Value*>> body(Graph& graph, const Node& node) const;
  Status compute(const EvalContext& context);

  [[nodiscard]] DType result_dtype(std::size_t result, std::span<const DType> operands) const;
  // The same error, with where the operator comes from.
  [[nodiscard]] tl::unexpected<Error> told(const Error& error) const;

  Declaration declaration_;
  const OpOrigin& origin_;
  OpDef def_;
  std::mutex turn_;  // of calls into the plugin
};

}  // namespace opweld
