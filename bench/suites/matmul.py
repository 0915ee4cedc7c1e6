"""Single matmuls with constant weights, as a fraction of what the machine can do."""

from __future__ import annotations

from bench.case import Case, Target, Twin, Work
from bench.models.text_model import normal, shape_text, text_model

# Rows, depth, columns: squares, then the shapes of MiniLM and of Llama 2 7B at 128 tokens.
SHAPES = [
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (128, 384, 384),
    (128, 384, 1536),
    (128, 1536, 384),
    (128, 4096, 4096),
    (8, 4096, 4096),
    (1, 4096, 4096),
]
# Sums of up to 4096 products of normal numbers: about 64, in fp32.
TOLERANCE = 1e-3


def matmul(tiny: bool, threads: int) -> list[Case]:
    """One fp32 matmul by a constant at a time."""
    shapes = [(5, 33, 18), (1, 33, 18)] if tiny else SHAPES
    return [product(*shape, threads) for shape in shapes]


def product(rows: int, depth: int, columns: int, threads: int) -> Case:
    """One product x W: each element has to be moved once, and each product added."""
    given, result = shape_text((rows, depth)), shape_text((rows, columns))
    model = text_model(
        f"matmul {rows} {depth} {columns}",
        f"matmul ({given} x) => ({result} y) {{ y = MatMul(x, w) }}",
        {"w": normal(1, depth, columns)},
    )
    work = Work(
        read_bytes=4 * depth * (rows + columns),
        written_bytes=4 * rows * columns,
        flops=2 * rows * depth * columns,
    )
    return Case(
        f"{rows} x {depth} x {columns}",
        model,
        {"x": normal(0, rows, depth)},
        TOLERANCE,
        work,
        Twin("bench.twins.matmul", "MatMul"),
        target=target_of(rows, depth, columns, threads),
    )


def target_of(rows: int, depth: int, columns: int, threads: int) -> Target:
    """What is aimed at where arithmetic decides, and for the one row of decoding."""
    if rows == 1:
        return Target(floor=0.90)
    if min(rows, depth, columns) >= 256:
        return Target(floor=0.95 if threads == 1 else 0.90)
    return Target()
