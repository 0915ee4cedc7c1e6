"""Writes docs/models.md: what becomes of models of transformers.

First it is counted: kernels, operators in eager mode, compilations and differences, by compiling
small models here, by the backend of torch.compile and from a file that PyTorch exported, and
running them at several lengths against eager mode. Then larger ones are timed and their memory
measured, against eager mode and Inductor (bench/model_speed.py).

    ./dev bench models                         both; the second asks for a machine left alone
    ./dev bench models --only counts           the first table; times nothing
    ./dev bench models --only speed --models Qwen3 BERT
                                               prints tables of these, and writes no document
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
import transformers
from opweld.torch import account_of
from opweld.torch.account import GraphAccount
from opweld.torch.backend import observing
from opweld.torch.graph import CompiledGraph

from bench import model_speed
from bench.document import replaced
from bench.machine import describe_machine
from bench.models.cache import BUILD, ROOT
from bench.models.exported_transformers import compare_exported, kernels_of_last_layer
from bench.models.small_transformers import BATCH, MODELS, make, result

DOCUMENT = ROOT / "docs" / "models.md"

RESULTS = BUILD / "bench" / "models.json"
BEGIN = "<!-- What follows is written by ./dev bench models --only speed. -->"
END = "<!-- What precedes is written by ./dev bench models --only speed. -->"

HEAD = f"""# Models through torch.compile and ONNX

Written by `./dev bench models`; do not edit. Every model is made by transformers
{transformers.__version__} with two layers, 64 wide, and random weights
(`bench/models/small_transformers.py`), compiled by PyTorch {torch.__version__.split("+")[0]} with
`torch.compile(model, backend="opweld", dynamic=True)` without gradients, and run for a batch of
{BATCH} at the lengths shown, against eager mode. Sizes are small, kinds of operators are not: what
is counted here is what the full-sized models have, per layer.

- *programs*: parts of the model that are compiled as one; more than one where operators in eager
  mode stand between. `+` stands between graphs: PyTorch traces Mistral twice, since the model asks
  whether its window is shorter than the sequence, and attends by a mask from there on;
- *kernels*: of all programs, fused and unfused (`fusion="none"`);
- *compiled*: how many times a program was compiled, for all lengths together: as often as there are
  programs, unless a weight had changed;
- *difference*: the largest of any value to eager mode, over the largest value;
- *ONNX*: kernels of the same model from the file that
  `torch.onnx.export(model, dynamo=True, dynamic_shapes=...)` writes
  (`bench/models/exported_transformers.py`); one file and one compilation for all lengths.
  Experts are exported with `model.set_experts_implementation("batched_mm")`: for the operator that
  transformers has otherwise, PyTorch says `No ONNX function found`;
- *a layer*: kernels that begin in the last layer, by the backend (of the graph that was traced
  last) and from the file, both for the last of the lengths;
- *apart*: the difference of what the file gives.

"""
COLUMNS = (
    "model", "lengths", "programs", "kernels", "unfused", "compiled", "in eager mode", "difference",
    "ONNX", "a layer", "apart",
)  # fmt: skip
HEAD += f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"


def main(arguments: Sequence[str] = ()) -> None:
    """Makes the tables that are asked for, and writes them into the document if they are whole."""
    chosen = _parser().parse_args(arguments)
    if chosen.only != "speed":
        rows = []
        for name in chosen.models:
            rows.append(row(name))
            print(rows[-1], flush=True)
        if chosen.models == list(MODELS):
            write(rows)
    if chosen.only != "counts":
        report = measure(chosen.models, chosen.threads, chosen.rounds)
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
        print(measured_part(report))
        if chosen.models == list(MODELS):
            write_measured(report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev bench models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=["counts", "speed"], help="one part of the document")
    parser.add_argument(
        "--models",
        nargs="+",
        choices=list(MODELS),
        default=list(MODELS),
        metavar="NAME",
        help=f"only these of {', '.join(MODELS)}; tables are printed, no document is written",
    )
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=cores, help=f"of each engine ({cores})")
    parser.add_argument("--rounds", type=int, default=15, help="timed runs of each at most (15)")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        default=RESULTS,
        help="where what was measured goes (default: build/bench/models.json)",
    )
    return parser


def measure(names: Sequence[str], threads: int, rounds: int) -> dict:
    """Times and memory of models, with the machine, as is written to the JSON file."""
    machine = describe_machine()
    speeds, memories = [], []
    for name in names:
        measured, memory = model_speed.measure_model(name, threads, rounds)
        speeds += measured
        memories += [memory] if memory is not None else []
        print(model_speed.speed_table(measured), flush=True)
    return {
        "machine": machine,
        "settings": {"threads": threads, "rounds": rounds},
        **model_speed.as_json(speeds, memories),
    }


def measured_part(report: dict) -> str:
    """The second part of the document, from what measure() gave."""
    machine, sizes = report["machine"], model_speed.SIZES
    speeds, memories = model_speed.from_json(report)
    return f"""\
## Time and memory

`./dev bench models --only speed --rounds {report["settings"]["rounds"]}`,
{report["settings"]["threads"]} threads, on
{machine["processor"]} with {machine["cores"]} cores; when it began, {machine["load_before"]}
processes wanted a core. Models have {sizes.layers} layers, {sizes.width} wide ({sizes.inner} within
the feed-forward part, {sizes.experts} experts of {sizes.expert_inner}), and one input. Engines are
in processes of their own and take turns run by run; each has the same threads and huge pages.
Inductor has its weights frozen. All three compile for the very length (`dynamic=False`).

- *length*: of tokens; `1 behind n` is one step of decoding with a static cache;
- *compiling*: from the call of `torch.compile` to the first result, tracing included, with nothing
  kept from before, in a process that has compiled one small layer already;
- *running*: medians; *ratio to Inductor* below 1 says that Opweld is faster;
- *difference*: of Opweld to eager mode, of any value, over the largest.

{model_speed.speed_table(speeds)}

What compiling and one run add to the memory that a process has in use once the model has run in
eager mode, in MB, for a model and one of {model_speed.DEEPER} times the layers. The model keeps its
own weights, since they are PyTorch's: Opweld frees nothing of them, and what it packs comes on top.
*Held* is what stays, *peak* the most at once; *per byte* is how much each further byte of weights
adds, what LLVM and its code take being the same for both: 1 is the packed weights and nothing else.

{model_speed.memory_table(memories)}"""


def write(rows: list[str], document: Path = DOCUMENT) -> None:
    """The document with these rows counted; what was measured stays."""
    text = document.read_text(encoding="utf-8") if document.exists() else ""
    _, begin, rest = text.partition(BEGIN)
    measured = begin + rest if begin else f"{BEGIN}\n\n{END}\n"
    document.write_text(HEAD + "\n".join(rows) + "\n\n" + measured, encoding="utf-8")


def write_measured(report: dict, document: Path = DOCUMENT) -> None:
    """The document with these measurements; what was counted stays."""
    text = document.read_text(encoding="utf-8")
    document.write_text(replaced(text, measured_part(report), BEGIN, END), encoding="utf-8")


def row(name: str) -> str:
    """What is true of one model."""
    graphs, difference = compare(name)
    accounts = [account_of(graph) for graph in graphs]
    eager: dict[str, int] = {}
    for account in accounts:
        for operator in account.eager:
            label = operator.name.removesuffix(".default")
            eager[label] = eager.get(label, 0) + operator.count
    lengths = MODELS[name].lengths

    def of_each(counts: Iterable[int]) -> str:
        return " + ".join(map(str, counts))

    cells = [
        name,
        ", ".join(map(str, lengths)) if len(lengths) > 1 else "-",
        of_each(len(account.segments) for account in accounts),
        of_each(sum(len(segment.kernels) for segment in account.segments) for account in accounts),
        of_each(map(unfused_kernels, graphs)),
        of_each(graph.stats.compiles for graph in graphs),
        ", ".join(f"{count} `{operator}`" for operator, count in sorted(eager.items())) or "-",
        f"{difference:.1e}",
        *exported_cells(name, accounts),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def exported_cells(name: str, accounts: list[GraphAccount]) -> list[str]:
    """What is true of the model's file, beside what the backend made of the model."""
    try:
        file = compare_exported(name)
    except ValueError as error:
        return [str(error), "-", "-"]
    layer = kernels_of_last_layer(accounts[-1].segments[-1]) or "-"
    return [str(len(file.kernels)), f"{layer} / {file.layer}", f"{file.difference:.1e}"]


def unfused_kernels(graph: CompiledGraph) -> int:
    """How many there are where every operator is one."""
    return sum(
        len(program.account(segment.last_values())["kernels"])
        for segment, program in zip(graph.segments, graph.programs_with(fusion="none"), strict=True)
    )


def compare(name: str) -> tuple[list[CompiledGraph], float]:
    """Compiles and runs a model; its graphs, and the largest relative difference to eager mode."""
    torch._dynamo.reset()
    model = make(name)
    compiled = torch.compile(model, backend="opweld", dynamic=True)
    graphs: list[CompiledGraph] = []
    worst = 0.0
    with torch.no_grad(), observing(graphs.append):
        for length in MODELS[name].lengths:
            inputs = MODELS[name].inputs(length)
            expected = result(model(**inputs))
            actual = result(compiled(**inputs))
            apart = (actual - expected).abs().max() / expected.abs().max()
            worst = max(worst, float(apart))
    return graphs, worst
