"""Matmuls and attention in bf16, whose sums are fp32."""

from __future__ import annotations

from bench.bf16 import rounded
from bench.case import Case, Target, Twin, Work
from bench.models.text_model import normal, text_model

# Rows, depth, columns: squares, then shapes of Llama 2 7B at 128 tokens, and its decoding.
SHAPES = [
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (128, 4096, 4096),
    (128, 4096, 11008),
    (8, 4096, 4096),
    (1, 4096, 4096),
]
# Heads, head size, queries, keys, causal.
ATTENTION = [
    (8, 64, 512, 512, False),
    (8, 128, 1024, 1024, True),
    (8, 128, 4096, 4096, True),
    (32, 128, 1, 4096, False),
]
# Weights are such that elements are about as large as standard normal numbers, below 8: two results
# that differ in the last of eight bits differ by that much.
TOLERANCE = 2**-5


def bf16(tiny: bool, threads: int) -> list[Case]:
    """Matmuls of bf16 by constants in bf16, fp32 rows by bf16 weights, and attention in bf16."""
    del threads
    if tiny:
        shapes, mixed = [(5, 33, 18), (1, 64, 32)], [(3, 33, 18)]
        attended = [(2, 8, 5, 5, False), (2, 8, 9, 9, True), (2, 8, 1, 7, False)]
    else:
        shapes, mixed, attended = SHAPES, [(128, 4096, 4096), (1, 4096, 4096)], ATTENTION
    return [
        *(product(*shape) for shape in shapes),
        *(mixed_product(*shape) for shape in mixed),
        *(attend(*shape) for shape in attended),
    ]


def product(rows: int, depth: int, columns: int) -> Case:
    """X W, all of it bf16."""
    model = text_model(
        f"bf16 matmul {rows} {depth} {columns}",
        f"matmul (bfloat16[{rows}, {depth}] x) => (bfloat16[{rows}, {columns}] y) "
        "{ y = MatMul(x, w) }",
        {"w": rounded(normal(1, depth, columns) / depth**0.5)},
    )
    work = Work(
        read_bytes=2 * depth * (rows + columns),
        written_bytes=2 * rows * columns,
        flops=2 * rows * depth * columns,
        precision="bf16",
    )
    large = min(rows, depth, columns) >= 256
    return Case(
        f"{rows} x {depth} x {columns}",
        model,
        {"x": rounded(normal(0, rows, depth))},
        TOLERANCE,
        work,
        Twin("bench.twins.matmul", "MatMul"),
        target=Target(floor=0.75) if large else Target(floor=0.90) if rows == 1 else Target(),
    )


def mixed_product(rows: int, depth: int, columns: int) -> Case:
    """X W with x in fp32 and weights kept in bf16: products are fp32, the weights half as large."""
    model = text_model(
        f"bf16 weights {rows} {depth} {columns}",
        f"matmul (float[{rows}, {depth}] x) => (float[{rows}, {columns}] y) {{\n"
        "  wide = Cast<to = 1>(w)\n  y = MatMul(x, wide)\n}",
        {"w": rounded(normal(1, depth, columns) / depth**0.5)},
    )
    work = Work(
        read_bytes=depth * (4 * rows + 2 * columns),
        written_bytes=4 * rows * columns,
        flops=2 * rows * depth * columns,
    )
    return Case(
        f"fp32 {rows} x {depth}, bf16 weights x {columns}",
        model,
        {"x": normal(0, rows, depth)},
        1e-4,
        work,
        Twin("bench.twins.matmul", "MixedMatMul"),
    )


def attend(heads: int, size: int, queries: int, keys: int, causal: bool) -> Case:
    """softmax(q k^T / sqrt(head)) v with all tensors in bf16, as the one operator of opset 23."""
    query, key = (1, heads, queries, size), (1, heads, keys, size)
    word = " causal" if causal else ""
    name = f"heads {heads} of {size}, {queries} x {keys}{word}"
    q, k = (f"bfloat16[{', '.join(map(str, shape))}]" for shape in (query, key))
    model = text_model(
        f"bf16 attention {name}",
        f"""attention ({q} q, {k} k, {k} v) => ({q} y) {{
          y = Attention<is_causal = {int(causal)}>(q, k, v)
        }}""",
        opset=23,
    )
    pairs = queries * (queries + 1) / 2 if causal else queries * keys
    work = Work(
        read_bytes=2 * heads * size * (queries + 2 * keys),
        written_bytes=2 * heads * size * queries,
        flops=4 * heads * size * pairs,
        precision="bf16",
    )
    inputs = {"q": normal(0, *query), "k": normal(1, *key), "v": normal(2, *key)}
    return Case(
        name,
        model,
        {given: rounded(value) for given, value in inputs.items()},
        TOLERANCE,
        work,
        Twin("bench.twins.attention", "Attention", {"causal": causal}),
    )
