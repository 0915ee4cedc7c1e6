"""Functions of several operands, element by element; they broadcast and promote as ATen's do."""

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from opweld._core import GraphTensor
from opweld.torch import dtypes
from opweld.torch.dtypes import name_of
from opweld.torch.emitter import Emitter, Number, is_number, translates
from opweld.torch.sizes import Unsupported

aten = torch.ops.aten

Operand = GraphTensor | Number


def _is_exact(value: Number, dtype: str) -> bool:
    """Whether the number is one of this half type."""
    if isinstance(value, torch.SymInt):
        return False
    return float(torch.tensor(float(value), dtype=dtypes.DTYPES[dtype])) == float(value)


def _binary(e: Emitter, name: str, dtype: str, a: Operand, b: Operand) -> GraphTensor:
    """In `dtype`. A number beside halves is not rounded to one, so that case is done in f32."""
    numbers = [each for each in (a, b) if is_number(each)]
    if dtype in dtypes.HALVES and not all(_is_exact(each, dtype) for each in numbers):
        wide = e.op(name, e.operand(a, "f32"), e.operand(b, "f32"))
        return e.cast(wide, dtype) if wide.dtype() == "f32" else wide
    return e.op(name, e.operand(a, dtype), e.operand(b, dtype))


@translates(aten.add.Tensor, aten.add.Scalar)
def add(e: Emitter, result: torch.Tensor, a: Operand, b: Operand, alpha: Number = 1) -> GraphTensor:
    dtype = name_of(result.dtype)
    if dtype == "bool":
        return e.op("or", e.operand(a, dtype), e.operand(b, dtype))
    return _binary(e, "add", dtype, a, _scaled(e, dtype, b, alpha))


@translates(aten.sub.Tensor, aten.sub.Scalar)
def sub(e: Emitter, result: torch.Tensor, a: Operand, b: Operand, alpha: Number = 1) -> GraphTensor:
    dtype = name_of(result.dtype)
    return _binary(e, "sub", dtype, a, _scaled(e, dtype, b, alpha))


@translates(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(
    e: Emitter, result: torch.Tensor, a: Operand, b: Operand, alpha: Number = 1
) -> GraphTensor:
    dtype = name_of(result.dtype)
    return _binary(e, "sub", dtype, b, _scaled(e, dtype, a, alpha))


def _scaled(e: Emitter, dtype: str, x: Operand, factor: Number) -> Operand:
    if factor == 1:
        return x
    if is_number(x):
        return x * factor
    return _binary(e, "mul", dtype, x, factor)


@translates(aten.mul.Tensor, aten.mul.Scalar)
def mul(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
    dtype = name_of(result.dtype)
    if dtype == "bool":
        return e.op("and", e.operand(a, dtype), e.operand(b, dtype))
    return _binary(e, "mul", dtype, a, b)


@translates(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor, aten.true_divide.Scalar)
def div(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
    return _binary(e, "div", name_of(result.dtype), a, b)


@translates(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(
    e: Emitter, result: torch.Tensor, a: Operand, b: Operand, *, rounding_mode: str | None
) -> GraphTensor:
    if rounding_mode is None:
        return div(e, result, a, b)
    dtype = name_of(result.dtype)
    if dtype in dtypes.FLOATS:
        # ATen's floor is that of the exact quotient, which a rounded one may be above.
        raise Unsupported("division of floats to a whole number")
    if not isinstance(b, int) or b == 0:
        raise Unsupported("division of integers by a number that may be 0, which is an error")
    quotient = _binary(e, "div", dtype, a, b)
    if rounding_mode == "trunc" or dtype == "u8":
        return quotient
    rest = e.op("sub", e.operand(a, dtype), _binary(e, "mul", dtype, quotient, b))
    below = e.op("lt" if b > 0 else "gt", rest, e.scalar(0, dtype))
    return e.op("sub", quotient, e.cast(below, dtype))


@translates(aten.floor_divide.default)
def floor_divide(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
    return div_mode(e, result, a, b, rounding_mode="floor")


@translates(aten.remainder.Scalar, aten.remainder.Tensor)
def remainder(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
    if name_of(result.dtype) in dtypes.FLOATS or not isinstance(b, int) or b == 0:
        raise Unsupported("a remainder of floats, or by a number that may be 0")
    return _binary(e, "mod", name_of(result.dtype), a, b)


@translates(aten.fmod.Scalar)
def fmod(e: Emitter, result: torch.Tensor, a: GraphTensor, b: Number) -> GraphTensor:
    if name_of(result.dtype) in dtypes.FLOATS or not _is_positive(b):
        raise Unsupported("a remainder of floats, or by a number that may not be positive")
    dtype = name_of(result.dtype)
    # The quotient of whole numbers is that towards 0.
    return _binary(e, "sub", dtype, a, _binary(e, "mul", dtype, _binary(e, "div", dtype, a, b), b))


def _is_positive(value: Number) -> bool:
    if isinstance(value, torch.SymInt):
        return statically_known_true(value > 0)
    return isinstance(value, int) and value > 0


@translates(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
    dtype = name_of(result.dtype)
    if b == 1 and is_number(b):
        return e.operand(a, dtype)
    if b == 2 and is_number(b):
        base = e.operand(a, dtype)
        return e.op("mul", base, base)
    if dtype not in dtypes.FLOATS:
        raise Unsupported("a power of integers")
    return _binary(e, "pow", dtype, a, b)


@translates(aten.maximum.default)
def maximum(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
    return _binary(e, "max", name_of(result.dtype), a, b)


@translates(aten.minimum.default)
def minimum(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
    return _binary(e, "min", name_of(result.dtype), a, b)


def _rounded(e: Emitter, name: str, dtype: str, a: Operand, b: Operand) -> GraphTensor:
    """In `dtype`, to which ATen here rounds a number first, unlike in arithmetic."""
    return e.op(name, e.operand(a, dtype), e.operand(b, dtype))


def _clip(
    e: Emitter, dtype: str, x: GraphTensor, low: Operand | None, high: Operand | None
) -> GraphTensor:
    # ATen's order: a low bound above the high one gives the high one.
    if low is not None:
        x = _rounded(e, "max", dtype, x, low)
    if high is not None:
        x = _rounded(e, "min", dtype, x, high)
    return x


@translates(aten.clamp.default, aten.clamp.Tensor, aten.hardtanh.default)
def clamp(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    min: Operand | None = None,
    max: Operand | None = None,
    **bounds: Number,
) -> GraphTensor:
    low, high = bounds.get("min_val", min), bounds.get("max_val", max)
    return _clip(e, name_of(result.dtype), e.cast(x, name_of(result.dtype)), low, high)


@translates(aten.clamp_min.default)
def clamp_min(e: Emitter, result: torch.Tensor, x: GraphTensor, min: Number) -> GraphTensor:
    return _clip(e, name_of(result.dtype), e.cast(x, name_of(result.dtype)), min, None)


COMPARISONS = {
    "eq": (aten.eq.Tensor, aten.eq.Scalar),
    "ne": (aten.ne.Tensor, aten.ne.Scalar),
    "lt": (aten.lt.Tensor, aten.lt.Scalar),
    "le": (aten.le.Tensor, aten.le.Scalar),
    "gt": (aten.gt.Tensor, aten.gt.Scalar),
    "ge": (aten.ge.Tensor, aten.ge.Scalar),
}


def _common(a: Operand, b: Operand) -> str:
    """The dtype that two operands are compared in."""
    examples = [
        each
        if is_number(each)
        else torch.empty([1] * len(each.sizes()), dtype=dtypes.DTYPES[each.dtype()])
        for each in (a, b)
    ]
    numbers = [0 if isinstance(each, torch.SymInt) else each for each in examples]
    return name_of(torch.result_type(*numbers))


def _comparison(name: str) -> None:
    def translation(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
        dtype = _common(a, b)
        if dtype == "bool":
            dtype = "u8"
            a, b = (int(each) if is_number(each) else e.cast(each, "u8") for each in (a, b))
        return _rounded(e, name, dtype, a, b)

    translates(*COMPARISONS[name])(translation)


for _name in COMPARISONS:
    _comparison(_name)


LOGIC = {
    "and": ((aten.logical_and.default,), (aten.bitwise_and.Tensor, aten.bitwise_and.Scalar)),
    "or": ((aten.logical_or.default,), (aten.bitwise_or.Tensor, aten.bitwise_or.Scalar)),
    "xor": ((aten.logical_xor.default,), (aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar)),
}


def _logic(name: str) -> None:
    logical, bitwise = LOGIC[name]

    def of_truth(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
        return e.op(name, e.operand(a, "bool"), e.operand(b, "bool"))

    def of_bits(e: Emitter, result: torch.Tensor, a: Operand, b: Operand) -> GraphTensor:
        dtype = name_of(result.dtype)
        op = name if dtype == "bool" else f"bit_{name}"
        return e.op(op, e.operand(a, dtype), e.operand(b, dtype))

    translates(*logical)(of_truth)
    translates(*bitwise)(of_bits)


for _name in LOGIC:
    _logic(_name)


@translates(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where(
    e: Emitter, result: torch.Tensor, condition: GraphTensor, a: Operand, b: Operand
) -> GraphTensor:
    dtype = name_of(result.dtype)
    return e.op("select", e.cast(condition, "bool"), e.operand(a, dtype), e.operand(b, dtype))


@translates(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(
    e: Emitter, result: torch.Tensor, x: GraphTensor, mask: GraphTensor, value: Operand
) -> GraphTensor:
    return e.op("select", mask, e.operand(value, name_of(result.dtype)), x)
