// One element of any value of a group, as an expression at a given index.
//
// Schedules choose loops; this class fills them. Asked for an element of a value, it walks back
// through the group: pointwise operators become scalar expressions, views become index arithmetic,
// and group inputs become loads, emitted into the block that the program builder has open. What a
// schedule has computed itself (an accumulator, a finished reduction, a buffered row) it says with
// `define`.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "support/expected.h"
#include "support/pointer_map.h"
#include "tile/index_math.h"
#include "tile/program_builder.h"

namespace opweld::tile {

using Index = std::vector<Expr>;

class ElementBuilder {
 public:
  // Gives the element of a value that a schedule has at hand; kNoExpr when it does not have it at
  // this index, which fails the group ("domain").
  using Definition = std::function<Expr(std::span<const Expr> index)>;

  // `strict`: every node's value is rounded to its dtype, as if it had been stored.
  ElementBuilder(ProgramBuilder& program, IndexMath& index_math, bool strict)
      : program_(program), math_(index_math), strict_(strict) {}

  // The value is read from (or written to) this param, laid out densely by its shape.
  void bind_param(const Value* value, int param) { params_[value] = param; }
  void unbind_param(const Value* value) { params_[value].reset(); }
  [[nodiscard]] bool has_param(const Value* value) const {
    const std::optional<int>* const param = params_.find(value);
    return param != nullptr && param->has_value();
  }
  [[nodiscard]] int param_of(const Value* value) const { return *params_.at(value); }
  void define(const Value* value, Definition definition) {
    definitions_[value] = std::move(definition);
  }
  void undefine(const Value* value) { definitions_[value] = nullptr; }

  // The element of `value` at `index` (one i64 expression per axis), in compute_dtype(value dtype).
  // Fails when an operator of the group has no element form here.
  Expected<Expr> element(const Value* value, std::span<const Expr> index);

  // The same where `condition` holds; in other lanes nothing is loaded and the value means nothing.
  Expected<Expr> element_where(Expr condition, const Value* value, std::span<const Expr> index);

  // Prefetches what element() would load at `index`, as far as that depends on `column`, which the
  // index contains, and is not the same for every row: loads that find out where, as a gather's of
  // its positions, are made, so the index has to be one that exists.
  Status prefetch(const Value* value, std::span<const Expr> index, Expr column, Expr row);

  // Where a reshape, transpose or slice finds, in its operand, the element at `index`.
  Index index_into_operand(const Node& view, std::span<const Expr> index);
  // Index of an operand that broadcasts into a result that is asked for at `index`.
  Index broadcast_index(const Value* operand, std::span<const Expr> index);

  // Elements emitted since the scope was opened are forgotten when it closes, because the block
  // that holds them closes too, and so are bounds of its variables. Open one per loop.
  class Scope {
   public:
    explicit Scope(ElementBuilder& owner)
        : owner_(owner), emitted_outside_(owner.emitted_.size()), bounds_(owner.math_) {}
    ~Scope() { owner_.forget_after(emitted_outside_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ElementBuilder& owner_;
    std::size_t emitted_outside_;
    IndexMath::Scope bounds_;
  };

  [[nodiscard]] IndexMath& math() { return math_; }
  [[nodiscard]] ExprPool& pool() { return program_.exprs(); }

 private:
  // An element that was emitted. Its index is among indices_; `previous` is the place, from 1, of
  // the one before it of the same value.
  struct Emitted {
    const Value* value;
    std::size_t index_begin;
    std::size_t index_size;
    Expr where;
    Expr element;
    std::size_t previous;
  };

  [[nodiscard]] std::optional<Expr> emitted(const Value* value, std::span<const Expr> index) const;
  void remember(const Value* value, std::span<const Expr> index, Expr element);
  void forget_after(std::size_t count);

  Expected<Expr> compute(const Value* value, std::span<const Expr> index);
  // Of an operand that broadcasts into a result that is asked for at `index`.
  Expected<Expr> broadcast_element(const Value* operand, std::span<const Expr> index);
  Expected<Expr> pointwise(const Node& node, std::span<const Expr> index);
  Expected<Expr> view(const Node& node, std::span<const Expr> index);
  Expected<Expr> concat(const Node& node, std::span<const Expr> index);
  Expected<Expr> pad(const Node& node, std::span<const Expr> index);
  Expected<Expr> gather(const Node& node, std::span<const Expr> index);
  Expected<Expr> gather_elements(const Node& node, std::span<const Expr> index);
  Expected<Expr> source(const Node& node, std::span<const Expr> index);
  Expr load(int param, const Shape& shape, std::span<const Expr> index);
  // Whether the access is among those that a prefetch in progress is for.
  bool is_prefetched(const Access& access);
  // A position read from an index tensor: counted from the end when negative, checked, and safe to
  // use as an address under the returned condition.
  struct Position {
    Expr position;
    Expr in_range;
  };
  Position checked_position(const Node& node, Expr raw, const Dim& extent);
  ProgramBuilder& program_;
  IndexMath& math_;
  bool strict_;
  Expr where_ = kNoExpr;
  struct Prefetched {
    Expr column;
    Expr row;
  };
  std::optional<Prefetched> prefetched_;          // while prefetch() is under way
  PointerMap<Value, std::optional<int>> params_;  // absent: not any more
  PointerMap<Value, Definition> definitions_;     // null: likewise
  std::vector<Emitted> emitted_;
  std::vector<Expr> indices_;
  // Of each value's elements in emitted_, the one that came last, from 1; 0: none is left.
  PointerMap<Value, std::size_t> newest_;
};

// Where the element at `index` of a reshape's or transpose's operand stands in its result.
Index index_behind_view(IndexMath& math, const Node& view, std::span<const Expr> index);

// Whether `element` can be asked for the node's result: pointwise operators, views, gathers,
// sources.
bool has_element_form(const Node& node);

}  // namespace opweld::tile
