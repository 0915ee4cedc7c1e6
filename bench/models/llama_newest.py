"""A Llama layer in the operators of opset 24."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from bench.models.llama_spelling import Spelling


class NewestSpelling(Spelling):
    """One operator for each part of the layer."""

    opset = 24

    def norm(self, tensor: str, gamma: str) -> str:
        """See the base class."""
        return self.graph.node(
            "RMSNormalization", tensor, gamma, axis=-1, epsilon=self.config.norm_epsilon
        )

    def silu(self, tensor: str) -> str:
        """See the base class."""
        return self.graph.node("Swish", tensor)

    def attention(
        self, query: str, key: str, value: str, past: Sequence[str], present: Sequence[str]
    ) -> str:
        """See the base class."""
        query = self._rotate(query, self.config.heads)
        key = self._rotate(key, self.config.kv_heads)
        operands = [query, key, value]
        if past:
            operands += ["", *past]
        attributes = {
            "is_causal": 1,
            "q_num_heads": self.config.heads,
            "kv_num_heads": self.config.kv_heads,
            "softmax_precision": TensorProto.FLOAT,
        }
        # The first output has no name of its own among the graph's outputs.
        return self.graph.node("Attention", *operands, outputs=[None, *present], **attributes)

    def _rotate(self, tensor: str, heads: int) -> str:
        cos, sin = (self.graph.weight(f"rotary.{name}") for name in ("cos", "sin"))
        return self.graph.node("RotaryEmbedding", tensor, cos, sin, "position_ids", num_heads=heads)
