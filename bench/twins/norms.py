"""Twins of the suite of norms."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class RmsNorm(nn.Module):
    """x + r, and its RMSNorm."""

    def __init__(self, weights: dict[str, Tensor], epsilon: float) -> None:
        super().__init__()
        self.register_buffer("gamma", weights["gamma"])
        self.epsilon = epsilon

    def forward(self, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """Two of [rows, columns] to the sum and the normalised."""
        h = x + r
        return h, F.rms_norm(h, self.gamma.shape, self.gamma, self.epsilon)


class LayerNorm(nn.Module):
    """LayerNorm over the last axis."""

    def __init__(self, weights: dict[str, Tensor], epsilon: float) -> None:
        super().__init__()
        self.register_buffer("gamma", weights["gamma"])
        self.register_buffer("beta", weights["beta"])
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[rows, columns] to the same."""
        return (F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.epsilon),)


class Softmax(nn.Module):
    """Softmax over the last axis."""

    def __init__(self, weights: dict[str, Tensor], epsilon: float) -> None:
        super().__init__()
        del epsilon

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[rows, columns] to the same."""
        return (F.softmax(x, dim=-1),)
