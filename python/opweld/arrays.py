"""Arrays in and out: of numpy, PyTorch and whatever else speaks DLPack; none of them is needed."""

import sys
from collections.abc import Sequence
from typing import Any

from opweld import _core


def _numpy() -> Any:
    """The module, if the caller has imported it."""
    return sys.modules.get("numpy")


def _torch() -> Any:
    return sys.modules.get("torch")


def is_torch(array: object) -> bool:
    """Whether it is a tensor of PyTorch."""
    torch = _torch()
    return torch is not None and isinstance(array, torch.Tensor)


def is_numpy(array: object) -> bool:
    """Whether it is an array of numpy, or one of its scalars."""
    numpy = _numpy()
    return numpy is not None and isinstance(array, numpy.ndarray | numpy.generic)


def readable(array: Any) -> object:
    """What the core can read: bf16 of numpy as its bits, tensors without their gradients."""
    if is_torch(array):
        return array.detach()
    if is_numpy(array):
        array = _numpy().asarray(array)
        if array.dtype.name == "bfloat16":
            return (array.view(_numpy().uint16), "bf16")
        if not array.dtype.isnative:
            return array.astype(array.dtype.newbyteorder("="))
    return array


def _to_numpy(array: Any, dtype: str) -> Any:
    values = _numpy().from_dlpack(array)
    if dtype == "bf16":
        try:
            import ml_dtypes
        except ImportError:
            message = "numpy has no bf16; install ml_dtypes, or hand in tensors of PyTorch"
            raise _core.UsageError(message) from None
        return values.view(ml_dtypes.bfloat16)
    return values


def run(program: _core.Program, inputs: Sequence[Any]) -> tuple[list[Any], _core.RunReport, int]:
    """Outputs of the kind of the inputs, what the run did, and how many inputs it had to copy.

    Tensors of PyTorch give such tensors, arrays of numpy give those, and anything else gives what
    `from_dlpack` of any library takes. No output is copied.
    """
    wants_torch = any(is_torch(array) for array in inputs)
    wants_numpy = not wants_torch and any(is_numpy(array) for array in inputs)
    readables = [readable(array) for array in inputs]
    outputs, report, copies = program.run(readables, bits=wants_numpy)
    if wants_torch:
        outputs = [_torch().from_dlpack(output) for output in outputs]
    elif wants_numpy:
        dtypes = [info.dtype for info in program.outputs()]
        outputs = [_to_numpy(*each) for each in zip(outputs, dtypes, strict=True)]
    return outputs, report, copies
