"""What a kernel costs on warm threads beside its work.

A chain of kernels that nothing fuses is timed on one thread, which hands over to nobody, and on
all. What a kernel takes longer there than its work evenly shared is what the threads cost: the
hand-over, the wait for each other, and whatever part of the work was not shared. Each row is a task
of its own, so that all threads can have a part in every kernel.

The median of all runs has in it whatever else wanted the cores. A run is as many launches as there
are kernels, so the fastest run is no lucky launch, but an average of undisturbed ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.models.text_model import normal, shape_text, text_model
from bench.opweld_command import PacedRuns
from bench.table import table
from bench.turns import take_turns

KERNELS = 100
COLUMNS = 256
# A thread's part is several times the target: were it less, a thread that does all the work before
# another has come would look cheap. It stays in the second cache, on one thread too.
ROWS_PER_THREAD = 64
ROUNDS = 40
TARGET_SECONDS = 2e-6


@dataclass(frozen=True)
class Cost:
    """Seconds a kernel."""

    median: float
    fastest: float


@dataclass(frozen=True)
class LaunchCosts:
    """What kernels cost beyond their work on so many threads."""

    threads: int
    # Each kernel is a launch.
    apart: Cost
    # All kernels are one launch, with a barrier between any two.
    together: Cost


def measure_launches(threads: int, rounds: int = ROUNDS) -> LaunchCosts | None:
    """The cost on so many threads; nothing on one, where there is no hand-over."""
    if threads == 1:
        return None
    model, inputs = chain(threads * ROWS_PER_THREAD)
    ways = {
        "alone": ["--threads=1"],
        "apart": [f"--threads={threads}"],
        "together": [f"--threads={threads}", "--single-launch"],
    }
    runs: dict[str, PacedRuns] = {}
    try:
        for way, options in ways.items():
            runs[way] = PacedRuns(model, inputs, "--fusion=none", "--no-tuned", *options)
            # A compiler that fused some would have the rest pay for all.
            if runs[way].account.kernels != KERNELS:
                raise SystemExit(f"the chain is {runs[way].account.kernels} kernels")
        seconds = take_turns({way: run.run_once for way, run in runs.items()}, rounds)
    finally:
        for run in runs.values():
            run.close()
    return LaunchCosts(
        threads,
        apart=launch_cost(seconds["alone"], seconds["apart"], threads),
        together=launch_cost(seconds["alone"], seconds["together"], threads),
    )


def launch_cost(alone: list[float], shared: list[float], threads: int) -> Cost:
    """The cost that follows from the times of the chain on one thread and on all."""

    def beyond(of: Callable[[list[float]], float]) -> float:
        return (of(shared) - of(alone) / threads) / KERNELS

    return Cost(median=beyond(statistics.median), fastest=beyond(min))


def format_launches(costs: LaunchCosts | None) -> str:
    """A table of one launch for each kernel and one for all; a line where there is nothing."""
    if costs is None:
        return "not measured on one thread, which hands over to nobody"

    def microseconds(seconds: float) -> str:
        return f"{seconds * 1e6:.2f} us"

    rows = [
        [
            name,
            microseconds(cost.median),
            microseconds(cost.fastest),
            f"<= {TARGET_SECONDS * 1e6:.0f} us",
        ]
        for name, cost in [
            ("each kernel a launch", costs.apart),
            ("all kernels one launch", costs.together),
        ]
    ]
    first = f"a kernel on {costs.threads} threads, beyond its work"
    return table([first, "median", "fastest run", "target"], rows)


def launches_from_json(described: dict | None) -> LaunchCosts | None:
    """The costs, from what `asdict` made of them on the way to a file."""
    if described is None:
        return None
    return LaunchCosts(
        described["threads"], Cost(**described["apart"]), Cost(**described["together"])
    )


def chain(rows: int) -> tuple[Path, dict[str, np.ndarray]]:
    """Softmax after softmax of so many rows, and an input for it."""
    of = shape_text((rows, COLUMNS))
    values = ["x", *(f"v{i}" for i in range(1, KERNELS)), "y"]
    nodes = "\n".join(
        f"{after} = Softmax <axis = 1> ({before})" for before, after in pairwise(values)
    )
    model = text_model(f"launches {rows}", f"launches ({of} x) => ({of} y) {{\n{nodes}\n}}")
    return model, {"x": normal(0, rows, COLUMNS)}
