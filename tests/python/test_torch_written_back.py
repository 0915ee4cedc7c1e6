"""Results that a compiled graph writes back into its inputs, as a whole."""

from collections.abc import Callable

import pytest
import torch

from tests.python.torch_helpers import Compiled, assert_same, floats

Step = Callable[..., torch.Tensor]


def counted(count: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y = x * count
    count.add_(1)
    return y + count


def scaled(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a.mul_(2)
    return (a + x).sum(0)


def exchanged(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    old = a.clone()
    a.copy_(b)
    b.copy_(old)
    return a - b


def rolled(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a.copy_(a.roll(-1, 0) + x)
    return a.sum()


def overlapping(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a.copy_(a.flip(0))
    return a.sum(1) + x.sum()


@pytest.mark.parametrize("function", [counted, scaled, exchanged, rolled, overlapping])
@pytest.mark.parametrize(
    "layout",
    [lambda x: x, lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[1:]],
    ids=["dense", "transposed", "apart", "behind"],
)
def test_results_are_written_back(function: Step, layout: Step) -> None:
    compiled = Compiled(function)
    mine, theirs = floats(8, 8), floats(8, 8)
    x, y = layout(floats(8, 8, seed=1)).clone(), layout(floats(8, 8, seed=1)).clone()
    with torch.no_grad():
        for _ in range(3):
            version = mine._version
            assert_same(compiled(layout(mine), x), function(layout(theirs), y))
            assert_same((mine, x), (theirs, y))
            assert mine._version > version
    (graph,) = compiled.graphs
    assert graph.partition.written_back and not graph.stats.eager


def test_a_result_that_is_read_as_well_is_copied() -> None:
    def function(a: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b = a + x
        a.copy_(b)
        return b, b.cumsum(0).cummax(0)[0]

    compiled = Compiled(function)
    mine, theirs = floats(4, 4), floats(4, 4)
    with torch.no_grad():
        for _ in range(2):
            x = floats(4, 4, seed=2)
            actual = compiled(mine, x)
            assert_same(actual, function(theirs, x))
            assert_same(mine, theirs)
            assert actual[0].data_ptr() != mine.data_ptr()


def test_an_eager_operator_reads_what_was_there() -> None:
    def function(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        before = a.cummax(0)[0]
        a.add_(x)
        return before * 2 + a

    compiled = Compiled(function)
    mine, theirs = floats(4, 4), floats(4, 4)
    with torch.no_grad():
        for _ in range(2):
            assert_same(compiled(mine, floats(4, 4)), function(theirs, floats(4, 4)))
            assert_same(mine, theirs)
