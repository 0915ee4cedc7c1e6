"""Reshapes, transposes, slices and what else only moves elements."""

from collections.abc import Sequence

import torch

from opweld._core import GraphTensor
from opweld.torch.dtypes import name_of
from opweld.torch.emitter import Emitter, Number, translates
from opweld.torch.sizes import Size, Unsupported, to_size, to_sizes

aten = torch.ops.aten
prims = torch.ops.prims


@translates(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.flatten.using_ints,
)
def reshape(
    e: Emitter, result: torch.Tensor, x: GraphTensor, *arguments: object, **options: object
) -> GraphTensor:
    return e.reshape(x, to_sizes(result.shape))


@translates(aten.permute.default)
def permute(e: Emitter, result: torch.Tensor, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
    return e.op("transpose", x, permutation=[e.axis(each, len(dims)) for each in dims])


@translates(aten.transpose.int)
def transpose(e: Emitter, result: torch.Tensor, x: GraphTensor, a: int, b: int) -> GraphTensor:
    return e.transpose(x, a, b) if e.rank(x) else x


@translates(aten.t.default)
def matrix_transpose(e: Emitter, result: torch.Tensor, x: GraphTensor) -> GraphTensor:
    return e.transpose(x) if e.rank(x) == 2 else x


@translates(aten.expand.default)
def expand(
    e: Emitter, result: torch.Tensor, x: GraphTensor, *arguments: object, **options: object
) -> GraphTensor:
    return e.op("expand", x, shape=to_sizes(result.shape))


@translates(aten.copy.default)
def copy(
    e: Emitter, result: torch.Tensor, x: GraphTensor, source: GraphTensor, *arguments: object
) -> GraphTensor:
    # Of what is overwritten nothing is read but its sizes.
    return e.op("expand", e.cast(source, name_of(result.dtype)), shape=to_sizes(result.shape))


@translates(aten.repeat.default)
def repeat(
    e: Emitter, result: torch.Tensor, x: GraphTensor, repeats: Sequence[int | torch.SymInt]
) -> GraphTensor:
    padded = [1] * (len(repeats) - e.rank(x)) + x.sizes()
    return e.op("tile", e.reshape(x, padded), repeats=to_sizes(repeats))


def _start(start: int | torch.SymInt | None, size: Size) -> Size:
    """Where a slice begins, counted from the front and within the axis."""
    text = 0 if start is None else to_size(start)
    if not isinstance(text, int):
        return f"min({text}, {size})"
    if isinstance(size, int):
        return max(0, text + size) if text < 0 else min(text, size)
    return f"max({size} + {text}, 0)" if text < 0 else (f"min({text}, {size})" if text else 0)


@translates(aten.slice.Tensor)
def slice_axis(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    dim: int = 0,
    start: int | torch.SymInt | None = None,
    end: int | torch.SymInt | None = None,
    step: int = 1,
) -> GraphTensor:
    if not isinstance(step, int):
        raise Unsupported("a slice with a step that is known at run time only")
    axis = e.axis(dim, e.rank(x))
    size = to_size(result.shape[axis])
    if size == x.sizes()[axis]:
        return x
    return e.slice(x, axis, _start(start, x.sizes()[axis]), size, step)


@translates(aten.select.int)
def select(
    e: Emitter, result: torch.Tensor, x: GraphTensor, dim: int, index: int | torch.SymInt
) -> GraphTensor:
    axis = e.axis(dim, e.rank(x))
    start = _start(index, x.sizes()[axis])
    return e.reshape(e.slice(x, axis, start, 1), to_sizes(result.shape))


@translates(aten.cat.default)
def cat(
    e: Emitter, result: torch.Tensor, tensors: Sequence[GraphTensor], dim: int = 0
) -> GraphTensor:
    # An empty vector beside tensors of other ranks is left out, as ATen does.
    parts = [each for each in tensors if each.sizes() != [0] or result.dim() == 1]
    dtype = name_of(result.dtype)
    axis = e.axis(dim, result.dim())
    return e.op("concat", *[e.cast(each, dtype) for each in parts], axis=axis)


def _parts(
    e: Emitter, results: Sequence[torch.Tensor], x: GraphTensor, axis: int
) -> tuple[GraphTensor, ...]:
    """Slices one after another along an axis, each with the sizes of its result there."""
    parts = []
    start: Size = 0
    for result in results:
        size = to_size(result.shape[axis])
        parts.append(e.slice(x, axis, start, size))
        if isinstance(start, int) and isinstance(size, int):
            start += size
        else:
            start = f"({start}) + ({size})"
    return tuple(parts)


@translates(aten.split_with_sizes.default, aten.split.Tensor, aten.chunk.default)
def split(
    e: Emitter,
    results: Sequence[torch.Tensor],
    x: GraphTensor,
    sizes: object,
    dim: int = 0,
) -> tuple[GraphTensor, ...]:
    return _parts(e, results, x, e.axis(dim, e.rank(x)))


@translates(aten.unbind.int)
def unbind(
    e: Emitter, results: Sequence[torch.Tensor], x: GraphTensor, dim: int = 0
) -> tuple[GraphTensor, ...]:
    axis = e.axis(dim, e.rank(x))
    return tuple(
        e.reshape(e.slice(x, axis, i, 1), to_sizes(result.shape))
        for i, result in enumerate(results)
    )


@translates(aten.flip.default)
def flip(e: Emitter, result: torch.Tensor, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
    for dim in dims:
        axis = e.axis(dim, e.rank(x))
        size = x.sizes()[axis]
        last = size - 1 if isinstance(size, int) else f"({size}) - 1"
        x = e.slice(x, axis, last, size, -1) if size != 0 else x
    return x


@translates(aten.constant_pad_nd.default)
def pad(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    pad: Sequence[int | torch.SymInt],
    value: Number = 0,
) -> GraphTensor:
    rank = e.rank(x)
    before: list[Size] = [0] * rank
    after: list[Size] = [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i] = to_size(pad[2 * i])
        after[rank - 1 - i] = to_size(pad[2 * i + 1])
    fill = e.scalar(value, x.dtype())
    return e.op("pad", x, fill, before=before, after=after, mode="constant")


@translates(aten.slice_scatter.default)
def slice_scatter(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    source: GraphTensor,
    dim: int = 0,
    start: int | torch.SymInt | None = None,
    end: int | torch.SymInt | None = None,
    step: int = 1,
) -> GraphTensor:
    axis = e.axis(dim, e.rank(x))
    if step != 1:
        raise Unsupported("a slice that is written with a step")
    sizes = x.sizes()
    whole, part = sizes[axis], source.sizes()[axis]
    begin = _start(start, whole)
    sizes[axis] = part
    source = e.op("expand", e.cast(source, x.dtype()), shape=sizes)
    if begin == 0 and part == whole:
        return source
    behind = f"({begin}) + ({part})"
    parts = [
        e.slice(x, axis, 0, begin),
        source,
        e.slice(x, axis, behind, f"({whole}) - ({behind})"),
    ]
    return e.op("concat", *parts, axis=axis)


@translates(aten.select_scatter.default)
def select_scatter(
    e: Emitter, result: torch.Tensor, x: GraphTensor, source: GraphTensor, dim: int, index: int
) -> GraphTensor:
    axis = e.axis(dim, e.rank(x))
    sizes = x.sizes()
    sizes[axis] = 1
    return slice_scatter(e, result, x, e.reshape(source, sizes), dim, index)
