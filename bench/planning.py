"""How long planning takes: models of 1,000 and of 10,000 nodes, without any code being made.

    python -m bench.planning

Two kinds of models, as far apart as they come. A *decoder* repeats a layer in the spelling of an
exporter of opset 17, so that what is known of one layer holds for all. *Irregular* ones are random
graphs of rows of 768 numbers: pointwise operators, softmax, norms, products and sums, that read
what came before at random; no two places are alike. Times are what `opweld explain` takes of a
processor, from reading the file to writing the account, all on one thread, so that it does not
matter what else the machine does; and which share of it the planner has, by `--passes`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.models.cache import BUILD
from bench.models.llama_layer import Variant, write_models
from bench.models.llama_spelling import Config
from bench.opweld_command import opweld

WIDTH = 768
# Nodes of the file that one layer of a decoder makes.
NODES_OF_LAYER = 106
DECODERS = (1_000, 10_000)
IRREGULAR = (200,)


@dataclass(frozen=True)
class Times:
    """Of one model, in seconds."""

    nodes: int  # as planned
    kernels: int
    seconds: float  # of a processor
    planner: float  # its share


def irregular(nodes: int, seed: int = 1) -> str:
    """A random graph of about so many operators, constants apart."""
    generator = random.Random(seed)
    lines: list[str] = []
    values = ["%x0", "%x1"]
    read: set[str] = set()

    def pick() -> str:
        recent = values[-6:] if generator.random() < 0.7 else values
        value = generator.choice(recent)
        read.add(value)
        return value

    def constant(*shape: int) -> str:
        name = f"%c{len(lines)}"
        sizes = ", ".join(map(str, shape))
        lines.append(f"{name} = constant {{value = f32[{sizes}] random {len(lines)}}}")
        return name

    def pointwise() -> str:
        return f"{generator.choice(('tanh', 'neg', 'sigmoid', 'abs', 'silu', 'gelu'))}({pick()})"

    def pair() -> str:
        return f"{generator.choice(('add', 'mul', 'sub', 'max'))}({pick()}, {pick()})"

    def softmax() -> str:
        return f"softmax({pick()}) {{axis = 1}}"

    def norm() -> str:
        return f"rms_norm({pick()}, {constant(WIDTH)}) {{axis = -1, epsilon = 1e-06}}"

    def product() -> str:
        return f"matmul({pick()}, {constant(WIDTH, WIDTH)})"

    def row_sum() -> str:
        value = pick()
        name = f"%s{len(lines)}"
        lines.append(f"{name} = reduce_sum({value}) {{axes = [1], keepdims = 1}}")
        return f"add({value}, {name})"

    makers: list[Callable[[], str]] = [
        *[pointwise] * 4,
        *[pair] * 4,
        softmax,
        norm,
        product,
        row_sum,
    ]
    while sum(" = constant " not in line for line in lines) < nodes:
        text = generator.choice(makers)()
        name = f"%v{len(lines)}"
        lines.append(f"{name} = {text}")
        values.append(name)
    outputs = [value for value in values[2:] if value not in read]
    returned = ", ".join(f'{value} as "y{index}"' for index, value in enumerate(outputs))
    body = "\n  ".join([*lines, f"return {returned}"])
    return f"graph irregular(%x0: f32[n, {WIDTH}], %x1: f32[n, {WIDTH}]) {{\n  {body}\n}}\n"


def decoder(nodes: int) -> Path:
    """The model of a decoder whose file has about so many nodes."""
    config = Config(
        hidden=64, heads=4, kv_heads=4, mlp=96, positions=64, layers=nodes // NODES_OF_LAYER
    )
    folder = BUILD / "models" / f"planning-{nodes}"
    return write_models(folder, config, [Variant("primitives", "prefill")])[0]


def irregular_file(nodes: int) -> Path:
    """The text of a random graph of so many operators."""
    path = BUILD / "models" / f"planning-irregular-{nodes}.graph"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(irregular(nodes))
    return path


def measured(model: Path) -> Times:
    """The best of three."""
    found = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        account = json.loads(opweld("explain", model, "--json", "--passes"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        passes = account["passes"]
        share = passes["plan"] / sum(passes.values())
        found.append(Times(account["nodes"], account["totals"]["kernels"], seconds, share))
    return min(found, key=lambda each: each.seconds)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.planning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args()
    print("| model | nodes when planned | kernels | all | planner |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for kind, sizes, make in (
        ("decoder", DECODERS, decoder),
        ("irregular", IRREGULAR, irregular_file),
    ):
        for nodes in sizes:
            times = measured(make(nodes))
            print(
                f"| {kind} of {nodes:,} | {times.nodes:,} | {times.kernels:,} "
                f"| {times.seconds:.2f} s | {times.planner:.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
