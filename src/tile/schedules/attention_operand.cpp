// How the forms of the `attention` schedule read K and V.
#include "tile/schedules/attention_form.h"

namespace opweld::tile {

AttentionOperand::AttentionOperand(GroupLowering& lowering, AttentionKeys& keys, const Value* value,
                                   InPlace in_place, std::int64_t padding, DType packed)
    : lowering_(lowering),
      keys_(keys),
      value_(value),
      width_(value->shape()[3]),
      padded_(round_up(width_, Dim(padding))),
      packed_(packed),
      joined_(value->producer() != nullptr && value->producer()->op() == "concat" &&
              !lowering.elements().has_param(value)) {
  const InPlace needed = keys.paged() ? InPlace::Pages : InPlace::SideBySide;
  if (in_place < needed || !(padded_ == width_)) return;
  strided_ = lowering.strided_operand(value);
  const bool unit = strided_ && (strided_->view.strides[3] == Dim(1) || width_ == Dim(1));
  if (!unit) strided_.reset();
}

void AttentionOperand::make_buffer(std::string_view name, std::int64_t rows) {
  if (strided_) return;
  buffer_ = lowering_.program().buffer(name, packed_, {rows, padded_}, Buffer::Space::Cache);
}

Status AttentionOperand::pack(Expr key0, Expr count, std::int64_t most) {
  if (!buffer_) return {};
  if (!joined_) {
    return lowering_.serial("t", count, Dim(most), [&](Expr t) -> Status {
      return pack_row(value_, keys_.at(key0, t), t);
    });
  }
  const Index first = keys_.at(key0, lowering_.math().constant(0));
  const Expr end = lowering_.program().add(key0, count);
  return each_joined_row(
      lowering_, value_, key0, end, [&](const Value* operand, Expr row, Expr at) {
        return pack_row(operand, Index{first[0], first[1], row}, lowering_.program().sub(at, key0));
      });
}

Status AttentionOperand::pack_row(const Value* value, const Index& row, Expr t) {
  IndexMath& math = lowering_.math();
  ProgramBuilder& program = lowering_.program();
  ExprPool& exprs = program.exprs();
  return lowering_.vector("d", padded_, 1, [&](Expr d) -> Status {
    const Expr inside = exprs.binary(ExprKind::Lt, d, math.size(width_));
    Index index = row;
    index.push_back(d);
    OPWELD_TRY(const Expr element, lowering_.elements().element_where(inside, value, index));
    program.store(program.at(*buffer_, {t, d}),
                  exprs.select(inside, element, exprs.constant(0, DType::F32)));
    return {};
  });
}

Access AttentionOperand::at(Expr key0, Expr t, Expr column) {
  IndexMath& math = lowering_.math();
  ProgramBuilder& program = lowering_.program();
  if (buffer_) return program.at_offset(*buffer_, math.add(math.mul(t, padded_), column));
  Expr offset = math.size(strided_->view.offset);
  const Index key = keys_.at(key0, t);
  for (std::size_t axis = 0; axis < key.size(); ++axis) {
    const bool counts = axis == 2 || !(strided_->view.shape[axis] == Dim(1));
    if (counts) offset = math.add(offset, math.mul(key[axis], strided_->view.strides[axis]));
  }
  return program.at_offset(strided_->param, math.add(offset, column));
}

Expr AttentionOperand::row_stride() {
  return lowering_.math().size(buffer_ ? padded_ : strided_->view.strides[2]);
}

}  // namespace opweld::tile
