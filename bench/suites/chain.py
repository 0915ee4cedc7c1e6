"""Feed-forwards and norms before matmuls, in one kernel and in one for each matmul."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.case import Case, Twin, Work
from bench.models.text_model import normal, shape_text, text_model

# Of MiniLM, of BERT-base, and of a small Llama: width and inner width.
ENCODERS = [(384, 1536), (768, 3072)]
DECODERS = [(2048, 5632)]
# A norm and the matmul behind it: width and columns, as of Q, K and V side by side.
NORMED = [(768, 2304), (2048, 6144)]
ROWS = [64, 128, 192, 512, 2048]
# Where the planner may leave chains, they are timed as well.
FEW_ROWS = 192

EPSILON = 1e-5
TWINS = "bench.twins.chain"
# Weights are such that elements are about as large as standard normal numbers.
TOLERANCE = 1e-3
SCALARS = {"two": 2.0, "epsilon": EPSILON, "one": 1.0}


def chain(tiny: bool, threads: int) -> list[Case]:
    """Feed-forwards, and a norm with its matmul, in fp32: as chains and in separate kernels."""
    del threads
    if tiny:
        return [encoder_half(5, 24, 40), decoder_half(5, 24, 40), normed_product(5, 24, 40)]
    return [
        *(encoder_half(rows, *sizes) for sizes in ENCODERS for rows in ROWS),
        *(decoder_half(rows, *sizes) for sizes in DECODERS for rows in ROWS),
        *(normed_product(rows, *sizes) for sizes in NORMED for rows in (128, 512)),
    ]


def encoder_half(rows: int, width: int, inner: int) -> Case:
    """LayerNorm(x + gelu(x W + b) V + c), as behind the attention of an encoder."""
    of = shape_text((rows, width))
    model = text_model(
        f"encoder feed forward {rows} {width} {inner}",
        f"""feed_forward ({of} x) => ({of} y) {{
          wide = MatMul(x, up)
          biased = Add(wide, up_bias)
          active = Gelu(biased)
          narrow = MatMul(active, down)
          shifted = Add(narrow, down_bias)
          h = Add(shifted, x)
          y = LayerNormalization<axis = -1, epsilon = {EPSILON}>(h, gamma, beta)
        }}""",
        {
            "up": weight(1, width, inner),
            "up_bias": normal(2, inner),
            "down": weight(3, inner, width),
            "down_bias": normal(4, width),
            "gamma": normal(5, width),
            "beta": normal(6, width),
        },
        opset=20,
    )
    name = f"encoder {width}/{inner}, {rows} rows"
    return _case(name, model, (rows, width), width, 2 * width * inner, "EncoderHalf")


def decoder_half(rows: int, width: int, inner: int) -> Case:
    """X + (silu(n G) * (n U)) D with n the RMSNorm of x, as behind the attention of a decoder."""
    of = shape_text((rows, width))
    model = text_model(
        f"decoder feed forward {rows} {width} {inner}",
        f"""feed_forward ({of} x) => ({of} y) {{
          {RMS_NORM}
          gate = MatMul(n, gate_weight)
          value = MatMul(n, up_weight)
          chance = Sigmoid(gate)
          active = Mul(gate, chance)
          gated = Mul(active, value)
          narrow = MatMul(gated, down_weight)
          y = Add(x, narrow)
        }}""",
        {
            "gate_weight": weight(1, width, inner),
            "up_weight": weight(2, width, inner),
            "down_weight": weight(3, inner, width),
            **norm_weights(width),
        },
    )
    name = f"decoder {width}/{inner}, {rows} rows"
    return _case(name, model, (rows, width), width, 3 * width * inner, "DecoderHalf")


def normed_product(rows: int, width: int, columns: int) -> Case:
    """The RMSNorm of x, times W."""
    given, result = shape_text((rows, width)), shape_text((rows, columns))
    model = text_model(
        f"normed product {rows} {width} {columns}",
        f"""normed ({given} x) => ({result} y) {{
          {RMS_NORM}
          y = MatMul(n, w)
        }}""",
        {"w": weight(1, width, columns), **norm_weights(width)},
    )
    name = f"RMSNorm and {width} x {columns}, {rows} rows"
    return _case(name, model, (rows, width), columns, width * columns, "NormedProduct")


# As exported to primitives.
RMS_NORM = """squared = Pow(x, two)
          mean = ReduceMean<axes = [-1]>(squared)
          shifted = Add(mean, epsilon)
          root = Sqrt(shifted)
          inverse = Div(one, root)
          normed = Mul(x, inverse)
          n = Mul(normed, gamma)"""


def weight(seed: int, depth: int, columns: int) -> np.ndarray:
    """A matrix that keeps the size of what it multiplies."""
    return normal(seed, depth, columns) / np.float32(depth**0.5)


def norm_weights(width: int) -> dict[str, np.ndarray]:
    """What RMS_NORM reads besides x."""
    scalars = {name: np.array(value, np.float32) for name, value in SCALARS.items()}
    return {"gamma": normal(7, width), **scalars}


def _case(
    name: str, model: Path, given: tuple[int, int], columns: int, weights: int, twin: str
) -> Case:
    """Each row meets each weight once; what is between the matmuls need not move."""
    rows, width = given
    work = Work(
        read_bytes=4 * (weights + rows * width),
        written_bytes=4 * rows * columns,
        flops=2 * rows * weights,
    )
    return Case(
        name,
        model,
        {"x": normal(0, rows, width)},
        TOLERANCE,
        work,
        Twin(TWINS, twin, {"epsilon": EPSILON}),
        without=("chain",),
        chains=rows <= FEW_ROWS,
    )
