"""A model whose sizes are free is planned in as few kernels as one whose sizes are numbers."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import opweld
import pytest

from bench.models.bert_layer import write_layer
from bench.models.encoder import Config as BertConfig
from bench.models.encoder import ensure_encoder
from bench.models.llama_layer import PHASES, SPELLINGS, Variant, write_models
from bench.models.llama_spelling import Config as LlamaConfig
from bench.models.mixtral_layer import Experts
from bench.models.mixtral_layer import write_layer as write_mixtral
from bench.models.moe_layer import SPELLINGS as MOE_SPELLINGS
from bench.models.moe_layer import Mixture, moe_models
from bench.opweld_command import opweld_path

LLAMA = LlamaConfig(hidden=64, heads=4, kv_heads=2, mlp=96)

# A batch, a length, and where a cache is read what lies in it.
PREFILL = {"batch": 1, "sequence": 256, "past": 64, "tokens": 256}
BATCH = {"batch": 3, "sequence": 5, "past": 5, "tokens": 15}
DECODE = {"batch": 1, "sequence": 1, "past": 64, "tokens": 1}


@dataclass(frozen=True)
class Kernels:
    """What a plan has: kernels, and the operators in each."""

    number: int
    text: str


def kernels(model: Path, sizes: dict[str, int]) -> Kernels:
    dims = [option for name, size in sizes.items() for option in ("--dim", f"{name}={size}")]
    command = [str(opweld_path()), "explain", str(model), "--no-tuned", *dims]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    listed = done.stdout.split("\n\n")[0]
    number = re.search(r"^(\d+) kernels?,", listed, re.MULTILINE)
    assert number is not None, listed
    return Kernels(int(number[1]), listed)


def free_sizes(model: onnx.ModelProto) -> set[str]:
    """The names of all sizes that a run decides."""
    return {
        dim.dim_param
        for value in model.graph.input
        for dim in value.type.tensor_type.shape.dim
        if dim.HasField("dim_param")
    }


def with_numbers(model: Path, sizes: dict[str, int]) -> Path:
    """The same model with sizes that are known, beside it since it shares its weights."""
    proto = onnx.load(model, load_external_data=False)
    for value in [*proto.graph.input, *proto.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
            elif dim.HasField("dim_param"):
                dim.Clear()  # of an output, in terms of others
    named = "-".join(f"{name}{size}" for name, size in sorted(sizes.items()))
    path = model.with_name(f"{model.stem}-{named}.onnx")
    onnx.save(proto, path)
    return path


def llama(folder: Path, spelling: str, phase: str) -> Path:
    return write_models(folder, LLAMA, [Variant(spelling, phase)])[0]


def bert(folder: Path, layers: int = 1) -> Path:
    write_layer(folder, BertConfig(48, 4, layers, 64, 1e-12))
    return folder / "model.onnx"


def copied(model: Path, folder: Path) -> Path:
    """Among other files of its own, for `with_numbers`."""
    for file in model.parent.iterdir():
        if file.is_file():
            (folder / file.name).symlink_to(file.resolve())
    return folder / model.name


def moe(folder: Path, spelling: str) -> Path:
    return copied(moe_models(Mixture(width=24, inner=20, experts=6))[spelling], folder)


MODELS = {
    "encoder": lambda folder: copied(ensure_encoder().model, folder),
    "bert": bert,
    **{
        f"llama {spelling} {phase}": lambda folder, s=spelling, p=phase: llama(folder, s, p)
        for spelling in SPELLINGS
        for phase in PHASES
    },
    **{f"moe {spelling}": lambda folder, s=spelling: moe(folder, s) for spelling in MOE_SPELLINGS},
}


@pytest.mark.parametrize("sizes", [PREFILL, BATCH, DECODE], ids=["prefill", "batch", "one token"])
@pytest.mark.parametrize("name", MODELS)
def test_free_sizes_cost_no_kernel(tmp_path: Path, name: str, sizes: dict[str, int]) -> None:
    model = MODELS[name](tmp_path)
    own = free_sizes(onnx.load(model, load_external_data=False))
    given = {name: size for name, size in sizes.items() if name in own}
    assert set(given) == own, "the test has no numbers for some sizes"
    free = kernels(model, given)
    known = kernels(with_numbers(model, given), {})
    assert free.number <= known.number, f"free:\n{free.text}\n\nknown:\n{known.text}"


# Rows in all bands: where no chain pays, where some do, and where all do.
ROWS = (1, 2, 8, 15, 25, 32, 48, 64, 81, 96, 128, 192, 256, 512)
# One sequence is no longer than this.
LONGEST = 128
CORES = len(os.sched_getaffinity(0))
DTYPES = {"f32": np.float32, "i64": np.int64}


def sizes_of(rows: int) -> dict[str, int]:
    """One sequence, or several where it would be too long: tasks share out all rows alike."""
    length = min(rows, LONGEST)
    return {"batch": rows // length, "sequence": length, "length": length, "past": 3}


def executed(program: opweld.Program, sizes: dict[str, int]) -> int:
    """Kernels that a run of so many rows counts."""
    inputs = [
        np.ones([sizes.get(size, size) for size in info.sizes], DTYPES[info.dtype])
        for info in program.inputs
    ]
    program(*inputs)
    return program.stats.last.kernels


BANDS = {
    "bert": bert,
    "encoder": lambda folder: bert(folder, layers=3),
    "llama": lambda folder: llama(folder, "newest", "prefill"),
    "llama with a cache": lambda folder: llama(folder, "newest", "decode"),
    "mixtral": lambda folder: write_mixtral(folder, LLAMA, Experts()),
}


@pytest.mark.parametrize("name", BANDS)
def test_runs_of_any_number_of_rows_count_as_few_kernels(tmp_path: Path, name: str) -> None:
    model = BANDS[name](tmp_path)
    own = free_sizes(onnx.load(model, load_external_data=False))
    free = opweld.compile(model)
    counted = []
    for rows in ROWS:
        # On more cores as many rows of a task are more rows of all.
        given = {
            size: number for size, number in sizes_of(rows * CORES // 2).items() if size in own
        }
        assert set(given) == own, "the test has no numbers for some sizes"
        known = opweld.compile(with_numbers(model, given))
        kernels = executed(free, given)
        assert kernels <= executed(known, {}), f"{rows} rows"
        counted.append(kernels)
    assert counted[0] > counted[-1], "rows decide nothing here"
