"""Functions of one operand, element by element."""

import torch

from opweld._core import GraphTensor
from opweld.torch.dtypes import FLOATS as FLOAT_NAMES
from opweld.torch.dtypes import name_of
from opweld.torch.emitter import Emitter, translates

aten = torch.ops.aten
prims = torch.ops.prims

# Defined for every dtype of numbers, which they keep.
KEEP_DTYPE = {
    aten.abs.default: "abs",
    aten.neg.default: "neg",
    aten.relu.default: "relu",
}
# Floats; integers are converted first, as ATen does.
FLOATS = {
    aten.exp.default: "exp",
    aten.log.default: "log",
    aten.sqrt.default: "sqrt",
    aten.rsqrt.default: "rsqrt",
    aten.reciprocal.default: "reciprocal",
    aten.tanh.default: "tanh",
    aten.erf.default: "erf",
    aten.sigmoid.default: "sigmoid",
    aten.sin.default: "sin",
    aten.cos.default: "cos",
    aten.tan.default: "tan",
    aten.asin.default: "asin",
    aten.acos.default: "acos",
    aten.atan.default: "atan",
    aten.sinh.default: "sinh",
    aten.cosh.default: "cosh",
    aten.silu.default: "silu",
    aten.mish.default: "mish",
    aten.hardswish.default: "hard_swish",
}
# Of whole numbers they are the identity.
ROUNDING = {
    aten.floor.default: "floor",
    aten.ceil.default: "ceil",
    aten.round.default: "round",
}
TESTS = {
    aten.isnan.default: "is_nan",
    aten.isinf.default: "is_inf",
}


def _register() -> None:
    def keep(name: str) -> None:
        def translation(e: Emitter, result: torch.Tensor, x: GraphTensor) -> GraphTensor:
            return e.op(name, x)

        translates(*[op for op, each in KEEP_DTYPE.items() if each == name])(translation)

    def floats(name: str) -> None:
        def translation(e: Emitter, result: torch.Tensor, x: GraphTensor) -> GraphTensor:
            return e.op(name, e.cast(x, name_of(result.dtype)))

        translates(*[op for op, each in FLOATS.items() if each == name])(translation)

    def rounding(name: str) -> None:
        def translation(e: Emitter, result: torch.Tensor, x: GraphTensor) -> GraphTensor:
            return e.op(name, x) if result.dtype.is_floating_point else x

        translates(*[op for op, each in ROUNDING.items() if each == name])(translation)

    def tests(name: str) -> None:
        def translation(e: Emitter, result: torch.Tensor, x: GraphTensor) -> GraphTensor:
            return e.op(name, x if x.dtype() in FLOAT_NAMES else e.cast(x, "f32"))

        translates(*[op for op, each in TESTS.items() if each == name])(translation)

    for table, make in ((KEEP_DTYPE, keep), (FLOATS, floats), (ROUNDING, rounding), (TESTS, tests)):
        for name in table.values():
            make(name)


_register()


@translates(aten.sign.default)
def sign(e: Emitter, result: torch.Tensor, x: GraphTensor) -> GraphTensor:
    if x.dtype() not in FLOAT_NAMES:
        return e.op("sign", x)
    # ATen says 0 of NaN.
    return e.op("select", e.op("is_nan", x), e.scalar(0, x.dtype()), e.op("sign", x))


@translates(aten.logical_not.default)
def logical_not(e: Emitter, result: torch.Tensor, x: GraphTensor) -> GraphTensor:
    return e.op("not", e.cast(x, "bool"))


@translates(aten.bitwise_not.default)
def bitwise_not(e: Emitter, result: torch.Tensor, x: GraphTensor) -> GraphTensor:
    return e.op("not" if x.dtype() == "bool" else "bit_not", x)


@translates(aten.gelu.default)
def gelu(
    e: Emitter, result: torch.Tensor, x: GraphTensor, *, approximate: str = "none"
) -> GraphTensor:
    return e.op("gelu", x, approximate=approximate)


@translates(aten.leaky_relu.default)
def leaky_relu(
    e: Emitter, result: torch.Tensor, x: GraphTensor, negative_slope: float = 0.01
) -> GraphTensor:
    return e.op("leaky_relu", x, alpha=float(negative_slope))


@translates(
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
    aten.lift_fresh_copy.default,
    aten.lift_fresh.default,
)
def identity(
    e: Emitter, result: torch.Tensor, x: GraphTensor, *, memory_format: object = None
) -> GraphTensor:
    return x


@translates(aten._to_copy.default, prims.convert_element_type.default)
def cast(
    e: Emitter, result: torch.Tensor, x: GraphTensor, *arguments: object, **options: object
) -> GraphTensor:
    return e.cast(x, name_of(result.dtype))
