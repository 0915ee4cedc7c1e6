"""Every translated operator of ATen against PyTorch's own, at several sizes of one compilation."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from opweld.torch.emitter import TRANSLATIONS
from opweld.torch.translate import refusal

from tests.python.torch_helpers import Compiled, assert_same, floats, whole

Function = Callable[..., Any]

aten = torch.ops.aten


def positive(x: torch.Tensor) -> torch.Tensor:
    return x.abs() + 0.1


# Each takes x: f32[n, 6] and i: i64[n, 6] with values in [0, 8).
UNARY: dict[str, Function] = {
    "abs": lambda x, i: (x.abs(), i.neg().abs()),
    "neg": lambda x, i: (-x, -i),
    "sign": lambda x, i: (x.sign(), (i - 3).sign()),
    "relu": lambda x, i: (x.relu(), (i - 3).relu()),
    "exp": lambda x, i: (x.exp(), i.exp()),
    "log": lambda x, i: (positive(x).log(), i.log()),
    "sqrt": lambda x, i: (x.sqrt(), i.sqrt()),
    "rsqrt": lambda x, i: positive(x).rsqrt(),
    "reciprocal": lambda x, i: (x.reciprocal(), (i + 1).reciprocal()),
    "tanh": lambda x, i: x.tanh(),
    "erf": lambda x, i: x.erf(),
    "sigmoid": lambda x, i: (x.sigmoid(), i.sigmoid()),
    "trigonometry": lambda x, i: (x.sin(), x.cos(), x.tan(), x.atan(), x.sinh(), x.cosh()),
    "inverse trigonometry": lambda x, i: (x.clamp(-1, 1).asin(), x.clamp(-1, 1).acos()),
    "rounding": lambda x, i: (x.floor(), x.ceil(), x.round(), i.floor()),
    "tests": lambda x, i: (x.log().isnan(), (x / 0).isinf(), i.isnan()),
    "not": lambda x, i: (x.logical_not(), ~i, ~(x > 0), i.logical_not()),
    "activations": lambda x, i: (F.silu(x), F.mish(x), F.hardswish(x), F.leaky_relu(x, 0.2)),
    "gelu": lambda x, i: (F.gelu(x), F.gelu(x, approximate="tanh")),
    "casts": lambda x, i: (x.half(), x.bfloat16(), i.float(), i.int(), (5 * x).long(), x > 0),
}
BINARY: dict[str, Function] = {
    "add": lambda x, i: (x + x[:1], x + 2, x + i, i + 2, i + 1.5, (i > 3) + (x > 0)),
    "scaled add": lambda x, i: (torch.add(x, x, alpha=0.3), torch.sub(i, i, alpha=3)),
    "sub": lambda x, i: (x - i, 2 - x, i - 7, 7 - i, torch.rsub(x, x, alpha=2)),
    "mul": lambda x, i: (x * x[:, :1], x * 0.3, i * 3, (i > 3) * (x > 0), (i > 3) * x),
    "div": lambda x, i: (x / positive(x), x / 3, i / 3, 1 / positive(x), i / (i + 1)),
    "floor": lambda x, i: ((i - 4) // 3, (i - 4) // -3, (i - 4) % 3, (i - 4) % -3),
    "whole rest": lambda x, i: torch.fmod(i - 4, 3),
    "trunc": lambda x, i: torch.div(i - 4, 3, rounding_mode="trunc"),
    "pow": lambda x, i: (x**2, x**3, positive(x) ** 0.5, positive(x) ** x, 2.0**x, i**2, x**1),
    "extremes": lambda x, i: (torch.maximum(x, -x), torch.minimum(i, 7 - i)),
    "clamp": lambda x, i: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), i.clamp(2, 5), x.clamp(1, -1)),
    "clamp by tensors": lambda x, i: torch.clamp(x, -positive(x), positive(x) / 2),
    "hardtanh": lambda x, i: (F.hardtanh(x, -0.3, 0.4), F.relu6(5 * x)),
    "compare": lambda x, i: (x == 0, x != x, x < 0.1, i <= 3, x > i, i >= 2.5, (x > 0) == (i > 3)),
    "logic": lambda x, i: ((x > 0) & (i > 3), (x > 0) | (i > 3), (x > 0) ^ (i > 3), i & 3, i | 8),
    "truth": lambda x, i: (torch.logical_and(x, i), torch.logical_or(x, i), i.logical_xor(x)),
    "where": lambda x, i: (
        torch.where(x > 0, x, i),
        torch.where(i > 3, x, 0.0),
        torch.where(x > 0, 1, 2),
    ),
    "masked fill": lambda x, i: (x.masked_fill(i > 3, float("-inf")), i.masked_fill(x > 0, -1)),
}
VIEWS: dict[str, Function] = {
    "reshape": lambda x, i: (x.reshape(-1) + 1, x.view(-1, 2, 3) + 1, x.flatten() * 2),
    "squeeze": lambda x, i: ((x[:, None] + 1).squeeze(1), (x[None] + 1).squeeze(0)),
    "transpose": lambda x, i: (x.t() + 1, x.view(-1, 2, 3).permute(2, 0, 1) * 2, x.mT.exp()),
    "expand": lambda x, i: (x[:, None].expand(-1, 3, -1) + 1, x[:1].expand(4, 6) * 2),
    "slice": lambda x, i: (x[:, 1:4] + 1, x[1:] + 1, x[:-1] * 2, x[:, -2:] * 2, x[:, ::2] + 1),
    "slices in symbols": lambda x, i: (x[x.shape[0] // 2 :] + 1, x[: x.shape[0] // 2] + 1),
    "select": lambda x, i: (x[0] + 1, x[-1] + 1, x[:, 2] * 2, x[:, -1] * 2),
    "cat": lambda x, i: (torch.cat([x, x], 1), torch.cat([x, i], 0), torch.cat([x[:1], x], 0)),
    "stack": lambda x, i: torch.stack([x, x + 1], 1),
    "split": lambda x, i: [part + 1 for part in x.split([1, 2, 3], 1)],
    "chunk": lambda x, i: [part * 2 for part in x.chunk(3, 1)],
    "unbind": lambda x, i: [part * 2 for part in x.unbind(1)],
    "flip": lambda x, i: x.flip(1) + 1,
    "pad": lambda x, i: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 2, 1), value=3.0)),
    "repeat": lambda x, i: (x.repeat(2, 1), x.repeat(2, 1, 3)),
    "repeat heads": lambda x, i: x.view(-1, 2, 3).repeat_interleave(2, dim=1),
    "clone": lambda x, i: (x.clone() + 1, x.detach() + 1, x.contiguous() * 2),
    "written slice": lambda x, i: torch.slice_scatter(x, x[:, :2] * 0, 1, 2, 4),
    "written select": lambda x, i: torch.select_scatter(x, x[:, 0] * 0, 1, 3),
}
REDUCTIONS: dict[str, Function] = {
    "sum": lambda x, i: (x.sum(), x.sum(1), x.sum(0, keepdim=True), i.sum(1), (x > 0).sum(1)),
    "mean": lambda x, i: (x.mean(), x.mean(-1, keepdim=True), x.view(-1, 2, 3).mean((1, 2))),
    "extremes": lambda x, i: (x.amax(1), x.amin(-1, keepdim=True), i.amax(1)),
    "any": lambda x, i: ((x > 1).any(), (x > 0).any(1), (i > 0).all(1), (x > -9).all()),
    "arg": lambda x, i: (x.argmax(1), x.argmin(1, keepdim=True), x.argmax()),
    "cumsum": lambda x, i: (x.cumsum(1), i.cumsum(1), (x > 0).cumsum(1)),
    "variance": lambda x, i: x.var(1, unbiased=False),
    "softmax": lambda x, i: (x.softmax(1), x.log_softmax(-1), x.view(-1, 2, 3).softmax(1)),
    "top k": lambda x, i: x.topk(2, 1),
    "sort": lambda x, i: (x.sort(1), x.sort(0, descending=True), x.flatten().argsort()),
    "stable sort": lambda x, i: (
        i.sort(dim=0, stable=True),
        i.sort(dim=1, descending=True, stable=True),
    ),
    "histogram": lambda x, i: (
        i.float().histc(8, 0, 7),
        x.histc(7, -1, 1.5),
        x[:, 0].double().histc(40, -3, 3),
        x[0].histc(1, 0, 1),
    ),
    "layer norm": lambda x, i: (F.layer_norm(x, (6,)), F.layer_norm(x, (6,), x[0], x[0])),
    "RMS norm": lambda x, i: (F.rms_norm(x, (6,)), F.rms_norm(x, (6,), x[0], 1e-6)),
    "group norm": lambda x, i: F.group_norm(x, 2, torch.ones(6), torch.zeros(6)),
}
INDEXING: dict[str, Function] = {
    "embedding": lambda x, i: F.embedding(i, torch.arange(16).view(8, 2).float()),
    "index select": lambda x, i: x.index_select(1, torch.tensor([4, 0, 4])),
    "gather": lambda x, i: (x.gather(1, i.clamp(max=5)), x.gather(1, i[:, :2].clamp(max=5))),
    "index": lambda x, i: (
        x[:, torch.tensor([5, 0])],
        (torch.arange(8) * 2)[i],
        x[0][i.clamp(max=5)],
    ),
    "index twice": lambda x, i: x[torch.arange(x.shape[0]), i[:, 0].clamp(max=5)],
    "negative index": lambda x, i: x[:, torch.tensor([-1, 2])],
    "scatter": lambda x, i: torch.zeros_like(x).scatter(1, torch.tensor([[0, 2]]), x[:1, :2]),
    "scatter a number": lambda x, i: x.scatter(1, torch.tensor([[1], [3]]), 7.0),
    "index copy": lambda x, i: x.index_copy(0, torch.tensor([1, 0]), x[:2] * 2),
    "index copy of a column": lambda x, i: x.index_copy(1, torch.tensor([2]), x[:, :1] * 2),
    "copy": lambda x, i: torch.ops.aten.copy(x, i[:1]),
    "index put": lambda x, i: x.index_put((torch.tensor([1, 0]),), x[:2] * 2),
    "accumulate": lambda x, i: x.index_put((torch.tensor([1, 1]),), x[:2], accumulate=True),
}
PRODUCTS: dict[str, Function] = {
    "mm": lambda x, i: (x @ x.t(), x @ torch.arange(12).view(6, 2).float()),
    "bmm": lambda x, i: x.view(-1, 2, 3) @ x.view(-1, 3, 2),
    "linear": lambda x, i: (F.linear(x, x[:2]), F.linear(x, x[:2], x[0, :2])),
    "addmm": lambda x, i: torch.addmm(x[:1], x, x[:6].t() @ x[:6], beta=0.5, alpha=2.0),
    "baddbmm": lambda x, i: torch.baddbmm(
        x.view(-1, 2, 3), x.view(-1, 2, 3), torch.ones(1, 3, 3).expand(x.shape[0], 3, 3)
    ),
    "attention": lambda x, i: F.scaled_dot_product_attention(
        *[x.view(1, x.shape[0], 2, 3).transpose(1, 2)] * 3
    ),
    "causal attention": lambda x, i: F.scaled_dot_product_attention(
        *[x.view(1, x.shape[0], 2, 3).transpose(1, 2)] * 3, is_causal=True, scale=0.5
    ),
    "masked attention": lambda x, i: F.scaled_dot_product_attention(
        *[x.view(1, x.shape[0], 2, 3).transpose(1, 2)] * 3,
        attn_mask=(x[:, :1] > -2).view(1, 1, 1, -1),
    ),
}
SOURCES: dict[str, Function] = {
    "full": lambda x, i: (
        torch.full((x.shape[0], 2), 0.5),
        torch.full_like(x, 2),
        x.new_full((3,), 4),
    ),
    "zeros": lambda x, i: (
        torch.zeros_like(x),
        torch.zeros(x.shape[0], dtype=torch.long) + i[:, 0],
    ),
    "ones": lambda x, i: (torch.ones_like(i), x.new_ones(2, 3) + 1),
    "arange": lambda x, i: (torch.arange(x.shape[0]), torch.arange(2, 2 * x.shape[0], 2)),
    "a size as a number": lambda x, i: (x * x.shape[0], i + x.shape[0] // 2),
    "a causal mask": lambda x, i: torch.arange(x.shape[0])[:, None] >= torch.arange(x.shape[0]),
}
GROUPS = {
    "unary": UNARY,
    "binary": BINARY,
    "views": VIEWS,
    "reductions": REDUCTIONS,
    "indexing": INDEXING,
    "products": PRODUCTS,
    "sources": SOURCES,
}


def together(functions: dict[str, Function]) -> Function:
    """One function that computes them all, by name: tracing takes longer than anything else."""
    return lambda x, i: {name: function(x, i) for name, function in functions.items()}


def assert_all_same(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    """Every function's results, with a message that names those that differ."""
    assert actual.keys() == expected.keys()
    wrong = {}
    for name, each in expected.items():
        try:
            assert_same(actual[name], each)
        except AssertionError as difference:
            wrong[name] = str(difference)
    assert wrong == {}


@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_with_eager_mode(group: str) -> None:
    function = together(GROUPS[group])
    compiled = Compiled(function, dynamic=None)
    with torch.no_grad():
        for count in (8, 17, 40):
            x, i = floats(count, 6, seed=count), whole(count, 6, seed=count)
            torch._dynamo.mark_dynamic(x, 0)
            torch._dynamo.mark_dynamic(i, 0)
            assert_all_same(compiled(x, i), function(x, i))
    assert compiled.eager == {}
    assert [graph.stats.compiles for graph in compiled.graphs] == [1]


# By what is about them: spatial axes, channels, filters, kernel, and the rest by name.
CONVOLUTIONS: dict[str, tuple[int, int, int, tuple[int, ...], dict[str, Any]]] = {
    "plain": (2, 4, 5, (3, 2), {}),
    "patches": (2, 3, 8, (4, 4), {"stride": 4}),
    "single elements": (2, 3, 8, (1, 1), {"stride": (2, 1)}),
    "strides and padding": (2, 4, 6, (3, 3), {"stride": (2, 1), "padding": (1, 2)}),
    "dilations": (2, 4, 6, (3, 2), {"dilation": (2, 3), "padding": 2}),
    "same": (2, 4, 6, (3, 5), {"padding": "same"}),
    "valid": (2, 4, 6, (3, 4), {"padding": "valid"}),
    "groups": (2, 4, 6, (3, 3), {"groups": 2}),
    "depthwise": (2, 4, 8, (3, 3), {"groups": 4, "padding": 1}),
    "a line": (1, 4, 6, (3,), {"stride": 2, "padding": 1}),
    "a depthwise line": (1, 6, 6, (4,), {"groups": 6, "padding": 3}),
    "a volume": (3, 2, 4, (2, 3, 1), {"stride": (1, 2, 3), "padding": (0, 1, 0)}),
}


class Convolutions(torch.nn.Module):
    """Some of them, each on the image of its name, with a bias and without."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.names = names
        self.layers = torch.nn.ModuleList(
            (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)[axes - 1](
                channels, filters, kernel, bias=bias, **options
            )
            for axes, channels, filters, kernel, options in (CONVOLUTIONS[name] for name in names)
            for bias in (False, True)
        )

    def forward(self, images: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Results by name, and whether there was a bias."""
        return {
            f"{self.names[i // 2]}, {i % 2}": layer(images[self.names[i // 2]])
            for i, layer in enumerate(self.layers)
        }

    def images(self, *sizes: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
        """For a batch and as many spatial sizes as each convolution has."""
        return {
            name: floats(sizes[0], CONVOLUTIONS[name][1], *sizes[1 : 1 + CONVOLUTIONS[name][0]])
            .to(dtype)
            for name in self.names
        }  # fmt: skip


@pytest.mark.parametrize("free", [False, True])
def test_convolutions_agree_with_eager_mode(free: bool) -> None:
    # Of a volume PyTorch traces the batch as a number, for any backend.
    names = [name for name in CONVOLUTIONS if not (free and name == "a volume")]
    model = Convolutions(*names)
    compiled = Compiled(model, dynamic=free)
    with torch.no_grad():
        for sizes in (
            [(2, 9, 10, 11), (3, 12, 16, 17), (5, 31, 20, 8)] if free else [(2, 9, 10, 11)]
        ):
            images = model.images(*sizes)
            assert_all_same(compiled(images), model(images))
    assert compiled.eager == {}
    assert compiled.compiles == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_convolutions_of_other_floats(dtype: torch.dtype) -> None:
    model = Convolutions("strides and padding", "groups", "patches").to(dtype)
    compiled = Compiled(model)
    images = model.images(2, 9, 11, dtype=dtype)
    with torch.no_grad():
        assert_all_same(compiled(images), model(images))
    assert compiled.eager == {}


def test_convolutions_of_nothing_and_of_nan() -> None:
    model = Convolutions("strides and padding", "depthwise")
    compiled = Compiled(model, dynamic=None)
    with torch.no_grad():
        empty = model.images(0, 9, 11)
        assert_all_same(compiled(empty), model(empty))
        images = model.images(2, 9, 11)
        for image in images.values():
            image[1, 2, 3, 4], image[0, 0, 0, 0] = float("nan"), float("inf")
        assert_all_same(compiled(images), model(images))
    assert compiled.eager == {}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("group", ["unary", "binary", "reductions"])
def test_other_floats(group: str, dtype: torch.dtype) -> None:
    chosen = {
        "unary": ("exp", "tanh", "sigmoid", "gelu", "activations", "rounding"),
        "binary": ("add", "sub", "mul", "div", "clamp", "compare", "where"),
        "reductions": ("sum", "mean", "extremes", "softmax"),
    }[group]
    every = together({name: GROUPS[group][name] for name in chosen})
    compiled = Compiled(every)
    x, i = floats(9, 6, dtype=dtype), whole(9, 6)
    with torch.no_grad():
        assert_all_same(compiled(x, i), every(x, i))
    assert compiled.eager == {}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_beside_halves_are_rounded_where_atens_are(dtype: torch.dtype) -> None:
    x = torch.tensor([0.1, 0.3, 0.7], dtype=dtype)

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [x == 0.1, x < 0.3, x >= 0.7, x.clamp(0.3, 0.3), x * 0.1 * 7, x + 1e-3]

    compiled = Compiled(function)
    with torch.no_grad():
        assert_same(compiled(x), function(x))


def test_special_values() -> None:
    values = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-42])
    x = values.repeat(9, 1)

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            x.exp(), x.clamp(-1, 1), torch.maximum(x, x.t()[:1, :1]), x.relu(), x.sign(),
            x.softmax(0), x.amax(1), x.nan_to_num(), torch.where(x > 0, x, -x), x == x,
        ]  # fmt: skip

    compiled = Compiled(function)
    with torch.no_grad():
        assert_same(compiled(x), function(x))


def test_special_values_in_sorts_and_histograms() -> None:
    def function(x: torch.Tensor) -> Any:
        ascending, descending = x.sort(stable=True), x.sort(descending=True, stable=True)
        return ascending, descending, x.histc(3, -1, 2)

    inf, nan = float("inf"), float("nan")
    x = torch.tensor([2.0, nan, -0.0, -1.0, 0.0, inf, 1.0, -inf, nan, 2.0, 1e30, -1.0, 2.1])
    compiled = Compiled(function)
    with torch.no_grad():
        for each in (x, x.flip(0), x[:5], x[:1], x[1:2], x[:0]):
            assert_same(compiled(each), function(each))
    assert compiled.eager == {}


@pytest.mark.parametrize("experts", [2, 3, 4, 7, 60, 128, 384])
def test_rows_are_counted_by_expert_as_transformers_does(experts: int) -> None:
    def function(ids: torch.Tensor) -> Any:
        return ids.float().histc(experts, 0, experts - 1).cumsum(0, dtype=torch.int32)

    compiled = Compiled(function, dynamic=None)
    with torch.no_grad():
        for ids in (torch.arange(experts), whole(100, high=experts, seed=experts)):
            assert torch.equal(compiled(ids), function(ids))
            assert compiled(ids).diff().tolist() == ids.bincount(minlength=experts)[1:].tolist()
    assert compiled.eager == {}


def test_sizes_of_zero() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [x + 1, x.sum(0), x.softmax(1), x @ x.t(), torch.cat([x, x])]

    compiled = Compiled(function)
    with torch.no_grad():
        for count in (5, 0):
            assert_same(compiled(floats(count, 4)), function(floats(count, 4)))


REFUSED: dict[str, tuple[Function, str]] = {
    "complex": (lambda x: torch.view_as_complex(x.view(-1, 3, 2)).abs(), "no torch.complex64"),
    "product": (lambda x: (x + 1).prod(1), "no translation"),
    "remainder of floats": (lambda x: (x + 1) % 0.3, "a remainder of floats"),
    "mask": (lambda x: (x + 1)[x > 0], "by a mask"),
    "range of floats": (lambda x: torch.arange(0.0, x.shape[0] / 2, 0.5), "range of floats"),
    "transposed convolution": (
        lambda x: F.conv_transpose1d((x + 1)[None], torch.ones(7, 2, 3)),
        "a transposed convolution",
    ),
    "unbiased variance": (lambda x: (x + 1).var(1), "variance"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_runs_in_eager_mode_and_says_why(name: str) -> None:
    function, why = REFUSED[name]
    compiled = Compiled(function)
    with torch.no_grad(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert_same(compiled(floats(7, 6)), function(floats(7, 6)))
    assert compiled.eager != {}
    reasons = [each for graph in compiled.graphs for each in graph.stats.reasons.values()]
    assert any(why in each for each in reasons), reasons


def test_a_translation_that_is_wrong_about_its_type_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TRANSLATIONS, aten.exp.default, lambda e, result, x: e.cast(x, "f64"))
    compiled = Compiled(lambda x: x.exp() + 1)
    with torch.no_grad():
        assert_same(compiled(floats(3, 2)), floats(3, 2).exp() + 1)
    assert compiled.eager == {"aten.exp.default": 1}
    assert refusal.__doc__
