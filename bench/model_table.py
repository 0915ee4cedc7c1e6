"""Writes docs/models.md: what becomes of models of transformers; `./dev bench models`.

Nothing is timed. Kernels, operators in eager mode, compilations and differences are counted by
compiling each model here, by the backend of torch.compile and from a file that PyTorch exported,
and running it at several lengths against eager mode.
"""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from opweld.torch import account_of
from opweld.torch.account import GraphAccount
from opweld.torch.backend import observing
from opweld.torch.graph import CompiledGraph

from bench.models.cache import ROOT
from bench.models.exported_transformers import compare_exported, kernels_of_last_layer
from bench.models.small_transformers import BATCH, MODELS, make, result

DOCUMENT = ROOT / "docs" / "models.md"

HEAD = f"""# Models through torch.compile and ONNX

Written by `./dev bench models`; do not edit. Every model is made by transformers
{transformers.__version__} with two layers, 64 wide, and random weights
(`bench/models/small_transformers.py`), compiled by PyTorch {torch.__version__.split("+")[0]} with
`torch.compile(model, backend="opweld", dynamic=True)` without gradients, and run for a batch of
{BATCH} at the lengths shown, against eager mode. Sizes are small, kinds of operators are not: what
is counted here is what the full-sized models have, per layer.

- *programs*: parts of the model that are compiled as one; more than one where operators in eager
  mode stand between;
- *kernels*: of all programs, fused and unfused (`fusion="none"`);
- *compiled*: how many times a program was compiled, for all lengths together: as often as there are
  programs, unless PyTorch traced the model anew;
- *difference*: the largest of any value to eager mode, over the largest value;
- *ONNX*: kernels of the same model from the file that
  `torch.onnx.export(model, dynamo=True, dynamic_shapes=...)` writes
  (`bench/models/exported_transformers.py`); one file and one compilation for all lengths. There are
  more where a model makes its mask of operators, which tracing by `torch.compile` leaves out.
  Experts are exported with `model.set_experts_implementation("batched_mm")`: for the operator that
  transformers has otherwise, PyTorch says `No ONNX function found`;
- *a layer*: kernels of the last layer, by the backend and from the file; `-` where the backend's
  trace names no layers;
- *apart*: the difference of what the file gives.

"""
COLUMNS = (
    "model", "lengths", "programs", "kernels", "unfused", "compiled", "in eager mode", "difference",
    "ONNX", "a layer", "apart",
)  # fmt: skip
HEAD += f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"


def main() -> None:
    """Writes the table, a row for each model."""
    rows = []
    for name in MODELS:
        rows.append(row(name))
        print(rows[-1], flush=True)
    write(rows)


def write(rows: list[str], document: Path = DOCUMENT) -> None:
    """The document with these rows."""
    document.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


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
    cells = [
        name,
        ", ".join(map(str, lengths)) if len(lengths) > 1 else "-",
        sum(len(account.segments) for account in accounts),
        sum(len(segment.kernels) for account in accounts for segment in account.segments),
        sum(map(unfused_kernels, graphs)),
        sum(graph.stats.compiles for graph in graphs),
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
    traced = [kernel for segment in accounts[0].segments for kernel in segment.kernels]
    # A layer that is called through a wrapper is known to the trace as its arguments.
    named = [kernel for kernel in traced if not kernel["layer"].startswith("L.")]
    layer = kernels_of_last_layer(named) or "-"
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


if __name__ == "__main__":
    main()
