"""Engines side by side on one model and one set of inputs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx

from bench.case import Case, Target, Work
from bench.engines.base import CannotRunError, Engine, Loaded, Task
from bench.limits import Limits
from bench.turns import take_turns


@dataclass(frozen=True)
class Settings:
    """What the command line decides for every suite."""

    threads: int
    rounds: int
    # Rounds of a case end after so long, though not before turns.LEAST_ROUNDS.
    case_seconds: float = 20.0


@dataclass(frozen=True)
class Timing:
    """One engine's runs in a contest."""

    engine: str
    ours: bool
    median_seconds: float
    fastest_seconds: float
    # The middle half of the runs lies within this fraction of the median.
    spread: float
    # The largest difference of any output to the reference's.
    difference: float
    kernels: int | None = None
    compile_seconds: float | None = None
    # See bench.engines.base.Loaded.
    launches: int | None = None
    moved_bytes: int | None = None
    peak_bytes: int | None = None
    held_bytes: int | None = None
    bound_bytes: float | None = None


@dataclass(frozen=True)
class Contest:
    """All engines on one case."""

    name: str
    timings: list[Timing]
    # Why an engine has no timing, by its name.
    missing: dict[str, str]
    # The engine whose outputs the others were compared with.
    reference: str
    work: Work
    # The least seconds that the work takes on this machine.
    floor_seconds: float
    target: Target = field(default_factory=Target)
    # What else is to be said of it, a line each.
    notes: tuple[str, ...] = ()

    def against(self, limits: Limits) -> Contest:
        """The same contest, with the floor that follows from these limits."""
        return replace(self, floor_seconds=self.work.floor(limits))

    def reached(self) -> bool | None:
        """Whether Opweld reached the target; None when there is none."""
        timing = self.ours()
        if self.target == Target():
            return None
        return timing is not None and self.target.reached(
            self.fraction(timing), self.ratio(timing), timing.kernels
        )

    def best_rival(self) -> Timing | None:
        """The fastest engine that is not ours."""
        return min(
            (timing for timing in self.timings if not timing.ours),
            key=lambda timing: timing.median_seconds,
            default=None,
        )

    def ours(self) -> Timing | None:
        """Opweld at full fusion."""
        return next((timing for timing in self.timings if timing.engine == "opweld"), None)

    def single_launch(self) -> Timing | None:
        """Opweld at full fusion with all kernels in one launch."""
        return next((t for t in self.timings if t.engine == "opweld single launch"), None)

    def variants(self) -> list[Timing]:
        """Opweld at full fusion but in one launch, without schedules, with all chains."""
        words = ("opweld single launch", "opweld without ", "opweld chains ")
        return [timing for timing in self.timings if timing.engine.startswith(words)]

    def ratio(self, timing: Timing) -> float | None:
        """How many times as long as the best rival it took."""
        best = self.best_rival()
        return timing.median_seconds / best.median_seconds if best else None

    def fraction(self, timing: Timing) -> float:
        """How much of the machine's limit it reached."""
        return self.floor_seconds / timing.median_seconds

    def as_json(self) -> dict:
        """All of it, with what follows from the times."""
        described = asdict(self)
        for timing, entry in zip(self.timings, described["timings"], strict=True):
            entry["ratio_to_best_rival"] = self.ratio(timing)
            entry["fraction_of_floor"] = self.fraction(timing)
        best = self.best_rival()
        described["best_rival"] = best.engine if best else None
        described["target_reached"] = self.reached()
        return described

    @classmethod
    def from_json(cls, described: dict) -> Contest:
        """What as_json() described; what follows from the times follows again."""

        def fields(kind: type, values: dict) -> object:
            return kind(
                **{name: values[name] for name in kind.__dataclass_fields__ if name in values}
            )

        return cls(
            name=described["name"],
            timings=[fields(Timing, timing) for timing in described["timings"]],
            missing=described["missing"],
            reference=described["reference"],
            work=fields(Work, described["work"]),
            floor_seconds=described["floor_seconds"],
            target=fields(Target, described["target"]),
            notes=tuple(described["notes"]),
        )


@dataclass(frozen=True)
class Entry:
    """An engine with what it is to run."""

    name: str
    engine: Engine
    ours: bool
    task: Task


def hold_contest(
    case: Case, engines: Sequence[tuple[Engine, bool]], limits: Limits, settings: Settings
) -> Contest:
    """Loads the case into every engine, compares their outputs, then times them in turn.

    `engines` says of each whether it is ours; the first rival that runs the case is the reference.
    Who cannot run it, or differs from the reference by more than the case tolerates, is not timed,
    and the contest says why.
    """
    entries = [
        Entry(name, engine, is_ours, task_of(case, model, outputs, settings))
        for outputs in [output_names(case.model)]
        for engine, is_ours in engines
        for name, model in entered_models(case, engine, is_ours).items()
    ]
    loaded: dict[str, Loaded] = {}
    missing: dict[str, str] = {}
    try:
        for entry in entries:
            try:
                loaded[entry.name] = entry.engine.load(entry.task)
            except CannotRunError as error:
                missing[entry.name] = str(error)
        reference = next((e.name for e in entries if not e.ours and e.name in loaded), None)
        if reference is None:
            raise CannotRunError(f"{case.name}: no rival runs it, so nothing can be compared")
        differences = _compare(case, loaded, reference, missing)
        for name in missing.keys() & loaded.keys():
            loaded.pop(name).close()
        runs = {name: model.run_once for name, model in loaded.items()}
        seconds = take_turns(runs, settings.rounds, settings.case_seconds, missing)
        timings = [
            _timing(entry, seconds, differences, loaded)
            for entry in entries
            if entry.name in seconds
        ]
    finally:
        for model in loaded.values():
            model.close()
    floor = case.work.floor(limits)
    return Contest(case.name, timings, missing, reference, case.work, floor, case.target)


def task_of(case: Case, model: Path, outputs: tuple[str, ...], settings: Settings) -> Task:
    """What an engine is told of a case."""
    precision = case.work.precision
    return Task(model, case.inputs, outputs, settings.threads, case.twin, precision)


def entered_models(case: Case, engine: Engine, is_ours: bool) -> dict[str, Path]:
    """The models that an engine is timed on, by the name in the table.

    A rival that reads ONNX files gets every spelling there is, since it may know one better.
    """
    models = {engine.name: (case.ours or case.model) if is_ours else case.model}
    if engine.reads_onnx and not is_ours:
        models |= {f"{engine.name}, {word}": path for word, path in case.spellings.items()}
    return models


def output_names(model: Path) -> tuple[str, ...]:
    """The names of a model's outputs, in their order."""
    graph = onnx.load(model, load_external_data=False).graph
    return tuple(output.name for output in graph.output)


def _compare(
    case: Case, loaded: dict[str, Loaded], reference: str, missing: dict[str, str]
) -> dict[str, float]:
    """The difference of each engine; those that are wrong are added to `missing`."""
    differences = {}
    for name, model in loaded.items():
        try:
            differences[name] = largest_difference(model.outputs, loaded[reference].outputs)
        except ValueError as error:
            missing[name] = f"wrong: {error}"
            continue
        # Written so that NaN, which is below nothing, is refused too.
        if not differences[name] <= case.tolerance:
            missing[name] = (
                f"wrong: differs from {reference} by {differences[name]:.3g}; "
                f"{case.tolerance:g} is allowed"
            )
    return differences


def _timing(
    entry: Entry,
    seconds: dict[str, list[float]],
    differences: dict[str, float],
    loaded: dict[str, Loaded],
) -> Timing:
    name = entry.name
    taken = seconds[name]
    median = statistics.median(taken)
    lower, _, upper = statistics.quantiles(taken, n=4, method="inclusive")
    return Timing(
        engine=name,
        ours=entry.ours,
        median_seconds=median,
        fastest_seconds=min(taken),
        spread=(upper - lower) / median,
        difference=differences[name],
        kernels=loaded[name].kernels,
        compile_seconds=loaded[name].compile_seconds,
        launches=loaded[name].launches,
        moved_bytes=loaded[name].moved_bytes,
        peak_bytes=loaded[name].peak_bytes,
        held_bytes=loaded[name].held_bytes,
        bound_bytes=loaded[name].bound_bytes,
    )


def largest_difference(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """The largest difference of any two elements; NaN when one of them is NaN."""
    if actual.keys() != expected.keys():
        raise ValueError(f"the outputs are {sorted(actual)}, expected {sorted(expected)}")
    differences = [0.0]
    for name, value in expected.items():
        if actual[name].shape != value.shape:
            raise ValueError(f"{name} has shape {actual[name].shape}, expected {value.shape}")
        difference = np.abs(actual[name].astype(np.float64) - value.astype(np.float64))
        differences.append(difference.max(initial=0.0))
    return float(np.max(differences))
