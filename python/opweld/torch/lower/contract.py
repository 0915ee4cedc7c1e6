"""Matrix products."""

import torch

from opweld._core import GraphTensor
from opweld.torch.dtypes import FLOATS, HALVES, name_of
from opweld.torch.emitter import Emitter, Number, translates
from opweld.torch.sizes import Unsupported

aten = torch.ops.aten


@translates(aten.mm.default, aten.bmm.default)
def product(e: Emitter, result: torch.Tensor, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    if name_of(result.dtype) not in FLOATS:
        raise Unsupported("a matrix product of integers")
    return e.op("matmul", a, b)


def _scaled(e: Emitter, x: GraphTensor, factor: Number) -> GraphTensor:
    if factor == 1:
        return x
    if x.dtype() in HALVES:
        raise Unsupported("a scaled matrix product of halves, which ATen does not round in between")
    return e.op("mul", x, e.scalar(factor, x.dtype()))


@translates(aten.addmm.default, aten.baddbmm.default)
def add_product(
    e: Emitter,
    result: torch.Tensor,
    c: GraphTensor,
    a: GraphTensor,
    b: GraphTensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
) -> GraphTensor:
    out = _scaled(e, product(e, result, a, b), alpha)
    # What is multiplied by 0 is not read, so NaN does not come through.
    return out if beta == 0 else e.op("add", out, _scaled(e, c, beta))


@translates(aten._grouped_mm.default)
def grouped_product(
    e: Emitter,
    result: torch.Tensor,
    x: GraphTensor,
    weights: GraphTensor,
    offs: GraphTensor | None = None,
    bias: GraphTensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> GraphTensor:
    if offs is None or e.rank(x) != 2 or e.rank(weights) != 3:
        raise Unsupported("groups that are not rows of the first operand")
    return e.op("grouped_matmul", x, weights, offs, bias, cumulative=1)


def register_transformers() -> None:
    """The operator that the package transformers brings along for its experts, where it is."""
    from opweld.torch.emitter import TRANSLATIONS

    namespace = getattr(torch.ops, "transformers", None)
    packet = getattr(namespace, "grouped_mm_fallback", None)
    if packet is not None and packet.default not in TRANSLATIONS:
        translates(packet.default)(grouped_product)
