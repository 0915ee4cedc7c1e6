"""Experts as branches of their own, as exporters write them: found, merged, and computed."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.models.moe_layer import Mixture, moe_models
from bench.opweld_command import FUSION_LEVELS, opweld_path, run_model
from tests.python.torch_helpers import Compiled, assert_same, floats

WIDTH, INNER, EXPERTS = 16, 24, 5


class Gated(nn.Module):
    """The expert of Mixtral and Qwen."""

    def __init__(self, inner: int = INNER) -> None:
        super().__init__()
        self.w1 = nn.Linear(WIDTH, inner, bias=False)
        self.w2 = nn.Linear(inner, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, inner, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[tokens, width] to the same."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Biased(nn.Module):
    """The feed-forward of Switch, with biases."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, INNER)
        self.down = nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """[tokens, width] to the same."""
        return self.down(F.relu(self.up(x)))


class Loop(nn.Module):
    """MixtralSparseMoeBlock of Hugging Face's transformers: a loop over experts.

    With `shared`, Qwen2MoeSparseMoeBlock: an expert for all tokens beside those that were chosen.
    """

    def __init__(
        self,
        expert: type[nn.Module] = Gated,
        k: int = 2,
        *,
        normalise: bool = True,
        shared: bool = False,
        masks: bool = False,
    ) -> None:
        super().__init__()
        self.k, self.normalise, self.masks = k, normalise, masks
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList([expert() for _ in range(EXPERTS)])
        self.shared = Gated(32) if shared else None
        self.shared_gate = nn.Linear(WIDTH, 1, bias=False) if shared else None

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        batch, length, width = hidden_states.shape
        x = hidden_states.view(-1, width)
        weights = F.softmax(self.gate(x), dim=1, dtype=torch.float)
        weights, chosen = torch.topk(weights, self.k, dim=-1)
        if self.normalise:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        weights = weights.to(x.dtype)
        result = torch.zeros((batch * length, width), dtype=x.dtype)
        mask = F.one_hot(chosen, num_classes=EXPERTS).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            if self.masks:
                share = (weights * (chosen == number)).sum(dim=-1, keepdim=True)
                result = result + expert(x) * share
                continue
            slot, token = torch.where(mask[number])
            mine = expert(x[None, token].reshape(-1, width)) * weights[token, slot, None]
            result.index_add_(0, token, mine.to(x.dtype))
        if self.shared is not None:
            result = result + torch.sigmoid(self.shared_gate(x)) * self.shared(x)
        return result.reshape(batch, length, width)


class Gathered(nn.Module):
    """The batched experts of newer transformers: a product by the matrices of each choice."""

    def __init__(self, k: int = 2) -> None:
        super().__init__()
        self.k = k
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.gate_up = nn.Parameter(torch.randn(EXPERTS, 2 * INNER, WIDTH) / 4)
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) / 4)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        batch, length, width = hidden_states.shape
        x = hidden_states.view(-1, width)
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=-1), self.k, dim=-1)
        tokens = batch * length
        token = torch.arange(tokens).unsqueeze(1).expand(-1, self.k).reshape(-1)
        expert = chosen.reshape(-1)
        rows = x[token].unsqueeze(-1)
        gate, up = torch.bmm(self.gate_up[expert], rows).squeeze(-1).chunk(2, dim=-1)
        each = torch.bmm(self.down[expert], (F.silu(gate) * up).unsqueeze(-1)).squeeze(-1)
        weighted = each * weights.reshape(-1).unsqueeze(-1)
        return weighted.view(tokens, self.k, width).sum(dim=1).reshape(batch, length, width)


class GatheredEinsum(nn.Module):
    """The experts of gpt-oss's own code: einsum over the matrices that each token gathers."""

    def __init__(self, k: int = 2) -> None:
        super().__init__()
        self.k = k
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.w1 = nn.Parameter(torch.randn(EXPERTS, 2 * INNER, WIDTH) / 4)
        self.b1 = nn.Parameter(torch.randn(EXPERTS, 2 * INNER) / 4)
        self.w2 = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) / 4)
        self.b2 = nn.Parameter(torch.randn(EXPERTS, WIDTH) / 4)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        x = hidden_states.view(-1, WIDTH)
        scores, chosen = torch.topk(self.gate(x), self.k, dim=-1)
        weights = F.softmax(scores, dim=1)
        h = torch.einsum("beck,bk->bec", self.w1[chosen], x) + self.b1[chosen]
        gate, up = h.chunk(2, dim=-1)
        h = F.silu(gate) * up
        h = torch.einsum("beck,bek->bec", self.w2[chosen], h) + self.b2[chosen]
        return torch.einsum("bec,be->bc", h, weights).reshape(hidden_states.shape)


class GatheredEinsumTurned(GatheredEinsum):
    """The same with matrices [in, out]."""

    def __init__(self, k: int = 2) -> None:
        super().__init__(k)
        self.w1 = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * INNER) / 4)
        self.w2 = nn.Parameter(torch.randn(EXPERTS, INNER, WIDTH) / 4)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        x = hidden_states.view(-1, WIDTH)
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=-1), self.k, dim=-1)
        gate, up = torch.einsum("bekc,bk->bec", self.w1[chosen], x).chunk(2, dim=-1)
        h = torch.einsum("beck,bec->bek", self.w2[chosen], F.silu(gate) * up)
        return torch.einsum("bec,be->bc", h, weights).reshape(hidden_states.shape)


class Batched(nn.Module):
    """All experts at once for all tokens, weighed by scattered weights."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.gate_up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * INNER) / 4)
        self.down = nn.Parameter(torch.randn(EXPERTS, INNER, WIDTH) / 4)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        x = hidden_states.view(-1, WIDTH)
        logits = self.gate(x)
        weights, chosen = torch.topk(F.softmax(logits, dim=-1), 2, dim=-1)
        shares = torch.zeros_like(logits).scatter(1, chosen, weights)
        all_rows = x.unsqueeze(0).expand(EXPERTS, -1, -1)
        gate, up = torch.bmm(all_rows, self.gate_up).chunk(2, dim=-1)
        each = torch.bmm(F.silu(gate) * up, self.down)
        result = (each * shares.transpose(0, 1).unsqueeze(-1)).sum(dim=0)
        return result.reshape(hidden_states.shape)


class Einsum(nn.Module):
    """All experts for all tokens, by einsum over stacked weights, the gates in one as well."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.w1 = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) / 4)
        self.w3 = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) / 4)
        self.w2 = nn.Parameter(torch.randn(EXPERTS, INNER, WIDTH) / 4)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        x = hidden_states.view(-1, WIDTH)
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=-1), 2, dim=-1)
        shares = torch.einsum("tke,tk->te", F.one_hot(chosen, EXPERTS).to(x.dtype), weights)
        gate = torch.einsum("td,edf->tef", x, self.w1)
        up = torch.einsum("td,edf->tef", x, self.w3)
        each = torch.einsum("tef,efd->ted", F.silu(gate) * up, self.w2)
        return torch.einsum("te,ted->td", shares, each).reshape(hidden_states.shape)


class Repeated(Batched):
    """As Llama 4 does: all tokens once for each expert, and batched matmuls over them."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        x = hidden_states.view(-1, WIDTH)
        logits = self.gate(x)
        weights, chosen = torch.topk(F.softmax(logits, dim=-1), 2, dim=-1)
        shares = torch.zeros_like(logits).scatter(1, chosen, weights)
        all_rows = x.repeat(EXPERTS, 1).view(EXPERTS, -1, WIDTH)
        gate, up = torch.bmm(all_rows, self.gate_up).chunk(2, dim=-1)
        each = torch.bmm(F.silu(gate) * up, self.down)
        result = (each * shares.transpose(0, 1).unsqueeze(-1)).sum(dim=0)
        return result.reshape(hidden_states.shape)


class Selected(Loop):
    """A loop over experts that each give rows to the tokens that chose them, or stack them all."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, hidden_states: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        x = hidden_states.view(-1, WIDTH)
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=-1), 2, dim=-1)
        if self.how == "stack":
            shares = torch.zeros(x.shape[0], EXPERTS).scatter(1, chosen, weights)
            each = torch.stack([expert(x) for expert in self.experts], dim=1)
            return (each * shares.unsqueeze(-1)).sum(dim=1).reshape(hidden_states.shape)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            is_mine = chosen == number
            share = (weights * is_mine).sum(dim=-1, keepdim=True)
            if self.how == "where":
                mine = is_mine.any(dim=-1, keepdim=True)
                result = result + torch.where(mine, expert(x) * share, torch.zeros_like(x))
            else:
                token = is_mine.any(dim=-1).nonzero().squeeze(-1)
                rows = expert(x.index_select(0, token)) * share.index_select(0, token)
                result = result.index_add(0, token, rows)
        return result.reshape(hidden_states.shape)


MODULES = {
    "mixtral": lambda: Loop(),
    "mixtral, not normalised": lambda: Loop(normalise=False),
    "qwen": lambda: Loop(shared=True),
    "switch": lambda: Loop(Biased, k=1),
    "biases": lambda: Loop(Biased, k=3),
    "gathered": lambda: Gathered(),
    "gathered once": lambda: Gathered(k=1),
    "gathered, einsum": lambda: GatheredEinsum(),
    "gathered, einsum of three": lambda: GatheredEinsum(k=3),
    "batched": lambda: Batched(),
    "einsum": lambda: Einsum(),
    "repeated": lambda: Repeated(),
    "stack": lambda: Selected("stack"),
    "where": lambda: Selected("where"),
    "index add": lambda: Selected("index_add"),
    "masks": lambda: Loop(masks=True),
    "masks and biases": lambda: Loop(Biased, k=1, masks=True),
}


def exported(path: Path, module: nn.Module, opset: int = 18) -> Path:
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            (torch.randn(1, 9, WIDTH),),
            str(path),
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "batch", 1: "length"}},
            opset_version=opset,
            dynamo=False,
        )
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("experts")
    torch.manual_seed(1)
    return {
        name: exported(folder / f"{i}.onnx", make())
        for i, (name, make) in enumerate(MODULES.items())
    }


def explained(model: Path, *options: str) -> dict:
    command = [str(opweld_path()), "explain", str(model), "--json", *options]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def expected(model: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["y"], {"x": x})[0]


@pytest.mark.parametrize("name", MODULES)
def test_they_compute_what_onnx_runtime_computes(models: dict[str, Path], name: str) -> None:
    model = models[name]
    for shape in [(1, 1), (1, 9), (2, 5), (3, 40), (3, 400)]:
        x = np.random.default_rng(5).standard_normal((*shape, WIDTH)).astype(np.float32)
        reference = expected(model, x)
        for level in FUSION_LEVELS:
            actual = run_model(model, {"x": x}, f"--fusion={level}")["y"]
            np.testing.assert_allclose(actual, reference, rtol=2**-10, atol=2**-16)
        strict = run_model(model, {"x": x}, "--numerics=strict")["y"]
        np.testing.assert_allclose(strict, reference, rtol=2**-10, atol=2**-16)


@pytest.mark.parametrize("name", MODULES)
def test_no_tokens_give_no_rows(models: dict[str, Path], name: str) -> None:
    x = np.zeros((1, 0, WIDTH), np.float32)
    for level in FUSION_LEVELS:
        assert run_model(models[name], {"x": x}, f"--fusion={level}")["y"].shape == (1, 0, WIDTH)


# Of one token axes fall away, and a trace spells products otherwise than of several.
@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (3, 1)])
@pytest.mark.parametrize(
    "make",
    [
        Gathered,
        lambda: Gathered(k=1),
        GatheredEinsum,
        lambda: GatheredEinsum(k=3),
        GatheredEinsumTurned,
        lambda: GatheredEinsumTurned(k=3),
        Batched,
        Einsum,
        Repeated,
    ],
)
def test_a_step_of_decoding_computes_what_eager_mode_does(
    make: Callable[[], nn.Module], sizes: tuple[int, int]
) -> None:
    torch.manual_seed(3)
    module = make().eval()
    compiled = Compiled(module, dynamic=False)
    with torch.no_grad():
        for seed in range(2):
            x = floats(*sizes, WIDTH, seed=seed)
            assert_same(compiled(x), module(x))


@pytest.mark.parametrize("name", MODULES)
def test_each_stage_of_all_experts_is_one_kernel(models: dict[str, Path], name: str) -> None:
    """Of many tokens both stages are."""
    for tokens, wanted in [(1, 2), (4096, 1)]:
        sizes = ["--dim=batch=1", f"--dim=length={tokens}"]
        text = subprocess.run(
            [str(opweld_path()), "explain", str(models[name]), *sizes],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        kernels = [line for line in text.split("\n\n")[0].splitlines() if "GroupedMatMul" in line]
        assert len(kernels) == wanted, text
        assert "stay apart" not in text


def test_all_chosen_by_everybody_and_by_nobody(models: dict[str, Path]) -> None:
    """A router that finds all experts equal: the first two have all tokens, the others none."""
    x = np.zeros((1, 33, WIDTH), np.float32)
    x[:, ::2] = 0.25
    for level in FUSION_LEVELS:
        actual = run_model(models["biases"], {"x": x}, f"--fusion={level}")["y"]
        np.testing.assert_allclose(actual, expected(models["biases"], x), rtol=2**-10, atol=2**-16)


def test_the_benchmark_is_planned_alike_in_both_spellings() -> None:
    spellings = moe_models(Mixture(width=24, inner=20, experts=6))

    def kinds(model: Path) -> list[str]:
        text = subprocess.run(
            [str(opweld_path()), "explain", str(model)], capture_output=True, text=True, check=True
        ).stdout
        listed = text.split("\n\n")[0].splitlines()[1:]
        return sorted(line.split()[1] for line in listed if line.startswith("  "))

    assert kinds(spellings["branches"]) == kinds(spellings["fused"])


@pytest.mark.parametrize("tokens", [0, 1, 7, 65])
def test_the_benchmark_computes_the_same_in_all_spellings(tokens: int) -> None:
    spellings = moe_models(Mixture(width=24, inner=20, experts=6))
    x = np.random.default_rng(2).standard_normal((tokens, 24)).astype(np.float32)
    reference = run_model(spellings["fused"], {"x": x})["y"]
    for spelling in ("dense", "branches"):
        actual = run_model(spellings[spelling], {"x": x})["y"]
        np.testing.assert_allclose(actual, reference, rtol=2**-10, atol=2**-16)


def test_a_near_miss_says_why(tmp_path: Path) -> None:
    module = Loop()
    module.experts[3].forward = lambda x: module.experts[3].w2(  # type: ignore[method-assign]
        F.relu(module.experts[3].w1(x)) * module.experts[3].w3(x)
    )
    model = exported(tmp_path / "model.onnx", module)
    text = subprocess.run(
        [str(opweld_path()), "explain", str(model)], capture_output=True, text=True, check=True
    ).stdout
    assert "note: 5 experts that end in" in text
    assert "/experts.3/Relu' differ" in text
    assert "GroupedMatMul" not in text


def test_what_is_not_put_back_is_refused(tmp_path: Path) -> None:
    """The rows that were found are the result: how many there are is in the data."""

    class Found(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            """Rows of the first batch."""
            return x[0][torch.where(x[0, :, 0] > 0)[0]]

    model = exported(tmp_path / "model.onnx", Found())
    result = subprocess.run(
        [str(opweld_path()), "explain", str(model)], capture_output=True, text=True
    )
    assert result.returncode == 1
    assert "the shape of its result depends on the data" in result.stderr
    onnx.checker.check_model(onnx.load(model))
