"""What a kernel costs on warm threads beside its work.

A chain of kernels that nothing fuses is timed with so many rows and with twice as many. What a
kernel takes longer with twice the rows is the time of so many rows; what is left without it is
there however little a kernel has to do: the hand-over, the wait of each thread for the others, and
the call. Each row is a task of its own, so that all threads have a part in every kernel.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.models.text_model import normal, shape_text, text_model
from bench.opweld_command import PacedRuns
from bench.table import table
from bench.turns import take_turns

KERNELS = 100
COLUMNS = 256
ROWS_PER_THREAD = 16
ROUNDS = 40
TARGET_SECONDS = 2e-6


@dataclass(frozen=True)
class LaunchCost:
    """Seconds a kernel, on so many threads."""

    threads: int
    # Each kernel is a launch.
    apart: float
    # All kernels are one launch, with a barrier between any two.
    together: float


def measure_launches(threads: int, rounds: int = ROUNDS) -> list[LaunchCost]:
    """The cost on one thread, where there is no hand-over, and on `threads`."""
    return [_measure(count, rounds) for count in sorted({1, threads})]


def launch_cost(once: list[float], twice: list[float], kernels: int) -> float:
    """Seconds a kernel, from the times of chains with so many rows and with twice as many."""
    return (2 * statistics.median(once) - statistics.median(twice)) / kernels


def format_launches(costs: list[LaunchCost]) -> str:
    """A table with a column for each number of threads."""
    header = ["", *(f"{c.threads} thread{'s' * (c.threads > 1)}" for c in costs), "target"]

    def row(label: str, seconds: list[float]) -> list[str]:
        return [
            label,
            *(f"{value * 1e6:.2f} us" for value in seconds),
            f"<= {TARGET_SECONDS * 1e6:.0f} us",
        ]

    return table(
        header,
        [
            row("each kernel a launch", [cost.apart for cost in costs]),
            row("all kernels one launch", [cost.together for cost in costs]),
        ],
    )


def launches_as_json(costs: list[LaunchCost]) -> list[dict]:
    """All of it, for a file."""
    return [asdict(cost) for cost in costs]


def launches_from_json(described: list[dict]) -> list[LaunchCost]:
    """What launches_as_json() described."""
    return [LaunchCost(**cost) for cost in described]


def chain(rows: int) -> tuple[Path, dict[str, np.ndarray]]:
    """Softmax after softmax of so many rows, and an input for it."""
    of = shape_text((rows, COLUMNS))
    values = ["x", *(f"v{i}" for i in range(1, KERNELS)), "y"]
    nodes = "\n".join(
        f"{after} = Softmax <axis = 1> ({before})" for before, after in pairwise(values)
    )
    model = text_model(f"launches {rows}", f"launches ({of} x) => ({of} y) {{\n{nodes}\n}}")
    return model, {"x": normal(0, rows, COLUMNS)}


def _measure(threads: int, rounds: int) -> LaunchCost:
    options = ["--fusion=none", f"--threads={threads}", "--no-tuned"]
    runs: dict[str, PacedRuns] = {}
    try:
        for times in (1, 2):
            model, inputs = chain(times * ROWS_PER_THREAD * threads)
            for flag in ([], ["--single-launch"]):
                name = f"{times} {' '.join(flag)}"
                runs[name] = PacedRuns(model, inputs, *options, *flag)
                # A compiler that fused some would have the rest pay for all.
                if runs[name].account.kernels != KERNELS:
                    raise SystemExit(f"the chain is {runs[name].account.kernels} kernels")
        seconds = take_turns({name: run.run_once for name, run in runs.items()}, rounds)
    finally:
        for run in runs.values():
            run.close()

    def cost(flag: str) -> float:
        return launch_cost(seconds[f"1 {flag}"], seconds[f"2 {flag}"], KERNELS)

    return LaunchCost(threads, apart=cost(""), together=cost("--single-launch"))
