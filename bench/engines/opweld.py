"""Opweld, by its own command, in one of the ways that are compared."""

from __future__ import annotations

from bench.engines.base import CannotRunError, Engine, Loaded, Task
from bench.opweld_command import OpweldError, PacedRuns, opweld


class Opweld(Engine):
    """At one level of fusion, kernel by kernel or in one launch, with or without a schedule.

    The level `auto` is called just opweld. `chains`: also those that the planner takes for slower.
    """

    def __init__(
        self,
        level: str = "auto",
        single_launch: bool = False,
        without: str | None = None,
        chains: bool = False,
    ) -> None:
        self.level = level
        self.single_launch = single_launch
        self.without = without
        self.chains = chains
        words = ["opweld"]
        words += [level] if level != "auto" else []
        words += ["single launch"] if single_launch else []
        words += ["without", without] if without else []
        words += ["chains of any rows"] if chains else []
        self.name = " ".join(words)

    def version(self) -> str:
        """See the base class."""
        return opweld("--version").strip()

    def load(self, task: Task) -> Loaded:
        """See the base class."""
        # As anybody has it who has measured nothing on this machine.
        options = [f"--fusion={self.level}", f"--threads={task.threads}", "--no-tuned"]
        if self.single_launch:
            options.append("--single-launch")
        if self.without:
            options.append(f"--without={self.without}")
        if self.chains:
            options.append("--chains-of-any-rows")
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
        self.launches = runs.account.launches
        self.moved_bytes = runs.account.read_bytes + runs.account.written_bytes
        self.peak_bytes = runs.peak_bytes
        self.held_bytes = runs.account.memory.held()
        self.bound_bytes = runs.account.memory.bound()

    def run_once(self) -> float:
        """See the base class."""
        try:
            return self._runs.run_once()
        except OpweldError as error:
            raise CannotRunError(str(error).splitlines()[-1]) from error

    def close(self) -> None:
        """See the base class."""
        self._runs.close()
