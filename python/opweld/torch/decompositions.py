"""Which operators PyTorch takes apart before Opweld sees them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions

from opweld.torch import lower  # noqa: F401  (registers the translations)
from opweld.torch.custom import BODIES
from opweld.torch.emitter import TRANSLATIONS


@cache
def _core() -> dict[Any, Callable[..., Any]]:
    return dict(core_aten_decompositions().items())


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Those of core ATen, without the operators that Opweld has whole, and users' own."""
    whole = {each for each in TRANSLATIONS if isinstance(each, torch._ops.OpOverload)}
    kept = {operator: body for operator, body in _core().items() if operator not in whole}
    return kept | BODIES
