"""Engines side by side on one model and one set of inputs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime

from bench.opweld_command import FUSION_LEVELS, PacedRuns
from bench.table import milliseconds, table
from bench.turns import take_turns

BASELINE = "onnxruntime"


@dataclass(frozen=True)
class Settings:
    """What the command line decides for every suite."""

    threads: int
    rounds: int


@dataclass(frozen=True)
class Timing:
    """One engine's runs in a contest."""

    engine: str
    median_seconds: float
    minimum_seconds: float
    # How many times as long as the baseline it took, at the median.
    ratio: float
    # The largest difference of any output to the baseline's.
    difference: float


@dataclass(frozen=True)
class Contest:
    """All engines on one set of inputs."""

    name: str
    timings: list[Timing]
    # What the machine needs at the least, where that is known.
    floor_seconds: float | None = None
    # What else is to be said of it, a line each.
    notes: tuple[str, ...] = ()

    def against(self, floor_seconds: float) -> Contest:
        """The same contest, measured against a floor."""
        return replace(self, floor_seconds=floor_seconds)


def hold_contest(
    name: str,
    model: Path,
    inputs: dict[str, np.ndarray],
    tolerance: float,
    settings: Settings,
    levels: Sequence[str] = FUSION_LEVELS,
) -> Contest:
    """Compares the outputs of all engines, then times them run by run in turn.

    Raises ValueError when an engine's outputs differ by more than `tolerance` from the baseline's.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = settings.threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(names, inputs), strict=True))
    differences = {BASELINE: 0.0}
    runs: dict[str, Callable[[], float]] = {BASELINE: lambda: _time_session(session, inputs)}
    with ExitStack() as stack:
        for level in levels:
            choice = [f"--fusion={level}", f"--threads={settings.threads}"]
            paced = stack.enter_context(PacedRuns(model, inputs, *choice))
            engine = f"opweld {level}"
            runs[engine] = paced.run_once
            differences[engine] = largest_difference(paced.outputs, expected)
            # Written so that NaN, which is below nothing, is refused too.
            if not differences[engine] <= tolerance:
                raise ValueError(
                    f"{name}: the results of {engine} differ from those of {BASELINE} by "
                    f"{differences[engine]:.3g}; {tolerance:g} is allowed"
                )
        seconds = take_turns(runs, settings.rounds)
    medians = {engine: statistics.median(values) for engine, values in seconds.items()}
    timings = [
        Timing(
            engine=engine,
            median_seconds=medians[engine],
            minimum_seconds=min(values),
            ratio=medians[engine] / medians[BASELINE],
            difference=differences[engine],
        )
        for engine, values in seconds.items()
    ]
    return Contest(name, timings)


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


def format_contests(contests: Sequence[Contest]) -> str:
    """A table with a row for each engine in each contest."""
    rows = [
        [
            contest.name if index == 0 else "",
            timing.engine,
            milliseconds(timing.median_seconds),
            milliseconds(timing.minimum_seconds),
            f"{timing.ratio:.2f}x",
            f"{timing.difference:.1e}",
            *floor_columns(contest, timing),
        ]
        for contest in contests
        for index, timing in enumerate(contest.timings)
    ]
    header = ["", "engine", "median", "fastest", f"of {BASELINE}", "difference"]
    if any(contest.floor_seconds is not None for contest in contests):
        header.append("of peak")
    notes = "".join(f"\n  {contest.name}: {note}" for contest in contests for note in contest.notes)
    return table(header, rows) + ("\n" + notes if notes else "")


def floor_columns(contest: Contest, timing: Timing) -> list[str]:
    """The fraction of the machine's peak that the median reached, where the peak is known."""
    if contest.floor_seconds is None:
        return []
    return [f"{contest.floor_seconds / timing.median_seconds:.0%}"]


def _time_session(session: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray]) -> float:
    start = time.perf_counter()
    session.run(None, inputs)
    return time.perf_counter() - start
