"""Convolutions, as matrix products of windows and filters.

windows [N, (G,) P, C/G * K] . filters [(G,) C/G * K, M/G], for P windows of K elements of a
channel. Windows that lie side by side are a reshape, those of a single element a slice; others are
looked up at positions that are arithmetic on sizes. The product takes each in as it reads its rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from opweld._core import GraphTensor
from opweld.torch import dtypes
from opweld.torch.emitter import Emitter, translates
from opweld.torch.sizes import Size, Unsupported, to_sizes

aten = torch.ops.aten


@dataclass(frozen=True)
class Windows:
    """Along one spatial axis of the padded image."""

    count: Size
    kernel: int
    stride: int
    dilation: int

    def positions(self, e: Emitter) -> GraphTensor:
        """i64[count, kernel]: where the elements of windows lie."""

        def counted(along: int, factor: int) -> GraphTensor:
            shape = [self.count, self.kernel]
            count = e.op("iota", shape=shape, axis=along, dtype=dtypes.ENUM["i64"])
            return count if factor == 1 else e.op("mul", count, e.scalar(factor, "i64"))

        return e.op("add", counted(0, self.stride), counted(1, self.dilation))

    def cut(self, e: Emitter, x: GraphTensor, axis: int) -> GraphTensor:
        """The image with that axis as two, windows and what is in them."""
        side_by_side = self.kernel == self.stride and 1 in (self.stride, self.dilation)
        if not side_by_side and self.kernel != 1:
            return e.op("gather", x, self.positions(e), axis=axis)
        step = 1 if side_by_side else self.stride
        used = product([self.count, self.kernel])
        if step != 1 or used != x.sizes()[axis]:
            x = e.slice(x, axis, 0, used, step)
        sizes = x.sizes()
        return e.reshape(x, [*sizes[:axis], self.count, self.kernel, *sizes[axis + 1 :]])


def product(sizes: Sequence[Size]) -> Size:
    """Of sizes, a number where all are."""
    number = 1
    texts = []
    for size in sizes:
        if isinstance(size, int):
            number *= size
        else:
            texts.append(f"({size})")
    return " * ".join([str(number), *texts]) if texts else number


def numbers(sizes: Sequence[Size], count: int, what: str) -> list[int]:
    """One for each of so many axes; a single one is for all.

    Raises:
        Unsupported: one is known at run time only.
    """
    if not all(isinstance(each, int) for each in sizes):
        raise Unsupported(f"a convolution whose {what} is known at run time only")
    return list(sizes) * count if len(sizes) == 1 else list(sizes)


@translates(aten.convolution.default)
def convolution(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    weight: GraphTensor,
    bias: GraphTensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> GraphTensor:
    if transposed:
        raise Unsupported("a transposed convolution")
    if x.dtype() not in dtypes.FLOATS:
        raise Unsupported("a convolution of integers")
    count = e.rank(x) - 2
    batch = x.sizes()[0]
    filters, channels_each, *kernel = numbers(weight.sizes(), count + 2, "kernel")
    axes = [
        Windows(*each)
        for each in zip(
            to_sizes(result.shape[2:]),
            kernel,
            numbers(to_sizes(stride), count, "stride"),
            numbers(to_sizes(dilation), count, "dilation"),
            strict=True,
        )
    ]
    padding = [0, 0, *numbers(to_sizes(padding), count, "padding")]
    if any(padding):
        x = e.op("pad", x, None, before=padding, after=padding, mode="constant")
    for i in reversed(range(count)):
        x = axes[i].cut(e, x, i + 2)
    # [N, G, C/G, count, kernel, count, kernel ...]: windows first, then what is in them.
    x = e.reshape(x, [batch, groups, channels_each, *x.sizes()[2:]])
    order = [0, 1, *range(3, 3 + 2 * count, 2), 2, *range(4, 4 + 2 * count, 2)]
    x = e.op("transpose", x, permutation=order)
    windows = product([each.count for each in axes])
    elements = product([channels_each, *kernel])
    grouped = [groups] if groups != 1 else []
    x = e.reshape(x, [batch, *grouped, windows, elements])
    weight = e.transpose(e.reshape(weight, [*grouped, filters // groups, elements]))
    y = e.op("matmul", x, weight)
    if bias is not None:
        y = e.op("add", y, e.reshape(bias, [groups, 1, filters // groups]) if grouped else bias)
    return e.reshape(e.transpose(y), [batch, filters, *[each.count for each in axes]])
