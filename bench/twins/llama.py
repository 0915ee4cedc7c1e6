"""Twin of one Llama layer, prefill and decode."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.models.llama_spelling import Config
from bench.twins.pointwise import rotate


class Layer(nn.Module):
    """A decoder layer that takes and returns keys and values."""

    def __init__(self, weights: dict[str, Tensor], config: Config) -> None:
        super().__init__()
        self.config = config
        path = "model.layers.0"
        for name in config.matrices():
            weight = weights[f"{path}.{name}.weight"].t().contiguous()
            linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            linear.weight = nn.Parameter(weight)
            setattr(self, name.split(".")[1], linear)
        for name in ("input_layernorm", "post_attention_layernorm"):
            self.register_buffer(name, weights[f"{path}.{name}.weight"])
        self.register_buffer("cos", weights["rotary.cos.twice"])
        self.register_buffer("sin", weights["rotary.sin.twice"])

    def forward(self, hidden: Tensor, positions: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """[batch, sequence, hidden], [batch, sequence] and, to decode, keys and values so far."""
        normed = self._norm(hidden, self.input_layernorm)
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        query = rotate(self._split(self.q_proj(normed)), cos, sin)
        key = rotate(self._split(self.k_proj(normed)), cos, sin)
        value = self._split(self.v_proj(normed))
        if len(past) > 0:
            key = torch.cat([past[0], key], dim=2)
            value = torch.cat([past[1], value], dim=2)
        # One further token sees all keys; of a whole sequence each sees those up to itself.
        context = F.scaled_dot_product_attention(
            query,
            key,
            value,
            is_causal=len(past) == 0,
            enable_gqa=self.config.kv_heads != self.config.heads,
        )
        hidden = hidden + self.o_proj(context.transpose(1, 2).flatten(2))
        normed = self._norm(hidden, self.post_attention_layernorm)
        gated = F.silu(self.gate_proj(normed)) * self.up_proj(normed)
        return hidden + self.down_proj(gated), key, value

    def _norm(self, hidden: Tensor, gamma: Tensor) -> Tensor:
        return F.rms_norm(hidden, gamma.shape, gamma, self.config.norm_epsilon)

    def _split(self, tensor: Tensor) -> Tensor:
        return tensor.unflatten(-1, (-1, self.config.head)).transpose(1, 2)
