"""Element types of PyTorch and of Opweld."""

import torch

from opweld._core import DType
from opweld.torch.sizes import Unsupported

NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}

DTYPES = {name: dtype for dtype, name in NAMES.items()}
HALVES = ("f16", "bf16")
FLOATS = ("f64", "f32", *HALVES)

ENUM = {
    "f64": DType.F64,
    "f32": DType.F32,
    "f16": DType.F16,
    "bf16": DType.BF16,
    "i64": DType.I64,
    "i32": DType.I32,
    "i16": DType.I16,
    "i8": DType.I8,
    "u8": DType.U8,
    "bool": DType.Bool,
}


def name_of(dtype: torch.dtype) -> str:
    """The name of a dtype of PyTorch, "f32" for torch.float32.

    Raises:
        Unsupported: Opweld has no such dtype.
    """
    if dtype not in NAMES:
        raise Unsupported(f"Opweld has no {dtype}")
    return NAMES[dtype]
