"""PyTorch's own compiler, Inductor, with its default settings for inference."""

from __future__ import annotations

import os
from collections.abc import Callable

from bench.engines.base import Task
from bench.models.cache import BUILD

# Read when the module below is imported.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(BUILD / "bench" / "inductor"))

import torch
import torch._dynamo
import torch._inductor.config

from bench.engines.torch_eager import TorchEager


class Inductor(TorchEager):
    """`torch.compile` with weights frozen, so that it may pack and fold them."""

    name = "inductor"
    mode = "default"

    def compile(self, module: torch.nn.Module, task: Task) -> Callable[..., object]:
        """See the base class."""
        torch._inductor.config.freezing = True
        torch._dynamo.reset()
        return torch.compile(module, mode=self.mode, fullgraph=True, dynamic=False)
