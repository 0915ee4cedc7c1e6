"""What is read and written by indices."""

from collections.abc import Sequence

import torch

from opweld._core import GraphTensor
from opweld.torch.emitter import Emitter, translates
from opweld.torch.sizes import Size, Unsupported, to_sizes

aten = torch.ops.aten


@translates(aten.embedding.default)
def embedding(
    e: Emitter,
    result: torch.Tensor,
    weight: GraphTensor,
    indices: GraphTensor,
    *arguments: object,
    **options: object,
) -> GraphTensor:
    return e.op("gather", weight, indices, axis=0)


@translates(aten.index_select.default)
def index_select(
    e: Emitter, result: torch.Tensor, x: GraphTensor, dim: int, index: GraphTensor
) -> GraphTensor:
    if e.rank(x) == 0 or e.rank(index) != 1:
        raise Unsupported("a selection from or by a scalar")
    return e.op("gather", x, index, axis=e.axis(dim, e.rank(x)))


@translates(aten.gather.default)
def gather(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int,
    index: GraphTensor,
    *,
    sparse_grad: bool = False,
) -> GraphTensor:
    if e.rank(x) == 0 or e.rank(index) != e.rank(x):
        raise Unsupported("a gather from or by a scalar")
    axis = e.axis(dim, e.rank(x))
    # ATen lets the index be shorter than the tensor along the other axes.
    for other, (mine, theirs) in enumerate(zip(index.sizes(), x.sizes(), strict=True)):
        if other != axis and mine != theirs:
            x = e.slice(x, other, 0, mine)
    return e.op("gather_elements", x, index, axis=axis)


def _check_indices(indices: Sequence[GraphTensor | None]) -> None:
    if any(each is not None and each.dtype() in ("bool", "u8") for each in indices):
        raise Unsupported("indexing by a mask, whose result has a size that its data decides")


def _paths(e: Emitter, indices: Sequence[GraphTensor], sizes: Sequence[Size]) -> GraphTensor:
    """Index tensors of one shape, put together along a new last axis."""
    columns = [
        e.reshape(e.op("expand", e.cast(each, "i64"), shape=list(sizes)), [*sizes, 1])
        for each in indices
    ]
    return columns[0] if len(columns) == 1 else e.op("concat", *columns, axis=len(sizes))


def _leading(indices: Sequence[GraphTensor | None]) -> list[GraphTensor]:
    """The index tensors, where they are for the first axes."""
    given = [each for each in indices if each is not None]
    if any(each is None for each in indices[: len(given)]):
        raise Unsupported("index tensors for axes that are not the first ones")
    return given


@translates(aten.index.Tensor)
def index(
    e: Emitter, result: torch.Tensor, x: GraphTensor, indices: Sequence[GraphTensor | None]
) -> GraphTensor:
    _check_indices(indices)
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if len(given) == 1:
        axis, only = given[0]
        return e.op("gather", x, only, axis=axis)
    leading = _leading(indices)
    kept = e.rank(x) - len(leading)
    sizes = to_sizes(result.shape)[: result.dim() - kept]
    return e.op("gather_nd", x, _paths(e, leading, sizes), batch_dims=0)


@translates(aten.index_put.default)
def index_put(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    indices: Sequence[GraphTensor | None],
    values: GraphTensor,
    accumulate: bool = False,
) -> GraphTensor:
    _check_indices(indices)
    leading = _leading(indices)
    if len(leading) != 1:
        raise Unsupported("a write by several index tensors")
    sizes = leading[0].sizes()
    rest = x.sizes()[1:]
    updates = e.op("expand", e.cast(values, x.dtype()), shape=[*sizes, *rest])
    reduction = "add" if accumulate else "none"
    return e.op("scatter_nd", x, _paths(e, leading, sizes), updates, reduction=reduction)


def _not_from_the_end(e: Emitter, index: GraphTensor, size: Size) -> GraphTensor:
    """Indices of which a negative one is an error: it becomes one before the first row, too."""
    index = e.cast(index, "i64")
    rows = e.scalar(size, "i64") if isinstance(size, int) else e.op("sizes", values=[size])
    before = e.op("sub", index, rows)
    return e.op("select", e.op("lt", index, e.scalar(0, "i64")), before, index)


@translates(aten.index_copy.default)
def index_copy(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int,
    index: GraphTensor,
    source: GraphTensor,
) -> GraphTensor:
    if e.rank(x) == 0 or e.rank(index) != 1 or e.axis(dim, e.rank(x)) != 0:
        raise Unsupported("a copy to rows of an axis that is not the first one")
    return index_put(e, result, x, [_not_from_the_end(e, index, x.sizes()[0])], source)


@translates(aten.scatter.src)
def scatter(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int,
    index: GraphTensor,
    src: GraphTensor,
) -> GraphTensor:
    if e.rank(x) == 0:
        raise Unsupported("a scatter into a scalar")
    for axis, (mine, theirs) in enumerate(zip(index.sizes(), src.sizes(), strict=True)):
        if mine != theirs:
            src = e.slice(src, axis, 0, mine)
    axis = e.axis(dim, e.rank(x))
    return e.op("scatter_elements", x, index, src, axis=axis, reduction="none")


@translates(aten.scatter.value)
def scatter_value(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int,
    index: GraphTensor,
    value: float,
) -> GraphTensor:
    if e.rank(x) == 0:
        raise Unsupported("a scatter into a scalar")
    updates = e.filled(value, x.dtype(), index.sizes())
    axis = e.axis(dim, e.rank(x))
    return e.op("scatter_elements", x, index, updates, axis=axis, reduction="none")
