"""Results and the memory that they are: views of inputs, and tensors of their own."""

from collections.abc import Callable

import pytest
import torch

from tests.python.torch_helpers import Compiled, assert_same, floats

Results = Callable[..., tuple[torch.Tensor, ...]]


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def behind(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * 2, c[:, 1 : x.shape[1]]


def narrowed(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * 2, c[:, :, 1].narrow(1, x.shape[1] - 2, 2)


def turned(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * 2, c.transpose(0, 1)[x.shape[1] - 1 :]


def parts(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x * 2, *c[:, : x.shape[1]].unbind(2))


def read_as_well(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    seen = c[1:, x.shape[1] :]
    return seen.sum(1) * 2, seen


def nothing_else(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (c[:, x.shape[1] :],)


def written_before(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    c.mul_(2)
    return x * 2, c[1:, x.shape[1] :]


def written_by_rows(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    c.index_copy_(1, torch.arange(x.shape[1]), x[:, :, None].expand(-1, -1, 3))
    return c.sum(1), c[:, : x.shape[1]], c


VIEWS = [
    behind,
    narrowed,
    turned,
    parts,
    read_as_well,
    nothing_else,
    written_before,
    written_by_rows,
]


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("function", VIEWS)
def test_views_of_inputs_are_views(function: Results, dynamic: bool) -> None:
    compiled = Compiled(function, dynamic=dynamic)
    with torch.no_grad():
        for count in (3, 4, 6):
            mine, theirs, x = floats(4, 8, 3), floats(4, 8, 3), floats(4, count, seed=1)
            for _ in range(2):
                actual, expected = compiled(mine, x), function(theirs, x)
                assert_same(actual, expected)
                assert_same(mine, theirs)
                for a, b in zip(actual, expected, strict=True):
                    assert (storage(a) == storage(mine)) == (storage(b) == storage(theirs))
                    assert storage(a) != storage(mine) or a.stride() == b.stride()
                # Who writes into a view writes into the input.
                actual[-1].add_(1)
                expected[-1].add_(1)
                assert_same(mine, theirs)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("function", [behind, turned, written_before, written_by_rows])
def test_views_of_inputs_where_gradients_are_asked_for(function: Results, dynamic: bool) -> None:
    compiled = Compiled(function, dynamic=dynamic)
    for count in (3, 4, 6):
        mine, theirs = floats(4, 8, 3), floats(4, 8, 3)
        x, y = (floats(4, count, seed=1).requires_grad_() for _ in range(2))
        actual, expected = compiled(mine, x), function(theirs, y)
        assert_same(actual, expected)
        assert_same(mine, theirs)
        for a, b in zip(actual, expected, strict=True):
            assert (storage(a) == storage(mine)) == (storage(b) == storage(theirs))
        actual[0].sum().backward()
        expected[0].sum().backward()
        assert_same(x.grad, y.grad)


def rows(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    new = torch.index_copy(c, 1, torch.arange(x.shape[1]) + 1, x)
    c.copy_(new)
    return (new,)


def rows_apart(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    new = torch.index_copy(c, 1, torch.tensor([3, 1]), x[:, :2])
    c.copy_(new)
    return (new,)


def a_slice(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    new = torch.slice_scatter(c, x, 1, 2, 2 + x.shape[1])
    c.copy_(new)
    return c.sum(1), new


def a_row(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    new = torch.select_scatter(c, x[:, 0], 1, 2)
    c.copy_(new)
    return new, c


def part_of_it(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    new = torch.index_copy(c, 1, torch.arange(x.shape[1]) + 1, x)
    c.copy_(new)
    return (new[1:],)


def part_of_rows_apart(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    places = torch.tensor([3, 1]).view(1, 2, 1).expand(4, 2, 3)
    new = torch.scatter(c, 1, places, x[:, :2])
    c.copy_(new)
    return (new.transpose(0, 1),)


def whole(c: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    new = c * x.sum()
    c.copy_(new)
    return (new,)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(
    "function", [rows, rows_apart, a_slice, a_row, part_of_it, part_of_rows_apart, whole]
)
def test_what_is_copied_into_an_input_is_a_tensor_of_its_own(
    function: Results, dynamic: bool
) -> None:
    compiled = Compiled(function, dynamic=dynamic)
    mine, theirs = floats(4, 8, 3), floats(4, 8, 3)
    with torch.no_grad():
        for seed in range(3):
            x = floats(4, 2, 3, seed=seed)
            actual, expected = compiled(mine, x), function(theirs, x)
            mine.add_(1)
            theirs.add_(1)
            # What was given keeps what it was.
            assert_same(actual, expected)
            assert_same(mine, theirs)
