"""What is measured: a model, its inputs, what it must cost at the least, and what is aimed at."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.limits import Limits


@dataclass(frozen=True)
class Work:
    """What no program can avoid: bytes in and out of memory once, and arithmetic.

    Reading and writing are not told apart except that what only reads is held to the rate of
    reading; `working_set` is what a run touches, which decides between cache and memory.
    """

    read_bytes: float = 0.0
    written_bytes: float = 0.0
    flops: float = 0.0
    # Of the products: "fp32", or "bf16", whose sums are fp32 for all that.
    precision: str = "fp32"

    def floor(self, limits: Limits) -> float:
        """The least seconds on a machine: the larger of moving the bytes and the arithmetic."""
        moved = self.read_bytes + self.written_bytes
        rates = limits.copy_bytes if self.written_bytes > self.read_bytes / 8 else limits.read_bytes
        return max(moved / rates.at(moved), self.flops / limits.peak(self.precision))


@dataclass(frozen=True)
class Target:
    """What Opweld is to reach in a case; parts that are None are not asked for."""

    # At least this fraction of the floor.
    floor: float | None = None
    # At most this multiple of the best rival's time.
    ratio: float | None = None
    # One of the two is enough.
    either: bool = False
    # No more kernels than this.
    kernels: int | None = None

    def __str__(self) -> str:
        parts = []
        if self.floor is not None:
            parts.append(f">= {self.floor:.0%}")
        if self.ratio is not None:
            parts.append(f"<= {self.ratio:.2f}x")
        text = (" or " if self.either else ", ").join(parts)
        return text + (f", {self.kernels} kernels" if self.kernels is not None else "")

    def reached(self, fraction: float | None, ratio: float | None, kernels: int | None) -> bool:
        """Whether results meet it; what could not be measured is not met."""
        met = []
        if self.floor is not None:
            met.append(fraction is not None and fraction >= self.floor)
        if self.ratio is not None:
            met.append(ratio is not None and ratio <= self.ratio)
        enough = any(met) if self.either else all(met)
        return enough and (
            self.kernels is None or (kernels is not None and kernels <= self.kernels)
        )


@dataclass(frozen=True)
class Twin:
    """The same model as a PyTorch module, for engines that take no ONNX file.

    `module` and `name` say where the class is; it takes the model's weights by name and `sizes`,
    its `forward` the model's inputs in their order, and returns the outputs in theirs.
    """

    module: str
    name: str
    sizes: dict[str, object] = field(default_factory=dict)
    # Whether there is a matmul in it, or attention, for an autotuner to tune.
    tunable: bool = True


@dataclass(frozen=True)
class Case:
    """One model on one set of inputs."""

    name: str
    model: Path
    inputs: dict[str, np.ndarray]
    # The largest difference of any output to the reference's that counts as equal.
    tolerance: float
    work: Work
    twin: Twin | None = None
    # The same model in other operators, by a word for them: rivals that read ONNX get each.
    spellings: dict[str, Path] = field(default_factory=dict)
    target: Target = Target()
    # What Opweld is timed on instead of the model, in its own textual form, where ONNX has no word
    # for one of its operators. Inputs and outputs have the same names.
    ours: Path | None = None
    # The levels of fusion that Opweld is timed at.
    levels: tuple[str, ...] = ("auto",)
    # Whether its kernels are so short that Opweld is also timed with all of them in one launch.
    single_launch: bool = False
    # Schedules without which Opweld is timed as well, each by itself: see --without.
    without: tuple[str, ...] = ()
    # Whether it is timed with the chains, too, that the planner leaves: see --chains-of-any-rows.
    chains: bool = False
