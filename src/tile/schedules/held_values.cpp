#include "tile/schedules/held_values.h"

namespace opweld::tile {

namespace {

// A matmul's tiles may compute columns past the last one; they get a place, too.
constexpr std::int64_t kMostTileColumns = 64;

std::int64_t padded_columns(const Value* value) {
  return *round_up(value->shape().back(), Dim(kMostTileColumns)).constant();
}

// Whether the output's elements lie in memory in the order of the value's: a transpose would make
// them other rows.
bool keeps_order(const DomainOutput& output) {
  const Shape& shape = output.value->shape();
  const std::vector<Dim> strides = row_major_strides(shape);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != Dim(1) && output.view.strides[axis] != strides[axis]) return false;
  }
  return true;
}

}  // namespace

std::int64_t HeldValues::row_bytes(const Value* value) {
  return padded_columns(value) * byte_size(value->dtype());
}

void HeldValues::add(const Value* value) {
  const std::int64_t stride = padded_columns(value);
  const MemoryRef memory =
      lowering_.program().buffer("h", value->dtype(), {block_rows_, stride}, Buffer::Space::Outer);
  held_.emplace(value, HeldRows{memory, stride});
}

Access HeldValues::place(const HeldRows& held, Expr column) {
  IndexMath& math = lowering_.math();
  return lowering_.program().at_offset(held.memory,
                                       math.add(math.mul(task_row_, held.stride), column));
}

Status HeldValues::store(const DomainOutput& output, std::span<const Expr> index, Expr column,
                         Expr inside) {
  if (output.scatter != nullptr) return fail("a later stage reads the cache that is written");
  if (!keeps_order(output)) return fail("a later stage reads rows in another order");
  return store_there(output, index, column, inside);
}

Status HeldValues::store_there(const DomainOutput& output, std::span<const Expr> index, Expr column,
                               Expr inside) {
  OPWELD_TRY(const Expr element,
             inside == kNoExpr ? lowering_.elements().element(output.value, index)
                               : lowering_.elements().element_where(inside, output.value, index));
  lowering_.program().store(place(held_.at(output.output), column), element, inside);
  return {};
}

void HeldValues::publish(const Value* value) {
  const Shape leading(value->shape().begin(), value->shape().end() - 1);
  lowering_.elements().define(value, [this, value, leading](std::span<const Expr> index) {
    if (row_ == kNoExpr) return kNoExpr;
    const Index here = lowering_.math().through_reshape(std::vector<Expr>{row_}, leading, {rows_});
    for (std::size_t axis = 0; axis < leading.size(); ++axis) {
      if (leading[axis] != Dim(1) && !(index[axis] == here[axis])) return kNoExpr;
    }
    return lowering_.program().load(place(held_.at(value), index.back()));
  });
}

}  // namespace opweld::tile
