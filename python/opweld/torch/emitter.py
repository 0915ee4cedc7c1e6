"""Writes operators of Opweld into a graph; what the translations of ATen operators are made of."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opweld._core import GraphBuilder, GraphTensor
from opweld.torch import dtypes
from opweld.torch.sizes import Size, Unsupported, to_size

Number = int | float | bool | torch.SymInt
# (emitter, traced result, operands and attributes as in the schema) -> one result or several
Translation = Callable[..., GraphTensor | tuple[GraphTensor | None, ...]]

TRANSLATIONS: dict[Any, Translation] = {}


def translates(*targets: Any) -> Callable[[Translation], Translation]:
    """Registers a function as the translation of ATen operators, given by overload."""

    def register(translation: Translation) -> Translation:
        for target in targets:
            assert target not in TRANSLATIONS, target
            TRANSLATIONS[target] = translation
        return translation

    return register


def is_number(value: object) -> bool:
    """Whether it is a number of Python, or one of the trace."""
    return isinstance(value, int | float | torch.SymInt)


class Emitter:
    """A graph under construction, in terms that translations are short in."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.wanted: frozenset[int] = frozenset()
        """Of an operator with several results, those that somebody reads."""

    def op(self, name: str, *operands: GraphTensor | None, **attributes: Any) -> GraphTensor:
        """An operator of one result."""
        return self.builder.op(name, list(operands), attributes)[0]

    def ops(
        self, count: int, name: str, *operands: GraphTensor | None, **attributes: Any
    ) -> list[GraphTensor]:
        """An operator of several results."""
        return self.builder.op(name, list(operands), attributes, count)

    def cast(self, x: GraphTensor, dtype: str) -> GraphTensor:
        """The tensor in another dtype, if it is not in that one."""
        return x if x.dtype() == dtype else self.op("cast", x, to=dtypes.ENUM[dtype])

    def reshape(self, x: GraphTensor, sizes: Sequence[Size]) -> GraphTensor:
        """The same elements in row-major order."""
        return self.op("reshape", x, shape=list(sizes))

    def rank(self, x: GraphTensor) -> int:
        """How many axes it has."""
        return len(x.sizes())

    def scalar(self, value: Number, dtype: str) -> GraphTensor:
        """A number as a tensor of rank 0; a size of the trace stays symbolic."""
        if isinstance(value, torch.SymInt):
            size = to_size(value)
            if not isinstance(size, int):
                tensor = self.reshape(self.op("sizes", values=[size]), [])
                return self.cast(tensor, dtype)
            value = size
        if not isinstance(value, int | float):
            raise Unsupported(f"the number {value} is known at run time only")
        if dtype == "i64" and abs(value) > 2**53:
            raise Unsupported(f"the number {value} is no double")
        if dtype not in dtypes.FLOATS and dtype != "bool":
            value = int(value)
        return self.builder.scalar(float(value), dtype)

    def operand(self, x: GraphTensor | Number, dtype: str) -> GraphTensor:
        """A tensor or a number in this dtype."""
        return self.scalar(x, dtype) if is_number(x) else self.cast(x, dtype)

    def filled(self, value: Number, dtype: str, sizes: Sequence[Size]) -> GraphTensor:
        """A tensor that is the same number everywhere."""
        return self.op("expand", self.scalar(value, dtype), shape=list(sizes))

    def axis(self, axis: int, rank: int) -> int:
        """Counted from the front."""
        return axis + rank if axis < 0 else axis

    def slice(
        self, x: GraphTensor, axis: int, start: Size, size: Size, step: int = 1
    ) -> GraphTensor:
        """So many elements of one axis."""
        sizes = x.sizes()
        starts: list[Size] = [0] * len(sizes)
        steps = [1] * len(sizes)
        starts[axis], sizes[axis], steps[axis] = start, size, step
        return self.op("slice", x, starts=starts, sizes=sizes, steps=steps)

    def transpose(self, x: GraphTensor, a: int = -2, b: int = -1) -> GraphTensor:
        """Two axes in each other's place."""
        order = list(range(self.rank(x)))
        order[a], order[b] = order[b], order[a]
        return self.op("transpose", x, permutation=order)
