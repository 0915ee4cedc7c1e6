"""Normalisations that ATen has whole."""

from collections.abc import Sequence

import torch

from opweld._core import GraphTensor
from opweld.torch.dtypes import name_of
from opweld.torch.emitter import Emitter, translates
from opweld.torch.sizes import Unsupported

aten = torch.ops.aten


@translates(aten.native_layer_norm.default)
def layer_norm(
    e: Emitter,
    results: Sequence[torch.Tensor],
    x: GraphTensor,
    normalized_shape: Sequence[int],
    weight: GraphTensor | None,
    bias: GraphTensor | None,
    eps: float,
) -> tuple[GraphTensor | None, ...]:
    axis = e.rank(x) - len(normalized_shape)
    out = e.op("layer_norm", x, weight, bias, axis=axis, epsilon=float(eps))
    if not e.wanted & {1, 2}:
        return out, None, None
    # What the backward pass reads.
    wide = e.cast(x, name_of(results[1].dtype))
    axes = list(range(axis, e.rank(x)))
    mean = e.op("reduce_mean", wide, axes=axes, keepdims=1)
    centred = e.op("sub", wide, mean)
    spread = e.op("reduce_mean", e.op("mul", centred, centred), axes=axes, keepdims=1)
    scale = e.op("rsqrt", e.op("add", spread, e.scalar(eps, spread.dtype())))
    return out, mean, scale


@translates(aten._fused_rms_norm.default)
def rms_norm(
    e: Emitter,
    results: Sequence[torch.Tensor],
    x: GraphTensor,
    normalized_shape: Sequence[int],
    weight: GraphTensor | None,
    eps: float | None,
) -> tuple[GraphTensor | None, ...]:
    if e.wanted & {1}:
        raise Unsupported("an RMS norm whose statistics are read")
    if eps is None:
        eps = torch.finfo(results[0].dtype).eps
    axis = e.rank(x) - len(normalized_shape)
    return e.op("rms_norm", x, weight, axis=axis, epsilon=float(eps)), None


@translates(aten.native_group_norm.default)
def group_norm(
    e: Emitter,
    results: Sequence[torch.Tensor],
    x: GraphTensor,
    weight: GraphTensor | None,
    bias: GraphTensor | None,
    n: object,
    c: object,
    hxw: object,
    group: int,
    eps: float,
) -> tuple[GraphTensor | None, ...]:
    if e.wanted & {1, 2} or weight is None or bias is None:
        raise Unsupported("a group norm whose statistics are read, or without weights")
    return e.op("group_norm", x, weight, bias, groups=group, epsilon=float(eps)), None, None
