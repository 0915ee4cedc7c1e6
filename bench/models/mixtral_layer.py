"""Writes a decoder layer shaped like Mixtral as an ONNX file, with seeded random weights.

The attention of `bench/models/llama_layer.py` with fewer heads of keys and values, and instead of
its feed-forward a router and experts, of which each token meets the best two: the operator MoE of
com.microsoft. Keys and values are kept as outputs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.models.graph_writer import GraphWriter, WeightFile, value_info
from bench.models.llama_layer import attention_part, norm, present_names, rotary_tables
from bench.models.llama_newest import NewestSpelling
from bench.models.llama_spelling import Config

LAYER = "model.layers.0"


@dataclass(frozen=True)
class Experts:
    """How many there are, and how many of them a token meets."""

    count: int = 8
    chosen: int = 2


def write_layer(folder: Path, config: Config, experts: Experts) -> Path:
    """Writes `model.onnx` and its weights; `config.mlp` is the width inside an expert."""
    config.check()
    folder.mkdir(parents=True, exist_ok=True)
    weights = WeightFile(folder / "weights.data")
    _write_weights(weights, config, experts)
    weights.close()
    graph = GraphWriter(NewestSpelling.opset, weights)
    spelling = NewestSpelling(graph, config, with_past=False)
    with graph.scope("model/layers.0"):
        hidden = attention_part(spelling, LAYER, "hidden_states", [], present_names(0))
        normed = norm(spelling, f"{LAYER}.post_attention_layernorm", hidden)
        with graph.scope("block_sparse_moe"):
            rows = graph.reshape(normed, -1, config.hidden)
            logits = graph.node("MatMul", rows, graph.weight(f"{LAYER}.router.weight"))
            mixed = graph.node(
                "MoE",
                normed,
                logits,
                graph.weight(f"{LAYER}.experts.gate_up.weight"),
                "",
                graph.weight(f"{LAYER}.experts.down.weight"),
                domain="com.microsoft",
                k=experts.chosen,
                normalize_routing_weights=1,
                activation_type="swiglu",
                swiglu_fusion=1,
                activation_alpha=1.0,
                activation_beta=0.0,
            )
        graph.node("Add", hidden, mixed, outputs=["last_hidden_state"])
    path = folder / "model.onnx"
    tokens = ["batch", "sequence"]
    kept = ["batch", config.kv_heads, "sequence", config.head]
    graph.save(
        path,
        "mixtral_layer",
        [
            value_info("hidden_states", config.dtype, [*tokens, config.hidden]),
            value_info("position_ids", np.int64, tokens),
        ],
        [
            value_info("last_hidden_state", config.dtype, [*tokens, config.hidden]),
            *(value_info(name, config.dtype, kept) for name in present_names(0)),
        ],
    )
    return path


def _write_weights(weights: WeightFile, config: Config, experts: Experts) -> None:
    def random(name: str, shape: Sequence[int], mean: float, deviation: float) -> None:
        generator = np.random.default_rng([config.seed, zlib.crc32(name.encode())])
        value = generator.standard_normal(shape, np.float32)
        value *= np.float32(deviation)
        value += np.float32(mean)
        weights.add(f"{LAYER}.{name}.weight", value.astype(config.dtype))

    for name, shape in config.matrices().items():
        if name.startswith("self_attn"):
            random(name, shape, 0.0, shape[0] ** -0.5)
    # [experts, out, in]; rows of gate and up take turns.
    random(
        "experts.gate_up", [experts.count, 2 * config.mlp, config.hidden], 0, config.hidden**-0.5
    )
    random("experts.down", [experts.count, config.hidden, config.mlp], 0, config.mlp**-0.5)
    random("router", [config.hidden, experts.count], 0.0, config.hidden**-0.5)
    for name in ("input_layernorm", "post_attention_layernorm"):
        random(name, [config.hidden], 1.0, 0.1)
    for name, table in rotary_tables(config).items():
        weights.add(f"rotary.{name}", table.astype(config.dtype))
