"""What this machine can do at best, measured by `bench/machine_limits.cpp`."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from bench.models.cache import BUILD
from bench.table import table


@dataclass(frozen=True)
class Rates:
    """Bytes a second of passes over so many bytes: caches are faster than memory."""

    by_size: dict[int, float]

    def at(self, size: float) -> float:
        """The rate at the measured size that is nearest in proportion."""
        wanted = math.log(max(size, 1.0))
        return self.by_size[min(self.by_size, key=lambda known: abs(math.log(known) - wanted))]


@dataclass(frozen=True)
class Limits:
    """Rates that no program exceeds, on a number of threads."""

    threads: int
    flops: float  # fp32 multiply-adds count two, a second
    copy_bytes: Rates  # read and written bytes both count
    read_bytes: Rates
    bf16_flops: float | None = None  # of the bf16 dot product, where there is one
    tile_flops: float | None = None  # of bf16 tiles on a matrix unit, where there is one

    def peak(self, precision: str) -> float:
        """Flops a second in "fp32" or in "bf16", by the fastest instruction there is for it."""
        if precision == "fp32":
            return self.flops
        return max(self.flops, self.bf16_flops or 0.0, self.tile_flops or 0.0)


def limits_from_json(described: dict) -> dict[int, Limits]:
    """Limits by number of threads, from what `asdict` made of them on the way to a file."""

    def rates(values: dict) -> Rates:
        return Rates({int(size): rate for size, rate in values["by_size"].items()})

    return {
        int(threads): Limits(
            threads=values["threads"],
            flops=values["flops"],
            copy_bytes=rates(values["copy_bytes"]),
            read_bytes=rates(values["read_bytes"]),
            bf16_flops=values["bf16_flops"],
            tile_flops=values.get("tile_flops"),
        )
        for threads, values in described.items()
    }


def measure_limits() -> dict[int, Limits]:
    """Runs the loops on one thread and on all; returns the limits by number of threads.

    Each rate is the best of three repetitions, that of tiles the best of thirty short ones: one of
    these may give several times what another does. Raises SystemExit when the program is missing.
    """
    program = BUILD / "release" / "bench" / "machine_limits"
    if not program.exists():
        raise SystemExit(f"there is no {program}; build it with: ./dev build")
    options = ["--benchmark_format=json", "--benchmark_repetitions=3", "--benchmark_min_time=0.05"]

    def measure() -> dict[int, Limits]:
        answer = subprocess.run([program, *options], capture_output=True, text=True, check=True)
        return read_limits(json.loads(answer.stdout)["benchmarks"])

    return plausible_limits(measure)


def plausible_limits(measure: Callable[[], dict[int, Limits]]) -> dict[int, Limits]:
    """What `measure` gives, the best of up to three times.

    It is asked again while many threads come to less than one does: something else had the cores.
    """
    limits = measure()
    for _ in range(2):
        if limits[max(limits)].flops >= limits[1].flops:
            break
        limits = best_limits(limits, measure())
    return limits


def read_limits(runs: list[dict]) -> dict[int, Limits]:
    """The limits by number of threads, from what the program reports."""
    best: dict[tuple[int, str, int], float] = {}
    for run in runs:
        rate = run.get("items_per_second") or run.get("bytes_per_second")
        # A loop that this processor does not have reports an error in place of a rate.
        if run["run_type"] != "iteration" or rate is None:
            continue
        name, *arguments = run["name"].split("/")
        size = int(arguments[0]) if arguments[0].isdecimal() else 0
        key = (run["threads"], name, size)
        best[key] = max(rate, best.get(key, 0.0))

    def rates(threads: int, *names: str) -> Rates:
        by_size: dict[int, float] = {}
        for (t, name, size), rate in best.items():
            if t == threads and name in names:
                by_size[size] = max(rate, by_size.get(size, 0.0))
        return Rates(by_size)

    return {
        threads: Limits(
            threads=threads,
            flops=best[threads, "FusedMultiplyAdd", 0],
            copy_bytes=rates(threads, "Copy", "CopyPastCaches"),
            read_bytes=rates(threads, "Read"),
            bf16_flops=best.get((threads, "Bfloat16Dot", 0)),
            tile_flops=best.get((threads, "Bfloat16Tiles", 0)),
        )
        for threads in sorted({threads for threads, _, _ in best})
    }


def best_limits(first: dict[int, Limits], second: dict[int, Limits]) -> dict[int, Limits]:
    """The higher of each rate: what a machine did once, it can do."""

    def rates(one: Rates, other: Rates) -> Rates:
        return Rates({s: max(rate, other.by_size[s]) for s, rate in one.by_size.items()})

    return {
        threads: Limits(
            threads=threads,
            flops=max(one.flops, other.flops),
            copy_bytes=rates(one.copy_bytes, other.copy_bytes),
            read_bytes=rates(one.read_bytes, other.read_bytes),
            bf16_flops=one.bf16_flops and max(one.bf16_flops, other.bf16_flops),
            tile_flops=one.tile_flops and max(one.tile_flops, other.tile_flops),
        )
        for threads, one in first.items()
        for other in [second[threads]]
    }


def format_limits(limits: dict[int, Limits]) -> str:
    """A table with a column for each number of threads."""
    header = ["", *(f"{threads} thread{'s' * (threads > 1)}" for threads in limits)]
    every = list(limits.values())

    def row(label: str, rates: list[float | None], unit: str) -> list[str]:
        return [label, *("-" if r is None else f"{r / 1e9:,.0f} {unit}" for r in rates)]

    rows = [
        row("fp32 multiply-add", [each.flops for each in every], "GFLOP/s"),
        row("bf16 dot product", [each.bf16_flops for each in every], "GFLOP/s"),
        row("bf16 tiles", [each.tile_flops for each in every], "GFLOP/s"),
    ]
    for name in ("copy", "read"):
        for size in sorted(getattr(every[0], f"{name}_bytes").by_size):
            found = [getattr(each, f"{name}_bytes").by_size.get(size) for each in every]
            rows.append(row(f"{name}, {size >> 20} MB touched", found, "GB/s"))
    return table(header, rows)
