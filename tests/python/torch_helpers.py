"""What the tests of the torch.compile backend have in common."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from opweld.torch import graphs
from opweld.torch.graph import CompiledGraph

# Of one kernel, relative and absolute (docs/numerics.md); integers and bools are exact.
TOLERANCES = {
    torch.float64: (2**-10, 2**-16),
    torch.float32: (2**-10, 2**-16),
    torch.float16: (2**-9, 2**-9),
    torch.bfloat16: (2**-6, 2**-6),
}


def assert_same(actual: Any, expected: Any) -> None:
    """The same structure, dtypes, sizes and values, up to the rounding of one kernel."""
    if isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for pair in zip(actual, expected, strict=True):
            assert_same(*pair)
        return
    if not isinstance(expected, torch.Tensor):
        assert actual == expected
        return
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    rtol, atol = TOLERANCES.get(expected.dtype, (0, 0))
    a, b = actual.detach(), expected.detach()
    if expected.dtype in TOLERANCES:
        a, b = a.double(), b.double()
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=atol, equal_nan=True)


class Compiled:
    """A function or module compiled by the backend, with the graphs that came of it."""

    def __init__(
        self, function: Callable[..., Any], dynamic: bool | None = True, **options: Any
    ) -> None:
        torch._dynamo.reset()
        self._before = {id(graph) for graph in graphs()}
        self._call = torch.compile(
            function, backend="opweld", dynamic=dynamic, options=options or None
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs it."""
        return self._call(*args, **kwargs)

    @property
    def graphs(self) -> list[CompiledGraph]:
        """Those that were traced for it."""
        return [graph for graph in graphs() if id(graph) not in self._before]

    @property
    def eager(self) -> dict[str, int]:
        """Operators that ran in eager mode, in all graphs."""
        found: dict[str, int] = {}
        for graph in self.graphs:
            for name, count in graph.stats.eager.items():
                found[name] = found.get(name, 0) + count
        return found

    @property
    def compiles(self) -> int:
        """Segments that were compiled, in all graphs."""
        return sum(graph.stats.compiles for graph in self.graphs)


def floats(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*sizes, generator=generator, dtype=torch.float64).to(dtype)


def whole(*sizes: int, low: int = 0, high: int = 8, seed: int = 0) -> torch.Tensor:
    """Whole numbers in [low, high)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, sizes, generator=generator)
