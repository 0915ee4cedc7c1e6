"""Sums, means, extremes, and what is computed along an axis."""

from collections.abc import Sequence

import torch

from opweld._core import GraphTensor
from opweld.torch.dtypes import ENUM, FLOATS, HALVES, name_of
from opweld.torch.emitter import Emitter, Number, translates
from opweld.torch.sizes import Unsupported

aten = torch.ops.aten


def _axes(e: Emitter, x: GraphTensor, dim: int | Sequence[int] | None) -> list[int]:
    """No axes means all of them, as ATen has it."""
    if dim is None:
        return list(range(e.rank(x)))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return [e.axis(each, e.rank(x)) for each in dims] or list(range(e.rank(x)))


def _reduce(
    e: Emitter, name: str, x: GraphTensor, dim: int | Sequence[int] | None, keepdim: bool
) -> GraphTensor:
    if e.rank(x) == 0:
        return x
    return e.op(name, x, axes=_axes(e, x, dim), keepdims=int(keepdim))


@translates(aten.sum.dim_IntList, aten.sum.default)
def total(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> GraphTensor:
    return _reduce(e, "reduce_sum", e.cast(x, name_of(result.dtype)), dim, keepdim)


@translates(aten.mean.dim, aten.mean.default)
def mean(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> GraphTensor:
    return _reduce(e, "reduce_mean", e.cast(x, name_of(result.dtype)), dim, keepdim)


@translates(aten.amax.default)
def amax(
    e: Emitter, result: torch.Tensor, x: GraphTensor, dim: Sequence[int] = (), keepdim: bool = False
) -> GraphTensor:
    return _reduce(e, "reduce_max", x, dim, keepdim)


@translates(aten.amin.default)
def amin(
    e: Emitter, result: torch.Tensor, x: GraphTensor, dim: Sequence[int] = (), keepdim: bool = False
) -> GraphTensor:
    return _reduce(e, "reduce_min", x, dim, keepdim)


@translates(aten.any.default, aten.any.dim, aten.any.dims)
def any_of(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> GraphTensor:
    return e.cast(_reduce(e, "reduce_any", e.cast(x, "bool"), dim, keepdim), name_of(result.dtype))


@translates(aten.all.default, aten.all.dim, aten.all.dims)
def all_of(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> GraphTensor:
    return e.cast(_reduce(e, "reduce_all", e.cast(x, "bool"), dim, keepdim), name_of(result.dtype))


def _arg(
    e: Emitter, name: str, result: torch.Tensor, x: GraphTensor, dim: int | None, keepdim: bool
) -> GraphTensor:
    if e.rank(x) == 0:
        raise Unsupported("the place of an extreme in a scalar")
    if dim is None:
        flat = e.reshape(x, [_count(x)])
        if keepdim:
            raise Unsupported("the place of an extreme over all axes, which are kept")
        return e.op(name, flat, axis=0, keepdims=0)
    return e.op(name, x, axis=e.axis(dim, e.rank(x)), keepdims=int(keepdim))


def _count(x: GraphTensor) -> str:
    return " * ".join(f"({size})" for size in x.sizes())


@translates(aten.argmax.default)
def argmax(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int | None = None,
    keepdim: bool = False,
) -> GraphTensor:
    return _arg(e, "argmax", result, x, dim, keepdim)


@translates(aten.argmin.default)
def argmin(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int | None = None,
    keepdim: bool = False,
) -> GraphTensor:
    return _arg(e, "argmin", result, x, dim, keepdim)


@translates(aten.cumsum.default)
def cumsum(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
) -> GraphTensor:
    x = e.cast(x, name_of(result.dtype))
    return x if e.rank(x) == 0 else e.op("cumsum", x, axis=e.axis(dim, e.rank(x)))


@translates(aten.var.correction)
def variance(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> GraphTensor:
    if correction != 0 or x.dtype() in HALVES:
        raise Unsupported("a variance with a correction, or of halves")
    centred = e.op("sub", x, _reduce(e, "reduce_mean", x, dim, True))
    return _reduce(e, "reduce_mean", e.op("mul", centred, centred), dim, keepdim)


@translates(aten._softmax.default)
def softmax(
    e: Emitter, result: torch.Tensor, x: GraphTensor, dim: int, half_to_float: bool
) -> GraphTensor:
    x = e.cast(x, name_of(result.dtype))
    return e.op("softmax", x, axis=e.axis(dim, e.rank(x)))


@translates(aten._log_softmax.default)
def log_softmax(
    e: Emitter, result: torch.Tensor, x: GraphTensor, dim: int, half_to_float: bool
) -> GraphTensor:
    x = e.cast(x, name_of(result.dtype))
    return e.op("log_softmax", x, axis=e.axis(dim, e.rank(x)))


@translates(aten.topk.default)
def topk(
    e: Emitter,
    results: Sequence[torch.Tensor],
    x: GraphTensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> tuple[GraphTensor, ...]:
    if not isinstance(k, int) or e.rank(x) == 0:
        raise Unsupported("a number of elements to select that is known at run time only")
    axis = e.axis(dim, e.rank(x))
    return tuple(e.ops(2, "top_k", x, axis=axis, k=[k], largest=int(largest), sorted=int(sorted)))


@translates(aten.sort.default, aten.sort.stable)
def sort(
    e: Emitter,
    results: Sequence[torch.Tensor],
    x: GraphTensor,
    dim: int = -1,
    descending: bool = False,
    *,
    stable: bool | None = None,
) -> tuple[GraphTensor, ...]:
    """A selection of all elements, which is stable whether that was asked for or not."""
    if e.rank(x) == 0:
        return x, e.scalar(0, "i64")
    axis = e.axis(dim, e.rank(x))
    k = [x.sizes()[axis]]
    return tuple(e.ops(2, "top_k", x, axis=axis, k=k, largest=int(descending), sorted=1))


# Every element is compared with every bin.
MOST_BINS = 1024


@translates(aten.histc.default)
def histogram(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    bins: int = 100,
    min: Number = 0,
    max: Number = 0,
) -> GraphTensor:
    """How many elements fall into each bin; ATen rounds where an element lies as is done here."""
    dtype = x.dtype()
    if not isinstance(bins, int) or bins > MOST_BINS:
        raise Unsupported(f"a histogram of more than {MOST_BINS} bins")
    if not (isinstance(min, int | float) and isinstance(max, int | float) and min < max):
        raise Unsupported("a histogram between limits that are data")
    if dtype not in FLOATS or dtype in HALVES:
        raise Unsupported(f"a histogram of {dtype}")
    low, high = e.scalar(min, dtype), e.scalar(max, dtype)
    inside = e.op("and", e.op("ge", x, low), e.op("le", x, high))
    offset = e.op("mul", e.op("sub", x, low), e.scalar(bins, dtype))
    bin_of = e.cast(e.op("div", offset, e.op("sub", high, low)), "i64")
    bin_of = e.op("min", bin_of, e.scalar(bins - 1, "i64"))  # the last one has both its limits
    column = [*x.sizes(), 1]
    each = e.op("iota", shape=[bins], axis=0, dtype=ENUM["i64"])
    hit = e.op("and", e.reshape(inside, column), e.op("eq", e.reshape(bin_of, column), each))
    count = _reduce(e, "reduce_sum", e.cast(hit, "i64"), list(range(e.rank(x))), False)
    return e.cast(count, dtype)
