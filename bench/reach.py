"""How far fusion reaches: kernels and bytes of single layers at every level, as a table.

    python -m bench.reach            # plans alone
    python -m bench.reach --run      # and runs each, and holds what was counted against the plan

Layers of Llama 2 7B in both spellings and of a mixture of experts shaped like Mixtral at half its
width, both f16, and of BERT-base in f32. Kernels, launches and boundary bytes are `totals` of
`opweld explain --json`, streamed bytes its `predicted`. With --run the first three are held against
those of `opweld bench --json`, which counts what it runs; where they differ by anything, the
command fails.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.models import (
    bert_layer,
    encoder,
    graph_writer,
    llama_layer,
    llama_newest,
    llama_primitives,
    llama_spelling,
    mixtral_layer,
)
from bench.models.cache import BUILD, digest_of, made_once
from bench.models.encoder import Config as BertConfig
from bench.models.llama_layer import Variant
from bench.models.llama_spelling import Config
from bench.models.mixtral_layer import Experts
from bench.models.moe_layer import Mixture, moe_models
from bench.opweld_command import explain_model, opweld

# What is compared: a name, and the flags that make it.
CONFIGURATIONS = {
    "none": ("--fusion=none",),
    "ops": ("--fusion=ops",),
    "auto": ("--fusion=auto",),
    "auto, chains of attention": ("--fusion=auto", "--attention-chains"),
    "auto, classic rules": ("--fusion=auto", "--rules=linear"),
}
SOURCES = [
    Path(module.__file__)
    for module in (
        bert_layer,
        encoder,
        graph_writer,
        llama_layer,
        llama_newest,
        llama_primitives,
        llama_spelling,
        mixtral_layer,
    )
]


@dataclass(frozen=True)
class Layer:
    """A model, and the sizes of its free dimensions."""

    name: str
    path: Path
    sizes: dict[str, int]

    @property
    def dims(self) -> list[str]:
        """The sizes as options."""
        return [f"--dim={name}={size}" for name, size in self.sizes.items()]


@dataclass(frozen=True)
class Counts:
    """Of a layer in one configuration."""

    kernels: int
    launches: int
    boundary_bytes: int
    streamed_bytes: float


def layers(tiny: bool) -> list[Layer]:
    """All that are compared; `tiny` ones have the same nodes, for tests."""
    if tiny:
        llama = Config(hidden=64, heads=4, kv_heads=4, mlp=96, positions=64, dtype="float16")
        mixtral = Config(hidden=64, heads=4, kv_heads=2, mlp=96, positions=64, dtype="float16")
        bert, tokens, most = BertConfig(48, 4, 1, 64, 1e-12), 32, 32
    else:
        llama = Config(dtype="float16")
        mixtral = Config(hidden=2048, heads=16, kv_heads=4, mlp=7168, dtype="float16")
        bert, tokens, most = BertConfig(768, 12, 1, 30522, 1e-12), 2048, 512
    experts = Experts(4 if tiny else 8)

    def write(folder: Path) -> None:
        llama_layer.write_models(folder / "llama", llama, variants)
        mixtral_layer.write_layer(folder / "mixtral", mixtral, experts)
        (folder / "bert").mkdir()
        bert_layer.write_layer(folder / "bert", bert)

    spellings = ("primitives", "newest")
    variants = [Variant(each, phase) for each in spellings for phase in ("prefill", "decode")]
    folder = BUILD / "models" / ("reach-tiny" if tiny else "reach")
    made_once(folder, digest_of(llama, mixtral, experts, bert, files=SOURCES), write)
    prefill = {"batch": 1, "sequence": tokens}
    decode = {"batch": 1, "sequence": 1, "past": tokens - 1}
    found = [
        Layer(
            f"Llama 2 7B, {each.spelling}, {each.phase}",
            folder / "llama" / each.file_name,
            decode if each.phase == "decode" else prefill,
        )
        for each in variants
    ]
    found.append(Layer("BERT-base", folder / "bert" / "model.onnx", prefill | {"sequence": most}))
    mixed = folder / "mixtral" / "model.onnx"
    found.append(Layer("Mixtral-like, operator MoE, prefill", mixed, prefill))
    found.append(Layer("Mixtral-like, operator MoE, one token", mixed, prefill | {"sequence": 1}))
    # The mixture alone, since it is spelled out there alone; f32, a quarter of Mixtral's width.
    mixture = Mixture(16, 24, 3) if tiny else Mixture(1024, 3584, 8)
    for spelling in ("fused", "branches"):
        path = moe_models(mixture)[spelling]
        found.append(Layer(f"mixture of experts, {spelling}", path, {"tokens": tokens}))
    return found


def planned(layer: Layer, *flags: str) -> Counts:
    """What the plan says."""
    account = explain_model(layer.path, *layer.dims, *flags)
    totals = account["totals"]
    return Counts(
        totals["kernels"],
        totals["launches"],
        totals["read_bytes"] + totals["written_bytes"],
        account["predicted"]["streamed_bytes"],
    )


def executed(layer: Layer, *flags: str) -> Counts:
    """What a run on random inputs has counted; streamed bytes nothing counts, so these are 0."""
    counted = json.loads(opweld("bench", layer.path, "--json", "--repeats=1", *layer.dims, *flags))
    moved = counted["read_bytes"] + counted["written_bytes"]
    return Counts(counted["kernels"], counted["launches"], moved, 0)


def check(layer: Layer, *flags: str) -> None:
    """Fails where a run counts anything but what its plan says."""
    plan, run = planned(layer, *flags), executed(layer, *flags)
    if (plan.kernels, plan.launches, plan.boundary_bytes) != (
        run.kernels,
        run.launches,
        run.boundary_bytes,
    ):
        raise SystemExit(f"{layer.name} {' '.join(flags)}: planned {plan}, counted {run}")


def rows(tiny: bool, run: bool) -> Iterator[str]:
    """The table's lines. Where a configuration gives what the one before gave, it is left out."""
    yield "| layer | fusion | kernels | launches | read and written | streamed |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for layer in layers(tiny):
        sizes = ", ".join(f"{name} {size}" for name, size in layer.sizes.items())
        counts: dict[str, Counts] = {}
        for name, flags in CONFIGURATIONS.items():
            if run:
                check(layer, *flags)
            counts[name] = planned(layer, *flags)
            if name == "auto, chains of attention" and counts[name] == counts["auto"]:
                continue
            told = counts[name]
            first = f"{layer.name} ({sizes})" if name == "none" else ""
            yield (
                f"| {first} | {name} | {told.kernels} | {told.launches} "
                f"| {told.boundary_bytes / 1e9:.3f} GB | {told.streamed_bytes / 1e9:.3f} GB |"
            )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.reach",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tiny", action="store_true", help="small layers of the same nodes")
    parser.add_argument("--run", action="store_true", help="run each, and compare what it counts")
    arguments = parser.parse_args()
    for line in rows(arguments.tiny, arguments.run):
        print(line, flush=True)


if __name__ == "__main__":
    main()
