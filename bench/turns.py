"""Fair timing of several engines on one machine: they take turns, run by run."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.engines.base import CannotRunError

# Uncounted rounds at the start: the first inference of an engine allocates, the second settles.
WARM_UP_ROUNDS = 2

# Between two runs, so that threads of the engine before, which spin for a few milliseconds in
# the hope of more work, have gone to sleep and take no core from the next.
PAUSE_SECONDS = 0.02

# At the start of each turn, uncounted: after the pause and another engine's turn, caches hold
# nothing of this one and the core may have slowed down. A run so long that neither matters needs
# none.
WARM_UP_RUNS = 1
LONG_SECONDS = 0.25

# However long a round takes, there are as many as this: a median of fewer says little.
LEAST_ROUNDS = 5


def take_turns(
    runs: dict[str, Callable[[], float]],
    rounds: int,
    budget_seconds: float = float("inf"),
    failed: dict[str, str] | None = None,
) -> dict[str, list[float]]:
    """Runs each engine once per round, another one first each time; returns all seconds.

    There are `rounds` counted rounds, or fewer when `budget_seconds` are over, but then no fewer
    than LEAST_ROUNDS. An engine that cannot go on is left out, the reason added to `failed`; where
    that is None, its CannotRunError is passed on.
    """
    seconds: dict[str, list[float]] = {engine: [] for engine in runs}
    engines = list(runs)
    last = dict.fromkeys(engines, 0.0)
    start = time.perf_counter()
    for turn in range(WARM_UP_ROUNDS + rounds):
        spent = time.perf_counter() - start
        if turn >= WARM_UP_ROUNDS + LEAST_ROUNDS and spent > budget_seconds:
            break
        first = turn % len(engines)
        for engine in engines[first:] + engines[:first]:
            if engine not in seconds:
                continue
            time.sleep(PAUSE_SECONDS)
            try:
                for _ in range(WARM_UP_RUNS if last[engine] < LONG_SECONDS else 0):
                    runs[engine]()
                taken = last[engine] = runs[engine]()
            except CannotRunError as error:
                if failed is None:
                    raise
                failed[engine] = str(error)
                del seconds[engine]
                continue
            if turn >= WARM_UP_ROUNDS:
                seconds[engine].append(taken)
    return seconds
