"""ONNX Runtime on its CPU provider."""

from __future__ import annotations

import time

import onnxruntime

from bench.engines.base import Engine, InProcess, Task


class OnnxRuntime(Engine):
    """All graph optimisations, which is the default; free sizes are bound to those of the inputs.

    Threads are bound by the affinity of the process and not by the session.
    """

    name = "onnxruntime"

    def version(self) -> str:
        """See the base class."""
        return f"onnxruntime {onnxruntime.__version__}"

    def load(self, task: Task) -> InProcess:
        """See the base class."""
        start = time.perf_counter()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = task.threads
        options.inter_op_num_threads = 1
        for name, size in free_sizes(task).items():
            options.add_free_dimension_override_by_name(name, size)
        session = onnxruntime.InferenceSession(
            task.model, options, providers=["CPUExecutionProvider"]
        )
        taken = time.perf_counter() - start
        # Bound, so that no result is copied into an array of Python's.
        binding = session.io_binding()
        for name, value in task.inputs.items():
            binding.bind_cpu_input(name, value)
        for name in task.outputs:
            binding.bind_output(name, "cpu")
        session.run_with_iobinding(binding)
        outputs = dict(zip(task.outputs, binding.copy_outputs_to_cpu(), strict=True))
        return InProcess(lambda: session.run_with_iobinding(binding), outputs, taken, (task,))


def free_sizes(task: Task) -> dict[str, int]:
    """The free dimensions of the model's inputs, with their sizes in this task."""
    session = onnxruntime.InferenceSession(
        task.model, _without_optimisation(), providers=["CPUExecutionProvider"]
    )
    return {
        size: actual
        for given in session.get_inputs()
        for size, actual in zip(given.shape, task.inputs[given.name].shape, strict=True)
        if isinstance(size, str)
    }


def _without_optimisation() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options
