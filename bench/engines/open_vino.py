"""OpenVINO on its CPU plug-in, held to the precision of the case."""

from __future__ import annotations

import time

import numpy as np
import openvino

from bench.bf16 import BF16
from bench.engines.base import CannotRunError, Engine, InProcess, Task

# On processors with bf16 units the plug-in would compute in bf16 of its own accord.
PRECISIONS = {"fp32": "f32", "bf16": "bf16"}


class OpenVino(Engine):
    """The model is bound to the shapes of the inputs, which is what it does best with."""

    name = "openvino"

    def version(self) -> str:
        """See the base class."""
        return f"openvino {openvino.__version__.split('-')[0]}"

    def load(self, task: Task) -> InProcess:
        """See the base class."""
        start = time.perf_counter()
        core = openvino.Core()
        try:
            model = core.read_model(task.model)
        except RuntimeError as error:
            # The reason comes last, after the place in the source.
            raise CannotRunError(str(error).strip().splitlines()[-1].lstrip("- ")) from error
        model.reshape({name: list(value.shape) for name, value in task.inputs.items()})
        configuration = {
            "INFERENCE_PRECISION_HINT": PRECISIONS[task.precision],
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": task.threads,
        }
        compiled = core.compile_model(model, "CPU", configuration)
        taken = time.perf_counter() - start
        request = compiled.create_infer_request()
        for name, value in task.inputs.items():
            request.set_tensor(name, shared_tensor(value))
        request.infer()
        outputs = {name: array_of(request.get_tensor(name)) for name in task.outputs}
        # Without sharing, Python would copy each result once more.
        return InProcess(lambda: request.infer(share_outputs=True), outputs, taken, (task,))


def shared_tensor(value: np.ndarray) -> openvino.Tensor:
    """A tensor over the array's memory; OpenVINO takes bf16 as the bits of another type."""
    if value.dtype != BF16:
        return openvino.Tensor(value, shared_memory=True)
    bits = value.view(np.uint16)
    return openvino.Tensor(bits, openvino.Shape(bits.shape), openvino.Type.bf16)


def array_of(tensor: openvino.Tensor) -> np.ndarray:
    """A copy of a tensor's elements."""
    if tensor.element_type != openvino.Type.bf16:
        return tensor.data.copy()
    return tensor.data.view(np.uint16).view(BF16).copy()
