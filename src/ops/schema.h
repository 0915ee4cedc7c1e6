// Checks a node-to-be against the schema of its operator, before any shape rule looks at it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ops/op.h"

namespace opweld {

// Count of operands, their dtypes and dtype groups. Messages name the operand.
Status check_operands(const OpDef& def, std::span<Value* const> operands);

// Unknown, missing and wrong kinds of attributes. Where text or callers leave the kind open it is
// made the schema's: an integer becomes a real, a list of integers one of reals or a Shape, a
// single integer a Shape of one.
Status check_attributes(const OpDef& def, Attributes& attributes);

// "unknown operator 'sofmax'; did you mean 'softmax'?"
Error unknown_operator(std::string_view name);

// How messages call a node: "add '/layers.0/Add'", or "add" where the source has no name.
std::string node_label(std::string_view op, const Source& source);

}  // namespace opweld
