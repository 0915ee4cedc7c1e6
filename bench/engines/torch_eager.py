"""PyTorch, operator by operator."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from bench.bf16 import BF16
from bench.engines.base import CannotRunError, Engine, InProcess, Task


class TorchEager(Engine):
    """The twin of a model, called under `torch.no_grad`."""

    name = "torch eager"
    reads_onnx = False

    def version(self) -> str:
        """See the base class."""
        return f"torch {torch.__version__}"

    def load(self, task: Task) -> InProcess:
        """See the base class."""
        torch.set_num_threads(task.threads)
        torch.set_grad_enabled(False)
        module = twin_of(task)
        inputs = [to_torch(value) for value in task.inputs.values()]
        start = time.perf_counter()
        call = self.compile(module, task)
        first = call(*inputs)
        # Compilation happens in the first call.
        taken = time.perf_counter() - start
        outputs = {
            name: to_numpy(value).copy() for name, value in zip(task.outputs, first, strict=True)
        }
        return InProcess(lambda: call(*inputs), outputs, taken)

    def compile(self, module: torch.nn.Module, task: Task) -> Callable[..., object]:
        """What is called in place of the module."""
        return module


def twin_of(task: Task) -> torch.nn.Module:
    """The task's model as a module, with the weights of the ONNX file."""
    if task.twin is None:
        raise CannotRunError("there is no PyTorch counterpart of this model")
    kind = getattr(importlib.import_module(task.twin.module), task.twin.name)
    model = onnx.load(task.model)
    weights = {tensor.name: _tensor(tensor) for tensor in model.graph.initializer}
    return kind(weights, **task.twin.sizes).eval()


def _tensor(initializer: onnx.TensorProto) -> torch.Tensor:
    return to_torch(np.array(numpy_helper.to_array(initializer)))


def to_torch(array: np.ndarray) -> torch.Tensor:
    """A tensor over the array's memory."""
    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """An array over the tensor's memory."""
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(BF16)
    return tensor.numpy()
