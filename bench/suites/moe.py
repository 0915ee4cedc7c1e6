"""A mixture of experts, from one token to many."""

from __future__ import annotations

from dataclasses import asdict

from bench.case import Case, Twin, Work
from bench.models.moe_layer import Mixture, experts_in_use, moe_models
from bench.models.text_model import normal

# Mixtral 8x7B at half its width and a quarter of the inner width: 0.7 GB of weights, which several
# engines can hold at a time.
MIXTURE = Mixture(width=2048, inner=3584, experts=8)
TOKENS = [1, 16, 128, 512]
# Sums of at most 3584 products, whose elements are about as large as standard normal numbers.
TOLERANCE = 1e-3


def moe(tiny: bool, threads: int) -> list[Case]:
    """The feed-forward of a Mixtral-like layer: norm, router, two of eight experts, residual."""
    del threads
    mixture = Mixture(width=24, inner=20, experts=6) if tiny else MIXTURE
    return [mixture_of(mixture, tokens) for tokens in ([1, 7] if tiny else TOKENS)]


def mixture_of(mixture: Mixture, tokens: int) -> Case:
    """Rivals that read ONNX get the experts as one operator, and every expert for every token."""
    x = normal(0, tokens, mixture.width)
    models = moe_models(mixture)
    used = experts_in_use(mixture, x)
    weights = used * mixture.expert_elements + mixture.width * (mixture.experts + 1)
    per_token = mixture.chosen * mixture.expert_elements + mixture.width * mixture.experts
    work = Work(
        read_bytes=4 * (weights + tokens * mixture.width),
        written_bytes=4 * tokens * mixture.width,
        flops=2 * tokens * per_token,
    )
    return Case(
        f"{tokens} token{'s' * (tokens > 1)}, {used} of {mixture.experts} experts",
        models["fused"],
        {"x": x},
        TOLERANCE,
        work,
        Twin("bench.twins.moe", "Moe", asdict(mixture)),
        {"every expert": models["dense"]},
    )
