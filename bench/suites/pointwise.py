"""Chains of pointwise operators, in memory and within the caches."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.case import Case, Twin
from bench.models.text_model import normal, shape_text, text_model
from bench.suites.streaming import streaming_case

TOLERANCE = 1e-5
TWINS = "bench.twins.pointwise"


def pointwise(tiny: bool, threads: int) -> list[Case]:
    """Pointwise chains, SwiGLU, GELU and RoPE, in fp32."""
    del threads
    if tiny:
        return [chain(3, 40), swiglu(3, 40), gelu(3, 40), rope(2, 5, 8)]
    return [
        chain(8192, 4096),
        chain(128, 4096),
        swiglu(2048, 11008),
        swiglu(32, 11008),
        gelu(8192, 4096),
        gelu(128, 4096),
        rope(32, 8192, 128),
        rope(32, 128, 128),
    ]


def chain(rows: int, columns: int) -> Case:
    """Scale and shift by columns, tanh, gate by a sigmoid, residual."""
    shape = (rows, columns)
    model = text_model(
        f"chain {rows} {columns}",
        f"""chain ({shape_text(shape)} x) => ({shape_text(shape)} y) {{
          scaled = Mul(x, scale)
          shifted = Add(scaled, shift)
          bent = Tanh(shifted)
          gate = Sigmoid(x)
          gated = Mul(bent, gate)
          y = Add(gated, x)
        }}""",
        {"scale": normal(1, columns), "shift": normal(2, columns)},
    )
    return _case(f"chain {rows} x {columns}", model, {"x": normal(0, *shape)}, 1, "Chain")


def swiglu(rows: int, columns: int) -> Case:
    """SwiGLU of two tensors: gate sigmoid(gate) up."""
    shape = (rows, columns)
    of = shape_text(shape)
    model = text_model(
        f"swiglu {rows} {columns}",
        f"""swiglu ({of} gate, {of} up) => ({of} y) {{
          opening = Sigmoid(gate)
          silu = Mul(gate, opening)
          y = Mul(silu, up)
        }}""",
    )
    inputs = {"gate": normal(0, *shape), "up": normal(1, *shape)}
    return _case(f"SwiGLU {rows} x {columns}", model, inputs, 1, "SwiGlu")


def gelu(rows: int, columns: int) -> Case:
    """GELU in its exact form, as exported to primitives: x (1 + erf(x / sqrt(2))) / 2."""
    shape = (rows, columns)
    constants = {"root": 2**0.5, "one": 1.0, "half": 0.5}
    model = text_model(
        f"gelu {rows} {columns}",
        f"""gelu ({shape_text(shape)} x) => ({shape_text(shape)} y) {{
          scaled = Div(x, root)
          bent = Erf(scaled)
          shifted = Add(bent, one)
          product = Mul(x, shifted)
          y = Mul(product, half)
        }}""",
        {name: np.array(value, np.float32) for name, value in constants.items()},
    )
    return _case(f"GELU {rows} x {columns}", model, {"x": normal(0, *shape)}, 1, "Gelu")


def rope(heads: int, length: int, size: int) -> Case:
    """Rotary positions in halves, as exported: x cos + concat(-x2, x1) sin."""
    shape = (1, heads, length, size)
    half = size // 2
    angles = np.outer(np.arange(length), 10000.0 ** -(np.arange(half) / half))
    twice = np.concatenate([angles, angles], axis=1)
    bounds = {"start": 0, "middle": half, "end": size, "axis": 3}
    model = text_model(
        f"rope {heads} {length} {size}",
        f"""rope ({shape_text(shape)} x) => ({shape_text(shape)} y) {{
          straight = Mul(x, cos)
          first = Slice(x, start, middle, axis)
          second = Slice(x, middle, end, axis)
          negative = Neg(second)
          turned = Concat<axis = -1>(negative, first)
          across = Mul(turned, sin)
          y = Add(straight, across)
        }}""",
        {
            "cos": np.cos(twice).astype(np.float32),
            "sin": np.sin(twice).astype(np.float32),
            **{name: np.array([value], np.int64) for name, value in bounds.items()},
        },
    )
    name = f"RoPE {heads} x {length} x {size}"
    return _case(name, model, {"x": normal(0, *shape)}, 1, "Rope")


def _case(name: str, model: Path, inputs: dict[str, np.ndarray], outputs: int, twin: str) -> Case:
    return streaming_case(name, model, inputs, outputs, Twin(TWINS, twin, tunable=False), TOLERANCE)
