// What an operator is: one OpDef, defined in exactly one file of this folder.
//
// Adding an operator means writing one file with its OpDef and adding one line to registry.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/scalar_expr.h"
#include "support/expected.h"

namespace opweld {

// How an operator may share a kernel with its neighbours.
enum class FusionTrait : std::uint8_t {
  Pointwise,  // one element of each (numpy-broadcast) operand per result element; has `scalar`
  Broadcast,  // expand: repeats elements
  View,       // reshape, transpose, slice, concat, pad, gather ...: has an index map
  Reduce,     // combines elements along axes
  Contract,   // matmul family
  Attention,  // attention
  Scatter,    // writes at computed places
  Source,     // constant, iota, sizes: no tensor operands
  Composite,  // defined by `body` in terms of other operators (softmax, norms, gelu, rope)
  Opaque,     // a call: top-k, sort, user code without a trait
};

// Dtypes an operand admits, as a bit set over DType.
using DTypeSet = std::uint16_t;
constexpr DTypeSet dtype_bit(DType dtype) {
  return DTypeSet(1U << static_cast<int>(dtype));
}
inline constexpr DTypeSet kFloats =
    dtype_bit(DType::F64) | dtype_bit(DType::F32) | dtype_bit(DType::F16) | dtype_bit(DType::BF16);
inline constexpr DTypeSet kIntegers = dtype_bit(DType::I64) | dtype_bit(DType::I32) |
                                      dtype_bit(DType::I16) | dtype_bit(DType::I8) |
                                      dtype_bit(DType::U8);
inline constexpr DTypeSet kNumbers = kFloats | kIntegers;
inline constexpr DTypeSet kBool = dtype_bit(DType::Bool);
inline constexpr DTypeSet kAnyDType = kNumbers | kBool;
inline constexpr DTypeSet kIndices = dtype_bit(DType::I64) | dtype_bit(DType::I32);

struct OperandDef {
  enum class Arity : std::uint8_t { Required, Optional, Variadic };  // Variadic only last
  std::string_view name;
  DTypeSet dtypes = kAnyDType;
  // Operands with the same non-zero group must share one dtype.
  int group = 0;
  Arity arity = Arity::Required;
};

enum class AttributeKind : std::uint8_t { Integer, Real, Text, Type, Ints, Doubles, Shape, Tensor };

struct AttributeDef {
  std::string_view name;
  AttributeKind kind;
  bool required = true;  // optional ones are read with their default by the definition
};

// What rules see: operands (null where absent) with types and contents, and attributes.
struct OpContext {
  std::span<Value* const> operands;
  const Attributes& attributes;
  // Sizes that had to be assumed equal; the builder hands them to the graph. May be null.
  std::vector<SizeAssumption>* assumptions = nullptr;

  [[nodiscard]] const TensorType& type(int operand) const { return operands[operand]->type(); }
  [[nodiscard]] bool has(int operand) const {
    return operand < static_cast<int>(operands.size()) && operands[operand] != nullptr;
  }
};

// Concrete operands and the concrete values of all symbols, for reference evaluation. Result sizes
// are computed by the caller from the shape rule, so an evaluator fills what it is given.
struct EvalContext {
  // Null where absent; at least one entry for every operand of the schema.
  std::span<const Tensor* const> operands;
  const Attributes& attributes;
  const Bindings& bindings;           // symbol values, to evaluate Shape attributes
  std::span<Tensor> results;          // allocated, zero-filled
  std::int64_t bf16_weight_keys = 0;  // of an attention; see ReferenceOptions
};

// Where an operator comes from that is not built in.
struct OpOrigin {
  std::string plugin;   // as it calls itself
  std::string version;  // likewise
  std::string path;     // of the library
  // Everything that the operator declares, as text: equal where it means the same.
  std::string declaration = {};
};

struct OpDef {
  std::string_view name;
  std::string_view summary;  // one sentence with shapes and the source of the formula
  FusionTrait trait;
  std::vector<OperandDef> operands;
  std::vector<AttributeDef> attributes;

  // Result types; errors say which operand disagrees and why. Attribute and operand schema has been
  // checked before. Never null.
  std::function<Expected<std::vector<TensorType>>(const OpContext&)> infer;

  // Contents of result 0 when operands' contents are known (shape arithmetic); may be null.
  std::function<std::optional<std::vector<Dim>>(const OpContext&)> contents = nullptr;

  // Plain loops with double (int64) accumulation: the oracle. Errors only for data-dependent faults
  // (an index out of range). Never null except for Source operators handled by the evaluator.
  std::function<Status(const EvalContext&)> evaluate = nullptr;

  // Whether `evaluate` looks at the bits of elements, so that it must be given each tensor in the
  // dtype that its value declares, even where floats are evaluated in f64 throughout.
  bool of_bits = false;

  // Pointwise: the result element in terms of operand elements (already converted to
  // compute_dtype(operand dtype)); result of type compute_dtype(result dtype), not yet rounded to
  // storage. Null for other traits.
  std::function<Expr(const OpContext&, ExprPool&, std::span<const Expr> arguments)> scalar =
      nullptr;

  // Composite: builds the same result from other operators, before `node` in its graph, and returns
  // the replacement values. Null for other traits.
  std::function<Expected<std::vector<Value*>>(Graph&, const Node& node)> body = nullptr;

  // The user's own code for what `scalar` or `body` says as well, to compare the two; operands and
  // results have the dtypes that the graph declares. Null where there is no such code, or where it
  // is what `evaluate` calls.
  std::function<Status(const EvalContext&)> kernel = nullptr;

  // Null for built-in operators.
  const OpOrigin* origin = nullptr;
};

// The definition of an operator, built in or registered (ops/register.h); null when there is none
// of that name.
const OpDef* find_op(std::string_view name);
// Asserts that it exists: for nodes that passed the verifier.
const OpDef& op_def(const Node& node);
// All definitions, sorted by name.
std::span<const OpDef* const> all_ops();

}  // namespace opweld
