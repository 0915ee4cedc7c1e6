// What a plugin declares of an operator, read from its C structs once and checked for what can be
// checked without a model. From here on nobody looks at the plugin's tables again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"
#include "opweld/custom_op.h"
#include "plugin/formula.h"
#include "support/expected.h"

namespace opweld {

struct Declaration {
  struct Operand {
    std::string name;
    DTypeSet dtypes = 0;
    int group = 0;
    OperandDef::Arity arity = OperandDef::Arity::Required;
  };
  struct AttributeRule {
    std::string name;
    AttributeKind kind = AttributeKind::Integer;
    std::optional<Attribute> fallback;  // absent: required
  };
  struct Result {
    std::string name;
    int like = -1;  // the operand that it has the dtype of; -1: `dtype`
    DType dtype = DType::F32;
    std::optional<FormulaText> shape;
  };

  std::string name;  // with the domain: "com.example.Squash"
  std::string summary;
  std::vector<Operand> operands;
  std::vector<std::string> operand_names;
  std::vector<AttributeRule> attributes;
  std::vector<Result> results;
  std::optional<FormulaText> expression;
  std::optional<std::string> body;
  decltype(OpweldOp::compute) compute = nullptr;
  decltype(OpweldOp::shapes) shapes = nullptr;
  bool reentrant = false;

  // Everything but the functions, as text.
  [[nodiscard]] std::string text() const;
};

// Errors name the operator as far as it has a name. `op` may be null and may hold anything.
Expected<Declaration> read_declaration(const OpweldOp* op);

// All attributes of the declaration: those of a node, and the defaults of others. NaN is refused.
Expected<Attributes> complete_attributes(const Declaration& declaration, const Attributes& given);

std::optional<DType> dtype_of_plugin(std::int32_t code);  // OPWELD_F32 -> f32
std::int32_t plugin_dtype(DType dtype);
std::int32_t plugin_kind(AttributeKind kind);  // OPWELD_REAL ...

bool is_plugin_identifier(const char* text);  // and not null

}  // namespace opweld
