"""Twins of BERT: one layer, and the pretrained encoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = 1e-12


def linear(weights: dict[str, Tensor], path: str) -> nn.Linear:
    """A linear layer; the ONNX file keeps its weight as [in, out]."""
    weight = weights[f"{path}.weight"].t().contiguous()
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight = nn.Parameter(weight)
    layer.bias = nn.Parameter(weights[f"{path}.bias"])
    return layer


def layer_norm(weights: dict[str, Tensor], path: str) -> nn.LayerNorm:
    """A LayerNorm with its weights."""
    weight = weights[f"{path}.LayerNorm.weight"]
    norm = nn.LayerNorm(weight.shape, EPSILON)
    norm.weight = nn.Parameter(weight)
    norm.bias = nn.Parameter(weights[f"{path}.LayerNorm.bias"])
    return norm


def additive_mask(attention_mask: Tensor) -> Tensor:
    """1 and 0 per token -> 0 and the lowest float, [batch, 1, 1, sequence]."""
    return (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min


class Block(nn.Module):
    """An encoder layer on [batch, sequence, hidden]."""

    def __init__(self, weights: dict[str, Tensor], heads: int, index: int) -> None:
        super().__init__()
        path = f"encoder.layer.{index}"
        self.heads = heads
        for part in ("query", "key", "value"):
            setattr(self, part, linear(weights, f"{path}.attention.self.{part}"))
        self.projection = linear(weights, f"{path}.attention.output.dense")
        self.attention_norm = layer_norm(weights, f"{path}.attention.output")
        self.wider = linear(weights, f"{path}.intermediate.dense")
        self.narrower = linear(weights, f"{path}.output.dense")
        self.output_norm = layer_norm(weights, f"{path}.output")

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """`mask` is added to the scores."""

        def split(tensor: Tensor) -> Tensor:
            return tensor.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = (split(part(hidden)) for part in (self.query, self.key, self.value))
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        context = context.transpose(1, 2).flatten(2)
        hidden = self.attention_norm(self.projection(context) + hidden)
        return self.output_norm(self.narrower(F.gelu(self.wider(hidden))) + hidden)


class Layer(nn.Module):
    """One layer and its mask."""

    def __init__(self, weights: dict[str, Tensor], heads: int) -> None:
        super().__init__()
        self.block = Block(weights, heads, 0)

    def forward(self, hidden: Tensor, attention_mask: Tensor) -> tuple[Tensor]:
        """[batch, sequence, hidden] and [batch, sequence] to the first's shape."""
        return (self.block(hidden, additive_mask(attention_mask)),)


class Encoder(nn.Module):
    """Embeddings and all layers."""

    def __init__(self, weights: dict[str, Tensor], heads: int) -> None:
        super().__init__()
        for part in ("word", "token_type", "position"):
            table = weights[f"embeddings.{part}_embeddings.weight"]
            setattr(self, part, nn.Embedding.from_pretrained(table))
        self.norm = layer_norm(weights, "embeddings")
        layers = 1 + max(
            int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")
        )
        self.blocks = nn.ModuleList(Block(weights, heads, index) for index in range(layers))

    def forward(self, ids: Tensor, attention_mask: Tensor, types: Tensor) -> tuple[Tensor]:
        """Three of [batch, sequence] to [batch, sequence, hidden]."""
        positions = torch.arange(ids.shape[1])
        hidden = self.word(ids) + self.token_type(types) + self.position(positions)
        hidden = self.norm(hidden)
        mask = additive_mask(attention_mask)
        for block in self.blocks:
            hidden = block(hidden, mask)
        return (hidden,)
