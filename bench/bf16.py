"""bf16 in numpy, which has no such type of its own."""

from __future__ import annotations

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)


def rounded(values: np.ndarray) -> np.ndarray:
    """fp32 to the nearest bf16, ties to even."""
    return values.astype(BF16)


def from_bits(array: np.ndarray) -> np.ndarray:
    """The array; as bf16 where it holds bits as uint16, which is no type of any model here."""
    return array.view(BF16) if array.dtype == np.uint16 else array
