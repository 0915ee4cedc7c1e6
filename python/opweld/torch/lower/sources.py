"""Tensors made of numbers."""

import torch

from opweld._core import GraphTensor
from opweld.torch.dtypes import FLOATS, name_of
from opweld.torch.emitter import Emitter, Number, translates
from opweld.torch.sizes import Unsupported, to_sizes

aten = torch.ops.aten
prims = torch.ops.prims


def _filled(e: Emitter, result: torch.Tensor, value: Number) -> GraphTensor:
    return e.filled(value, name_of(result.dtype), to_sizes(result.shape))


@translates(aten.full.default, aten.full_like.default, aten.new_full.default)
def full(e: Emitter, result: torch.Tensor, *arguments: object, **options: object) -> GraphTensor:
    value = options.get("fill_value", arguments[-1])
    return _filled(e, result, value)


@translates(aten.scalar_tensor.default)
def scalar_tensor(
    e: Emitter, result: torch.Tensor, value: Number, **options: object
) -> GraphTensor:
    return _filled(e, result, value)


# What memory without contents holds is nobody's business, so it may hold zeros.
@translates(
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_permuted.default,
    aten.new_empty.default,
)
def zeros(e: Emitter, result: torch.Tensor, *arguments: object, **options: object) -> GraphTensor:
    return _filled(e, result, 0)


@translates(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(e: Emitter, result: torch.Tensor, *arguments: object, **options: object) -> GraphTensor:
    return _filled(e, result, 1)


@translates(aten.arange.start_step)
def arange(
    e: Emitter,
    result: torch.Tensor,
    start: Number,
    end: Number,
    step: Number = 1,
    **options: object,
) -> GraphTensor:
    return _range(e, result, start, step)


@translates(prims.iota.default)
def iota(
    e: Emitter,
    result: torch.Tensor,
    length: object,
    *,
    start: Number,
    step: Number,
    **options: object,
) -> GraphTensor:
    return _range(e, result, start, step)


def _range(e: Emitter, result: torch.Tensor, start: Number, step: Number) -> GraphTensor:
    dtype = name_of(result.dtype)
    if dtype in FLOATS:
        raise Unsupported("a range of floats, which ATen rounds in its own way")
    (length,) = to_sizes(result.shape)
    first, stride = e.scalar(start, dtype), e.scalar(step, dtype)
    return e.op("range", first, stride, length=[length])
