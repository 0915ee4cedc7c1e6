"""Attention of decoding over KV caches: paged ones, and few heads of a long contiguous one."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from bench.case import Case, Target, Twin, Work
from bench.models.text_model import graph_file, normal, shape_text, text_model
from bench.suites.attention import TOLERANCE, attend

# Keys of each sequence, query heads, key heads, head size, keys of a page. Lengths are ragged but
# for the single sequences; pages are those of vLLM (16) and larger ones.
PAGED = [
    ([4096], 32, 32, 128, 16),
    ([16384], 8, 2, 128, 16),
    ([1024, 37, 512, 890, 256, 700, 129, 1000], 32, 8, 128, 16),
    ([2048, 1900, 65, 777, 1500, 300, 1024, 2000], 8, 8, 64, 64),
    ([128, 90, 17, 64, 100, 33, 128, 75, 5, 121, 48, 66, 99, 128, 12, 80], 32, 8, 128, 16),
]
# Heads and keys. There are fewer heads than it takes to keep cores busy, so keys are shared out.
SPLIT = [(2, 4096), (4, 4096), (2, 16384), (4, 16384)]
SPLIT_HEAD = 128

TWINS = "bench.twins.cache"


def cache(tiny: bool, threads: int) -> list[Case]:
    """Attention of one query a sequence over KV caches, in fp32: paged, and split over the keys.

    Over pages, Opweld runs its attention with a block table, from its own textual form, since ONNX
    has no word for that. Others run what they have at its best on the same inputs: keys and values
    gathered by the table, then their attention with a mask that hides what is past each length.
    ONNX Runtime and OpenVINO read that as Gather and the Attention of opset 23, and, as a second
    spelling, as Gather and primitives; PyTorch, eager and compiled, runs index_select and
    scaled_dot_product_attention, with the query heads of a key head as its queries, which is faster
    than repeated key heads.
    """
    del threads
    if tiny:
        return [paged([7, 2, 12], 4, 2, 8, 4), paged([9], 2, 2, 8, 3), attend(1, 8, 1, 40, False)]
    split = [attend(heads, SPLIT_HEAD, 1, keys, False) for heads, keys in SPLIT]
    return [*(paged(*each) for each in PAGED), *split]


def paged(lengths: list[int], heads: int, key_heads: int, size: int, page: int) -> Case:
    """One query of each sequence; pages lie in no order, and no table entry is used twice."""
    batch, most = len(lengths), max(lengths)
    width = -(-most // page)
    counts = [-(-length // page) for length in lengths]
    pages = sum(counts)
    order = np.random.default_rng(3).permutation(pages)
    # Past a length stands a page that there is: others gather it before they hide it.
    table = np.zeros((batch, width), np.int64)
    for row, (first, last) in enumerate(pairwise(accumulate(counts, initial=0))):
        table[row, : last - first] = order[first:last]
    inputs = {
        "q": normal(0, batch, heads, 1, size),
        "k": normal(1, pages, key_heads, page, size),
        "v": normal(2, pages, key_heads, page, size),
        "lengths": np.array(lengths, np.int64),
        "table": table,
    }
    sequences = f"{batch} x {min(lengths)} to {most}" if batch > 1 else f"1 x {most}"
    name = f"paged {heads}/{key_heads} heads of {size}, {sequences} keys, pages of {page}"
    keys = sum(lengths)
    work = Work(
        read_bytes=4 * (2 * keys * key_heads * size + batch * heads * size),
        written_bytes=4 * batch * heads * size,
        flops=4 * heads * size * keys,
    )
    gathered = Gathered(batch, heads, key_heads, size, page, width)
    return Case(
        name,
        gathered.model(name, gathered.attention()),
        inputs,
        TOLERANCE,
        work,
        Twin(TWINS, "PagedAttention"),
        spellings={"primitives": gathered.model(f"{name} primitives", gathered.primitives())},
        target=Target(floor=0.90),
        ours=_own_model(name, inputs),
    )


class Gathered:
    """The same in ONNX: the pages of each sequence are put side by side first."""

    def __init__(
        self, batch: int, heads: int, key_heads: int, size: int, page: int, width: int
    ) -> None:
        self.batch, self.heads, self.key_heads, self.size = batch, heads, key_heads, size
        self.page, self.width = page, width

    def model(self, name: str, attention: str) -> Path:
        """`attention` makes y of q, keys, values and seen [batch, 1, 1, keys]."""
        query = shape_text((self.batch, self.heads, 1, self.size))
        pages = f"float[pages, {self.key_heads}, {self.page}, {self.size}]"
        keys = self.width * self.page
        text = f"""paged ({query} q, {pages} k, {pages} v, int64[{self.batch}] lengths,
                       int64[{self.batch}, {self.width}] table) => ({query} y) {{
              {self._gather("k", "keys")}
              {self._gather("v", "values")}
              length = Unsqueeze(lengths, last_axes)
              seen = Less(positions, length)
              {attention}
            }}"""
        constants = {
            "side_by_side": np.array([self.batch, self.key_heads, keys, self.size]),
            "last_axes": np.array([1, 2, 3]),
            "positions": np.arange(keys),
            "by_key_head": np.array([self.batch, self.key_heads, -1, self.size]),
            "by_head": np.array([self.batch, self.heads, 1, self.size]),
            "scale": np.array(self.size**-0.5, np.float32),
            "nothing": np.array(0, np.float32),
            "hidden": np.array(-np.inf, np.float32),
        }
        used = {key: value for key, value in constants.items() if key in text}
        return text_model(name, text, used, opset=23)

    def attention(self) -> str:
        """As one operator."""
        return "y = Attention(q, keys, values, seen)"

    def primitives(self) -> str:
        """As products and a softmax, with the query heads of a key head side by side."""
        return """grouped = Reshape(q, by_key_head)
              scaled = Mul(grouped, scale)
              turned = Transpose<perm = [0, 1, 3, 2]>(keys)
              scores = MatMul(scaled, turned)
              bias = Where(seen, nothing, hidden)
              masked = Add(scores, bias)
              weights = Softmax<axis = -1>(masked)
              mixed = MatMul(weights, values)
              y = Reshape(mixed, by_head)"""

    def _gather(self, pages: str, result: str) -> str:
        return f"""{pages}_gathered = Gather<axis = 0>({pages}, table)
              {pages}_turned = Transpose<perm = [0, 2, 1, 3, 4]>({pages}_gathered)
              {result} = Reshape({pages}_turned, side_by_side)"""


def _own_model(name: str, inputs: dict[str, np.ndarray]) -> Path:
    """In Opweld's textual form; how many pages there are is free, as in a server."""
    (batch, heads, _, size), (_, key_heads, page, _) = inputs["q"].shape, inputs["k"].shape
    width = inputs["table"].shape[1]
    cached = f"f32[pages, {key_heads}, {page}, {size}]"
    scale = size**-0.5
    return graph_file(
        name,
        f"""graph paged(%q: f32[{batch}, {heads}, 1, {size}], %k: {cached}, %v: {cached},
            %lengths: i64[{batch}], %table: i64[{batch}, {width}]) {{
          %y = attention(%q, %k, %v, _, %lengths, _, %table) {{scale = {scale}}}
          return %y as "y"
        }}""",
    )
