"""Runs the `opweld` command and reads its answers; used by the demo, the benchmarks and tests."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.models.cache import BUILD

FUSION_LEVELS = ("none", "ops", "auto")


class OpweldError(RuntimeError):
    """The command failed; the message is what it said."""


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


def opweld_json(verb: str, model: Path, *arguments: str | Path) -> dict:
    """Runs a verb on a model with `--json` and returns the object it prints."""
    return json.loads(opweld(verb, model, "--json", *arguments))


def run_model(model: Path, inputs: dict[str, np.ndarray], *options: str) -> dict[str, np.ndarray]:
    """Runs a model once and returns its outputs by name."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output.npz"
        opweld("run", model, *input_options(inputs, Path(folder)), "--output", output, *options)
        with np.load(output) as arrays:
            return dict(arrays)


def input_options(inputs: dict[str, np.ndarray], folder: Path) -> Sequence[str]:
    """Writes inputs as .npy files into `folder`; returns the options that hand them over."""
    options = []
    for index, (name, value) in enumerate(inputs.items()):
        path = folder / f"input_{index}.npy"
        np.save(path, value)
        options += ["--input", f"{name}={path}"]
    return options
