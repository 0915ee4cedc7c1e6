"""Caches of several layers in one tensor, written layer by layer: each where it lies."""

from collections.abc import Callable

import pytest
import torch

from tests.python.test_torch_writes import agree, is_in_place, positions
from tests.python.torch_helpers import Compiled, assert_same, floats

LAYERS = 3
Step = Callable[..., torch.Tensor]


def by_index_copy(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    for layer in range(LAYERS):
        cache[layer].index_copy_(1, positions(x, 1, at), x)
        x = x + cache[layer].sum(1, keepdim=True).tanh()
    return x


def by_assignment(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    for layer in range(LAYERS):
        cache[layer, :, positions(x, 1, at)] = x * 2
        x = x - cache[layer].mean(1, keepdim=True)
    return x


def by_scatter(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    places = positions(x, 1, at).view(1, -1, 1).expand(x.shape)
    for layer in range(LAYERS):
        cache[layer].scatter_(1, places, x)
        x = x - cache[layer].amax(1, keepdim=True)
    return x


def last_layer_first(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    for layer in range(LAYERS):
        cache[-1 - layer].index_copy_(1, positions(x, 1, at), x)
        x = x * cache[-1 - layer].sum(1, keepdim=True).sigmoid()
    return x


def some_layers(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[1].index_copy_(1, positions(x, 1, at), x)
    return cache[1] + cache[0] * 2


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(
    "function", [by_index_copy, by_assignment, by_scatter, last_layer_first, some_layers]
)
def test_layers_are_written_where_they_lie(function: Step, dynamic: bool) -> None:
    compiled = Compiled(function, dynamic=dynamic)
    mine, theirs = floats(LAYERS, 4, 24, 17), floats(LAYERS, 4, 24, 17)
    with torch.no_grad():
        for count, at in ((7, 0), (2, 7), (2, 22), (24, 0)):
            x = floats(4, count, 17, seed=count)
            agree(compiled, function, mine, theirs, x, torch.tensor(at))
    if dynamic and function is last_layer_first:
        return  # of how many layers there are nothing is known: the last may be the first
    assert is_in_place(compiled)
    written = 1 if function is some_layers else LAYERS
    assert all(len(graph.partition.in_place.updates) == written for graph in compiled.graphs)


def keys_and_values(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    for layer in range(2):
        cache[layer, 0].index_copy_(1, positions(x, 1, at), x)
        cache[layer, 1].index_copy_(1, positions(x, 1, at), -x)
        x = x + (cache[layer, 0] * cache[layer, 1]).sum(1, keepdim=True).tanh()
    return x


def test_keys_and_values_of_layers_in_one_tensor() -> None:
    compiled = Compiled(keys_and_values)
    mine, theirs = floats(2, 2, 4, 24, 17), floats(2, 2, 4, 24, 17)
    with torch.no_grad():
        for count, at in ((7, 0), (2, 7), (2, 22)):
            x = floats(4, count, 17, seed=count)
            agree(compiled, keys_and_values, mine, theirs, x, torch.tensor(at))
    assert is_in_place(compiled)
    assert all(len(graph.partition.in_place.updates) == 4 for graph in compiled.graphs)


class Buffered(torch.nn.Module):
    """Has its caches in a buffer, which must not be taken for a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = torch.nn.Buffer(floats(LAYERS, 4, 24, 17))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """What all layers make of x."""
        return by_index_copy(self.cache, x, at)


def test_a_stack_in_a_buffer() -> None:
    mine, theirs = Buffered(), Buffered()
    compiled = Compiled(mine)
    with torch.no_grad():
        for count, at in ((7, 0), (2, 7), (2, 22)):
            x, place = floats(4, count, 17, seed=count), torch.tensor(at)
            assert_same(compiled(x, place), theirs(x, place))
            assert_same(mine.cache, theirs.cache)
    assert is_in_place(compiled)
    assert all(graph.stats.repacks == 0 for graph in compiled.graphs)


def written_twice(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[0].index_copy_(1, positions(x, 1, at), x)
    before = cache[0].sum(1)
    cache[0].index_copy_(1, positions(x, 1, at), x * 2)
    return before - cache[0].sum(1)


def read_before(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    before = cache[1].sum(1)
    cache[1].index_copy_(1, positions(x, 1, at), x)
    return before + cache[1].sum(1)


def read_as_a_whole(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[1].index_copy_(1, positions(x, 1, at), x)
    return cache.sum(2)


def from_one_to_the_other(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[0].index_copy_(1, positions(x, 1, at), x)
    cache[1] = cache[0]
    cache[0] = cache[2]
    return cache[1] - cache[0]


def wholly(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[2] = x.sum(1, keepdim=True) + at
    return cache[2] * 2


@pytest.mark.parametrize(
    "function", [written_twice, read_before, read_as_a_whole, from_one_to_the_other, wholly]
)
def test_what_is_written_otherwise_is_right_as_well(function: Step) -> None:
    compiled = Compiled(function)
    mine, theirs = floats(LAYERS, 4, 24, 17), floats(LAYERS, 4, 24, 17)
    with torch.no_grad():
        for count, at in ((7, 0), (2, 7), (2, 22)):
            x, place = floats(4, count, 17, seed=count), torch.tensor(at)
            assert_same(compiled(mine, x, place), function(theirs, x, place))
            assert_same(mine, theirs)


def test_layers_that_are_not_dense() -> None:
    compiled = Compiled(by_index_copy)
    mine, theirs = floats(LAYERS, 4, 17, 24), floats(LAYERS, 4, 17, 24)
    with torch.no_grad():
        for count, at in ((7, 0), (2, 7)):
            x, place = floats(4, count, 17, seed=count), torch.tensor(at)
            actual = compiled(mine.transpose(2, 3), x, place)
            assert_same(actual, by_index_copy(theirs.transpose(2, 3), x, place))
            assert_same(mine, theirs)
