"""OpenVINO on its CPU plug-in, held to fp32."""

from __future__ import annotations

import time

import openvino

from bench.engines.base import Engine, InProcess, Task

# On processors with bf16 units the plug-in would compute in bf16 of its own accord.
CONFIGURATION = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}


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
        model = core.read_model(task.model)
        model.reshape({name: list(value.shape) for name, value in task.inputs.items()})
        configuration = CONFIGURATION | {"INFERENCE_NUM_THREADS": task.threads}
        compiled = core.compile_model(model, "CPU", configuration)
        taken = time.perf_counter() - start
        request = compiled.create_infer_request()
        for name, value in task.inputs.items():
            request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
        request.infer()
        outputs = {name: request.get_tensor(name).data.copy() for name in task.outputs}
        # Without sharing, Python would copy each result once more.
        return InProcess(lambda: request.infer(share_outputs=True), outputs, taken, (task,))
