"""Opweld, by its own command, at one level of fusion."""

from __future__ import annotations

from bench.engines.base import CannotRunError, Engine, Loaded, Task
from bench.opweld_command import OpweldError, PacedRuns, opweld


class Opweld(Engine):
    """The level `auto` is called just opweld."""

    def __init__(self, level: str = "auto") -> None:
        self.level = level
        self.name = "opweld" if level == "auto" else f"opweld {level}"

    def version(self) -> str:
        """See the base class."""
        return opweld("--version").strip()

    def load(self, task: Task) -> Loaded:
        """See the base class."""
        # As anybody has it who has measured nothing on this machine.
        options = [f"--fusion={self.level}", f"--threads={task.threads}", "--no-tuned"]
        try:
            return LoadedOpweld(PacedRuns(task.model, task.inputs, *options))
        except OpweldError as error:
            raise CannotRunError(str(error).splitlines()[-1]) from error


class LoadedOpweld(Loaded):
    """A model in a process of `opweld bench --paced`."""

    def __init__(self, runs: PacedRuns) -> None:
        self._runs = runs
        self.outputs = runs.outputs
        self.kernels = runs.account.kernels
        self.compile_seconds = runs.account.compile_seconds

    def run_once(self) -> float:
        """See the base class."""
        try:
            return self._runs.run_once()
        except OpweldError as error:
            raise CannotRunError(str(error).splitlines()[-1]) from error

    def close(self) -> None:
        """See the base class."""
        self._runs.close()
