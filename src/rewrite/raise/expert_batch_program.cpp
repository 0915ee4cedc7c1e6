// Experts that are computed all at once, by batched products or by one product of all their
// columns.
//
// Values have a row for each expert and token, in whatever order of axes: batched products have the
// experts in front, einsum over stacked weights has them behind the tokens, and transposes lead
// from one to the other.
#include <algorithm>
#include <map>

#include "rewrite/match.h"
#include "rewrite/raise/expert_choice.h"
#include "rewrite/raise/program_writer.h"

namespace opweld {

namespace {

using Kind = ExpertOperand::Kind;
using Axes = std::vector<int>;  // what each axis stands for; kNoAxis is that of the columns

class Batch : public ProgramWriter {
 public:
  Batch(const Shape& tokens, std::int64_t experts) : tokens_(tokens), experts_(experts) {}

  Expected<ExpertOperand> visit(Value* value, const Axes& axes) {
    if (value == nullptr) return ExpertOperand{};
    if (const auto known = known_.find(value); known != known_.end()) {
      if (known->second.axes != axes) return fail("'{}' is read in two ways", name_of(value));
      return known->second.operand;
    }
    OPWELD_TRY(const ExpertOperand operand, visit_anew(value, axes));
    known_[value] = {axes, operand};
    return operand;
  }

 private:
  struct Known {
    Axes axes;
    ExpertOperand operand;
  };

  // As many elements along each axis as it stands for.
  bool has_rows(const Value* value, const Axes& axes) const {
    const Shape& shape = value->shape();
    if (shape.size() != axes.size()) return false;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const bool fits =
          axes[i] == kNoAxis ? shape[i].constant().has_value() : shape[i] == size_of(axes[i]);
      if (!fits) return false;
    }
    return true;
  }

  Dim size_of(int axis) const {
    return axis == kExpertAxis ? Dim(experts_) : tokens_[static_cast<std::size_t>(axis)];
  }

  // The rows of tokens alone, columns last: axes of one element in place of the experts'.
  bool has_token_rows(const Value* value, const Axes& axes) const {
    const Shape& shape = value->shape();
    if (shape.empty() || shape.size() > axes.size() || !shape.back().constant()) return false;
    if (axes.back() != kNoAxis) return false;
    const std::size_t offset = axes.size() - shape.size();
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const bool is_token = axes[i] >= 0;
      if (i < offset) {
        if (is_token && size_of(axes[i]) != Dim(1)) return false;
        continue;
      }
      const Dim& size = shape[i - offset];
      if (is_token ? size != size_of(axes[i]) : axes[i] == kExpertAxis && size != Dim(1)) {
        return false;
      }
    }
    return true;
  }

  // x, if the value is its rows for each expert: repeated, or with axes of one.
  Value* tokens_behind(Value* value, const Axes& axes) const {
    if (Value* const x = repeated_whole(value, axes)) return x;
    const Node* const expand = made_by(value, "expand");
    Value* x = expand != nullptr ? expand->operand(0) : value;
    if (!has_token_rows(x, axes) || x->shape().back() != value->shape().back()) return nullptr;
    return behind_rows(x);
  }

  // Rows stay rows as long as it is the axes before them that come and go.
  static Value* behind_rows(Value* x) {
    for (const Node* node = made_by(x, "reshape"); node != nullptr; node = made_by(x, "reshape")) {
      Value* const from = node->operand(0);
      if (from->rank() == 0 || from->shape().back() != x->shape().back()) break;
      x = from;
    }
    return x;
  }

  // x [tokens, N], all of it one time after the other and the times an axis of their own.
  Value* repeated_whole(Value* value, const Axes& axes) const {
    const Node* const apart = made_by(value, "reshape");
    const Node* const tile = apart == nullptr ? nullptr : made_by(apart->operand(0), "tile");
    if (tile == nullptr || axes.front() != kExpertAxis || !has_rows(value, axes)) return nullptr;
    Value* const x = tile->operand(0);
    const Shape& repeats = tile->attributes().shape("repeats");
    const bool fits = x->rank() == 2 && repeats == Shape{Dim(experts_), Dim(1)} &&
                      x->shape()[1] == value->shape().back() &&
                      x->shape()[0] == num_elements(tokens_);
    return fits ? x : nullptr;
  }

  Expected<ExpertOperand> visit_anew(Value* value, const Axes& axes) {
    if (is_constant(value)) {
      if (stored(value).num_elements() == 1) return ExpertOperand{Kind::Number, 0, value};
      return add_constants({value}, false);
    }
    if (Value* const tokens = tokens_behind(value, axes)) return token(tokens);
    Node* const node = value->producer();
    if (node == nullptr || node->num_results() != 1) {
      return fail("'{}' is not computed row by row", name_of(value));
    }
    if (!has_rows(value, axes)) {
      return fail("{} has no row for each expert and token", quoted(*node));
    }
    if (node->op() == "transpose") return visit_transpose(*node, axes);
    if (node->op() == "reshape") return visit_columns_of_all(*node, axes);
    if (node->op() == "matmul") return visit_product(*node, axes);
    const bool slices = node->op() == "slice" && axes.back() == kNoAxis && slices_columns(*node);
    if (!slices && !is_row_by_row(*node)) {
      return fail("'{}' is not computed row by row", name_of(value));
    }
    std::vector<ExpertOperand> operands;
    for (Value* each : node->operands()) {
      OPWELD_TRY(const ExpertOperand operand, visit(each, axes));
      if (operand.kind == Kind::Constants && !has_expert_rows(*each, axes)) {
        return fail("{} reads constants that are of no expert", quoted(*node));
      }
      operands.push_back(operand);
    }
    program_.nodes.push_back(node);
    return add_step(*node, std::move(operands), columns_of(*value, axes));
  }

  static Dim columns_of(const Value& value, const Axes& axes) {
    const auto place = std::ranges::find(axes, kNoAxis) - axes.begin();
    return value.shape()[static_cast<std::size_t>(place)];
  }

  // [.., experts, .., N], with one element in between.
  bool has_expert_rows(const Value& value, const Axes& axes) const {
    const Shape& shape = value.shape();
    if (shape.size() > axes.size() || axes.back() != kNoAxis) return false;
    if (value.producer()->op() != "constant") return false;
    const std::size_t offset = axes.size() - shape.size();
    bool has_experts = false;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i) {
      const bool is_experts = axes[offset + i] == kExpertAxis && shape[i] == Dim(experts_);
      has_experts = has_experts || is_experts;
      if (!is_experts && shape[i] != Dim(1)) return false;
    }
    return has_experts;
  }

  Expected<ExpertOperand> visit_transpose(const Node& node, const Axes& axes) {
    const Ints& permutation = node.attributes().ints("permutation");
    Axes before(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      before[static_cast<std::size_t>(permutation[i])] = axes[i];
    }
    views_.push_back(&node);
    return visit(node.operand(0), before);
  }

  // By matrices [experts, 1.., K, N], where experts are in front.
  Expected<ExpertOperand> visit_product(const Node& node, const Axes& axes) {
    Value* const matrices = node.operand(1);
    const Shape& shape = matrices->shape();
    bool fits = axes.front() == kExpertAxis && axes.back() == kNoAxis && is_constant(matrices) &&
                matrices->rank() == node.result()->rank() && shape[0] == Dim(experts_);
    for (std::size_t axis = 1; fits && axis + 2 < shape.size(); ++axis) {
      fits = shape[axis] == Dim(1);
    }
    if (!fits) return fail("{} multiplies by no matrix of each expert", quoted(node));
    OPWELD_TRY(const ExpertOperand rows, visit(node.operand(0), axes));
    return add_product(node, rows, matrices, shape.back());
  }

  ExpertOperand add_product(const Node& node, const ExpertOperand& rows, Value* matrices,
                            const Dim& columns) {
    const ExpertOperand right = add_constants({matrices}, true);
    program_.nodes.push_back(node.result()->producer());
    return add_step(node, {rows, right}, columns);
  }

  // The product of tokens by [K, experts * N], the columns of each expert apart.
  Expected<ExpertOperand> visit_columns_of_all(const Node& apart, const Axes& axes) {
    const Node* const product = made_by(apart.operand(0), "matmul");
    const auto columns = apart.result()->shape().back().constant();
    Axes expected;
    for (std::size_t i = 0; i < tokens_.size(); ++i) expected.push_back(static_cast<int>(i));
    expected.insert(expected.end(), {kExpertAxis, kNoAxis});
    Value* const matrices = product == nullptr ? nullptr : product->operand(1);
    const bool fits = matrices != nullptr && columns && axes == expected && is_constant(matrices) &&
                      matrices->rank() == 2 && matrices->shape()[1] == Dim(experts_ * *columns) &&
                      product->result()->shape().back() == matrices->shape()[1];
    if (!fits) return fail("'{}' is not computed row by row", name_of(apart.result()));
    Value* const x = product->operand(0);
    // Rows of all tokens in order, whatever their axes are.
    if (x->type().num_elements() != num_elements(tokens_) * x->shape().back()) {
      return fail("{} multiplies other rows than those of the tokens", quoted(*product));
    }
    views_.push_back(&apart);
    OPWELD_TRY(const ExpertOperand rows, token(behind_rows(x)));
    const ExpertOperand result = add_product(*product, rows, matrices, Dim(*columns));
    program_.constants.back().is_beside = true;
    return result;
  }

  const Shape& tokens_;
  std::int64_t experts_;
  std::map<const Value*, Known> known_;
};

}  // namespace

Expected<ExpertProgram> program_of_batch(Value* result, const std::vector<int>& axes,
                                         const Shape& tokens, std::int64_t experts) {
  Batch batch(tokens, experts);
  OPWELD_TRY(const ExpertOperand operand, batch.visit(result, axes));
  if (operand.kind != Kind::Step) return fail("the experts compute nothing");
  OPWELD_CHECK(batch.check_closed(result));
  ExpertProgram program = batch.take();
  if (program.x == nullptr) return fail("the experts read no tokens");
  return program;
}

}  // namespace opweld
