#include "tile/schedules/row_statistics.h"

#include <algorithm>
#include <limits>
#include <set>

#include "tile/schedules/head_segments.h"
#include "tile/schedules/reduction_recipe.h"

namespace opweld::tile {

namespace {

constexpr std::string_view kWholeRows =
    "an output is made of a statistic of a row and of the whole row again";

Shape leading_axes(const Shape& shape) {
  return {shape.begin(), shape.end() - 1};
}

// Whether it reduces the last axis, and others of a single element at most.
bool reduces_rows(const Node& node) {
  const std::vector<bool> reduced = reduced_axes(node);
  const Shape& shape = node.operand(0)->shape();
  for (std::size_t axis = 0; axis + 1 < reduced.size(); ++axis) {
    if (reduced[axis] && shape[axis] != Dim(1)) return false;
  }
  return !reduced.empty() && reduced.back();
}

// Whether the reduction's operand has the rows of the value that it is over, in their order.
bool has_same_rows(const DomainOutput& operand) {
  const Shape& shape = operand.value->shape();
  const Shape& other = operand.output->shape();
  if (operand.scatter != nullptr || other.back() != shape.back()) return false;
  if (num_elements(leading_axes(other)) != num_elements(leading_axes(shape))) return false;
  const std::vector<Dim> strides = row_major_strides(shape);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != Dim(1) && operand.view.strides[axis] != strides[axis]) return false;
  }
  return true;
}

class Finder {
 public:
  Finder(std::span<const Node* const> nodes, std::span<const Value* const> results,
         Contraction& contraction)
      : nodes_(nodes), results_(results), contraction_(contraction) {}

  Expected<RowReductions> run() {
    of_rows_.insert(contraction_.result);
    for (const Node* node : nodes_) OPWELD_CHECK(look_at(*node));
    std::vector<const Value*> wanted;
    for (const Value* output : results_) {
      if (!of_statistics_.contains(output)) wanted.push_back(output);
    }
    for (const auto& reduction : found_.reductions) wanted.push_back(reduction.node->operand(0));
    OPWELD_CHECK(find_results(nodes_, wanted, contraction_));
    if (found_.reductions.empty()) return std::move(found_);
    if (contraction_.head != 0) return fail("it reduces rows of which heads are stored");
    OPWELD_CHECK(split_off_operands());
    for (const Value* output : results_) {
      if (of_statistics_.contains(output)) OPWELD_CHECK(add_output(output));
    }
    return std::move(found_);
  }

 private:
  Status look_at(const Node& node) {
    const auto reads = [&](const std::set<const Value*>& values) {
      return std::ranges::any_of(node.operands(),
                                 [&](const Value* operand) { return values.contains(operand); });
    };
    const bool of_statistics = reads(of_statistics_);
    const bool of_rows = reads(of_rows_);
    const bool reduces = is_staged_reduction(node) && (of_rows || of_statistics);
    if (reduces) {
      if (of_statistics) return fail("it reduces what is made of another statistic of the rows");
      if (!reduces_rows(node)) return fail("it reduces other axes than the last");
      found_.reductions.push_back({&node});
    }
    for (int i = 0; i < node.num_results(); ++i) {
      if (reduces || of_statistics) of_statistics_.insert(node.result(i));
      if (!reduces && of_rows) of_rows_.insert(node.result(i));
    }
    return {};
  }

  Status add_output(const Value* value) {
    if (of_rows_.contains(value)) return fail("{}", kWholeRows);
    std::vector<Shape> shapes;
    for (const auto& reduction : found_.reductions) {
      shapes.push_back(reduction.node->result()->shape());
    }
    shapes.push_back(value->shape());
    for (const Shape& shape : shapes) {
      if (num_elements(shape) != num_elements(leading_axes(contraction_.result->shape()))) continue;
      if (auto over = output_over(value, shape)) {
        found_.outputs.push_back(std::move(*over));
        return {};
      }
    }
    return fail("an output made of statistics has not one element for each row");
  }

  // They come last among what was found over the result.
  Status split_off_operands() {
    auto& outputs = contraction_.outputs;
    const std::size_t first = outputs.size() - found_.reductions.size();
    for (std::size_t i = 0; i < found_.reductions.size(); ++i) {
      DomainOutput& operand = outputs[first + i];
      if (!has_same_rows(operand)) return fail("it reduces other rows than those of its matmul");
      found_.reductions[i].operand = std::move(operand);
    }
    outputs.resize(first);
    return {};
  }

  std::span<const Node* const> nodes_;
  std::span<const Value* const> results_;
  Contraction& contraction_;
  RowReductions found_;
  std::set<const Value*> of_rows_;        // made of the matmul's result, element by element
  std::set<const Value*> of_statistics_;  // made of a reduction; in both: of the row again
};

}  // namespace

Expected<RowReductions> find_row_reductions(std::span<const Node* const> nodes,
                                            std::span<const Value* const> results,
                                            Contraction& contraction) {
  return Finder(nodes, results, contraction).run();
}

RowStatistics::RowStatistics(GroupLowering& lowering, const Contraction& contraction,
                             RowReductions found, const ContractBlocking& blocking)
    : lowering_(lowering),
      program_(lowering.program()),
      math_(lowering.math()),
      contraction_(contraction),
      found_(std::move(found)),
      exact_(lowering.options().strict),
      lanes_(
          lowering.options().target->lanes(byte_size(compute_dtype(contraction.result->dtype())))),
      units_(exact_ ? contraction.columns : ceil_div(contraction.columns, Dim(lanes_))),
      block_rows_(blocking.rows),
      block_width_(blocking.columns / contraction.parts),
      rows_(contraction.batch) {
  rows_.push_back(contraction.rows);
  // The last tile of a row may have vectors behind the last column, and they get a place, too.
  const Dim width(blocking.tile_columns / contraction.parts);
  Shape shape = rows_;
  shape.push_back(exact_ ? units_ : floor_div(round_up(contraction.columns, width), Dim(lanes_)));
  for (const auto& reduction : found_.reductions) {
    const DType type = compute_dtype(reduction.node->operand(0)->dtype());
    Partials partials{program_.shared("p", type, shape)};
    if (is_arg_reduction(*reduction.node) && !exact_) {
      partials.positions = program_.shared("at", DType::I64, shape);
    }
    partials_.push_back(partials);
  }
  Shape blocks = contraction.batch;
  // A grouped matmul has a task where it has no rows, too.
  blocks.push_back(ceil_div(max(contraction.rows, Dim(1)), Dim(block_rows_)));
  counter_ = program_.counter("arrived", blocks);
}

Access RowStatistics::at(MemoryRef partials, const Place& place, Expr unit) {
  std::vector<IndexValue> index(place.batch.begin(), place.batch.end());
  index.emplace_back(place.row);
  index.emplace_back(unit);
  return program_.at(partials, index);
}

Expr RowStatistics::identity(Combiner combiner, DType type) {
  ExprPool& exprs = program_.exprs();
  const auto number = [&](int value) {
    return is_float(type) ? exprs.constant(value, type) : exprs.integer(value, type);
  };
  const auto bound = [&](int sign) {
    if (is_float(type)) return exprs.constant(sign * std::numeric_limits<double>::infinity(), type);
    if (type == DType::I64) {
      using Limits = std::numeric_limits<std::int64_t>;
      return exprs.integer(sign < 0 ? Limits::min() : Limits::max(), type);
    }
    if (type == DType::Bool) return exprs.constant(sign < 0 ? 0 : 1, type);
    using Limits = std::numeric_limits<std::int32_t>;
    return exprs.integer(sign < 0 ? Limits::min() : Limits::max(), type);
  };
  switch (combiner) {
    case Combiner::Sum:
      return number(0);
    case Combiner::Prod:
      return number(1);
    case Combiner::Max:
    case Combiner::MaxNumber:
    case Combiner::ArgMaxFirst:
    case Combiner::ArgMaxLast:
    case Combiner::Any:
      return bound(-1);
    case Combiner::Min:
    case Combiner::ArgMinFirst:
    case Combiner::ArgMinLast:
    case Combiner::All:
      return bound(1);
  }
  return kNoExpr;
}

Status RowStatistics::take(const Place& place, std::span<const Expr> index, Expr inside,
                           Expr lane) {
  ExprPool& exprs = program_.exprs();
  ElementBuilder& elements = lowering_.elements();
  for (std::size_t i = 0; i < partials_.size(); ++i) {
    const auto& [node, operand] = found_.reductions[i];
    Partials& partials = partials_[i];
    OPWELD_TRY(const Expr element, inside == kNoExpr
                                       ? elements.element(operand.value, index)
                                       : elements.element_where(inside, operand.value, index));
    Expr value = before_combining(exprs, *node, element);
    if (exact_) {
      program_.store(at(partials.values, place, place.column), value, inside);
      continue;
    }
    const Combiner combiner = combiner_of(*node);
    if (inside != kNoExpr) {
      value = exprs.select(inside, value, identity(combiner, exprs[value].type));
    }
    if (!is_arg_reduction(*node)) {
      partials.value = program_.reduce(combiner, value, lane, "part");
      continue;
    }
    const bool greatest = node->op() == "argmax";
    partials.value = program_.reduce(greatest ? Combiner::Max : Combiner::Min, value, lane, "part");
    // A lane behind the last column stands for that column: with the identity it wins only where
    // that column would as well.
    Expr position = place.column;
    if (inside != kNoExpr) {
      const Expr last = math_.sub(math_.size(contraction_.columns), math_.constant(1));
      position = exprs.binary(ExprKind::Min, position, last);
    }
    partials.position = program_.arg_reduce(combiner, value, position, lane, "at");
  }
  return {};
}

void RowStatistics::store_vector(const Place& place) {
  if (exact_) return;
  const Expr unit = math_.div(place.column, Dim(lanes_));
  for (const Partials& partials : partials_) {
    program_.store(at(partials.values, place, unit), partials.value);
    if (partials.positions) {
      program_.store(at(*partials.positions, place, unit), partials.position);
    }
  }
}

Status RowStatistics::combine(const Place& first, Expr row_count) {
  // What a tile had at hand is gone.
  lowering_.elements().undefine(contraction_.result);
  std::vector<IndexValue> block(first.batch.begin(), first.batch.end());
  block.emplace_back(math_.div(first.row, Dim(block_rows_)));
  const Dim tasks = ceil_div(max(contraction_.columns, Dim(1)), Dim(block_width_));
  const Expr last = program_.arrive(program_.at(counter_, block), tasks);
  Status status;
  program_.when(last, [&] {
    const ElementBuilder::Scope scope(lowering_.elements());
    status = lowering_.serial("q", row_count, Dim(block_rows_), [&](Expr i) {
      const Expr row = math_.add(first.row, i);
      math_.set_bound(row, contraction_.rows);
      return combine_row({first.batch, row});
    });
  });
  return status;
}

Status RowStatistics::combine_row(const Place& place) {
  // As schedule `row` has them, which decides the order.
  constexpr int kAccumulators = 4;
  std::vector<Expr> totals;
  OPWELD_CHECK(lowering_.vector("u", units_, kAccumulators, [&](Expr unit) -> Status {
    for (std::size_t i = 0; i < partials_.size(); ++i) {
      const Partials& partials = partials_[i];
      const Node& node = *found_.reductions[i].node;
      const Combiner combiner = combiner_of(node);
      const Expr value = program_.load(at(partials.values, place, unit));
      if (!is_arg_reduction(node)) {
        totals.push_back(program_.reduce(combiner, value, unit));
        continue;
      }
      const Expr position =
          partials.positions ? program_.load(at(*partials.positions, place, unit)) : unit;
      totals.push_back(program_.arg_reduce(combiner, value, position, unit));
    }
    return {};
  }));
  for (std::size_t i = 0; i < totals.size(); ++i) {
    define_result(found_.reductions[i], totals[i], place);
  }
  for (const DomainOutput& output : found_.outputs) {
    OPWELD_CHECK(lowering_.store(output, row_index(output.value->shape(), place)));
  }
  return {};
}

void RowStatistics::define_result(const RowReductions::Reduction& reduction, Expr total,
                                  const Place& place) {
  const Node& node = *reduction.node;
  const Expr result = after_combining(lowering_, node, total, contraction_.columns);
  const Shape shape = node.result()->shape();
  const Index expected = row_index(shape, place);
  lowering_.elements().define(node.result(), [=](std::span<const Expr> index) {
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      if (shape[axis] != Dim(1) && !(index[axis] == expected[axis])) return kNoExpr;
    }
    return result;
  });
}

Index RowStatistics::row_index(const Shape& shape, const Place& place) {
  Index here = place.batch;
  here.push_back(place.row);
  Index index = math_.through_reshape(here, shape, rows_);
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    if (shape[axis] == Dim(1)) index[axis] = math_.constant(0);
  }
  return index;
}

}  // namespace opweld::tile
