"""Runs the `opweld` command and reads its answers; used by the demo, the benchmarks and tests."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from onnx import numpy_helper

from bench.bf16 import BF16, from_bits
from bench.models.cache import BUILD
from bench.process_memory import peak_bytes

FUSION_LEVELS = ("none", "ops", "auto")


class OpweldError(RuntimeError):
    """The command failed; the message is what it said."""


@dataclass(frozen=True)
class Memory:
    """What a compiled model holds for its runs, inputs and outputs apart."""

    weight_bytes: int
    # As they are kept: packed, which pads them, or as they are in the file.
    held_weight_bytes: int
    # Intermediates, and the buffers of all threads.
    arena_bytes: int
    scratch_bytes: int
    # The most that intermediates take up at once: no placing of them needs less.
    live_bytes: int

    def held(self) -> int:
        """All of it."""
        return self.held_weight_bytes + self.arena_bytes + self.scratch_bytes

    def bound(self) -> float:
        """What it is not to exceed: the weights, and little more than the least for the rest."""
        return self.weight_bytes + 1.1 * self.live_bytes


@dataclass(frozen=True)
class Account:
    """What `opweld bench` counted in the program that it ran."""

    kernels: int
    launches: int
    read_bytes: int
    written_bytes: int
    compile_seconds: float
    memory: Memory


def opweld_path() -> Path:
    """The executable: the value of OPWELD, or that of the release build."""
    named = os.environ.get("OPWELD")
    path = Path(named) if named else BUILD / "release" / "tools" / "opweld" / "opweld"
    if not path.exists():
        raise SystemExit(f"there is no {path}; build it with: ./dev build")
    return path


def opweld(*arguments: str | Path) -> str:
    """Runs `opweld` with the arguments and returns its standard output."""
    command = [str(opweld_path()), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise OpweldError(f"{' '.join(command)}\n{result.stderr.strip()}")
    return result.stdout


def run_model(model: Path, inputs: dict[str, np.ndarray], *options: str) -> dict[str, np.ndarray]:
    """Runs a model once and returns its outputs by name."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output.npz"
        opweld("run", model, *input_options(inputs, Path(folder)), "--output", output, *options)
        with np.load(output) as arrays:
            return {name: from_bits(array) for name, array in arrays.items()}


def explain_model(model: Path, *options: str) -> dict:
    """What the compiler did with a model and why, as `opweld explain --json` tells it."""
    return json.loads(opweld("explain", model, "--json", *options))


def assembly_of(model: Path, *options: str) -> str:
    """The machine code of all kernels of a model, as the assembler would read it."""
    command = [str(opweld_path()), "explain", str(model), "--dump-after=codegen", *options]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise OpweldError(f"{' '.join(command)}\n{result.stderr.strip()}")
    return result.stderr


def profile_model(model: Path, inputs: dict[str, np.ndarray], *options: str) -> list[dict]:
    """The kernels of a warm run in order, each with its median time in seconds and its bytes."""
    with tempfile.TemporaryDirectory() as folder:
        given = input_options(inputs, Path(folder))
        answer = opweld("bench", model, "--profile", "--json", *given, *options)
    return json.loads(answer)["profile"]


def input_options(inputs: dict[str, np.ndarray], folder: Path) -> list[str]:
    """Writes inputs as files into `folder`; returns the options that hand them over."""
    options = []
    for index, (name, value) in enumerate(inputs.items()):
        # .npy has no bf16.
        path = folder / f"input_{index}.{'pb' if value.dtype == BF16 else 'npy'}"
        if value.dtype == BF16:
            path.write_bytes(numpy_helper.from_array(value).SerializeToString())
        else:
            np.save(path, value)
        options += ["--input", f"{name}={path}"]
    return options


class PacedRuns:
    """A compiled and warm model that runs once each time it is asked to.

    `opweld bench --paced` compiles, runs the model to warm up, and writes its account as a line
    of JSON; then, for every line it reads, it runs the model once and answers with the seconds
    that took. So engines can take turns, and whatever else the machine does falls on all alike.
    """

    account: Account
    # Resident at most until the warm-up run had ended, of the whole process: the compiler too.
    peak_bytes: int | None
    # What the model gave in the warm-up run.
    outputs: dict[str, np.ndarray]

    def __init__(self, model: Path, inputs: dict[str, np.ndarray], *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        command = [opweld_path(), "bench", model, "--paced", "--output", folder / "output.npz"]
        command += [*input_options(inputs, folder), *options]
        self._errors = (folder / "errors").open("w+")
        self._process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        counted = json.loads(self._read_line())
        counted["memory"] = Memory(**counted["memory"])
        self.account = Account(**{name: counted[name] for name in Account.__dataclass_fields__})
        self.peak_bytes = peak_bytes(self._process.pid)
        with np.load(folder / "output.npz") as arrays:
            self.outputs = {name: from_bits(array) for name, array in arrays.items()}

    def run_once(self) -> float:
        """Runs the model and returns the seconds it took."""
        # A process that has ended says why when its answer is read.
        with suppress(BrokenPipeError):
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        return float(self._read_line())

    def close(self) -> None:
        """Ends the process."""
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._errors.close()
        self._folder.cleanup()

    def __enter__(self) -> PacedRuns:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read_line(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise OpweldError(f"opweld bench ended: {self._errors.read().strip()}")
        return line
