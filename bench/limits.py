"""What this machine can do at best, measured by `bench/machine_limits.cpp`."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from bench.models.cache import BUILD


@dataclass(frozen=True)
class Limits:
    """Rates that no program exceeds, on a number of threads."""

    threads: int
    flops: float  # fp32 multiply-adds count two, a second
    copy_bytes: float  # read and written bytes both count, a second
    read_bytes: float  # a second


def measure_limits(threads: int) -> Limits:
    """Runs the loops on 1, 2, 4 ... threads up to all cores; takes those of `threads`.

    Raises SystemExit when the program is missing or was not built for so many threads.
    """
    program = BUILD / "release" / "bench" / "machine_limits"
    if not program.exists():
        raise SystemExit(f"there is no {program}; build it with: ./dev build")
    options = ["--benchmark_format=json", "--benchmark_repetitions=3"]
    answer = subprocess.run([program, *options], capture_output=True, text=True, check=True)
    rates: dict[str, list[float]] = {}
    for run in json.loads(answer.stdout)["benchmarks"]:
        if run["run_type"] == "iteration" and run["threads"] == threads:
            rate = run.get("items_per_second") or run["bytes_per_second"]
            rates.setdefault(run["name"].split("/")[0], []).append(rate)
    if not rates:
        raise SystemExit(f"the limits of this machine are not measured for {threads} threads")
    best = {name: max(values) for name, values in rates.items()}
    return Limits(threads, best["FusedMultiplyAdd"], best["Copy"], best["Read"])
