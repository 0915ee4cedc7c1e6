"""Experts of the package transformers as torch.compile traces them: found, and computed."""

from typing import Any

import opweld
import pytest
import torch
from opweld.torch import account_of
from torch import Tensor, nn
from transformers import MixtralConfig, Qwen2MoeConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen2_moe.modeling_qwen2_moe import (
    Qwen2MoeExperts,
    Qwen2MoeSparseMoeBlock,
)

from tests.python.torch_helpers import Compiled, assert_same, floats, whole

WIDTH, INNER, EXPERTS = 32, 48, 6
# Both are what transformers has for any model: rows sorted by expert, and matrices of each choice.
SORTED, GATHERED = "grouped_mm", "batched_mm"


def mixtral(choices: int, implementation: str = SORTED) -> nn.Module:
    config = MixtralConfig(
        hidden_size=WIDTH, intermediate_size=INNER, num_local_experts=EXPERTS,
        num_experts_per_tok=choices, experts_implementation=implementation,
    )  # fmt: skip
    return with_weights(MixtralSparseMoeBlock(config))


def qwen_config(choices: int, implementation: str = SORTED) -> Qwen2MoeConfig:
    return Qwen2MoeConfig(
        hidden_size=WIDTH, moe_intermediate_size=INNER, shared_expert_intermediate_size=2 * INNER,
        num_experts=EXPERTS, num_experts_per_tok=choices, experts_implementation=implementation,
    )  # fmt: skip


def qwen(choices: int, implementation: str = SORTED) -> nn.Module:
    return with_weights(Qwen2MoeSparseMoeBlock(qwen_config(choices, implementation)))


def with_weights(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=WIDTH**-0.5, generator=generator)
    return module.eval()


BLOCKS = {"Mixtral": mixtral, "Qwen2-MoE": qwen}  # the second has a shared expert, and its gate


def account(compiled: Compiled) -> opweld.Account:
    (segment,) = account_of(compiled.graphs[-1]).segments
    return segment


def near_miss(compiled: Compiled) -> str:
    (note,) = [each for each in account(compiled).notes if "are not known to be its groups" in each]
    return note


@pytest.mark.parametrize("choices", [1, 2, 4])
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_agrees_with_eager_mode_at_every_length(
    name: str, dynamic: bool, choices: int
) -> None:
    module = BLOCKS[name](choices)
    compiled = Compiled(module, dynamic=dynamic)
    lengths = (3, 17, 40)
    with torch.no_grad():
        for length in lengths:
            x = floats(2, length, WIDTH, seed=length)
            assert_same(compiled(x), module(x))
    assert compiled.eager == {}
    assert compiled.compiles == (1 if dynamic else len(lengths))
    assert account(compiled).notes == []


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_planned_as_in_the_other_spelling(name: str) -> None:
    def kinds(implementation: str) -> list[str]:
        compiled = Compiled(BLOCKS[name](2, implementation))
        with torch.no_grad():
            compiled(floats(2, 40, WIDTH))
        return [kernel["kind"] for kernel in account(compiled).kernels]

    assert kinds(SORTED) == kinds(GATHERED)


def test_all_tokens_choose_the_same() -> None:
    """The last two, by rows that are positive; of equal ones eager mode may take any."""
    module = mixtral(2)
    with torch.no_grad():
        module.gate.weight.copy_(torch.arange(EXPERTS)[:, None] / WIDTH)
    compiled = Compiled(module)
    with torch.no_grad():
        x = floats(2, 9, WIDTH).abs()
        assert_same(compiled(x), module(x))


def given(**more: Any) -> tuple[nn.Module, Compiled, Tensor, Tensor]:
    """Experts alone, to be told which expert each of 7 tokens goes to, and their rows."""
    module = with_weights(Qwen2MoeExperts(qwen_config(2)))
    return module, Compiled(module, **more), floats(7, WIDTH), floats(7, 2, seed=1)


def test_experts_that_somebody_else_chose_are_not_known_to_exist() -> None:
    module, compiled, x, weights = given(dynamic=False)
    chosen = whole(7, 2, high=EXPERTS)
    with torch.no_grad():
        assert_same(compiled(x, chosen, weights), module(x, chosen, weights))
    assert "what it sorts may be any number, and groups are below 6" in near_miss(compiled)


@pytest.mark.parametrize("wrong", [-1, EXPERTS, 1 << 40])
def test_an_expert_that_there_is_not_is_refused(wrong: int) -> None:
    _, compiled, x, weights = given()
    chosen = whole(7, 2, high=EXPERTS)
    chosen[3, 1] = wrong
    with torch.no_grad(), pytest.raises(opweld.Error, match="fewer rows than 'x'"):
        compiled(x, chosen, weights)


def test_rows_of_somebody_else_are_counted_as_they_are() -> None:
    """Counts of other choices than those that are sorted: two routers, mixed up."""

    class MixedUp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(WIDTH, EXPERTS)
            self.b = nn.Linear(WIDTH, EXPERTS)
            self.experts = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) / 4)

        def forward(self, x: Tensor) -> Tensor:
            """Rows in the order of one router, by matrices of as many as the other has of each."""
            order = self.a(x).argmax(-1).sort(stable=True).indices
            chosen = self.b(x).argmax(-1)
            counts = chosen.float().histc(EXPERTS, 0, EXPERTS - 1)
            ends = counts.cumsum(0, dtype=torch.int32)
            return torch.ops.transformers.grouped_mm_fallback(x[order], self.experts, ends)

    module = with_weights(MixedUp())
    compiled = Compiled(module)
    with torch.no_grad():
        x = floats(19, WIDTH)
        assert_same(compiled(x), module(x))
    assert "count something else than the rows of each group" in near_miss(compiled)
