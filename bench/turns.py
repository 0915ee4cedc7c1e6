"""Fair timing of several engines on one machine: they take turns, run by run."""

from __future__ import annotations

import time
from collections.abc import Callable

# Uncounted rounds at the start: the first inference of an engine allocates, the second settles.
WARM_UP_ROUNDS = 2

# Between two runs, so that threads of the engine before, which spin for a few milliseconds in
# the hope of more work, have gone to sleep and take no core from the next.
PAUSE_SECONDS = 0.02

# At the start of each turn, uncounted: after the pause and another engine's turn, caches hold
# nothing of this one and the core may have slowed down.
WARM_UP_RUNS = 1


def take_turns(runs: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Runs each engine once per round, another one first each time; returns all seconds."""
    seconds: dict[str, list[float]] = {engine: [] for engine in runs}
    engines = list(runs)
    for turn in range(WARM_UP_ROUNDS + rounds):
        first = turn % len(engines)
        for engine in engines[first:] + engines[:first]:
            time.sleep(PAUSE_SECONDS)
            for _ in range(WARM_UP_RUNS):
                runs[engine]()
            taken = runs[engine]()
            if turn >= WARM_UP_ROUNDS:
                seconds[engine].append(taken)
    return seconds
