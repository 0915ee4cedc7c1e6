"""Bodies of custom operators, so that they fuse like any others."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Body = TypeVar("Body", bound=Callable[..., Any])

BODIES: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def custom_op(operator: str | torch._ops.OpOverload) -> Callable[[Body], Body]:
    """Says what a custom operator computes, in terms of PyTorch's own.

    To the backend a custom operator is opaque: it runs in eager mode, and whatever is on either
    side of it cannot be fused. With a body it is compiled and fused as if its body stood there:

        @opweld.custom_op("mylib::swiglu")
        def swiglu(gate, up):
            return torch.nn.functional.silu(gate) * up

    The operator itself stays as it is, for eager mode and other backends. A model that was compiled
    before does not change.

    Args:
        operator: its name as registered, "mylib::swiglu" or "mylib::swiglu.overload", or the
            overload itself. The body takes the operator's arguments and must not write into them.

    Raises:
        ValueError: there is no such operator, or it writes into an argument.
    """
    overload = _find(operator) if isinstance(operator, str) else operator
    if overload._schema.is_mutable:
        raise ValueError(f"{overload} writes into an argument, which a body cannot say")

    def register(body: Body) -> Body:
        BODIES[overload] = body
        return body

    return register


def _find(name: str) -> torch._ops.OpOverload:
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), operator), overload or "default")
    except (AttributeError, RuntimeError) as error:
        raise ValueError(f"PyTorch knows no operator '{name}'; register it first") from error
