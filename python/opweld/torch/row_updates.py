"""Operators that write consecutive rows of a tensor from a place on that is data.

A step of decoding appends to its cache in one of several spellings: `index_copy_`, an assignment to
`cache[:, :, positions]`, to a slice, or to one row, `scatter_` by positions that are expanded to
the sizes of what is written; or to a row of its own for each element of a batch,
`cache[batch, :, at]`.
To Opweld all of them are its tensor_scatter, which a program does where the cache lies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from opweld._core import GraphTensor
from opweld.torch.emitter import Emitter
from opweld.torch.sizes import Size, expression_of, to_size

aten = torch.ops.aten
prims = torch.ops.prims

Start = Node | int | torch.SymInt


@dataclass(frozen=True)
class RowUpdate:
    """Which rows of its first operand an operator writes, and with what."""

    axis: int
    rows: int | torch.SymInt
    source: Node
    """Of the sizes of the tensor, but as many rows; or what broadcasts to that, perhaps without the
    axis where that is one row."""
    has_axis: bool
    """Whether the source counts the axis among its own."""
    start: Start
    """The first row: a number, or a tensor that begins with it."""
    from_end: bool
    """Whether a negative start counts from the end."""
    is_each: bool = False
    """The start is a vector of one for each element of the first axis, the batch."""

    def operands(self) -> list[Node]:
        """What it reads, but for the tensor that it writes into."""
        return [self.source, *([self.start] if isinstance(self.start, Node) else [])]

    def numbers(self) -> list[int | torch.SymInt]:
        """The numbers that say where it writes."""
        return [self.rows, *([] if isinstance(self.start, Node) else [self.start])]


def row_update(node: Node) -> RowUpdate | None:
    """What the operator writes; nothing where it is none of them, or rows may lie apart."""
    reader = _READERS.get(node.target)
    if reader is None or node.kwargs:
        return None
    tensor = node.args[0]
    if not isinstance(tensor, Node) or _value(tensor) is None or _value(tensor).dim() == 0:
        return None
    return reader(*node.args)


def _value(node: Node) -> Any:
    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) else None


def _is(size: int | torch.SymInt, number: int) -> bool:
    """Whether it is this number at any rate; asking a symbol would make a guard of the answer."""
    return isinstance(size, int) and size == number


def _axis(dim: int, tensor: Node) -> int:
    return dim + _value(tensor).dim() if dim < 0 else dim


def _index_copy(tensor: Node, dim: int, index: Node, source: Node) -> RowUpdate | None:
    if _value(source).dim() != _value(tensor).dim():
        return None
    return _by_index(_axis(dim, tensor), index, source, from_end=False)


def _index_put(
    tensor: Node, indices: list[Node | None], source: Node, accumulate: bool = False
) -> RowUpdate | None:
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if accumulate or len(given) not in (1, 2):
        return None
    if len(given) == 1:
        return _by_index(*given[0], source, from_end=True)
    (first, batch), (axis, starts) = given
    value = _value(starts)
    if first != 0 or not _counts_all(batch, _value(tensor).shape[0]) or not _is_vector(starts):
        return None
    if not _same(value.shape[0], _value(tensor).shape[0]):
        return None
    return RowUpdate(axis, 1, source, False, starts, from_end=True, is_each=True)


def _scatter(tensor: Node, dim: int, index: Node, source: Node) -> RowUpdate | None:
    axis = _axis(dim, tensor)
    value, sizes = _value(index), _value(tensor).shape
    if value is None or value.dim() != len(sizes) or value.dtype != torch.int64:
        return None
    others = [i for i in range(len(sizes)) if i != axis]
    if not all(_same(value.shape[i], sizes[i]) for i in others):
        return None
    if not all(map(_same, value.shape, _value(source).shape)):
        return None
    spread = _spread_vector(index)
    if spread is None:
        return None
    along, vector = spread
    rows = value.shape[axis]
    if along == axis or along is None:
        is_each_once = _same(rows, _value(vector).shape[0])
        found = _by_index(axis, vector, source, from_end=False, is_kept=True)
        return found if is_each_once else None
    if along != 0 or axis == 0 or not _is(rows, 1):
        return None
    return RowUpdate(axis, 1, source, True, vector, from_end=False, is_each=True)


def _spread_vector(index: Node) -> tuple[int | None, Node] | None:
    """A vector that an index repeats along all axes but one, and which that is.

    It is none where the vector has one element.
    """
    node = index
    axis: int | None = None
    while _value(node).dim() != 1:
        operand = node.args[0] if node.args else None
        views = (aten.expand.default, aten.view.default, aten.unsqueeze.default, aten.slice.Tensor)
        is_view = node.target in (*_SAME, *views)
        if not is_view or not isinstance(operand, Node) or not _is_whole(operand):
            return None
        inner = _value(operand)
        if node.target is aten.expand.default:
            long = [i for i, size in enumerate(inner.shape) if not _is(size, 1)]
            if len(long) > 1:
                return None
            added = _value(node).dim() - inner.dim()
            axis = long[0] + added if long else axis
        elif node.target is aten.slice.Tensor:
            by_one = len(node.args) < 5 or node.args[4] == 1
            if not by_one or not all(map(_same, inner.shape, _value(node).shape)):
                return None
        elif node.target in (aten.view.default, aten.unsqueeze.default):
            # Axes of one element come and go; the vector's own stays the only other one.
            before = [size for size in inner.shape if not _is(size, 1)]
            after = [size for size in _value(node).shape if not _is(size, 1)]
            if len(before) > 1 or not all(map(_same, before, after)) or len(before) != len(after):
                return None
        elif node.target not in _SAME:
            return None
        node = operand
    return axis, node


def _is_vector(node: Node) -> bool:
    value = _value(node)
    return value is not None and value.dim() == 1 and value.dtype in (torch.int64, torch.int32)


def _same(a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
    """Whether two sizes are equal at any rate, by their expressions; asking would make a guard."""
    return bool(expression_of(a) == expression_of(b))


def _counts_all(index: Node, size: int | torch.SymInt) -> bool:
    """Whether a vector is 0, 1, 2 ... up to that size."""
    while index.target in _SAME and _is_whole(index):
        index = index.args[0]
    if index.target is aten.arange.start_step and len(index.args) > 2 and index.args[2] != 1:
        return False
    if index.target is prims.iota.default:
        begins = index.kwargs.get("start") == 0 and index.kwargs.get("step") == 1
    elif index.target in (aten.arange.start, aten.arange.start_step):
        begins = _is(index.args[0], 0)
    else:
        begins = index.target is aten.arange.default
    return begins and _is_vector(index) and _same(_value(index).shape[0], size)


def _by_index(
    axis: int, index: Node, source: Node, from_end: bool, is_kept: bool = False
) -> RowUpdate | None:
    """By a vector of consecutive rows, or a number; `is_kept`: the source has the axis anyway."""
    value = _value(index)
    if value is None or value.dtype not in (torch.int64, torch.int32) or value.dim() > 1:
        return None
    rows = value.shape[0] if value.dim() else 1
    # Of no row there is no first one.
    if _is(rows, 0) or not (_is(rows, 1) or _is_consecutive(index)):
        return None
    return RowUpdate(axis, rows, source, is_kept or value.dim() == 1, index, from_end)


def _slice_scatter(
    tensor: Node,
    source: Node,
    dim: int = 0,
    start: int | torch.SymInt | Node | None = None,
    end: int | torch.SymInt | Node | None = None,
    step: int = 1,
) -> RowUpdate | None:
    if step != 1:
        return None
    axis = _axis(dim, tensor)
    length, rows = _value(tensor).shape[axis], _value(source).shape[axis]
    first = _first(_number(0 if start is None else start), length)
    if first is None or _is(rows, 0):
        return None
    return RowUpdate(axis, rows, source, True, first, from_end=False)


def _select_scatter(
    tensor: Node, source: Node, dim: int, index: int | torch.SymInt | Node
) -> RowUpdate | None:
    axis = _axis(dim, tensor)
    first = _first(_number(index), _value(tensor).shape[axis])
    return None if first is None else RowUpdate(axis, 1, source, False, first, from_end=False)


def _number(value: int | torch.SymInt | Node) -> int | torch.SymInt | None:
    """A number, or what tracing knows of one that is computed."""
    if isinstance(value, Node):
        value = value.meta.get("val")
    return value if isinstance(value, int | torch.SymInt) else None


def _first(
    start: int | torch.SymInt | None, length: int | torch.SymInt
) -> int | torch.SymInt | None:
    """A start counted from the front; nothing where it is from the end of a length unknown."""
    if isinstance(start, int) and start < 0:
        return max(0, start + length) if isinstance(length, int) else None
    return start


_READERS: dict[Any, Callable[..., RowUpdate | None]] = {
    aten.index_copy.default: _index_copy,
    aten.index_put.default: _index_put,
    aten.slice_scatter.default: _slice_scatter,
    aten.select_scatter.default: _select_scatter,
    aten.scatter.src: _scatter,
}

# What gives its first operand's elements as they are.
_SAME = (
    aten.alias.default,
    aten.detach.default,
    aten.clone.default,
    aten.lift_fresh_copy.default,
    aten._to_copy.default,
)


def _is_consecutive(index: Node) -> bool:
    """Whether a vector is certain to hold x, x + 1, x + 2, and so on."""
    while index.target in _SAME and _is_whole(index):
        index = index.args[0]
    if index.target is prims.iota.default:
        return index.kwargs.get("step") == 1
    if index.target in (aten.arange.default, aten.arange.start):
        return _is_whole(index)
    if index.target is aten.arange.start_step:
        return _is_whole(index) and (len(index.args) < 3 or index.args[2] == 1)
    if index.target is aten.slice.Tensor:
        return (len(index.args) < 5 or index.args[4] == 1) and _is_consecutive(index.args[0])
    if index.target is aten.add.Tensor and not index.kwargs:
        a, b = index.args
        return (_is_consecutive_operand(a) and _is_single(b)) or (
            _is_consecutive_operand(b) and _is_single(a)
        )
    return False


def _is_consecutive_operand(operand: Any) -> bool:
    return isinstance(operand, Node) and not _is_single(operand) and _is_consecutive(operand)


def _is_whole(node: Node) -> bool:
    value = _value(node)
    return value is not None and value.dtype in (torch.int64, torch.int32)


def _is_single(operand: Any) -> bool:
    """Whether it is one whole number."""
    if isinstance(operand, Node):
        value = _value(operand)
        if value is None:
            return isinstance(operand.meta.get("val"), int | torch.SymInt)
        return _is_whole(operand) and all(_is(size, 1) for size in value.shape)
    return isinstance(operand, int)


def stored_sizes(update: RowUpdate, sizes: list[Size]) -> list[Size]:
    """The sizes of the tensor as tensor_scatter takes it, of which the first axis is a batch."""
    return [1, *sizes] if update.axis == 0 else sizes


def emit_update(
    e: Emitter,
    update: RowUpdate,
    stored: GraphTensor,
    tensor_of: Callable[[Node], GraphTensor],
) -> GraphTensor:
    """The tensor with its rows written, both with `stored_sizes`."""
    sizes = stored.sizes()
    axis = update.axis + 1 if update.axis == 0 else update.axis
    length = sizes[axis]
    written = [*sizes]
    written[axis] = to_size(update.rows)
    source = e.cast(tensor_of(update.source), stored.dtype())
    given = [size for i, size in enumerate(written) if update.has_axis or i != axis]
    if source.sizes() != given:
        source = e.op("expand", source, shape=given)
    if not update.has_axis:
        source = e.reshape(source, written)
    starts = _emit_starts(e, update, length, tensor_of)
    if not update.is_each:
        starts = e.op("expand", e.reshape(starts, [1]), shape=[sizes[0]])
    return e.op("tensor_scatter", stored, source, starts, axis=axis, mode="linear")


def _emit_starts(
    e: Emitter, update: RowUpdate, length: Size, tensor_of: Callable[[Node], GraphTensor]
) -> GraphTensor:
    """The first row, or that of each element of the batch."""
    if not isinstance(update.start, Node):
        return e.scalar(update.start, "i64")
    index = tensor_of(update.start)
    if e.rank(index) == 1 and not update.is_each:
        index = e.slice(index, 0, 0, 1)
    sizes = index.sizes() if update.is_each else []
    start = e.reshape(e.cast(index, "i64"), sizes)
    if not update.from_end:
        return start
    size = (
        e.scalar(length, "i64")
        if isinstance(length, int)
        else e.reshape(e.op("sizes", values=[length]), [])
    )
    is_before = e.op("lt", start, e.scalar(0, "i64"))
    return e.op("select", is_before, e.op("add", start, size), start)
