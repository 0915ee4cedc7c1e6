"""What the two spellings of a Llama layer have in common: its sizes, and what they must supply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.models.graph_writer import GraphWriter


@dataclass(frozen=True)
class Config:
    """Sizes of the model; the defaults are one layer of Llama 2 7B."""

    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 32
    mlp: int = 11008
    layers: int = 1
    positions: int = 4096
    dtype: str = "float32"
    norm_epsilon: float = 1e-5
    rope_base: float = 10000.0
    seed: int = 0

    @property
    def head(self) -> int:
        """The width of one head."""
        return self.hidden // self.heads

    def check(self) -> None:
        """Raises ValueError when the sizes do not make a model."""
        sizes = (self.hidden, self.heads, self.kv_heads, self.mlp, self.layers, self.positions)
        if min(sizes) < 1:
            raise ValueError("every size must be at least 1")
        if self.hidden % self.heads or self.head % 2:
            raise ValueError(
                f"hidden ({self.hidden}) must be heads ({self.heads}) times an even number"
            )
        if self.heads % self.kv_heads:
            raise ValueError(
                f"heads ({self.heads}) must be a multiple of kv heads ({self.kv_heads})"
            )

    def matrices(self) -> dict[str, tuple[int, int]]:
        """The shape [in, out] of each linear layer, by module path."""
        kv_width = self.kv_heads * self.head
        return {
            "self_attn.q_proj": (self.hidden, self.hidden),
            "self_attn.k_proj": (self.hidden, kv_width),
            "self_attn.v_proj": (self.hidden, kv_width),
            "self_attn.o_proj": (self.hidden, self.hidden),
            "mlp.gate_proj": (self.hidden, self.mlp),
            "mlp.up_proj": (self.hidden, self.mlp),
            "mlp.down_proj": (self.mlp, self.hidden),
        }


class Spelling(ABC):
    """Writes the parts of a layer that can be said in more than one way."""

    opset: ClassVar[int]

    def __init__(self, graph: GraphWriter, config: Config, with_past: bool) -> None:
        self.graph = graph
        self.config = config
        self.with_past = with_past

    @abstractmethod
    def norm(self, tensor: str, gamma: str) -> str:
        """RMSNorm over the last axis, in fp32, times gamma."""

    @abstractmethod
    def silu(self, tensor: str) -> str:
        """The activation x sigmoid(x)."""

    @abstractmethod
    def attention(
        self, query: str, key: str, value: str, past: Sequence[str], present: Sequence[str]
    ) -> str:
        """Causal attention with rotary positions, [batch, sequence, hidden].

        The operands are [batch, sequence, heads * head]. `past` names the earlier keys and values
        [batch, kv_heads, past, head] or is empty; `present` names those of all tokens, to be
        written, or is empty.
        """
