"""Attention by itself: prefill and decode."""

from __future__ import annotations

from bench.case import Case, Target, Twin, Work
from bench.models.text_model import normal, shape_text, text_model

TOLERANCE = 1e-4

# Heads, head size, queries, keys, causal. Eight heads, of which every core has work; decode has the
# 32 heads of Llama 2 7B. One head over 4096 and 16384 keys is for the table of memory, which shows
# who keeps scores: those of the latter take 1 GiB.
SHAPES = [
    (8, 64, 512, 512, False),
    (8, 64, 2048, 2048, True),
    (8, 128, 512, 512, False),
    (8, 128, 1024, 1024, True),
    (8, 128, 4096, 4096, False),
    (8, 128, 4096, 4096, True),
    (1, 64, 4096, 4096, False),
    (1, 64, 16384, 16384, False),
    (32, 128, 1, 512, False),
    (32, 128, 1, 4096, False),
]


def attention(tiny: bool, threads: int) -> list[Case]:
    """softmax(q k^T / sqrt(head)) v in fp32, as the one operator of opset 23."""
    del threads
    shapes = [(2, 8, 5, 5, False), (2, 8, 9, 9, True), (2, 8, 1, 7, False)] if tiny else SHAPES
    return [attend(*shape) for shape in shapes]


def attend(heads: int, size: int, queries: int, keys: int, causal: bool) -> Case:
    """One case; a causal one of equal lengths needs half of the products, and the diagonal."""
    query, key = (1, heads, queries, size), (1, heads, keys, size)
    word = " causal" if causal else ""
    name = f"heads {heads} of {size}, {queries} x {keys}{word}"
    model = text_model(
        f"attention {name}",
        f"""attention ({shape_text(query)} q, {shape_text(key)} k, {shape_text(key)} v)
            => ({shape_text(query)} y) {{
          y = Attention<is_causal = {int(causal)}>(q, k, v)
        }}""",
        opset=23,
    )
    pairs = queries * (queries + 1) / 2 if causal else queries * keys
    work = Work(
        read_bytes=4 * heads * size * (queries + 2 * keys),
        written_bytes=4 * heads * size * queries,
        flops=4 * heads * size * pairs,
    )
    return Case(
        name,
        model,
        {"q": normal(0, *query), "k": normal(1, *key), "v": normal(2, *key)},
        TOLERANCE,
        work,
        Twin("bench.twins.attention", "Attention", {"causal": causal}),
        target=Target(floor=0.70 if queries > 1 else 0.90),
    )
