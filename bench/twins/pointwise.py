"""Twins of the pointwise suite."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Chain(nn.Module):
    """Scale and shift by columns, tanh, gate by a sigmoid, residual."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.register_buffer("scale", weights["scale"])
        self.register_buffer("shift", weights["shift"])

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[rows, columns] to the same."""
        return (torch.tanh(x * self.scale + self.shift) * torch.sigmoid(x) + x,)


class SwiGlu(nn.Module):
    """silu(gate) up."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()

    def forward(self, gate: Tensor, up: Tensor) -> tuple[Tensor]:
        """Two of [rows, columns] to one."""
        return (F.silu(gate) * up,)


class Gelu(nn.Module):
    """GELU in its exact form."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[rows, columns] to the same."""
        return (F.gelu(x),)


class Rope(nn.Module):
    """Rotary positions in halves."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.register_buffer("cos", weights["cos"])
        self.register_buffer("sin", weights["sin"])

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[1, heads, length, size] to the same."""
        return (rotate(x, self.cos, self.sin),)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The last axis rotated in halves: x cos + concat(-x2, x1) sin."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
