"""A Llama layer in the primitive operators that an exporter of opset 17 leaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from bench.models.graph_writer import GraphWriter
from bench.models.llama_spelling import Config, Spelling


class PrimitiveSpelling(Spelling):
    """Norm, rotation, mask and attention spelled out; statistics and softmax in fp32."""

    opset = 17

    def __init__(self, graph: GraphWriter, config: Config, with_past: bool) -> None:
        super().__init__(graph, config, with_past)
        with graph.scope("model"):
            self.mask = self._causal_mask()
            self.cos, self.sin = (self._table_rows(name) for name in ("cos", "sin"))

    def norm(self, tensor: str, gamma: str) -> str:
        """See the base class."""
        graph = self.graph
        wide = self._to_float32(tensor)
        squared = graph.node("Pow", wide, graph.constant(2.0, np.float32))
        mean = graph.node("ReduceMean", squared, axes=[-1])
        shifted = graph.node("Add", mean, graph.constant(self.config.norm_epsilon, np.float32))
        root = graph.node("Sqrt", shifted)
        inverse = graph.node("Div", graph.constant(1.0, np.float32), root)
        normed = self._from_float32(graph.node("Mul", wide, inverse))
        return graph.node("Mul", gamma, normed)

    def silu(self, tensor: str) -> str:
        """See the base class."""
        return self.graph.node("Mul", tensor, self.graph.node("Sigmoid", tensor))

    def attention(
        self, query: str, key: str, value: str, past: Sequence[str], present: Sequence[str]
    ) -> str:
        """See the base class."""
        graph, config = self.graph, self.config
        batch, length = graph.dimension(query, 0), graph.dimension(query, 1)

        def split_heads(tensor: str, heads: int, output: str | None = None) -> str:
            split = graph.reshape(tensor, batch, length, heads, config.head)
            return graph.node("Transpose", split, perm=[0, 2, 1, 3], outputs=[output])

        kept_key, kept_value = present or (None, None)
        query = self._rotate(split_heads(query, config.heads))
        key = split_heads(key, config.kv_heads)
        if past:
            key, value = self._rotate(key), split_heads(value, config.kv_heads)
            key = graph.node("Concat", past[0], key, axis=2, outputs=[kept_key])
            value = graph.node("Concat", past[1], value, axis=2, outputs=[kept_value])
        else:
            key = self._rotate(key, kept_key)
            value = split_heads(value, config.kv_heads, kept_value)
        key, value = self._repeat_heads(key), self._repeat_heads(value)
        scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 1, 3, 2]))
        scores = graph.node("Div", scores, graph.constant(config.head**0.5, config.dtype))
        scores = graph.node("Add", scores, self.mask)
        weights = graph.node("Softmax", self._to_float32(scores), axis=-1)
        context = graph.node("MatMul", self._from_float32(weights), value)
        context = graph.node("Transpose", context, perm=[0, 2, 1, 3])
        return graph.reshape(context, batch, length, config.hidden)

    def _repeat_heads(self, tensor: str) -> str:
        """Gives each query head its own copy of the key or value head that it shares."""
        graph, config = self.graph, self.config
        repeats = config.heads // config.kv_heads
        if repeats == 1:
            return tensor
        batch, length = graph.dimension(tensor, 0), graph.dimension(tensor, 2)
        lifted = graph.node("Unsqueeze", tensor, graph.constant([2], np.int64))
        sizes = [graph.node("Unsqueeze", d, graph.constant([0], np.int64)) for d in (batch, length)]
        kv_heads, count, head = (
            graph.constant([size], np.int64) for size in (config.kv_heads, repeats, config.head)
        )
        shape = graph.node("Concat", sizes[0], kv_heads, count, sizes[1], head, axis=0)
        repeated = graph.node("Expand", lifted, shape)
        return graph.reshape(repeated, batch, config.heads, length, config.head)

    def _rotate(self, tensor: str, output: str | None = None) -> str:
        """Rotary positions in halves: x cos + concat(-x2, x1) sin."""
        graph, half = self.graph, self.config.head // 2
        axis, step = graph.constant([3], np.int64), graph.constant([1], np.int64)

        def part(start: int, end: int) -> str:
            bounds = (graph.constant([bound], np.int64) for bound in (start, end))
            return graph.node("Slice", tensor, *bounds, axis, step)

        straight = graph.node("Mul", tensor, self.cos)
        first, second = part(0, half), part(half, np.iinfo(np.int64).max)
        turned = graph.node("Concat", graph.node("Neg", second), first, axis=-1)
        turned = graph.node("Mul", turned, self.sin)
        return graph.node("Add", straight, turned, outputs=[output])

    def _table_rows(self, name: str) -> str:
        """The rows of a rotary table for this run's positions, [batch, 1, sequence, head]."""
        graph = self.graph
        rows = graph.node("Gather", graph.weight(f"rotary.{name}.twice"), "position_ids", axis=0)
        return graph.node("Unsqueeze", rows, graph.constant([1], np.int64))

    def _causal_mask(self) -> str:
        """0 where a key is not later than the query, else the lowest number, [1, 1, q, k]."""
        graph = self.graph
        first = graph.constant(0, np.int64)
        total = graph.dimension("hidden_states", 1)
        start = first
        if self.with_past:
            start = graph.dimension("past_key_values.0.key", 2)
            total = graph.node("Add", start, total)
        one = graph.constant(1, np.int64)
        keys = graph.node("Range", first, total, one)
        queries = graph.node("Range", start, total, one)
        queries = graph.node("Unsqueeze", queries, graph.constant([1], np.int64))
        later = graph.node("Greater", keys, queries)
        lowest = graph.constant(np.finfo(self.config.dtype).min, self.config.dtype)
        mask = graph.node("Where", later, lowest, graph.constant(0.0, self.config.dtype))
        return graph.node("Unsqueeze", mask, graph.constant([0, 1], np.int64))

    def _to_float32(self, tensor: str) -> str:
        if self.config.dtype == "float32":
            return tensor
        return self.graph.node("Cast", tensor, to=TensorProto.FLOAT)

    def _from_float32(self, tensor: str) -> str:
        if self.config.dtype == "float32":
            return tensor
        return self.graph.node("Cast", tensor, to=TensorProto.FLOAT16)
