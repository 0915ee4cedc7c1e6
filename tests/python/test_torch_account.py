"""opweld.explain: kernels, operators in eager mode, graph breaks; bodies of custom operators."""

from collections.abc import Iterator

import opweld
import pytest
import torch
from opweld.torch.custom import BODIES
from torch import nn

from tests.python.torch_helpers import Compiled, assert_same, floats


def test_the_kernels_of_a_model() -> None:
    model = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).eval()
    account = opweld.explain(model, floats(10, 16))
    assert len(account.graphs) == 1 and account.breaks == [] and account.eager == {}
    assert 0 < len(account.kernels) < 4
    (segment,) = account.graphs[0].segments
    assert list(segment.sizes.values()) == [10]
    weights = 4 * (16 * 32 * 2 + 32 + 16 + 2 * 16)
    assert segment.bytes_read >= weights
    text = str(account)
    assert text.startswith("1 graph, 1 program, ") and "0 operators in eager mode" in text
    assert "AutoFusion: " in text
    assert "<table>" in account._repr_html_()


def breaking(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum().item() > 0:  # the break
        return (y + 1).relu()
    return y


def test_a_graph_break_is_told_with_its_line() -> None:
    account = opweld.explain(breaking, floats(5).abs())
    assert len(account.graphs) == 2
    (found,) = account.breaks
    assert found.file == __file__ and found.code == "if y.sum().item() > 0:  # the break"
    assert found.line == breaking.__code__.co_firstlineno + 2
    assert "item" in found.reason
    assert "1 graph break" in account.headline()
    assert f"{__file__}:{found.line}: if y.sum().item() > 0" in str(account)


def test_a_model_that_stays_in_eager_mode() -> None:
    inner = torch.compiler.disable(lambda x: x + 1)
    account = opweld.explain(lambda x: inner(x), floats(3))
    assert account.graphs == []
    assert "Nothing was compiled" in str(account)


@pytest.fixture(scope="module")
def library() -> Iterator[None]:
    @torch.library.custom_op("opweld_tests::swiglu", mutates_args=())
    def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(gate) * up

    @swiglu.register_fake
    def _(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(gate)

    yield
    BODIES.clear()


def gated(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.ops.opweld_tests.swiglu(x @ w, x) + 1


@pytest.mark.usefixtures("library")
def test_a_custom_operator_is_opaque_until_it_has_a_body() -> None:
    x, w = floats(5, 8), floats(8, 8, seed=1)
    account = opweld.explain(gated, x, w)
    assert account.eager == {"opweld_tests.swiglu.default": 1}
    assert 'give it a body: @opweld.custom_op("opweld_tests::swiglu")' in str(account)
    assert len(account.graphs[0].segments) == 2

    @opweld.custom_op("opweld_tests::swiglu")
    def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(gate) * up

    account = opweld.explain(gated, x, w)
    assert account.eager == {} and len(account.kernels) == 1
    compiled = Compiled(gated)
    with torch.no_grad():
        assert_same(compiled(x, w), gated(x, w))


@pytest.mark.usefixtures("library")
def test_a_body_needs_an_operator_that_writes_nothing() -> None:
    with pytest.raises(ValueError, match="knows no operator 'opweld_tests::none'"):
        opweld.custom_op("opweld_tests::none")
    with pytest.raises(ValueError, match="writes into an argument"):
        opweld.custom_op(torch.ops.aten.add_.Tensor)
