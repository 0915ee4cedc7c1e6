"""Norms and softmax over rows, in memory and within the caches."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.case import Case, Twin
from bench.models.text_model import normal, shape_text, text_model
from bench.suites.streaming import streaming_case

TOLERANCE = 1e-4
TWINS = "bench.twins.norms"
EPSILON = 1e-5


def norms(tiny: bool, threads: int) -> list[Case]:
    """RMSNorm with its residual, LayerNorm and softmax, in fp32."""
    del threads
    if tiny:
        return [rms_norm(3, 40), layer_norm(3, 40), softmax(3, 40)]
    return [
        rms_norm(4096, 4096),
        rms_norm(64, 4096),
        layer_norm(8192, 4096),
        layer_norm(128, 4096),
        softmax(8192, 4096),
        softmax(128, 4096),
    ]


def rms_norm(rows: int, columns: int) -> Case:
    """The sum h = x + r and h / sqrt(mean(h^2) + eps) * gamma, as exported to primitives."""
    shape = (rows, columns)
    of = shape_text(shape)
    scalars = {"two": 2.0, "epsilon": EPSILON, "one": 1.0}
    model = text_model(
        f"rms norm {rows} {columns}",
        f"""rms_norm ({of} x, {of} r) => ({of} h, {of} y) {{
          h = Add(x, r)
          squared = Pow(h, two)
          mean = ReduceMean<axes = [-1]>(squared)
          shifted = Add(mean, epsilon)
          root = Sqrt(shifted)
          inverse = Div(one, root)
          normed = Mul(h, inverse)
          y = Mul(normed, gamma)
        }}""",
        {
            "gamma": normal(2, columns),
            **{name: np.array(value, np.float32) for name, value in scalars.items()},
        },
    )
    inputs = {"x": normal(0, *shape), "r": normal(1, *shape)}
    return _case(f"RMSNorm + residual {rows} x {columns}", model, inputs, 2, "RmsNorm")


def layer_norm(rows: int, columns: int) -> Case:
    """LayerNorm as one operator."""
    of = shape_text((rows, columns))
    model = text_model(
        f"layer norm {rows} {columns}",
        f"""layer_norm ({of} x) => ({of} y) {{
          y = LayerNormalization<axis = -1, epsilon = {EPSILON}>(x, gamma, beta)
        }}""",
        {"gamma": normal(1, columns), "beta": normal(2, columns)},
    )
    inputs = {"x": normal(0, rows, columns)}
    return _case(f"LayerNorm {rows} x {columns}", model, inputs, 1, "LayerNorm")


def softmax(rows: int, columns: int) -> Case:
    """Softmax over the last axis."""
    of = shape_text((rows, columns))
    model = text_model(
        f"softmax {rows} {columns}", f"softmax ({of} x) => ({of} y) {{ y = Softmax<axis = -1>(x) }}"
    )
    inputs = {"x": normal(0, rows, columns)}
    return _case(f"softmax {rows} x {columns}", model, inputs, 1, "Softmax")


def _case(name: str, model: Path, inputs: dict[str, np.ndarray], outputs: int, twin: str) -> Case:
    torch_twin = Twin(TWINS, twin, {"epsilon": EPSILON}, tunable=False)
    return streaming_case(name, model, inputs, outputs, torch_twin, TOLERANCE)
