#include "rewrite/raise/mixture.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "ops/builder.h"
#include "ops/sort_by_group.h"
#include "rewrite/match.h"
#include "support/shape.h"

namespace opweld {

namespace {

using Kind = ExpertOperand::Kind;

const Tensor& stored(const Value* value) {
  const Node* const node = value->producer();
  const Node* const constant = node->op() == "constant" ? node : node->operand(0)->producer();
  return constant->attributes().tensor("value");
}

class Mixture {
 public:
  Mixture(Graph& graph, Node& root, const ExpertChoice& choice, const ExpertProgram& program)
      : graph_(graph),
        root_(root),
        choice_(choice),
        program_(program),
        b_(graph, &root, routing_source(root)),
        tokens_(num_elements(choice.tokens())),
        rows_(tokens_ * choice.choices()) {}

  Expected<Value*> build(const Chosen& share) {
    Value* const flat = b_.reshape(choice_.indices(), {rows_});
    OPWELD_TRY(const GroupedRows grouped, sort_by_group(b_, flat, choice_.experts()));
    Value* const order = grouped.order;
    counts_ = grouped.counts;
    // Only rows of constants ask for it.
    experts_ = gather_rows(flat, order);
    const std::int64_t choices = choice_.choices();
    Value* const token =
        choices == 1 ? order
                     : b_.binary("div", order, b_.scalar(static_cast<double>(choices), DType::I64));
    Value* const x = b_.reshape(program_.x, {tokens_, program_.x->shape().back()});
    sorted_ = gather_rows(x, token);
    OPWELD_CHECK(b_.status());
    for (std::size_t step = 0; step < program_.steps.size(); ++step) OPWELD_CHECK(emit(step));
    Value* const rows = done_.at(program_.steps.size() - 1);
    const Dim& columns = rows->shape()[1];
    // Back to where the choices stand.
    Value* const apart = b_.reshape(gather_rows(rows, grouped.place), {tokens_, choices, columns});
    Value* const weight = b_.reshape(weight_of(share), {tokens_, choices, 1});
    Value* const sum = b_.op("reduce_sum", {b_.binary("mul", apart, weight)},
                             {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
    Shape shape = choice_.tokens();
    shape.push_back(columns);
    Value* const result = b_.reshape(sum, shape);
    OPWELD_CHECK(b_.status());
    return result;
  }

 private:
  static Source routing_source(const Node& root) { return raised_source(root, "MixtureOfExperts"); }

  // ---- routing ----

  Value* gather_rows(Value* x, Value* which) {
    return b_.op("gather", {x, which}, {{"axis", std::int64_t{0}}});
  }

  Value* weight_of(const Chosen& share) {
    Value* weight = share.weight;
    for (const WeightStep& step : share.steps) {
      weight = step.other == nullptr ? b_.cast(weight, step.dtype)
                                     : b_.binary(step.op, weight, step.other);
      if (weight == nullptr) break;  // an error that status() has
    }
    return weight;
  }

  // ---- the experts ----

  // Named after the nodes of these steps, of all experts.
  [[nodiscard]] Source source_of(std::initializer_list<std::size_t> steps,
                                 std::string_view op) const {
    const std::size_t per_step = program_.nodes.size() / program_.steps.size();
    std::vector<const Node*> nodes;
    for (const std::size_t step : steps) {
      for (std::size_t i = 0; i < per_step; ++i)
        nodes.push_back(program_.nodes[step * per_step + i]);
    }
    Source source = joined_source(nodes);
    if (!op.empty()) source.op = op;
    if (op.empty()) source.op = nodes.front()->source().op;
    return source;
  }

  Status emit(std::size_t step) {
    if (done_.contains(step)) return {};
    const Node& node = *program_.steps[step].node;
    if (node.op() == "matmul") return emit_product(step);
    Builder build(graph_, &root_, source_of({step}, ""));
    std::vector<Value*> operands;
    for (const ExpertOperand& operand : program_.steps[step].operands) {
      OPWELD_TRY(Value* const value, value_of(operand, build));
      operands.push_back(value);
    }
    Attributes attributes = node.attributes();
    if (node.op() == "slice") {
      const std::size_t axis = sliced_axis(node);
      attributes.set("starts", Shape{0, attributes.shape("starts")[axis]});
      attributes.set("sizes", Shape{rows_, attributes.shape("sizes")[axis]});
      attributes.set("steps", Ints{1, attributes.ints("steps")[axis]});
    }
    done_[step] = build.op(node.op(), std::move(operands), std::move(attributes));
    return build.status();
  }

  // That of the columns; the last one where nothing is left out.
  static std::size_t sliced_axis(const Node& slice) {
    const Shape& from = slice.operand(0)->shape();
    const Shape& sizes = slice.attributes().shape("sizes");
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sizes[axis] != from[axis]) return axis;
    }
    return sizes.size() - 1;
  }

  Expected<Value*> value_of(const ExpertOperand& operand, Builder& build) {
    switch (operand.kind) {
      case Kind::Absent:
        return nullptr;
      case Kind::Token:
        return sorted_;
      case Kind::Step:
        return done_.at(operand.index);
      case Kind::Number:
        return build.reshape(operand.value, {});
      case Kind::Constants: {
        OPWELD_TRY(Value* const rows, stacked_rows({operand.index}, build));
        return gather_rows(rows, experts_);
      }
    }
    return nullptr;
  }

  // The product beside it: of the same rows by matrices of the same size; itself if there is none.
  [[nodiscard]] std::size_t sibling(std::size_t step) const {
    const auto& own = program_.steps[step].operands;
    std::size_t found = step;
    for (std::size_t other = 0; other < program_.steps.size(); ++other) {
      const Node& node = *program_.steps[other].node;
      const auto& operands = program_.steps[other].operands;
      if (other == step || node.op() != "matmul" || operands[0].kind != own[0].kind ||
          operands[0].index != own[0].index) {
        continue;
      }
      if (found != step) return step;  // three or more stay apart
      const Value* const left = matrix(own[1].index);
      const Value* const right = matrix(operands[1].index);
      if (left->type() != right->type() || stored(left).dtype() != stored(right).dtype() ||
          is_transposed(own[1].index) != is_transposed(operands[1].index) ||
          program_.constants[own[1].index].is_beside !=
              program_.constants[operands[1].index].is_beside) {
        return step;
      }
      found = other;
    }
    return found;
  }

  [[nodiscard]] const Value* matrix(std::size_t constants) const {
    return program_.constants[constants].each.front();
  }

  [[nodiscard]] bool is_transposed(std::size_t constants) const {
    return program_.constants[constants].is_transposed;
  }

  // The step that alone reads the product and adds a row of each expert; itself if none does.
  [[nodiscard]] std::size_t bias_of(std::size_t product) const {
    std::size_t found = product;
    for (std::size_t step = 0; step < program_.steps.size(); ++step) {
      for (const ExpertOperand& operand : program_.steps[step].operands) {
        if (operand.kind != Kind::Step || operand.index != product) continue;
        if (found != product) return product;
        found = step;
      }
    }
    if (found == product || program_.steps[found].node->op() != "add") return product;
    const auto constants = bias_constants(found);
    const Dim& columns = program_.steps[product].columns;
    const bool fits = constants && matrix(*constants)->shape().back() == columns;
    return fits ? found : product;
  }

  [[nodiscard]] std::optional<std::size_t> bias_constants(std::size_t sum) const {
    for (const ExpertOperand& operand : program_.steps[sum].operands) {
      if (operand.kind == Kind::Constants) return operand.index;
    }
    return std::nullopt;
  }

  Status emit_product(std::size_t step) {
    const std::size_t other = sibling(step);
    const bool is_pair = other != step;
    const std::size_t bias = bias_of(step);
    const std::size_t other_bias = is_pair ? bias_of(other) : step;
    const bool has_bias = bias != step && (!is_pair || other_bias != other);
    Builder build(
        graph_, &root_,
        is_pair ? source_of({step, other}, "GroupedMatMul") : source_of({step}, "GroupedMatMul"));
    std::vector<std::size_t> parts = {program_.steps[step].operands[1].index};
    if (is_pair) parts.push_back(program_.steps[other].operands[1].index);
    OPWELD_TRY(Value* const rows, value_of(program_.steps[step].operands[0], build));
    OPWELD_TRY(Value* const weights, stacked_matrices(parts, rows->dtype(), build));
    std::vector<Value*> operands = {rows, weights, counts_};
    if (has_bias) {
      std::vector<std::size_t> rows_of = {*bias_constants(bias)};
      if (is_pair) rows_of.push_back(*bias_constants(other_bias));
      OPWELD_TRY(Value* const added, stacked_rows(rows_of, build));
      operands.push_back(added);
    }
    Value* const product = build.op("grouped_matmul", std::move(operands));
    OPWELD_CHECK(build.status());
    if (!is_pair) {
      done_[step] = product;
      if (has_bias) done_[bias] = product;
      return {};
    }
    const Dim columns = program_.steps[step].columns;
    for (const std::size_t half : {step, other}) {
      Source source = source_of({half}, "Slice");
      source.operators = 0;
      Builder slicing(graph_, &root_, std::move(source));
      // In the order of the parts.
      const Dim start = half == step ? Dim(0) : columns;
      done_[half] = slicing.op(
          "slice", {product},
          {{"starts", Shape{0, start}}, {"sizes", Shape{rows_, columns}}, {"steps", Ints{1, 1}}});
      OPWELD_CHECK(slicing.status());
      if (has_bias) done_[half == step ? bias : other_bias] = done_[half];
    }
    return {};
  }

  // ---- constants of all experts ----

  // A row of an expert's part, wherever it is; of what is stored as [columns, rows], its start.
  [[nodiscard]] const std::byte* bytes_of(const ExpertConstants& constants, std::int64_t expert,
                                          std::int64_t row, std::size_t row_bytes) const {
    const std::size_t before =
        constants.is_transposed ? 0 : static_cast<std::size_t>(row) * row_bytes;
    if (constants.is_beside) {
      const auto experts = static_cast<std::size_t>(choice_.experts());
      return stored(constants.each.front()).data() + before * experts +
             row_bytes * static_cast<std::size_t>(expert);
    }
    return start_of(constants, expert) + before;
  }

  [[nodiscard]] const std::byte* start_of(const ExpertConstants& constants,
                                          std::int64_t expert) const {
    if (constants.each.size() > 1) {
      return stored(constants.each[static_cast<std::size_t>(expert)]).data();
    }
    const Tensor& all = stored(constants.each.front());
    return all.data() + all.num_bytes() / choice_.experts() * expert;
  }

  // A row of [rows, columns], which is where `from` is, or of all that is stored as [columns,
  // rows].
  static void copy_row(std::byte* to, const std::byte* from, std::int64_t row, std::int64_t rows,
                       std::int64_t columns, std::size_t element, bool is_transposed) {
    if (!is_transposed) {
      const auto bytes = static_cast<std::size_t>(columns) * element;
      if (bytes > 0) std::memcpy(to, from, bytes);
      return;
    }
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto place = static_cast<std::size_t>(column * rows + row);
      std::memcpy(to + static_cast<std::size_t>(column) * element, from + place * element, element);
    }
  }

  // [experts, rows, columns of all parts].
  Expected<Tensor> stacked(const std::vector<std::size_t>& parts, std::int64_t rows,
                           std::int64_t columns) {
    const ExpertConstants& first = program_.constants[parts.front()];
    const Tensor& like = stored(first.each.front());
    const std::int64_t experts = choice_.experts();
    const auto count = static_cast<std::int64_t>(parts.size());
    const Sizes sizes = {experts, rows, columns * count};
    const bool is_stacked = first.each.size() == 1 && !first.is_transposed && !first.is_beside;
    if (parts.size() == 1 && is_stacked) {
      return like.reshaped(sizes);
    }
    OPWELD_TRY(Tensor all, Tensor::allocate(like.dtype(), sizes));
    const auto element = static_cast<std::size_t>(byte_size(like.dtype()));
    std::byte* to = all.mutable_data();
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (const std::size_t part : parts) {
          const std::byte* const from = bytes_of(program_.constants[part], expert, row,
                                                 static_cast<std::size_t>(columns) * element);
          copy_row(to, from, row, rows, columns, element, first.is_transposed);
          to += static_cast<std::size_t>(columns) * element;
        }
      }
    }
    return all;
  }

  Expected<Value*> stacked_matrices(const std::vector<std::size_t>& parts, DType dtype,
                                    Builder& build) {
    const Shape& shape = matrix(parts.front())->shape();
    std::int64_t rows = *shape[shape.size() - 2].constant();
    std::int64_t columns = *shape.back().constant();
    if (is_transposed(parts.front())) std::swap(rows, columns);
    if (program_.constants[parts.front()].is_beside) columns /= choice_.experts();
    OPWELD_TRY(Tensor all, stacked(parts, rows, columns));
    return build.cast(build.constant(std::move(all)), dtype);
  }

  Expected<Value*> stacked_rows(const std::vector<std::size_t>& parts, Builder& build) {
    const std::int64_t columns = *matrix(parts.front())->shape().back().constant();
    OPWELD_TRY(Tensor all, stacked(parts, 1, columns));
    const Sizes flat = {all.sizes()[0], all.sizes()[2]};
    return build.constant(all.reshaped(flat));
  }

  Graph& graph_;
  Node& root_;
  const ExpertChoice& choice_;
  const ExpertProgram& program_;
  Builder b_;
  Dim tokens_, rows_;
  Value* experts_ = nullptr;  // of the sorted rows
  Value* counts_ = nullptr;   // of rows of each expert
  Value* sorted_ = nullptr;   // the tokens' rows, sorted
  std::map<std::size_t, Value*> done_;
};

}  // namespace

Expected<Value*> build_mixture(Graph& graph, Node& root, const ExpertChoice& choice,
                               const Chosen& share, const ExpertProgram& program) {
  return Mixture(graph, root, choice, program).build(share);
}

}  // namespace opweld
