"""Cases whose floor is traffic: inputs read once, results as large as the first one written."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.case import Case, Target, Twin, Work

# Inputs and outputs together take 256 MB or more, which no core's own caches hold. A last-level
# cache may be larger; the floor is that of copying as many bytes, whatever keeps them.
BEYOND_BYTES = 256 << 20
BEYOND = Target(floor=0.90, ratio=1.0)


def streaming_case(
    name: str,
    model: Path,
    inputs: dict[str, np.ndarray],
    outputs: int,
    twin: Twin,
    tolerance: float,
) -> Case:
    """A case of `outputs` results as large as the first input; a target only beyond the caches."""
    read = sum(value.nbytes for value in inputs.values())
    written = outputs * next(iter(inputs.values())).nbytes
    target = BEYOND if read + written >= BEYOND_BYTES else Target()
    return Case(name, model, inputs, tolerance, Work(read, written), twin, target=target)
