"""What every engine offers: it loads a model, runs it when told, and hands over its outputs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.case import Twin


class CannotRunError(Exception):
    """An engine cannot run a model; the message is a reader's reason, one line."""


@dataclass(frozen=True)
class Task:
    """A model to be loaded, with all that decides how it is run."""

    model: Path
    inputs: dict[str, np.ndarray]
    # The names of the model's outputs, in their order.
    outputs: tuple[str, ...]
    threads: int
    twin: Twin | None = None
    # Of the model's products, "fp32" or "bf16", for engines that would choose it themselves.
    precision: str = "fp32"


class Loaded(ABC):
    """A model that an engine has made ready and run once."""

    # What the first run gave.
    outputs: dict[str, np.ndarray]
    # The number of kernels and the seconds of compilation, where the engine tells them.
    kernels: int | None = None
    compile_seconds: float | None = None
    # How often kernels were handed to the threads.
    launches: int | None = None
    # Tensors that kernels read and wrote, each once a kernel.
    moved_bytes: int | None = None
    # What loading and the first run took at most; rivals' above what their process had before.
    peak_bytes: int | None = None
    # What the engine holds for its runs by its own account, and what it is not to exceed.
    held_bytes: int | None = None
    bound_bytes: float | None = None

    @abstractmethod
    def run_once(self) -> float:
        """Runs the model on the task's inputs; returns the seconds until its outputs were there."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of whatever the model holds."""


class Engine(ABC):
    """An engine in one configuration."""

    # As it stands in tables.
    name: str
    # Whether it takes the ONNX file, or else the model's PyTorch twin.
    reads_onnx = True

    @abstractmethod
    def version(self) -> str:
        """Name and version of the package, or CannotRunError."""

    @abstractmethod
    def load(self, task: Task) -> Loaded:
        """Compiles and runs the model once. Raises CannotRunError when that is not possible."""

    def close(self) -> None:
        """Ends the engine; there is nothing to end unless it says so."""
        return


@dataclass
class InProcess(Loaded):
    """A model that is a Python call of this process."""

    run: Callable[[], object]
    outputs: dict[str, np.ndarray]
    compile_seconds: float | None = None
    # What the call reads without owning it, such as inputs whose memory was handed over.
    kept: tuple[object, ...] = ()

    def run_once(self) -> float:
        """See the base class; results are dropped after the clock has stopped."""
        start = time.perf_counter()
        result = self.run()
        taken = time.perf_counter() - start
        del result
        return taken

    def close(self) -> None:
        """See the base class."""
        self.run = None
        self.kept = ()
