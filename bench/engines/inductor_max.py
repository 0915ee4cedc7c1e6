"""Inductor with `max-autotune`: it writes matmuls of its own and keeps the fastest of many."""

from __future__ import annotations

from collections.abc import Callable

import torch

from bench.engines.base import CannotRunError, Task
from bench.engines.inductor import Inductor


class InductorMax(Inductor):
    """Where there is nothing to tune it would be Inductor again, and is not timed twice."""

    name = "inductor max-autotune"
    mode = "max-autotune"

    def compile(self, module: torch.nn.Module, task: Task) -> Callable[..., object]:
        """See the base class."""
        if not task.twin.tunable:
            raise CannotRunError("without a matmul to tune it is the same as inductor")
        return super().compile(module, task)
