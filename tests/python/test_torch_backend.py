"""The backend of torch.compile: lengths, weights, writes, gradients, layouts, threads, errors."""

import copy
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from opweld.torch import account_of
from opweld.torch.graph import CompiledGraph
from torch import nn

from bench.models.cache import ROOT
from tests.python.torch_helpers import Compiled, assert_same, floats, whole


class Block(nn.Module):
    """A layer as transformers have it, with a residual around a norm and two projections."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes and gives [..., 16]."""
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x)))) * self.scale


@pytest.fixture
def block() -> Block:
    torch.manual_seed(0)
    return Block().eval()


def test_the_backend_is_found_without_an_import() -> None:
    code = (
        "import sys, torch\n"
        "print('opweld' in torch.compiler.list_backends())\n"
        "print('opweld' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "build" / "release" / "python")},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_one_compilation_serves_every_length(block: Block) -> None:
    compiled = Compiled(block)
    with torch.no_grad():
        for length in (3, 2, 7, 64, 33, 128):
            x = floats(2, length, 16, seed=length)
            assert_same(compiled(x), block(x))
    assert compiled.compiles == 1 and compiled.eager == {}
    assert compiled.graphs[0].stats.calls == 6


def test_automatic_dynamic_compiles_twice_at_most(block: Block) -> None:
    compiled = Compiled(block, dynamic=None)
    with torch.no_grad():
        for length in (4, 9, 31, 64, 17):
            x = floats(length, 16, seed=length)
            assert_same(compiled(x), block(x))
    # The first length as a number, then any.
    assert compiled.compiles == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda block: block.up.weight.mul_(2),
        lambda block: block.up.weight.copy_(floats(32, 16, seed=9)),
        lambda block: block.up.weight.data.mul_(2),
        lambda block: block.scale.data.add_(1),
        lambda block: setattr(block.up.weight, "data", floats(32, 16, seed=9)),
        lambda block: block.load_state_dict({k: v + 1 for k, v in block.state_dict().items()}),
        lambda block: block.scale.add_(1),
        lambda block: setattr(block.down, "weight", nn.Parameter(floats(16, 32, seed=9))),
    ],
    ids=["scaled", "copied", "data", "data of a number", "moved", "loaded", "buffer", "replaced"],
)
def test_a_changed_weight_is_seen(block: Block, change: Callable[[Block], Any]) -> None:
    compiled = Compiled(block)
    x = floats(5, 16)
    with torch.no_grad():
        assert_same(compiled(x), block(x))
        before = block(x)
        change(block)
        assert_same(compiled(x), block(x))
        assert not torch.equal(before, block(x))


def test_a_weight_that_changes_all_the_time_is_no_longer_packed(block: Block) -> None:
    compiled = Compiled(block)
    x = floats(5, 16)
    with torch.no_grad():
        for _ in range(8):
            block.up.weight.mul_(1.1)
            assert_same(compiled(x), block(x))
    (graph,) = compiled.graphs
    assert graph.stats.repacks == 3


def test_without_freezing_nothing_is_packed(block: Block) -> None:
    compiled = Compiled(block, freeze=False)
    x = floats(5, 16)
    with torch.no_grad():
        for _ in range(3):
            block.up.weight.mul_(1.1)
            assert_same(compiled(x), block(x))
    assert compiled.compiles == 1


class Scaled(nn.Module):
    """An RMS norm and a quotient, by numbers that PyTorch traces as inputs where sizes are free."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(floats(16, seed=3))
        self.epsilon = 1e-6
        self.divisor = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes and gives [..., 16]."""
        root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * (x * root) + (x * 0 + 1) / self.divisor


@pytest.mark.parametrize("freeze", [True, False])
def test_numbers_of_a_model_are_constants(freeze: bool) -> None:
    module = Scaled()
    compiled = Compiled(module, freeze=freeze)
    x = floats(5, 16)
    with torch.no_grad():
        for _ in range(3):
            assert_same(compiled(x), module(x))
    (graph,) = compiled.graphs
    assert graph.stats.compiles == 1
    (segment,) = account_of(graph).segments
    (kernel,) = segment.kernels
    assert "RMSNormalization" in kernel["operators"]


@pytest.mark.parametrize("name", ["epsilon", "divisor"])
def test_a_number_that_changes_is_seen_and_soon_read_in_every_call(name: str) -> None:
    module = Scaled()
    compiled = Compiled(module)
    x = floats(5, 16)
    with torch.no_grad():
        for value in (1.0, 0.5, 1.0, 0.25, 0.0, -0.0, 3.0, 0.5, 1e30, float("inf"), 7.0):
            setattr(module, name, value)
            assert_same(compiled(x), module(x))
    # Twice as a constant, then as an input.
    assert compiled.compiles == 3


def test_zeros_of_both_signs_are_two_numbers() -> None:
    module = Scaled()
    module.divisor = 0.0
    compiled = Compiled(module)
    x = floats(5, 16)
    with torch.no_grad():
        for divisor in (0.0, -0.0, 0.0):
            module.divisor = divisor
            assert_same(compiled(x), module(x))
    assert compiled.compiles == 2


def test_arguments_are_read_in_every_call(block: Block) -> None:
    compiled = Compiled(lambda x, factor: block(x) * factor)
    x = floats(5, 16)
    with torch.no_grad():
        for step in range(6):
            assert_same(compiled(x, 0.1 * step), block(x) * (0.1 * step))
    assert compiled.compiles == 1


class Wrapped(nn.Module):
    """A model whose forward passes through a decorator that knows it as an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(*args: Any) -> Any:
        """Takes and gives [..., 16]."""
        model, x = args
        for layer in model.layers:
            x = layer(x)
        return x


def test_layers_have_their_names_behind_a_decorator() -> None:
    compiled = Compiled(Wrapped().eval())
    with torch.no_grad():
        compiled(floats(5, 16))
    (segment,) = account_of(compiled.graphs[0]).segments
    # A kernel that reaches over from one into the other has neither's.
    layers = {each["layer"] for each in segment.kernels}
    assert {"layers.0", "layers.1"} <= layers <= {"layers.0", "layers.1", ""}


def test_layers_that_share_a_graph_keep_their_weights() -> None:
    torch.manual_seed(0)
    layers = [Block().eval() for _ in range(3)]

    compiled = Compiled(lambda layer, x: layer(x))
    x = floats(5, 16)
    with torch.no_grad():
        for _ in range(2):
            for layer in layers:
                assert_same(compiled(layer, x), layer(x))


def test_gradients_are_those_of_eager_mode(block: Block) -> None:
    other = copy.deepcopy(block)
    compiled = Compiled(block)
    for length in (3, 8):
        mine = floats(length, 16).requires_grad_()
        theirs = mine.detach().clone().requires_grad_()
        compiled(mine).square().sum().backward()
        other(theirs).square().sum().backward()
        assert_same(mine.grad, theirs.grad)
        for ours, expected in zip(block.parameters(), other.parameters(), strict=True):
            assert_same(ours.grad, expected.grad)


def test_a_step_of_training_is_seen(block: Block) -> None:
    compiled = Compiled(block)
    x = floats(5, 16)
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    with torch.no_grad():
        assert_same(compiled(x), block(x))
    compiled(x).square().sum().backward()
    optimizer.step()
    with torch.no_grad():
        assert_same(compiled(x), block(x))


def test_inference_mode(block: Block) -> None:
    compiled = Compiled(block)
    with torch.inference_mode():
        x = floats(5, 16)
        out = compiled(x)
        assert_same(out, block(x))
        assert out.is_inference()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_modules_of_other_dtypes(block: Block, dtype: torch.dtype) -> None:
    block = block.to(dtype)
    compiled = Compiled(block)
    x = floats(5, 16, dtype=dtype)
    with torch.no_grad():
        actual, expected, truth = compiled(x), block(x), copy.deepcopy(block).double()(x.double())
    assert actual.dtype == dtype
    # Roundings of several operators add up; ours are no worse than those of eager mode.
    worst = (expected.double() - truth).abs().max()
    assert (actual.double() - truth).abs().max() <= 2 * worst + 1e-12
    assert compiled.eager == {}


def test_autocast(block: Block) -> None:
    compiled = Compiled(block)
    x = floats(5, 16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        actual, expected = compiled(x), block(x)
    assert actual.dtype == expected.dtype
    assert (actual.float() - expected.float()).abs().max() < 0.05
    assert compiled.eager == {}


def writes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    z = x * y
    y[1:3] = z[1:3]
    x[:, 0].mul_(3)
    return z + y


def test_writes_into_inputs() -> None:
    mine, theirs = (floats(6, 4), floats(6, 4, seed=1)), (floats(6, 4), floats(6, 4, seed=1))
    compiled = Compiled(writes)
    with torch.no_grad():
        for _ in range(2):
            assert_same(compiled(*mine), writes(*theirs))
            assert_same(mine, theirs)


def views_of_inputs(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[1:], x.view(-1), x, x + 1, (x * 2).t()


def test_outputs_that_are_views_of_inputs() -> None:
    x = floats(6, 4)
    compiled = Compiled(views_of_inputs)
    with torch.no_grad():
        actual, expected = compiled(x), views_of_inputs(x)
    assert_same(actual, expected)
    for mine, theirs in zip(actual, expected, strict=True):
        assert mine.stride() == theirs.stride()
    actual[0].zero_()
    assert (x[1:] == 0).all() and (actual[1][4:] == 0).all() and (expected[2][1:] == 0).all()


def test_inputs_that_share_memory() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return a + b

    with torch.no_grad():
        for start in (0, 2):
            # Anew: PyTorch takes the overlap of the first call for that of all.
            compiled = Compiled(function)
            mine, theirs = floats(8, 4), floats(8, 4)
            actual = compiled(mine[:6], mine[start : start + 6])
            expected = function(theirs[:6], theirs[start : start + 6])
            assert_same((actual, mine), (expected, theirs))


def test_inputs_in_any_layout(block: Block) -> None:
    compiled = Compiled(block)
    base = floats(16, 12)
    with torch.no_grad():
        for x in (base.t(), base.t()[::2], floats(7, 32)[:, ::2], floats(1, 16).expand(5, 16)):
            assert_same(compiled(x), block(x))


class Cache(nn.Module):
    """A step of decoding that writes its row into a static cache and reads all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 32, 4))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Takes x[2, n, 4] and position[n]."""
        self.keys.index_copy_(1, position, x * 2)
        return (self.keys @ x.transpose(1, 2)).softmax(-1).sum(1)


def test_a_cache_is_written_in_place() -> None:
    mine, theirs = Cache(), Cache()
    compiled = Compiled(mine)
    with torch.no_grad():
        position = 0
        for count in (7, 2, 3, 2):
            places = torch.arange(position, position + count)
            x = floats(2, count, 4, seed=position)
            assert_same(compiled(x, places), theirs(x, places))
            assert_same(mine.keys, theirs.keys)
            position += count
    (graph,) = compiled.graphs
    assert len(graph.partition.in_place.reasons) == 1
    assert graph.stats.repacks == 0


def test_a_cache_whose_old_contents_are_read_is_copied() -> None:
    def function(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        old = cache.clone()
        cache.index_copy_(0, at, x)
        return old.sum() + cache.sum() + (old * cache).sum()

    compiled = Compiled(function)
    with torch.no_grad():
        mine, theirs = floats(6, 4), floats(6, 4)
        for _ in range(2):
            x, at = floats(2, 4, seed=5), torch.tensor([1, 4])
            assert_same(compiled(mine, x, at), function(theirs, x, at))
            assert_same(mine, theirs)


def between(x: torch.Tensor) -> torch.Tensor:
    y = (x + 1).relu()
    order = y.sum(1).cummax(0)[1]
    return torch.nn.functional.softmax(y[order] * 2, -1) + y


def test_eager_operators_stand_between_segments() -> None:
    compiled = Compiled(between)
    with torch.no_grad():
        for count in (3, 9):
            assert_same(compiled(floats(count, 4)), between(floats(count, 4)))
    assert compiled.eager == {"aten.cummax.default": 1}
    (graph,) = compiled.graphs
    assert len(graph.segments) == 2 and graph.stats.compiles == 2


def test_random_operators_keep_their_order() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.rand_like(x) + x.cumsum(0).cummax(0)[0] * 0
        return torch.bernoulli((a + torch.rand_like(x)) / 4), torch.rand_like(x)

    compiled = Compiled(function)
    with torch.no_grad():
        torch.manual_seed(3)
        expected = function(floats(5, 4))
        torch.manual_seed(3)
        assert_same(compiled(floats(5, 4)), expected)


def test_data_dependent_sizes_run() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        rows = (x[:, 0] > 0).nonzero().squeeze(1)
        return (x[rows] * 2).sum(0)

    compiled = Compiled(function)
    with torch.no_grad(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for seed in range(3):
            assert_same(compiled(floats(9, 4, seed=seed)), function(floats(9, 4, seed=seed)))
    assert compiled.eager["aten.nonzero.default"] == 1


def test_graph_breaks_are_survived() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if float(y.sum()) > 0:
            return y + 1
        return y - 1

    compiled = Compiled(function)
    with torch.no_grad():
        for seed in range(4):
            assert_same(compiled(floats(5, seed=seed)), function(floats(5, seed=seed)))


def test_integer_arguments_become_sizes() -> None:
    def function(x: torch.Tensor, count: int) -> torch.Tensor:
        return x[:, :count] * count

    compiled = Compiled(function)
    with torch.no_grad():
        for count in (2, 3, 5, 7):
            assert_same(compiled(floats(3, 9), count), function(floats(3, 9), count))
    assert len(compiled.graphs) <= 2


def test_threads_call_at_once(block: Block) -> None:
    compiled = Compiled(block)
    with torch.no_grad():
        compiled(floats(2, 16))
        expected = {n: block(floats(n, 16, seed=n)) for n in range(2, 8)}
    failures = []

    def work(count: int) -> None:
        with torch.no_grad():
            for _ in range(10):
                if not torch.allclose(
                    compiled(floats(count, 16, seed=count)), expected[count], atol=1e-5
                ):
                    failures.append(count)

    threads = [threading.Thread(target=work, args=(count,)) for count in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("dynamic", [False, True])
def test_programs_are_made_once_before_the_first_call(
    block: Block, dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers = []
    make = CompiledGraph._make

    def noting(graph: CompiledGraph, env: dict[Any, Any]) -> Any:
        makers.append(threading.current_thread())
        return make(graph, env)

    monkeypatch.setattr(CompiledGraph, "_make", noting)
    compiled = Compiled(block, dynamic=dynamic)
    with torch.no_grad():
        for _ in range(2):
            assert_same(compiled(floats(5, 16)), block(floats(5, 16)))
    (maker,) = makers
    assert maker is not threading.main_thread()
    assert compiled.compiles == 1


def test_what_fails_beside_is_said_in_the_call(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(graph: CompiledGraph, env: dict[Any, Any]) -> Any:
        raise RuntimeError("no programs today")

    compiled = Compiled(block, dynamic=False)
    with torch.no_grad():
        with monkeypatch.context() as patch:
            patch.setattr(CompiledGraph, "_make", failing)
            with pytest.raises(RuntimeError, match="no programs today"):
                compiled(floats(5, 16))
        assert_same(compiled(floats(5, 16)), block(floats(5, 16)))


def test_an_error_of_a_run_comes_through_and_leaves_all_usable() -> None:
    table = nn.Embedding(10, 4)
    compiled = Compiled(lambda i: table(i) + 1)
    with torch.no_grad():
        compiled(whole(5))
        with pytest.raises(RuntimeError, match="out of range"):
            compiled(torch.tensor([3, 99, 1]))
        assert_same(compiled(whole(3)), table(whole(3)) + 1)


def test_unknown_options_are_errors(block: Block) -> None:
    with pytest.raises(Exception, match="backend opweld has no option fuse; it has fusion"):
        Compiled(block, fuse=True)(floats(2, 16))


@pytest.mark.parametrize("fusion", ["none", "ops", "auto"])
def test_levels_of_fusion(block: Block, fusion: str) -> None:
    compiled = Compiled(block, fusion=fusion, threads=1)
    with torch.no_grad():
        assert_same(compiled(floats(5, 16)), block(floats(5, 16)))
    (segment,) = compiled.graphs[0].segments
    sizes = {size for info in segment.program.inputs() for size in info.sizes}
    account = segment.program.account({size: 5 for size in sizes if isinstance(size, str)})
    fused = [edge for edge in account["edges"] if edge["fused"]]
    assert bool(fused) == (fusion != "none")
