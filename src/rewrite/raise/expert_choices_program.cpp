// Experts as products by the matrices that each choice gathers.
//
// Every value has a row for each choice, or for each token, and is walked in that form: [rows,
// columns] in row-major order, whatever its axes are.
#include <algorithm>
#include <map>

#include "rewrite/match.h"
#include "rewrite/raise/program_writer.h"
#include "rewrite/ramp.h"
#include "support/shape.h"

namespace opweld {

namespace {

using Kind = ExpertOperand::Kind;

std::size_t at(std::int64_t axis) {
  return static_cast<std::size_t>(axis);
}

// The axis at which so many rows end; nothing if no axes hold just these.
std::optional<std::size_t> end_of_rows(const Shape& shape, const Dim& rows) {
  Dim product = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    product *= shape[axis];
    if (product == rows) return axis + 1;
  }
  return std::nullopt;
}

class Choices : public ProgramWriter {
 public:
  Choices(Value* indices, std::int64_t experts)
      : indices_(indices),
        tokens_(indices->shape().begin(), indices->shape().end() - 1),
        rows_(num_elements(indices->shape())),
        experts_(experts) {}

  Expected<ExpertOperand> visit(Value* value) {
    if (value == nullptr) return ExpertOperand{};
    if (const auto known = known_.find(value); known != known_.end()) return known->second;
    OPWELD_TRY(const ExpertOperand operand, visit_anew(value));
    known_[value] = operand;
    return operand;
  }

 private:
  // How many columns there are behind the rows.
  std::optional<Dim> columns_of(const Value* value) const {
    const auto end = end_of_rows(value->shape(), rows_);
    if (!end) return std::nullopt;
    Dim columns = 1;
    for (std::size_t axis = *end; axis < value->shape().size(); ++axis) {
      columns *= value->shape()[axis];
    }
    return columns.constant() ? std::optional(columns) : std::nullopt;
  }

  // x [tokens.., N] of so many columns, if the value is its rows, once or each k times. A row of k
  // N elements that is cut into one of N for each choice is none.
  Value* tokens_behind(Value* value, const Dim& columns) const {
    Value* const x = tokens_behind(value);
    return x != nullptr && x->shape().back() == columns ? x : nullptr;
  }

  Value* tokens_behind(Value* value) const {
    // With one choice a token has as many rows before as behind the experts.
    if (indices_->shape().back() == Dim(1) && reads_matrices(value)) return nullptr;
    Value* v = value;
    bool repeated = false;
    for (;;) {
      const Shape& shape = v->shape();
      const bool is_x = shape.size() == tokens_.size() + 1 &&
                        std::equal(tokens_.begin(), tokens_.end(), shape.begin());
      if (is_x) return v;
      const Node* const node = v->producer();
      if (node == nullptr) return has_token_rows(v) ? v : nullptr;
      if (node->op() == "gather" && !repeated && repeats_tokens(*node)) {
        repeated = true;
      } else if (node->op() == "expand" && !repeated && repeats_axis(*node)) {
        repeated = true;
      } else if (node->op() != "reshape") {
        return has_token_rows(v) ? v : nullptr;
      }
      v = node->operand(0);
    }
  }

  // As many rows as there are tokens, in their order, their axes perhaps apart.
  bool has_token_rows(const Value* value) const {
    return value->rank() > 0 && value->shape().back().constant() &&
           value->type().num_elements() == num_elements(tokens_) * value->shape().back();
  }

  // Whether it is computed from a product by the matrices of a choice.
  bool reads_matrices(Value* value) const {
    const Node* const node = value->producer();
    if (node == nullptr) return false;
    if (node->op() == "matmul") {
      return std::ranges::any_of(node->operands(), [&](Value* operand) {
        const Node* const swap = made_by(operand, "transpose");
        return gathered(swap != nullptr ? swap->operand(0) : operand, 3).has_value();
      });
    }
    if (!is_row_by_row(*node) && node->op() != "reshape" && node->op() != "slice") return false;
    return std::ranges::any_of(node->operands(), [&](Value* operand) {
      return operand != nullptr && reads_matrices(operand);
    });
  }

  // An axis of one, behind the tokens, becomes k.
  bool repeats_axis(const Node& expand) const {
    const Shape& from = expand.operand(0)->shape();
    const Shape& to = expand.result()->shape();
    const auto end = end_of_rows(to, num_elements(tokens_));
    if (!end || from.size() != to.size()) return false;
    std::size_t changed = to.size();
    for (std::size_t axis = 0; axis < to.size(); ++axis) {
      if (from[axis] == to[axis]) continue;
      if (changed != to.size()) return false;
      changed = axis;
    }
    if (changed == to.size() || changed < *end || to[changed] != indices_->shape().back()) {
      return false;
    }
    return std::all_of(to.begin() + static_cast<std::ptrdiff_t>(*end),
                       to.begin() + static_cast<std::ptrdiff_t>(changed),
                       [](const Dim& size) { return size == Dim(1); });
  }

  // By 0, 0, .., 1, 1, ..: the numbers of the tokens, each k times.
  bool repeats_tokens(const Node& gather) const {
    const Value* const x = gather.operand(0);
    if (gather.attributes().integer("axis") != 0 || tokens_.size() != 1 || x->rank() != 2) {
      return false;
    }
    Value* const which = behind_reshapes(gather.operand(1));
    // With one choice nothing is repeated.
    const Node* const expand = made_by(which, "expand");
    if (expand == nullptr && indices_->shape().back() == Dim(1)) return counts_tokens(which);
    if (expand == nullptr || !repeats_axis(*expand)) return false;
    return counts_tokens(behind_reshapes(expand->operand(0)));
  }

  // 0, 1, ..
  bool counts_tokens(const Value* numbers) const {
    const auto ramp = integer_ramp(numbers);
    return ramp && ramp->steps == std::vector<std::int64_t>{1} && ramp->offset == Dim(0) &&
           numbers->shape() == tokens_;
  }

  Expected<ExpertOperand> visit_anew(Value* value) {
    if (is_constant(value) && stored(value).num_elements() == 1) {
      return ExpertOperand{Kind::Number, 0, value};
    }
    const Node* const node = value->producer();
    if (node == nullptr || !columns_of(value)) {
      return fail("'{}' has no row for each choice", name_of(value));
    }
    if (const auto together = product_of_all_choices(value)) return visit_product(*together);
    const std::string& op = node->op();
    if (op == "matmul") return visit_product(*node);
    if (is_row_by_row(*node)) return visit_pointwise(*node);
    if (op == "slice") return visit_slice(*node);
    if (op == "reshape" && columns_of(node->operand(0)) == columns_of(value)) {
      // Of tokens, it is their rows that are reshaped.
      if (Value* const x = tokens_behind(value, *columns_of(value))) return token(x);
      return visit(node->operand(0));
    }
    if (op == "gather" && is_only_element(*node)) return visit(node->operand(0));
    if (const auto constants = gathered(value, 2)) return add_constants({*constants}, false);
    if (Value* const x = tokens_behind(value, *columns_of(value))) return token(x);
    return fail("{} is not computed row by row", quoted(*node));
  }

  // Takes an axis of one element away.
  static bool is_only_element(const Node& gather) {
    const auto which = scalar_constant(gather.operand(1));
    const auto axis = at(gather.attributes().integer("axis"));
    return which == 0.0 && gather.operand(0)->shape()[axis] == Dim(1);
  }

  // The constants [experts, ..] of that rank which the value has of each choice.
  std::optional<Value*> gathered(Value* value, int rank) const {
    const Node* const gather = made_by(behind_reshapes(value), "gather");
    if (gather == nullptr || gather->attributes().integer("axis") != 0) return std::nullopt;
    Value* const data = gather->operand(0);
    const bool fits = behind_reshapes(gather->operand(1)) == indices_ && is_constant(data) &&
                      data->rank() == rank && data->shape()[0] == Dim(experts_) &&
                      (rank == 3 || data->producer()->op() == "constant");
    return fits ? std::optional(data) : std::nullopt;
  }

  // A token's row by the matrices of all its choices at once, "bk,bekc->bec": these are below each
  // other, [tokens.., k * N, K] times a column, or beside each other, a row times [tokens.., K, k *
  // N].
  struct Together {
    const Node* node = nullptr;
    Value* x = nullptr;
    Value* constants = nullptr;
    bool is_transposed = false;
    Dim columns;
  };

  std::optional<Together> product_of_all_choices(Value* value) const {
    const Node* const node = made_by(behind_reshapes(value), "matmul");
    const Dim& choices = indices_->shape().back();
    if (node == nullptr || choices == Dim(1)) return std::nullopt;
    for (int side = 0; side < 2; ++side) {
      Value* matrices = behind_reshapes(node->operand(side));
      const Node* const turned = made_by(matrices, "transpose");
      if (turned != nullptr) matrices = turned->operand(0);
      const auto constants = gathered(matrices, 3);
      Value* const x = tokens_behind(node->operand(1 - side));
      if (!constants || x == nullptr) continue;
      if (turned != nullptr && !keeps_last_axes(matrices, **constants)) continue;
      // What the axes of a choice's matrix are: of [experts, N, K] in the first form, of [experts,
      // K, N] in the second, and the other way round where they are turned.
      const bool puts_beside = side == 1;
      const Ints order = axes_of(matrices, turned);
      const Ints as_they_are = {0, 1, 2, 3};
      const Ints below = {0, 1, 3, 2};
      const Ints beside = {0, 2, 1, 3};
      const Ints across = {0, 3, 1, 2};
      Together found{node, x, *constants, false, 1};
      if (!puts_beside && (order == as_they_are || order == below)) {
        found.is_transposed = order == as_they_are;
      } else if (puts_beside && (order == beside || order == across)) {
        found.is_transposed = order == across;
      } else {
        continue;
      }
      const Shape& stored = (*constants)->shape();
      found.columns = stored[found.is_transposed ? 1 : 2];
      const Dim& depth = stored[found.is_transposed ? 2 : 1];
      Shape form = {num_elements(tokens_), choices * found.columns, depth};
      if (puts_beside) std::swap(form[1], form[2]);
      const bool fits = x->shape().back() == depth && rows_as_one(node->operand(side)) == form &&
                        node->result()->type().num_elements() == rows_ * found.columns;
      if (fits) return found;
    }
    return std::nullopt;
  }

  // The axes of [tokens, k, .., ..] in the order that the transpose puts them in; empty where it
  // is of another form.
  Ints axes_of(const Value* matrices, const Node* turned) const {
    Ints order = {0, 1, 2, 3};
    const auto tokens = static_cast<std::int64_t>(tokens_.size());
    if (turned == nullptr) return order;
    const Ints& permutation = turned->attributes().ints("permutation");
    if (matrices->rank() != tokens + 3 || matrices->shape()[at(tokens)] != indices_->shape().back())
      return {};
    for (std::int64_t axis = 0; axis < tokens; ++axis) {
      if (permutation[at(axis)] != axis) return {};
    }
    for (std::size_t i = 1; i < order.size(); ++i) {
      order[i] = permutation[at(tokens) + i - 1] - tokens + 1;
    }
    return order;
  }

  // The shape with all axes but the last two made one.
  static Shape rows_as_one(const Value* value) {
    const Shape& shape = value->shape();
    if (shape.size() < 2) return shape;
    Dim rows = 1;
    for (std::size_t axis = 0; axis + 2 < shape.size(); ++axis) rows *= shape[axis];
    return {rows, shape[shape.size() - 2], shape.back()};
  }

  Expected<ExpertOperand> visit_product(const Together& together) {
    OPWELD_TRY(const ExpertOperand left, token(together.x));
    const ExpertOperand right = add_constants({together.constants}, true);
    program_.constants.back().is_transposed = together.is_transposed;
    program_.nodes.push_back(together.node->result()->producer());
    return add_step(*together.node, {left, right}, together.columns);
  }

  // A row times a matrix, or a matrix times a column; [.., K, N] of each choice.
  Expected<ExpertOperand> visit_product(const Node& node) {
    for (int side = 0; side < 2; ++side) {
      Value* matrix = node.operand(side);
      Value* const row = node.operand(1 - side);
      bool is_transposed = side == 0;
      // The result has one row, or one column.
      const Shape& shape = node.result()->shape();
      if (shape.size() < 2 || shape[shape.size() - (side == 0 ? 1 : 2)] != Dim(1)) continue;
      if (const Node* const swap = made_by(matrix, "transpose");
          swap != nullptr && swaps_last_axes(*swap)) {
        matrix = swap->operand(0);
        is_transposed = !is_transposed;
      }
      const auto constants = gathered(matrix, 3);
      if (!constants || !keeps_last_axes(matrix, **constants)) continue;
      const Shape& stored = (*constants)->shape();
      OPWELD_TRY(const ExpertOperand left, visit_row(row, stored[is_transposed ? 2 : 1]));
      const ExpertOperand right = add_constants({*constants}, true);
      program_.constants.back().is_transposed = is_transposed;
      program_.nodes.push_back(node.result()->producer());
      return add_step(node, {left, right}, *columns_of(node.result()));
    }
    return fail("{} multiplies no row by the matrix of a choice", quoted(node));
  }

  static bool keeps_last_axes(const Value* matrix, const Value& constants) {
    const Shape& of = matrix->shape();
    return of.size() >= 2 && of.back() == constants.shape()[2] &&
           of[of.size() - 2] == constants.shape()[1];
  }

  Expected<ExpertOperand> visit_row(Value* row, const Dim& columns) {
    if (Value* const x = tokens_behind(row, columns)) return token(x);
    return visit(row);
  }

  Expected<ExpertOperand> visit_pointwise(const Node& node) {
    std::vector<ExpertOperand> operands;
    for (Value* operand : node.operands()) {
      if (operand != nullptr && operand->shape() != node.result()->shape() &&
          !(is_constant(operand) && stored(operand).num_elements() == 1)) {
        return fail("{} spreads rows", quoted(node));
      }
      OPWELD_TRY(const ExpertOperand each, visit(operand));
      operands.push_back(each);
    }
    program_.nodes.push_back(node.result()->producer());
    return add_step(node, std::move(operands), *columns_of(node.result()));
  }

  // Of columns, all other axes behind the rows having one element.
  Expected<ExpertOperand> visit_slice(const Node& node) {
    const Shape& from = node.operand(0)->shape();
    const Shape& to = node.result()->shape();
    const auto end = end_of_rows(from, rows_);
    if (!end) return fail("{} leaves rows out", quoted(node));
    for (std::size_t axis = 0; axis < to.size(); ++axis) {
      const bool is_whole = from[axis] == to[axis] && node.attributes().ints("steps")[axis] == 1;
      const bool is_column = axis >= *end && *columns_of(node.operand(0)) == from[axis] &&
                             node.attributes().shape("starts")[axis].constant();
      if (!is_whole && !is_column) return fail("{} leaves rows out", quoted(node));
    }
    OPWELD_TRY(const ExpertOperand operand, visit(node.operand(0)));
    program_.nodes.push_back(node.result()->producer());
    return add_step(node, {operand}, *columns_of(node.result()));
  }

  Value* indices_;
  Shape tokens_;
  Dim rows_;
  std::int64_t experts_;
  std::map<const Value*, ExpertOperand> known_;
};

}  // namespace

Value* behind_reshapes(Value* value) {
  while (const Node* const node = value->producer()) {
    const bool is_cast =
        node->op() == "cast" && is_integer(value->dtype()) && is_integer(node->operand(0)->dtype());
    if (node->op() != "reshape" && !is_cast) break;
    value = node->operand(0);
  }
  return value;
}

Expected<ExpertProgram> program_of_choices(Value* result, Value* indices, std::int64_t experts) {
  Choices choices(indices, experts);
  OPWELD_TRY(const ExpertOperand operand, choices.visit(result));
  if (operand.kind != Kind::Step) return fail("the experts compute nothing");
  ExpertProgram program = choices.take();
  if (program.x == nullptr) return fail("the experts read no tokens");
  return program;
}

}  // namespace opweld
