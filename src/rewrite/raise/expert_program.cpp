#include "rewrite/raise/expert_program.h"

#include <algorithm>

#include "rewrite/match.h"
#include "rewrite/raise/program_writer.h"

namespace opweld {

namespace {

using Kind = ExpertOperand::Kind;

// [tokens.., N].
bool has_rows(const Value* value, const Shape& tokens) {
  const Shape& shape = value->shape();
  return shape.size() == tokens.size() + 1 && shape.back().constant().has_value() &&
         std::equal(tokens.begin(), tokens.end(), shape.begin());
}

// Walks all branches at once.
class Branches : public ProgramWriter {
 public:
  explicit Branches(const Shape& tokens) : tokens_(tokens) {}

  Expected<ExpertOperand> visit(const std::vector<Value*>& values) {
    Value* const first = values.front();
    if (first == nullptr) {
      const bool none = std::ranges::all_of(values, [](const Value* v) { return v == nullptr; });
      if (!none) return fail("an operand is absent in some of them only");
      return ExpertOperand{};
    }
    if (std::ranges::any_of(values, [](const Value* v) { return v == nullptr; })) {
      return fail("an operand is absent in some of them only");
    }
    if (const auto known = known_.find(first); known != known_.end()) {
      if (known->second.values != values) return fail("their steps are connected differently");
      return known->second.operand;
    }
    OPWELD_TRY(const ExpertOperand operand, visit_anew(values));
    known_[first] = {values, operand};
    return operand;
  }

  // Whether nobody else reads what the branches compute; `results` apart.
  Status check_closed(const std::vector<Value*>& results) {
    const std::set<const Node*> inside(program_.nodes.begin(), program_.nodes.end());
    const std::set<const Value*> ends(results.begin(), results.end());
    for (const Node* node : program_.nodes) {
      for (const Use& use : node->result()->uses()) {
        if (inside.contains(use.node) || ends.contains(node->result())) continue;
        return fail("{} is read by {} as well", quoted(*node), quoted(*use.node));
      }
      if (node->result()->is_graph_output()) {
        return fail("{} is an output of the model", quoted(*node));
      }
    }
    return {};
  }

 private:
  struct Known {
    std::vector<Value*> values;
    ExpertOperand operand;
  };

  Expected<ExpertOperand> visit_anew(const std::vector<Value*>& values) {
    Value* const first = values.front();
    const bool is_one = std::ranges::all_of(values, [&](const Value* v) { return v == first; });
    if (is_constant(first)) return visit_constants(values, is_one);
    if (is_one) {
      if (!has_rows(first, tokens_)) {
        return fail("'{}', which all read, has no row for each token", name_of(first));
      }
      return token(first);
    }
    return visit_steps(values);
  }

  Expected<ExpertOperand> visit_constants(const std::vector<Value*>& values, bool is_one) {
    Value* const first = values.front();
    const bool same = std::ranges::all_of(values, [&](const Value* value) {
      return is_constant(value) && value->type() == first->type() &&
             stored(value).dtype() == stored(first).dtype();
    });
    if (!same) {
      return fail("'{}' of the first is no constant of the same size in all", name_of(first));
    }
    if (stored(first).num_elements() == 1) {
      const bool equal = is_one || std::ranges::all_of(values, [&](const Value* value) {
                           return identical(stored(value), stored(first));
                         });
      if (equal) return ExpertOperand{Kind::Number, 0, first};
    }
    return add_constants(values, false);
  }

  Expected<ExpertOperand> visit_steps(const std::vector<Value*>& values) {
    std::vector<Node*> nodes;
    for (const Value* value : values) {
      Node* const node = value->producer();
      if (node == nullptr) return fail("input '{}' is read by some of them only", name_of(value));
      nodes.push_back(node);
    }
    const Node& first = *nodes.front();
    for (Node* node : nodes) {
      if (node->op() != first.op() || !(node->attributes() == first.attributes()) ||
          node->num_operands() != first.num_operands() ||
          node->result()->type() != first.result()->type() || node->num_results() != 1) {
        return fail("{} and {} differ", quoted(first), quoted(*node));
      }
      if (node->source().stream != first.source().stream) {
        return fail("{} and {} are on different streams", quoted(first), quoted(*node));
      }
    }
    const bool is_product = first.op() == "matmul";
    const bool is_slice = first.op() == "slice" && slices_columns(first);
    if (!is_product && !is_slice && !is_row_by_row(first)) {
      return fail("{} is not computed row by row", quoted(first));
    }
    if (!has_rows(first.result(), tokens_)) {
      return fail("{} has no row for each token", quoted(first));
    }
    std::vector<ExpertOperand> operands;
    for (int i = 0; i < first.num_operands(); ++i) {
      std::vector<Value*> each;
      for (const Node* node : nodes) each.push_back(node->operand(i));
      OPWELD_TRY(ExpertOperand operand, visit(each));
      if (operand.kind == Kind::Constants) OPWELD_CHECK(check_constants(first, i, operand));
      operands.push_back(operand);
    }
    if (is_product && operands[1].kind != Kind::Constants) {
      return fail("{} multiplies by no matrix of its own", quoted(first));
    }
    program_.nodes.insert(program_.nodes.end(), nodes.begin(), nodes.end());
    return add_step(first, std::move(operands));
  }

  // A matrix on the right of a product, or a row that spreads over others.
  Status check_constants(const Node& node, int index, const ExpertOperand& operand) {
    const Value* const value = node.operand(index);
    const Shape& shape = value->shape();
    if (node.op() == "matmul") {
      program_.constants[operand.index].is_matrix = true;
      if (index == 1 && shape.size() == 2) return {};
      return fail("{} multiplies by no matrix of its own", quoted(node));
    }
    const bool is_row = is_row_by_row(node) && value->producer()->op() == "constant" &&
                        !shape.empty() && value->rank() <= node.result()->rank() &&
                        value->type().num_elements() == shape.back() &&
                        (shape.back() == Dim(1) || shape.back() == node.result()->shape().back());
    return is_row ? Status() : fail("{} reads constants that are no row", quoted(node));
  }

  const Shape& tokens_;
  std::map<const Value*, Known> known_;
};

}  // namespace

Expected<ExpertProgram> program_of_branches(const std::vector<Value*>& results,
                                            const Shape& tokens) {
  Branches branches(tokens);
  OPWELD_TRY(const ExpertOperand result, branches.visit(results));
  if (result.kind != Kind::Step) return fail("the experts compute nothing");
  OPWELD_CHECK(branches.check_closed(results));
  ExpertProgram program = branches.take();
  if (program.x == nullptr) return fail("the experts read no tokens");
  return program;
}

}  // namespace opweld
