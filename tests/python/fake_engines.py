"""Engines that do as they are told, for tests of the arena; some run in a process of their own."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from bench.engines.apart import HUGE_PAGES
from bench.engines.base import CannotRunError, Engine, InProcess, Loaded, Task


class FixedEngine(Engine):
    """Gives what a function of the inputs gives, and says that each run took as long as told."""

    def __init__(self, name: str, seconds: float, answer: Callable[[dict], dict]) -> None:
        self.name = name
        self.seconds = seconds
        self.answer = answer
        self.loads: list[Task] = []
        self.closed = 0

    def version(self) -> str:
        """See the base class."""
        return "fixed 1"

    def load(self, task: Task) -> Loaded:
        """See the base class."""
        self.loads.append(task)
        engine = self

        class Fixed(InProcess):
            def run_once(self) -> float:
                return engine.seconds

            def close(self) -> None:
                engine.closed += 1

        return Fixed(lambda: None, self.answer(task.inputs), compile_seconds=0.25)


# The mood of an engine that needs so much memory to load a model, and lets go of it.
GREEDY = 9
GREEDY_BYTES = 200 << 20


class MoodyEngine(Engine):
    """Crashes, fails, refuses or takes memory on the inputs that say so; doubles its input."""

    name = "moody"

    def version(self) -> str:
        """See the base class."""
        return "moody 1"

    def load(self, task: Task) -> Loaded:
        """See the base class."""
        mood = task.inputs["x"][0]
        if mood == 1:
            os._exit(3)
        if mood == 2:
            raise ValueError("no such operator\nand more")
        if mood == 3:
            raise CannotRunError("not today")
        if mood == GREEDY:
            np.ones(GREEDY_BYTES, np.uint8)
        print("said to the log", flush=True)
        double = np.multiply(task.inputs["x"], 2)
        return InProcess(lambda: double, {"y": double}, compile_seconds=0.5)


class SettingsEngine(MoodyEngine):
    """Tells the settings that its process was started with."""

    def version(self) -> str:
        """See the base class."""
        return repr({name: os.environ.get(name) for name in HUGE_PAGES})
