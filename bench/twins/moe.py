"""Twin of the suite of mixtures of experts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Moe(nn.Module):
    """Rows sorted by expert and PyTorch's product in groups.

    Inductor takes that product in bf16 alone, and no shapes that depend on data. Compiled, a few
    tokens have the weights of their experts gathered, and of many tokens every expert computes all.
    """

    def __init__(
        self, weights: dict[str, Tensor], experts: int, chosen: int, epsilon: float, **sizes: int
    ) -> None:
        super().__init__()
        del sizes
        self.experts, self.chosen, self.epsilon = experts, chosen, epsilon
        self.register_buffer("gamma", weights["gamma"])
        self.register_buffer("router", weights["router"].t().contiguous())
        # Rows of gate and up take turns in the file; here they are [E, in, gates then values].
        both = weights["gate_up"]
        both = torch.cat([both[:, 0::2], both[:, 1::2]], dim=1)
        self.register_buffer("gate_up", both.transpose(1, 2).contiguous())
        self.register_buffer("down", weights["down"].transpose(1, 2).contiguous())

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """[tokens, width] to the same."""
        h = F.rms_norm(x, self.gamma.shape, self.gamma, self.epsilon)
        p = F.linear(h, self.router).softmax(dim=-1)
        best, which = p.topk(self.chosen, dim=-1)
        share = best / best.sum(dim=-1, keepdim=True)
        if not torch.compiler.is_compiling():
            experts = self._sorted(h, share, which)
        elif which.numel() <= self.experts:
            experts = self._gathered(h, share, which)
        else:
            experts = self._everywhere(h, share, which)
        return (x + experts,)

    def _sorted(self, h: Tensor, share: Tensor, which: Tensor) -> Tensor:
        flat = which.flatten()
        order = flat.argsort(stable=True)
        counts = (flat[:, None] == torch.arange(self.experts)).sum(dim=0)
        ends = counts.cumsum(0).to(torch.int32)
        gate, up = F.grouped_mm(h[order // self.chosen], self.gate_up, offs=ends).chunk(2, -1)
        out = F.grouped_mm(F.silu(gate) * up, self.down, offs=ends)
        each = out[order.argsort()].unflatten(0, (-1, self.chosen))
        return (each * share[..., None]).sum(dim=1)

    def _gathered(self, h: Tensor, share: Tensor, which: Tensor) -> Tensor:
        rows = h[:, None, None].expand(-1, self.chosen, 1, -1)
        gate, up = (rows @ self.gate_up[which]).chunk(2, -1)
        each = (F.silu(gate) * up) @ self.down[which]
        return (each[:, :, 0] * share[..., None]).sum(dim=1)

    def _everywhere(self, h: Tensor, share: Tensor, which: Tensor) -> Tensor:
        gate, up = (h @ self.gate_up).chunk(2, -1)
        each = (F.silu(gate) * up) @ self.down
        shares = torch.zeros(h.shape[0], self.experts).scatter(1, which, share)
        return (each * shares.t()[..., None]).sum(dim=0)
