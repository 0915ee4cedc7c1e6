"""Writes encoder layers shaped like BERT as an ONNX file, with seeded random weights.

The nodes are those of the pretrained encoder (`bench/models/encoder.py`), at any width.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from bench.models import encoder, graph_writer
from bench.models.cache import BUILD, digest_of, made_once
from bench.models.encoder import OPSET, Config, attention_mask, encoder_layer
from bench.models.graph_writer import GraphWriter, WeightFile, value_info


def ensure_layer(config: Config) -> Path:
    """The layer's file below `build/`."""
    folder = BUILD / "models" / "arena" / f"bert-{config.hidden_size}"
    sources = [Path(__file__), Path(encoder.__file__), Path(graph_writer.__file__)]
    key = digest_of(config, files=sources)
    return made_once(folder, key, lambda to: write_layer(to, config)) / "model.onnx"


def write_layer(folder: Path, config: Config) -> None:
    """Writes `model.onnx` and its weights into `folder`; all layers have the same ones."""
    hidden, mlp = config.hidden_size, 4 * config.hidden_size
    layers = range(config.num_hidden_layers)
    weights = WeightFile(folder / "model.onnx.data")

    def random(name: str, mean: float, deviation: float, *shape: int) -> None:
        # Seeded by name, so that a weight does not depend on which others there are.
        generator = np.random.default_rng(zlib.crc32(name.encode()))
        value = generator.standard_normal(shape, np.float32) * np.float32(deviation)
        for layer in layers:
            weights.add(f"encoder.layer.{layer}.{name}", value + np.float32(mean))

    for name, rows, columns in (
        ("attention.self.query", hidden, hidden),
        ("attention.self.key", hidden, hidden),
        ("attention.self.value", hidden, hidden),
        ("attention.output.dense", hidden, hidden),
        ("intermediate.dense", hidden, mlp),
        ("output.dense", mlp, hidden),
    ):
        # So that a unit input keeps about its size.
        random(f"{name}.weight", 0.0, rows**-0.5, rows, columns)
        random(f"{name}.bias", 0.0, 0.1, columns)
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        random(f"{name}.weight", 1.0, 0.1, hidden)
        random(f"{name}.bias", 0.0, 0.1, hidden)
    weights.close()
    graph = GraphWriter(OPSET, weights)
    output = "last_hidden_state"
    mask, states = attention_mask(graph), "hidden_states"
    for layer in layers:
        last = layer == layers[-1]
        states = encoder_layer(graph, config, layer, states, mask, output if last else None)
    tokens = ["batch", "sequence"]
    shape = [*tokens, hidden]
    graph.save(
        folder / "model.onnx",
        "bert_layer",
        [
            value_info("hidden_states", np.float32, shape),
            value_info("attention_mask", np.int64, tokens),
        ],
        [value_info(output, np.float32, shape)],
    )


def random_inputs(config: Config, batch: int, length: int) -> dict[str, np.ndarray]:
    """Normal hidden states, and a mask without padding."""
    generator = np.random.default_rng(1)
    return {
        "hidden_states": generator.standard_normal((batch, length, config.hidden_size), np.float32),
        "attention_mask": np.ones((batch, length), np.int64),
    }
