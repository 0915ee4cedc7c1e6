// What the spellings of experts (expert_program.h) have in common as they are walked.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ops/op.h"
#include "ops/stored_weights.h"
#include "rewrite/raise/expert_program.h"

namespace opweld {

// A constant, or one that is widened as it is read.
inline bool is_constant(const Value* value) {
  const Node* const node = value->producer();
  return node != nullptr && (node->op() == "constant" || widens_constant(*node));
}

inline const Tensor& stored(const Value* value) {
  const Node* const node = value->producer();
  const Node* const constant = node->op() == "constant" ? node : node->operand(0)->producer();
  return constant->attributes().tensor("value");
}

inline std::string quoted(const Node& node) {
  return fmt::format("{} '{}'", node.op(), node.display_name());
}

inline bool is_row_by_row(const Node& node) {
  return op_def(node).trait == FusionTrait::Pointwise || node.op() == "gelu";
}

// Takes columns, the last axis, only.
inline bool slices_columns(const Node& slice) {
  const Shape& sizes = slice.attributes().shape("sizes");
  const Shape& starts = slice.attributes().shape("starts");
  const Ints& steps = slice.attributes().ints("steps");
  for (std::size_t axis = 0; axis + 1 < sizes.size(); ++axis) {
    if (sizes[axis] != slice.operand(0)->shape()[axis] || steps[axis] != 1) return false;
  }
  return !sizes.empty() && sizes.back().constant() && starts.back().constant();
}

// What the walk through each spelling does: notes the steps.
class ProgramWriter {
 public:
  // Whether nobody else reads what is computed; `result` apart.
  Status check_closed(const Value* result) {
    std::set<const Node*> inside(program_.nodes.begin(), program_.nodes.end());
    inside.insert(views_.begin(), views_.end());
    for (const Node* node : inside) {
      if (node->result() == result) continue;
      for (const Use& use : node->result()->uses()) {
        if (!inside.contains(use.node)) {
          return fail("{} is read by {} as well", quoted(*node), quoted(*use.node));
        }
      }
      if (node->result()->is_graph_output()) {
        return fail("{} is an output of the model", quoted(*node));
      }
    }
    return {};
  }

  ExpertProgram take() { return std::move(program_); }

 protected:
  ExpertOperand add_step(const Node& node, std::vector<ExpertOperand> operands) {
    return add_step(node, std::move(operands), node.result()->shape().back());
  }

  ExpertOperand add_step(const Node& node, std::vector<ExpertOperand> operands, Dim columns) {
    program_.steps.push_back({&node, std::move(operands), std::move(columns)});
    return {ExpertOperand::Kind::Step, program_.steps.size() - 1, nullptr};
  }

  ExpertOperand add_constants(std::vector<Value*> each, bool is_matrix) {
    program_.constants.push_back({std::move(each), is_matrix, false});
    return {ExpertOperand::Kind::Constants, program_.constants.size() - 1, nullptr};
  }

  Expected<ExpertOperand> token(Value* value) {
    if (program_.x == nullptr) program_.x = value;
    if (program_.x != value) {
      return fail("they read '{}' and '{}', not the same tokens", name_of(program_.x),
                  name_of(value));
    }
    return ExpertOperand{ExpertOperand::Kind::Token, 0, nullptr};
  }

  static std::string name_of(const Value* value) {
    if (!value->name().empty()) return value->name();
    return value->producer() != nullptr ? value->producer()->display_name() : "an input";
  }

  ExpertProgram program_;
  std::vector<const Node*> views_;  // between the steps, which do nothing
};

}  // namespace opweld
