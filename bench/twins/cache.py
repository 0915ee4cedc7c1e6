"""Twin of the suite of KV caches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PagedAttention(nn.Module):
    """Pages gathered by the table, then PyTorch's own fused attention."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, table: Tensor
    ) -> tuple[Tensor]:
        """[batch, heads, 1, size] to the same; k and v are [pages, key heads, page, size]."""
        keys, values = side_by_side(k, table), side_by_side(v, table)
        batch, key_heads, count, size = keys.shape
        seen = torch.arange(count) < lengths[:, None, None, None]
        grouped = q.view(batch, key_heads, -1, size)
        y = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=seen)
        return (y.reshape(q.shape),)


def side_by_side(pages: Tensor, table: Tensor) -> Tensor:
    """The pages of each sequence, as [batch, key heads, keys, size]."""
    batch, width = table.shape
    _, key_heads, page, size = pages.shape
    taken = pages.index_select(0, table.flatten()).view(batch, width, key_heads, page, size)
    return taken.transpose(1, 2).reshape(batch, key_heads, width * page, size)
