"""Writes decoder layers shaped like Llama 2 as ONNX files, with seeded random weights.

The default is one layer of the 7B model: 4096 wide, 32 heads of 128, a feed-forward of 11008,
RMSNorm, rotary positions (halves), causal attention. Every size can be changed, so that tests use
tiny ones. Each model comes in two spellings with the same weights and the same meaning:

  primitives  what an exporter of opset 17 leaves: norms as Pow, ReduceMean, Sqrt, Div, Mul;
              attention as MatMul, Div, Add, Softmax, MatMul; rotation as Slice, Neg, Concat
  newest      the operators of opset 24: RMSNormalization, RotaryEmbedding, Attention, Swish

and for three phases of inference, all with free `batch` and `sequence`:

  whole       a whole sequence, nothing kept
  prefill     a whole sequence, keys and values kept as outputs
  decode      further tokens, after `past` tokens whose keys and values are inputs

    python -m bench.models.llama_layer build/models/llama-7b
    python -m bench.models.llama_layer /tmp/tiny --hidden 64 --heads 4 --mlp 96 --phase decode
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.models.graph_writer import GraphWriter, WeightFile, value_info
from bench.models.llama_newest import NewestSpelling
from bench.models.llama_primitives import PrimitiveSpelling
from bench.models.llama_spelling import Config, Spelling

SPELLINGS: dict[str, type[Spelling]] = {
    "primitives": PrimitiveSpelling,
    "newest": NewestSpelling,
}
PHASES = ("whole", "prefill", "decode")


@dataclass(frozen=True)
class Variant:
    """One model of the family that shares a weight file."""

    spelling: str
    phase: str

    @property
    def file_name(self) -> str:
        """The model's file inside the family's folder."""
        return f"{self.spelling}-{self.phase}.onnx"


def write_models(folder: Path, config: Config, variants: Sequence[Variant]) -> list[Path]:
    """Writes the shared weights and a model file for each variant into `folder`."""
    config.check()
    folder.mkdir(parents=True, exist_ok=True)
    weights = WeightFile(folder / "weights.data")
    _write_weights(weights, config)
    weights.close()
    return [_write_model(folder, config, variant, weights) for variant in variants]


def random_inputs(
    config: Config, phase: str, batch: int, sequence: int, past: int = 0, seed: int = 1
) -> dict[str, np.ndarray]:
    """Inputs for a model of that phase, of about the size that the real model sees."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(config.dtype)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32).astype(dtype)

    positions = np.arange(past, past + sequence, dtype=np.int64)
    inputs = {
        "hidden_states": normal(batch, sequence, config.hidden),
        "position_ids": np.tile(positions, (batch, 1)),
    }
    if phase == "decode":
        for layer in range(config.layers):
            for name in past_names(layer):
                inputs[name] = normal(batch, config.kv_heads, past, config.head)
    return inputs


def past_names(layer: int) -> list[str]:
    """The inputs that hold a layer's keys and values of earlier tokens."""
    return [f"past_key_values.{layer}.{part}" for part in ("key", "value")]


def present_names(layer: int) -> list[str]:
    """The outputs that hold a layer's keys and values of all tokens so far."""
    return [f"present.{layer}.{part}" for part in ("key", "value")]


def _write_weights(weights: WeightFile, config: Config) -> None:
    dtype = np.dtype(config.dtype)

    def random(name: str, shape: Sequence[int], mean: float, deviation: float) -> None:
        # Seeded by name, so that a weight does not depend on which others there are.
        generator = np.random.default_rng([config.seed, zlib.crc32(name.encode())])
        value = generator.standard_normal(shape, np.float32)
        value *= np.float32(deviation)
        value += np.float32(mean)
        weights.add(name, value.astype(dtype))

    for layer in range(config.layers):
        path = f"model.layers.{layer}"
        for name, shape in config.matrices().items():
            # The deviation that Llama starts its training from, at the width of the 7B model.
            random(f"{path}.{name}.weight", shape, 0.0, 0.02 * (4096 / config.hidden) ** 0.5)
        for name in ("input_layernorm", "post_attention_layernorm"):
            random(f"{path}.{name}.weight", [config.hidden], 1.0, 0.1)
    for name, table in rotary_tables(config).items():
        weights.add(f"rotary.{name}", table.astype(dtype))
        # Models built on rotate-half keep each angle twice, once for either half of a head.
        weights.add(f"rotary.{name}.twice", np.concatenate([table, table], axis=1).astype(dtype))


def rotary_tables(config: Config) -> dict[str, np.ndarray]:
    """Cosine and sine of position / base^(2 i / head), [positions, head / 2]."""
    exponents = np.arange(0, config.head, 2, dtype=np.float64) / config.head
    positions = np.arange(config.positions, dtype=np.float64)
    angles = np.outer(positions, config.rope_base**-exponents)
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


def _write_model(folder: Path, config: Config, variant: Variant, weights: WeightFile) -> Path:
    kind = SPELLINGS[variant.spelling]
    graph = GraphWriter(kind.opset, weights)
    spelling = kind(graph, config, with_past=variant.phase == "decode")
    keeps = variant.phase != "whole"
    hidden = "hidden_states"
    for layer in range(config.layers):
        past = past_names(layer) if variant.phase == "decode" else []
        present = present_names(layer) if keeps else []
        output = "last_hidden_state" if layer == config.layers - 1 else None
        hidden = _decoder_layer(spelling, layer, hidden, past, present, output)
    path = folder / variant.file_name
    name = f"llama_{variant.spelling}_{variant.phase}"
    graph.save(path, name, _inputs(config, variant.phase), _outputs(config, variant.phase))
    return path


def attention_part(
    spelling: Spelling, path: str, hidden: str, past: Sequence[str], present: Sequence[str]
) -> str:
    """Norm, attention and residual of the layer whose weights' names begin with `path`."""
    graph = spelling.graph
    normed = norm(spelling, f"{path}.input_layernorm", hidden)
    query, key, value = (_linear(graph, f"{path}.self_attn.{part}_proj", normed) for part in "qkv")
    with graph.scope("self_attn"):
        context = spelling.attention(query, key, value, past, present)
    return graph.node("Add", hidden, _linear(graph, f"{path}.self_attn.o_proj", context))


def norm(spelling: Spelling, module: str, tensor: str) -> str:
    """The norm of that name, in the spelling's operators."""
    with spelling.graph.scope(module.rsplit(".", maxsplit=1)[1]):
        return spelling.norm(tensor, spelling.graph.weight(f"{module}.weight"))


def _linear(graph: GraphWriter, module: str, tensor: str) -> str:
    # Scopes begin below the layer: model.layers.0.mlp.up_proj.
    with graph.scope("/".join(module.split(".")[3:])):
        return graph.node("MatMul", tensor, graph.weight(f"{module}.weight"))


def _decoder_layer(
    spelling: Spelling,
    layer: int,
    hidden: str,
    past: Sequence[str],
    present: Sequence[str],
    output: str | None,
) -> str:
    """Attention and feed-forward, each after a norm and added to what came in."""
    graph = spelling.graph
    with graph.scope(f"model/layers.{layer}"):
        path = f"model.layers.{layer}"
        hidden = attention_part(spelling, path, hidden, past, present)
        normed = norm(spelling, f"{path}.post_attention_layernorm", hidden)
        gate = _linear(graph, f"{path}.mlp.gate_proj", normed)
        with graph.scope("mlp/act_fn"):
            gate = spelling.silu(gate)
        up = _linear(graph, f"{path}.mlp.up_proj", normed)
        with graph.scope("mlp"):
            product = graph.node("Mul", gate, up)
        reduced = _linear(graph, f"{path}.mlp.down_proj", product)
        return graph.node("Add", hidden, reduced, outputs=[output])


def _inputs(config: Config, phase: str) -> list:
    tokens = ["batch", "sequence"]
    inputs = [
        value_info("hidden_states", config.dtype, [*tokens, config.hidden]),
        value_info("position_ids", np.int64, tokens),
    ]
    if phase == "decode":
        shape = ["batch", config.kv_heads, "past", config.head]
        for layer in range(config.layers):
            inputs += [value_info(name, config.dtype, shape) for name in past_names(layer)]
    return inputs


def _outputs(config: Config, phase: str) -> list:
    outputs = [value_info("last_hidden_state", config.dtype, ["batch", "sequence", config.hidden])]
    if phase != "whole":
        length = "total" if phase == "decode" else "sequence"
        shape = ["batch", config.kv_heads, length, config.head]
        for layer in range(config.layers):
            outputs += [value_info(name, config.dtype, shape) for name in present_names(layer)]
    return outputs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.models.llama_layer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="where the models and weights.data go")
    parser.add_argument("--hidden", type=int, default=4096, help="width of the residual stream")
    parser.add_argument("--heads", type=int, default=32, help="query heads")
    parser.add_argument("--kv-heads", type=int, help="key and value heads (default: as --heads)")
    parser.add_argument("--mlp", type=int, default=11008, help="width of the feed-forward")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--positions", type=int, default=4096, help="length of the rotary tables")
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32")
    parser.add_argument("--seed", type=int, default=0)
    choices = {"spelling": list(SPELLINGS), "phase": list(PHASES)}
    for name, values in choices.items():
        parser.add_argument(
            f"--{name}", choices=values, action="append", help="may be repeated (default: all)"
        )
    return parser


def main() -> None:
    """Writes the models that the command line asks for."""
    arguments = _parser().parse_args()
    config = Config(
        hidden=arguments.hidden,
        heads=arguments.heads,
        kv_heads=arguments.kv_heads or arguments.heads,
        mlp=arguments.mlp,
        layers=arguments.layers,
        positions=arguments.positions,
        dtype=arguments.dtype,
        seed=arguments.seed,
    )
    variants = [
        Variant(spelling, phase)
        for spelling in arguments.spelling or SPELLINGS
        for phase in arguments.phase or PHASES
    ]
    try:
        paths = write_models(arguments.folder, config, variants)
    except ValueError as error:
        raise SystemExit(f"llama_layer: {error}") from error
    for path in paths:
        print(path)


if __name__ == "__main__":
    main()
