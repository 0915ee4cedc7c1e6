"""Operators of ATen that move nothing, and that PyTorch therefore does for free."""

import torch

aten = torch.ops.aten

VIEWS = frozenset(
    {
        aten.view.default,
        aten.unsqueeze.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.permute.default,
        aten.transpose.int,
        aten.t.default,
        aten.expand.default,
        aten.slice.Tensor,
        aten.select.int,
        aten.alias.default,
        aten.detach.default,
    }
)
