"""Attention that ATen has whole."""

import math
from collections.abc import Sequence

import torch

from opweld._core import GraphTensor
from opweld.torch.emitter import Emitter, translates
from opweld.torch.sizes import Unsupported

aten = torch.ops.aten


@translates(aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention(
    e: Emitter,
    results: Sequence[torch.Tensor],
    query: GraphTensor,
    key: GraphTensor,
    value: GraphTensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: GraphTensor | None = None,
    scale: float | None = None,
) -> tuple[GraphTensor | None, ...]:
    if dropout_p != 0.0 or e.wanted & {1}:
        raise Unsupported("an attention with dropout, or whose denominators are read")
    head = query.sizes()[-1]
    if scale is None:
        if not isinstance(head, int):
            raise Unsupported("an attention whose head size is known at run time only")
        scale = 1 / math.sqrt(head)
    # ATen's causal mask lets query s see keys t <= s, however many keys there are.
    attributes = {"causal": "top_left" if is_causal else "none", "scale": float(scale)}
    if attn_mask is not None and attn_mask.dtype() not in ("bool", query.dtype()):
        attn_mask = e.cast(attn_mask, query.dtype())
    return e.op("attention", query, key, value, attn_mask, None, None, None, **attributes), None
