"""Opweld: automatic operator fusion for transformer inference.

A model file, compiled and called with arrays of numpy or of any library that speaks DLPack:

    import opweld

    program = opweld.compile("model.onnx")
    (logits,) = program(tokens)
    print(program.explain(batch=1, sequence=128))

A PyTorch model, for which nothing of this package need be imported:

    compiled = torch.compile(model, backend="opweld")

`opweld.torch` tells what that backend did and why. PyTorch is imported by that module alone, and
numpy only to hand out arrays to those who gave some.
"""

from typing import TYPE_CHECKING, Any

from opweld._core import (
    DType,
    Error,
    GraphBuilder,
    GraphTensor,
    KernelCheck,
    OutputCheck,
    PluginInfo,
    RunReport,
    TensorInfo,
    UsageError,
    load_plugin,
    loaded_plugins,
)
from opweld.account import Account
from opweld.program import Model, Program, Stats, compile, load, load_program, parse
from opweld.verification import Verification

if TYPE_CHECKING:
    from opweld.torch import custom_op, explain

__all__ = [
    "Account",
    "DType",
    "Error",
    "GraphBuilder",
    "GraphTensor",
    "KernelCheck",
    "Model",
    "OutputCheck",
    "PluginInfo",
    "Program",
    "RunReport",
    "Stats",
    "TensorInfo",
    "UsageError",
    "Verification",
    "compile",
    "custom_op",
    "explain",
    "load",
    "load_plugin",
    "load_program",
    "loaded_plugins",
    "parse",
]


def __getattr__(name: str) -> Any:
    """What needs PyTorch, which is imported where that is asked for and not before."""
    if name in ("custom_op", "explain"):
        from opweld import torch

        return getattr(torch, name)
    raise AttributeError(f"module 'opweld' has no attribute '{name}'")
