"""The models of small_transformers.py as ONNX files, written by PyTorch's own exporter.

One file serves all lengths and batches, where the model has lengths. It is made once for each
version of what makes it, below build/.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from dataclasses import dataclass
from pathlib import Path

import onnxscript
import opweld
import torch
import transformers

from bench.models import small_transformers
from bench.models.cache import BUILD, digest_of, made_once
from bench.models.small_transformers import BATCH, MODELS, make, result

FOLDER = BUILD / "exported-transformers"


@dataclass(frozen=True)
class Exported:
    """A model's file, or why PyTorch cannot write one."""

    path: Path | None
    error: str = ""


def exported(name: str) -> Exported:
    """The model as a file with symbolic sizes "batch" and "length"."""
    key = digest_of(
        torch.__version__,
        transformers.__version__,
        onnxscript.__version__,
        files=[Path(__file__), Path(small_transformers.__file__)],
    )
    slug = name.lower().replace(" ", "-")
    folder = made_once(FOLDER / slug, key, lambda partial: write(name, partial))
    error = folder / "error.txt"
    if error.exists():
        return Exported(None, error.read_text(encoding="utf-8"))
    return Exported(folder / "model.onnx")


def for_export(name: str) -> torch.nn.Module:
    """The model as it is exported.

    It has no cache, which generation hands from step to step; and its experts, if any, are the form
    of transformers that PyTorch can export: products by the matrices that each choice gathers.
    """
    model = make(name)
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    if hasattr(model.config, "num_experts_per_tok"):
        model.set_experts_implementation("batched_mm")
    return model


def write(name: str, folder: Path) -> None:
    """Writes model.onnx, or error.txt."""
    inputs = MODELS[name].inputs(MODELS[name].lengths[0])
    with contextlib.ExitStack() as quiet:
        quiet.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.enter_context(torch.no_grad())
        quiet.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.ERROR)
        try:
            program = torch.onnx.export(
                for_export(name),
                (),
                kwargs=inputs,
                dynamo=True,
                dynamic_shapes=free_sizes(name),
                verbose=False,
            )
        except Exception as error:  # whatever the exporter meets is what the table tells
            (folder / "error.txt").write_text(cause_of(error), encoding="utf-8")
            return
        program.save(folder / "model.onnx")


def free_sizes(name: str) -> dict[str, dict[int, torch.export.Dim]]:
    """Which axes of which inputs are free: the batch, and the length where there are several."""
    model = MODELS[name]
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    if len(model.lengths) == 1:
        return {each: {0: batch} for each in model.inputs(model.lengths[0])}
    short, longer = (model.inputs(each) for each in model.lengths[:2])
    return {
        each: {0: batch}
        | {
            axis: length
            for axis, (a, b) in enumerate(zip(tensor.shape, longer[each].shape, strict=True))
            if a != b
        }
        for each, tensor in short.items()
    }


def cause_of(error: BaseException) -> str:
    """The first line of what went wrong below the exporter's own words about it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


@dataclass(frozen=True)
class Comparison:
    """What Opweld makes of a model's file."""

    account: opweld.Account
    """At the sizes of the last run."""
    difference: float
    """Of any value at any length to eager mode, the largest, over the largest value."""

    @property
    def kernels(self) -> list[dict]:
        """As `Program.explain` tells them."""
        return self.account.kernels

    @property
    def layer(self) -> int:
        """Kernels of the last layer: what the first one prepares for all is none of it."""
        return kernels_of_last_layer(self.account)


def kernels_of_last_layer(account: opweld.Account) -> int:
    """How many kernels begin in the last layer that is named; 0 where none is.

    One that reaches over from one layer into the next is of the one that it begins in, as
    everywhere (docs/fusion.md): each layer behind the first has as many.
    """
    named = [each["kernels"] for each in account.json["layers"] if each["layer"]]
    return named[-1] if named else 0


def compare_exported(name: str, lengths: tuple[int, ...] | None = None) -> Comparison:
    """Compiles a model's file once, and runs it at several lengths against eager mode.

    Raises:
        ValueError: PyTorch cannot export the model; the message has its error.
    """
    file = exported(name)
    if file.path is None:
        raise ValueError(file.error)
    program = opweld.compile(file.path)
    model = make(name)
    worst = 0.0
    for length in lengths or MODELS[name].lengths:
        inputs = MODELS[name].inputs(length)
        with torch.no_grad():
            expected = result(model(**inputs))
        apart = (program(**inputs)[0] - expected).abs().max() / expected.abs().max()
        worst = max(worst, float(apart))
    # As an account of the backend, at the sizes of the last run.
    known = {"batch": BATCH, "length": (lengths or MODELS[name].lengths)[-1]}
    sizes = {symbol: known[symbol] for symbol in program.symbols}
    return Comparison(program.explain(sizes), worst)
