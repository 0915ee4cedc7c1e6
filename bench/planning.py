"""How long planning takes: models of 1,000 and of 10,000 nodes, without any code being made.

    python -m bench.planning

Two kinds of models, as far apart as they come. A *decoder* repeats a layer in the spelling of an
exporter of opset 17, so that what is known of one layer holds for all. *Irregular* ones are random
graphs of rows of 768 numbers: pointwise operators, softmax, norms, products and sums, that read
what came before at random; no two places are alike. Times are seconds of a processor in user mode
that `opweld explain` takes from reading the file to writing the account, all on one thread and
without plans that were kept; and how many of them the planner has, by `--passes`. Beside them
stands how often schedules were asked, and by how much the search made what the kernels are expected
to take less than greedy merging did.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.models.cache import BUILD
from bench.models.llama_layer import Variant, write_models
from bench.models.llama_spelling import Config
from bench.opweld_command import opweld

WIDTH = 768
# Weights of each shape: what is in them makes no difference to a plan, and reading them takes time.
CONSTANTS = 8
# Nodes of the file that one layer of a decoder makes.
NODES_OF_LAYER = 106
DECODERS = (1_000, 10_000)
IRREGULAR = (200, 1_000, 10_000)


@dataclass(frozen=True)
class Times:
    """Of one model, in seconds."""

    nodes: int  # as planned
    kernels: int
    seconds: float  # of a processor
    planner: float  # of those
    questions: int  # to schedules
    gain: float  # of the search


def irregular(nodes: int, seed: int = 1) -> str:
    """A random graph of about so many operators, constants apart."""
    generator = random.Random(seed)
    lines: list[str] = []
    values = ["%x0", "%x1"]
    constants: dict[str, list[str]] = {}
    read: set[str] = set()

    def pick() -> str:
        recent = values[-6:] if generator.random() < 0.7 else values
        value = generator.choice(recent)
        read.add(value)
        return value

    def constant(*shape: int) -> str:
        sizes = ", ".join(map(str, shape))
        known = constants.setdefault(sizes, [])
        if len(known) < CONSTANTS:
            known.append(f"%c{len(lines)}")
            lines.append(f"{known[-1]} = constant {{value = f32[{sizes}] random {len(lines)}}}")
        known.append(known.pop(0))  # each in turn
        return known[-1]

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
        start = time.perf_counter()
        account = json.loads(opweld("explain", model, "--json", "--passes"))
        elapsed = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime
        search = account["search"]
        found.append(
            Times(
                account["nodes"],
                account["totals"]["kernels"],
                seconds,
                seconds * account["passes"]["plan"] / elapsed,
                search["questions"],
                1 - search["seconds"] / search["greedy_seconds"],
            )
        )
    return min(found, key=lambda each: each.seconds)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.planning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args()
    os.environ["OPWELD_COMPILED"] = "0"  # a plan that was kept is found, not made
    print("| model | nodes when planned | kernels | all | planner | questions | search gains |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind, sizes, make in (
        ("decoder", DECODERS, decoder),
        ("irregular", IRREGULAR, irregular_file),
    ):
        for nodes in sizes:
            times = measured(make(nodes))
            print(
                f"| {kind} of {nodes:,} | {times.nodes:,} | {times.kernels:,} "
                f"| {times.seconds:.2f} s | {times.planner:.2f} s "
                f"| {times.questions:,} | {times.gain:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
