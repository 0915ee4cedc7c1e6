"""Graphs of inference that are traced without AOTAutograd, and those that must not be."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.python.torch_helpers import Compiled, assert_same, floats

# The package has a function of that name.
backend = importlib.import_module("opweld.torch.backend")


@pytest.fixture
def by_aot(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Grows by one with each graph that is left to AOTAutograd."""
    left: list[Any] = []

    def counting(**arguments: Any) -> Callable[..., Any]:
        compiler = whole(**arguments)

        def compile(module: Any, inputs: Any) -> Any:
            left.append(module)
            return compiler(module, inputs)

        return compile

    whole = backend.aot_autograd
    monkeypatch.setattr(backend, "aot_autograd", counting)
    return left


class Layer(nn.Module):
    """What layers of transformers are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Takes and gives [batch, length, 32]."""
        parts = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 4, 8).unbind(2)
        q, k, v = (each.transpose(1, 2) for each in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        joined = mixed.transpose(1, 2).reshape(x.shape)
        return x + functional.gelu(self.out(functional.dropout(joined, 0.1, self.training)))


@pytest.fixture
def layer() -> Layer:
    torch.manual_seed(0)
    return Layer().eval()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("masked", [False, True])
def test_a_layer_is_traced_once(
    layer: Layer, by_aot: list[Any], mode: Callable[[], Any], masked: bool
) -> None:
    compiled = Compiled(layer, dynamic=False)
    mask = floats(5, 5) > 0 if masked else None
    with mode():
        for seed in range(3):
            x = floats(2, 5, 32, seed=seed)
            assert_same(compiled(x, mask), layer(x, mask))
    assert by_aot == [] and compiled.eager == {} and compiled.compiles == 1


# AOTAutograd makes copies of what nobody writes into, as of dropout that drops nothing.
COPIES = (torch.ops.aten.clone.default, torch.ops.aten.detach.default)


def operators(graph: Any) -> list[tuple[Any, ...]]:
    """What a compiled graph computes, with the layers that it belongs to."""
    found = []
    for node in graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or node.target in COPIES:
            continue
        target = node.target if node.op == "call_function" else ""
        stack = node.meta.get("nn_module_stack", {}).values()
        found.append((node.op, target, value.shape, [entry[0] for entry in stack]))
    return found


def test_the_graph_is_that_of_aot_autograd(
    layer: Layer, by_aot: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Sequential(layer, nn.Softmax(-1))
    x = floats(2, 5, 32)
    with torch.no_grad():
        once = Compiled(model, dynamic=False)
        once(x)
        (single,) = once.graphs
        monkeypatch.setattr(backend, "traced_once", lambda *arguments: None)
        twice = Compiled(model, dynamic=False)
        twice(x)
        (whole,) = twice.graphs
    assert len(by_aot) == 1
    assert operators(single) == operators(whole)
    assert len(single.frozen) == len(whole.frozen) == 6


def test_a_weight_that_is_written_into_is_seen(layer: Layer, by_aot: list[Any]) -> None:
    compiled = Compiled(layer, dynamic=False)
    x = floats(2, 5, 32)
    with torch.no_grad():
        compiled(x)
        layer.out.weight.mul_(2)
        assert_same(compiled(x), layer(x))
    assert by_aot == []


def test_weights_that_are_tied(by_aot: list[Any]) -> None:
    model = nn.Sequential(nn.Embedding(16, 32), nn.LayerNorm(32), nn.Linear(32, 16, bias=False))
    model[2].weight = model[0].weight
    compiled = Compiled(model.eval(), dynamic=False)
    tokens = torch.arange(6).reshape(2, 3)
    with torch.no_grad():
        assert_same(compiled(tokens), model(tokens))
        model[0].weight.add_(1)
        assert_same(compiled(tokens), model(tokens))
    assert by_aot == []


def _in_place(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y.mul_(2)
    return y


def _augmented(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    y += x
    return y


def _by_index(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[1:] = x[1:]
    return y * 2


def _into_input(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


def _sizes_of_input(x: torch.Tensor) -> torch.Tensor:
    x.t_()
    return x * 2


def _inplace_argument(x: torch.Tensor) -> torch.Tensor:
    return functional.relu(x - 1, inplace=True) + 1


def _out_argument(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.exp(x, out=y)
    return y


def _view_of_input(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.t(), x + 1


def _input_itself(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x, x + 1


def _views_of_one(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x + 1
    return y[0], y[1:]


def _twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x + 1
    return y, y


@pytest.mark.parametrize(
    "function",
    [
        _in_place, _augmented, _by_index, _into_input, _sizes_of_input, _inplace_argument,
        _out_argument, _view_of_input, _input_itself, _views_of_one, _twice,
    ],
)  # fmt: skip
def test_writes_and_shared_memory_are_left_to_aot_autograd(
    function: Callable[[torch.Tensor], Any], by_aot: list[Any]
) -> None:
    compiled = Compiled(function, dynamic=False)
    with torch.no_grad():
        for seed in range(2):
            mine, theirs = floats(3, 4, seed=seed), floats(3, 4, seed=seed)
            made, expected = compiled(mine), function(theirs)
            assert_same(made, expected)
            assert_same(mine, theirs)
            # What shares memory in eager mode does so here.
            for each in made if isinstance(made, tuple) else (made,):
                each.add_(1)
            for each in expected if isinstance(expected, tuple) else (expected,):
                each.add_(1)
            assert_same(made, expected)
            assert_same(mine, theirs)
    # Dynamo itself gives an input back, has one result where a function has it twice, and leaves
    # what changes sizes to Python.
    by_dynamo = function in (_input_itself, _twice, _sizes_of_input)
    assert len(by_aot) == (0 if by_dynamo else 1)


def test_a_constant_that_is_given_out_is_new_in_every_call(by_aot: list[Any]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor([1.0, 2.0]), x + torch.tensor([3.0, 4.0])

    compiled = Compiled(function, dynamic=False)
    with torch.no_grad():
        for _ in range(3):
            made = compiled(floats(2))
            assert_same(made, function(floats(2)))
            made[0].add_(1)


def test_gradients_are_left_to_aot_autograd(layer: Layer, by_aot: list[Any]) -> None:
    compiled = Compiled(layer, dynamic=False)
    x = floats(2, 5, 32)
    compiled(x).sum().backward()
    mine = layer.out.weight.grad.clone()
    layer.zero_grad()
    layer(x).sum().backward()
    assert_same(mine, layer.out.weight.grad)
    assert len(by_aot) == 1


def test_without_parameters_gradients_may_be_on(by_aot: list[Any]) -> None:
    compiled = Compiled(lambda x: functional.softmax(x * 2, -1), dynamic=False)
    x = floats(3, 4)
    assert_same(compiled(x), functional.softmax(x * 2, -1))
    assert by_aot == []
    wanted = x.clone().requires_grad_()
    compiled(wanted).square().sum().backward()
    assert wanted.grad is not None and len(by_aot) == 1


def test_autocast_is_left_to_aot_autograd(layer: Layer, by_aot: list[Any]) -> None:
    compiled = Compiled(layer, dynamic=False)
    x = floats(2, 5, 32)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        made, expected = compiled(x), layer(x)
    assert made.dtype == expected.dtype
    torch.testing.assert_close(made, expected, rtol=2**-5, atol=2**-5)
    assert len(by_aot) == 1


def test_free_sizes_are_left_to_aot_autograd(layer: Layer, by_aot: list[Any]) -> None:
    compiled = Compiled(layer)
    with torch.no_grad():
        for length in (5, 9, 17):
            x = floats(2, length, 32)
            assert_same(compiled(x), layer(x))
    # It begins anew where it finds numbers that depend on no size.
    assert by_aot and compiled.compiles == 1


def test_a_switch_of_gradients_inside_is_the_users(layer: Layer, by_aot: list[Any]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = layer.scale * 3
        return layer(x) * scale

    compiled = Compiled(function, dynamic=False)
    x = floats(2, 5, 32)
    with torch.no_grad():
        assert_same(compiled(x), function(x))
        assert not torch.is_grad_enabled()
    assert by_aot == []
    assert torch.is_grad_enabled()
    expected = function(x)
    made = compiled(x)
    assert_same(made, expected)
    assert made.requires_grad and torch.is_grad_enabled()


def test_random_numbers_are_those_of_eager_mode(by_aot: list[Any]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, 0.5, training=True) * 2

    compiled = Compiled(function, dynamic=False)
    x = floats(64)
    with torch.no_grad():
        torch.manual_seed(7)
        made = [compiled(x), compiled(x)]
        torch.manual_seed(7)
        assert_same(made, [function(x), function(x)])
