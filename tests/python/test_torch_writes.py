"""What a compiled graph writes into its inputs: caches in place, counters, and what cannot be."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.python.torch_helpers import Compiled, assert_same, floats, whole

Step = Callable[..., torch.Tensor]


def positions(x: torch.Tensor, axis: int, at: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[axis]) + at


def copied_to_middle(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(1, positions(x, 1, at), x * 2)
    return cache.sum(1) + x.sum()


def copied_to_first(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(0, positions(x, 0, at), x * 2)
    return (cache * cache).sum(-1)


def copied_to_last(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(-1, at + torch.arange(x.shape[-1]), x.exp())
    return cache.softmax(-1)


def put_in_middle(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[:, positions(x, 1, at)] = x.tanh()
    return cache @ x.transpose(1, 2)


def put_in_first(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[positions(x, 0, at).to(torch.int32)] = x
    return cache + 1


def broadcast(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[:, positions(x, 1, at)] = x[:1, :1] - 1
    return cache.amax(1)


def scattered_in_middle(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    places = positions(x, 1, at)[None, :, None].expand(x.shape[0], x.shape[1], x.shape[2])
    cache.scatter_(1, places, x + 1)
    return cache.sum(1)


def scattered_in_last(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache.scatter_(-1, positions(x, 2, at).expand(x.shape), x.exp())
    return cache.sum(1)


def twice(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    places = positions(x, 1, at)
    cache.index_copy_(1, places, x)
    return cache[:, places] * 2 + cache[:, :1]


CONSECUTIVE = {
    "index_copy, middle": (copied_to_middle, 1),
    "index_copy, first": (copied_to_first, 0),
    "index_copy, last": (copied_to_last, 2),
    "index_put, middle": (put_in_middle, 1),
    "index_put, first": (put_in_first, 0),
    "index_put of what broadcasts": (broadcast, 1),
    "scatter, middle": (scattered_in_middle, 1),
    "scatter, last": (scattered_in_last, 2),
    "read where it was written": (twice, 1),
}


def is_in_place(compiled: Compiled) -> bool:
    """Whether every graph is one program that does all updates itself."""
    return all(
        len(graph.segments) == 1
        and graph.partition.in_place.updates
        and not graph.partition.in_place.reasons
        and not graph.stats.eager
        for graph in compiled.graphs
    )


def agree(
    compiled: Compiled, function: Step, mine: torch.Tensor, theirs: torch.Tensor, *rest: object
) -> None:
    """Runs both, and compares what they give and what they left."""
    place, version = mine.data_ptr(), mine._version
    assert_same(compiled(mine, *rest), function(theirs, *rest))
    assert_same(mine, theirs)
    assert mine.data_ptr() == place and mine._version > version


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(("function", "axis"), CONSECUTIVE.values(), ids=CONSECUTIVE.keys())
def test_consecutive_rows_are_written_in_place(function: Step, axis: int, dynamic: bool) -> None:
    compiled = Compiled(function, dynamic=dynamic)
    mine, theirs = floats(3, 40, 17), floats(3, 40, 17)
    if axis == 0:
        mine, theirs = floats(40, 3, 17), floats(40, 3, 17)
    if axis == 2:
        mine, theirs = floats(3, 5, 40), floats(3, 5, 40)
    with torch.no_grad():
        for count, at in ((7, 0), (1, 7), (1, 39), (16, 8), (17, 23), (40, 0), (3, 5)):
            sizes = [*mine.shape]
            sizes[axis] = count
            x = floats(*sizes, seed=count)
            agree(compiled, function, mine, theirs, x, torch.tensor(at))
    assert is_in_place(compiled)


def one_row(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[:, at] = x
    return cache.sum(1)


def one_row_of_the_first(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[at] = x[0]
    return cache.sum(1)


def one_row_by_a_vector(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[:, at.reshape(1)] = x.unsqueeze(1)
    return cache.sum(1)


# PyTorch traces no index of rank 0 that is not int64.
ONE_ROW = [
    (one_row, torch.int64),
    (one_row_of_the_first, torch.int64),
    (one_row_by_a_vector, torch.int64),
    (one_row_by_a_vector, torch.int32),
]


@pytest.mark.parametrize(("function", "dtype"), ONE_ROW)
def test_one_row_by_a_number_that_may_count_from_the_end(
    function: Step, dtype: torch.dtype
) -> None:
    compiled = Compiled(function)
    mine, theirs = floats(6, 9, 5), floats(6, 9, 5)
    with torch.no_grad():
        for at in (0, 5, -1, -6, 3):
            x = floats(6, 5, seed=at + 10) if function is not one_row_of_the_first else None
            x = floats(9, 9, 5, seed=at + 10) if x is None else x
            agree(compiled, function, mine, theirs, x, torch.tensor(at, dtype=dtype))
    assert is_in_place(compiled)


def put_for_each(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[torch.arange(x.shape[0]), :, at] = x
    return cache.sum(2)


def put_for_each_beside(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[torch.arange(0, x.shape[0]), at] = x[:, :1] * 2
    return cache.sum(1)


def scattered_for_each(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    places = at.view(-1, 1, 1, 1).expand(x.shape[0], x.shape[1], 1, x.shape[2])
    cache.scatter_(2, places, x.unsqueeze(2))
    return cache.sum(2)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("function", [put_for_each, put_for_each_beside, scattered_for_each])
def test_a_row_of_its_own_for_each_of_the_batch(function: Step, dynamic: bool) -> None:
    compiled = Compiled(function, dynamic=dynamic)
    mine, theirs = floats(5, 9, 9, 17), floats(5, 9, 9, 17)
    with torch.no_grad():
        for first, at in enumerate(([0, 3, 3, 8, 1], [8, 8, 0, 0, 5], [2, 1, 0, 7, 4])):
            x = floats(5, 9, 17, seed=first)
            agree(compiled, function, mine, theirs, x, torch.tensor(at))
        if function is not scattered_for_each:  # whose places do not count from the end
            agree(compiled, function, mine, theirs, x, torch.tensor([-1, 3, -9, 0, -2]))
    assert is_in_place(compiled)


def not_the_whole_batch(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[torch.arange(at.shape[0]), at] = x
    return cache.sum(1)


def another_order(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[4 - torch.arange(5), at] = x
    return cache.sum(1)


def repeated_places(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache.scatter_(1, at.view(-1, 1, 1).expand(5, 1, 17), x[:, None])
    return cache.sum(1)


def apart(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache.scatter_(1, at.view(1, -1, 1).expand(5, -1, 17), x[:, None].expand(5, at.shape[0], 17))
    return cache.sum(1)


@pytest.mark.parametrize("function", [not_the_whole_batch, another_order, repeated_places, apart])
def test_rows_of_the_batch_that_are_not_one_for_each(function: Step) -> None:
    compiled = Compiled(function, dynamic=False)
    mine, theirs = floats(5, 9, 17), floats(5, 9, 17)
    places = torch.tensor([4, 1, 6] if function is not_the_whole_batch else [4, 1, 6, 0, 8])
    x = floats(len(places), 17, seed=4)
    with torch.no_grad():
        assert_same(compiled(mine, x, places), function(theirs, x, places))
    assert_same(mine, theirs)


def slice_of_middle(cache: torch.Tensor, x: torch.Tensor, at: int) -> torch.Tensor:
    cache[:, at : at + x.shape[1]] = x + 1
    return cache.sum(1)


def slice_of_first(cache: torch.Tensor, x: torch.Tensor, at: int) -> torch.Tensor:
    cache[at : at + x.shape[0]] = x + 1
    return cache.sum(1)


def row_by_an_integer(cache: torch.Tensor, x: torch.Tensor, at: int) -> torch.Tensor:
    cache[:, at] = x[:, 0]
    return cache.sum(1)


@pytest.mark.parametrize("function", [slice_of_middle, slice_of_first, row_by_an_integer])
@pytest.mark.parametrize("dynamic", [True, False])
def test_slices_are_written_in_place(function: Step, dynamic: bool) -> None:
    compiled = Compiled(function, dynamic=dynamic)
    mine, theirs = floats(20, 20, 5), floats(20, 20, 5)
    with torch.no_grad():
        for at in (2, 3, 7, 13):
            x = floats(20, 6, 5, seed=at) if function is not slice_of_first else floats(6, 20, 5)
            agree(compiled, function, mine, theirs, x, at)
    assert is_in_place(compiled)


def last_row(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[-1] = x[0]
    return cache * 2


def last_rows(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[:, -3:] = x
    return cache * 2


def first_rows(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[:, :3] = x
    return cache * 2


def all_rows(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[:, :] = x[:, :1]
    return cache * 2


@pytest.mark.parametrize("function", [last_row, last_rows, first_rows, all_rows])
def test_slices_at_known_places(function: Step) -> None:
    compiled = Compiled(function, dynamic=False)
    mine, theirs = floats(3, 8, 5), floats(3, 8, 5)
    with torch.no_grad():
        x = floats(8, 5)[None] if function is last_row else floats(3, 3, 5)
        agree(compiled, function, mine, theirs, x)
    assert compiled.eager == {}


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool],
)
def test_caches_of_other_dtypes(dtype: torch.dtype) -> None:
    def function(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(1, positions(x, 1, at), x)
        return cache.clone()

    compiled = Compiled(function)
    mine, theirs = whole(2, 9, 33).to(dtype), whole(2, 9, 33).to(dtype)
    with torch.no_grad():
        for count, at in ((3, 2), (4, 5)):
            x = whole(2, count, 33, seed=count).to(dtype)
            agree(compiled, function, mine, theirs, x, torch.tensor(at))
    assert is_in_place(compiled)


@pytest.mark.parametrize("function", [copied_to_middle, put_in_middle])
def test_caches_that_are_parts_of_others(function: Step) -> None:
    with torch.no_grad():
        for part in (
            lambda base: base[1],  # dense
            lambda base: base[1].transpose(0, 1),
            lambda base: base[0][:, ::2],
            lambda base: base[:, :, :, 3],
        ):
            compiled = Compiled(function)
            mine, theirs = floats(2, 24, 24, 24), floats(2, 24, 24, 24)
            cache = part(mine)
            for count, at in ((2, 1), (4, 8), (2, 10)):
                x = floats(cache.shape[0], count, cache.shape[2], seed=at)
                at = torch.tensor(at)
                assert_same(compiled(cache, x, at), function(part(theirs), x, at))
                # What lies between and around the rows stays.
                assert_same(mine, theirs)


def test_a_cache_that_shares_memory_with_what_is_read() -> None:
    def function(cache: torch.Tensor, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache[:, :2] = x
        return other * 2 + cache

    with torch.no_grad():
        for start in (0, 1, 3):
            compiled = Compiled(function)
            mine, theirs = floats(9, 5, 4), floats(9, 5, 4)
            x = floats(3, 2, 4, seed=8)
            for _ in range(2):
                actual = compiled(mine[:3], mine[start : start + 3], x)
                assert_same(actual, function(theirs[:3], theirs[start : start + 3], x))
                assert_same(mine, theirs)


def test_what_it_overwrites_may_be_read_before() -> None:
    def function(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        before = cache.sum(1)
        cache.index_copy_(1, positions(x, 1, at), x)
        return before - cache.sum(1)

    compiled = Compiled(function)
    mine, theirs = floats(2, 9, 5), floats(2, 9, 5)
    with torch.no_grad():
        for at in (0, 4):
            agree(compiled, function, mine, theirs, floats(2, 3, 5, seed=at), torch.tensor(at))
    (reason,) = compiled.graphs[0].partition.in_place.reasons.values()
    assert "what it overwrites is read before" in reason


@pytest.mark.parametrize("places", [[4, 1], [1, 1], [0, 8], [-1, -2]])
def test_rows_that_may_lie_apart_are_written_where_they_are(places: list[int]) -> None:
    def function(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cache[:, at] = x
        return cache * 2

    compiled = Compiled(function, dynamic=False)
    mine, theirs = floats(2, 9, 5), floats(2, 9, 5)
    row = floats(2, 1, 5, seed=3)
    with torch.no_grad():
        agree(compiled, function, mine, theirs, row.expand(2, 2, 5), torch.tensor(places))
    (reason,) = compiled.graphs[0].partition.in_place.reasons.values()
    assert "not certain to be consecutive rows" in reason


@pytest.mark.parametrize("step", [2, -1])
def test_a_range_by_steps_is_not_consecutive(step: int) -> None:
    def function(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        places = torch.arange(0, 3 * step, step) + at
        cache.index_copy_(1, places, x)
        return cache * 2

    compiled = Compiled(function, dynamic=False)
    mine, theirs = floats(2, 9, 5), floats(2, 9, 5)
    with torch.no_grad():
        agree(compiled, function, mine, theirs, floats(2, 3, 5), torch.tensor(3))


@pytest.mark.parametrize("at", [-1, 7, 2**40, -(2**62)])
def test_rows_outside_are_an_error_and_change_nothing(at: int) -> None:
    compiled = Compiled(copied_to_middle)
    guarded = floats(3, 6, 5)
    before = guarded.clone()
    with torch.no_grad():
        x = floats(1, 2, 5)
        compiled(guarded[1:2].clone(), x, torch.tensor(1))
        with pytest.raises(RuntimeError, match="outside the cache"):
            compiled(guarded[1:2], x, torch.tensor(at))
        assert torch.equal(guarded, before)
        mine, theirs = guarded[1:2].clone(), guarded[1:2].clone()
        agree(compiled, copied_to_middle, mine, theirs, x, torch.tensor(4))


@pytest.mark.parametrize("at", [-1, -6, 5])
@pytest.mark.parametrize("dynamic", [True, False])
def test_rows_outside_are_an_error_where_all_is_written_back(at: int, dynamic: bool) -> None:
    def function(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, positions(x, 0, at), x)
        cache.mul_(2)
        return cache.sum(0)

    compiled = Compiled(function, dynamic=dynamic)
    mine, theirs, x = floats(6, 4), floats(6, 4), floats(2, 4, seed=1)
    with torch.no_grad():
        agree(compiled, function, mine, theirs, x, torch.tensor(3))
        with pytest.raises(IndexError):
            function(theirs.clone(), x, torch.tensor(at))
        with pytest.raises(RuntimeError):
            compiled(mine, x, torch.tensor(at))
        assert_same(mine, theirs)
        agree(compiled, function, mine, theirs, x, torch.tensor(4))


def test_more_rows_than_there_are_is_an_error() -> None:
    compiled = Compiled(copied_to_middle)
    with torch.no_grad(), pytest.raises(RuntimeError):
        compiled(floats(2, 6, 5), floats(2, 8, 5), torch.tensor(0))


@pytest.mark.parametrize("sizes", [(2, 6, 0), (0, 6, 5), (2, 0, 5)])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_empty_caches_and_updates(sizes: tuple[int, ...], count: int) -> None:
    if sizes[1] < count:
        return
    compiled = Compiled(copied_to_middle)
    mine, theirs = floats(*sizes), floats(*sizes)
    x = floats(sizes[0], count, sizes[2])
    with torch.no_grad():
        actual = compiled(mine, x, torch.tensor(0))
        assert_same(actual, copied_to_middle(theirs, x, torch.tensor(0)))
        assert_same(mine, theirs)


def test_no_row_at_all() -> None:
    compiled = Compiled(copied_to_middle)
    mine, theirs = floats(2, 6, 5), floats(2, 6, 5)
    x = floats(2, 0, 5)
    with torch.no_grad():
        assert_same(
            compiled(mine, x, torch.tensor(3)), copied_to_middle(theirs, x, torch.tensor(3))
        )
        assert_same(mine, theirs)


class Layer(nn.Module):
    """A layer with a static cache and a counter, as transformers have them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.projection = nn.Linear(16, 48)
        self.register_buffer("keys", torch.zeros(2, 4, 12, 4))
        self.register_buffer("values", torch.zeros(2, 4, 12, 4))
        self.register_buffer("length", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes and gives [2, n, 16]."""
        batch, count, _ = x.shape
        heads = self.projection(x).view(batch, count, 3, 4, 4).permute(2, 0, 3, 1, 4)
        places = torch.arange(count) + self.length
        self.length.add_(count)
        self.keys.index_copy_(2, places, heads[1])
        self.values.index_copy_(2, places, heads[2])
        mask = torch.arange(12) <= places[:, None]
        out = nn.functional.scaled_dot_product_attention(
            heads[0], self.keys, self.values, attn_mask=mask
        )
        return out.transpose(1, 2).reshape(batch, count, 16)


@pytest.mark.parametrize("numerics", ["default", "strict"])
@pytest.mark.parametrize("fusion", ["none", "ops", "auto"])
def test_a_layer_that_decodes_is_one_program(fusion: str, numerics: str) -> None:
    mine, theirs = Layer().eval(), Layer().eval()
    compiled = Compiled(mine, fusion=fusion, numerics=numerics)
    with torch.no_grad():
        for step, count in enumerate((5, 1, 1, 3, 1, 1)):
            x = floats(2, count, 16, seed=step)
            assert_same(compiled(x), theirs(x))
            for name, buffer in mine.named_buffers():
                assert_same(buffer, theirs.get_buffer(name))
    assert is_in_place(compiled)
    for graph in compiled.graphs:
        # Keys, values, and the length that is counted up.
        assert len(graph.partition.in_place.updates) == 2
        assert len(graph.partition.written_back) == 1
        assert graph.stats.repacks == 0


def test_what_a_program_wrote_others_see() -> None:
    """A buffer that one graph writes and another has packed."""
    layer = Layer().eval()
    step = Compiled(layer)
    with torch.no_grad():
        step(floats(2, 2, 16))
    weights = layer.keys

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("packed", weights)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.packed

    reader = torch.compile(Reader(), backend="opweld")
    with torch.no_grad():
        for seed in range(3):
            x = floats(3, 12, seed=seed)
            assert_same(reader(x), x @ layer.keys)
            step(floats(2, 2, 16, seed=seed))


def test_in_inference_mode() -> None:
    compiled = Compiled(copied_to_middle)
    with torch.inference_mode():
        mine, theirs = floats(2, 6, 5), floats(2, 6, 5)
        for at in (0, 3):
            x = floats(2, 2, 5, seed=at)
            actual = compiled(mine, x, torch.tensor(at))
            assert_same(actual, copied_to_middle(theirs, x, torch.tensor(at)))
            assert_same(mine, theirs)


def test_several_models_decode_at_once() -> None:
    """Their programs share teams of threads, but no memory."""
    layers = [(Layer().eval(), Layer().eval()) for _ in range(4)]
    compiled = [Compiled(mine) for mine, _ in layers]
    failures: list[str] = []
    with torch.no_grad():
        for (_, theirs), call in zip(layers, compiled, strict=True):
            assert_same(call(floats(2, 2, 16)), theirs(floats(2, 2, 16)))

    def work(number: int) -> None:
        try:
            with torch.no_grad():
                for step in range(5):
                    x = floats(2, 2, 16, seed=number * 10 + step)
                    assert_same(compiled[number](x), layers[number][1](x))
        except AssertionError as error:
            failures.append(str(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def window(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A full window of keys, as transformers moves it by one."""
    moved = cache.roll(-1, dims=1)
    moved[:, torch.tensor([-1])] = x
    cache.copy_(moved)
    return (cache * 2).sum(1)


def test_a_window_that_moves_is_one_program() -> None:
    compiled = Compiled(window)
    mine, theirs = floats(3, 9, 20), floats(3, 9, 20)
    with torch.no_grad():
        for step in range(4):
            agree(compiled, window, mine, theirs, floats(3, 1, 20, seed=step))
    assert compiled.eager == {} and all(len(graph.segments) == 1 for graph in compiled.graphs)
