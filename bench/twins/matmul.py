"""Twins of the suites of matmuls."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class MatMul(nn.Module):
    """A linear layer without bias; its weight lies as PyTorch keeps it, [out, in]."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.register_buffer("weight", weights["w"].t().contiguous())

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[rows, in] to [rows, out]."""
        return (F.linear(x, self.weight),)


class MixedMatMul(MatMul):
    """The same with weights in bf16 and rows in fp32, which is what is multiplied and added."""

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[rows, in] to [rows, out]."""
        return (F.linear(x, self.weight.float()),)
