"""Twins of the suite of chains."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class _Weights(nn.Module):
    """Matrices lie as PyTorch keeps them, [out, in]."""

    def __init__(self, weights: dict[str, Tensor], epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        for name, value in weights.items():
            if value.dim() == 0:  # a constant of the norm, which is spelled out
                continue
            self.register_buffer(name, value.t().contiguous() if value.dim() == 2 else value)

    def rms_norm(self, x: Tensor) -> Tensor:
        """Over the last axis."""
        return F.rms_norm(x, self.gamma.shape, self.gamma, self.epsilon)


class EncoderHalf(_Weights):
    """What stands behind the attention of an encoder."""

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[rows, width] to the same."""
        active = F.gelu(F.linear(x, self.up, self.up_bias))
        h = F.linear(active, self.down, self.down_bias) + x
        return (F.layer_norm(h, self.gamma.shape, self.gamma, self.beta, self.epsilon),)


class DecoderHalf(_Weights):
    """What stands behind the attention of a decoder."""

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[rows, width] to the same."""
        n = self.rms_norm(x)
        gated = F.silu(F.linear(n, self.gate_weight)) * F.linear(n, self.up_weight)
        return (x + F.linear(gated, self.down_weight),)


class NormedProduct(_Weights):
    """A norm and the matmul behind it."""

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[rows, width] to [rows, columns]."""
        return (F.linear(self.rms_norm(x), self.w),)
