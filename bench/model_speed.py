"""Models of transformers through eager mode, Inductor and Opweld: compiling, running, memory.

Engines are in processes of their own and take turns run by run. Results are compared before that,
and what is wrong is not timed.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

import torch

from bench.contest import largest_difference
from bench.engines.apart import Apart, environment
from bench.engines.base import CannotRunError, Engine, Loaded
from bench.models.small_transformers import MODELS, Sizes, make
from bench.table import markdown_table
from bench.turns import take_turns

SIZES = Sizes(
    width=512, inner=1536, layers=4, heads=8, key_heads=4, experts=8, expert_inner=512,
    vocabulary=1024, positions=256, window=64, image=64, source=64, batch=1,
)  # fmt: skip
LENGTHS = (32, 128)
# So many times the layers, to see what each further one takes.
DEEPER = 3
# Of any value, relative to the largest.
TOLERANCE = 1e-4
CASE_SECONDS = 12.0
ENGINES = {"eager": "EagerModel", "inductor": "InductorModel", "opweld": "OpweldModel"}


@dataclass(frozen=True)
class Phase:
    """One way in which a model is called."""

    length: int
    decodes: bool = False

    def __str__(self) -> str:
        if self.decodes:
            return f"1 behind {self.length}"
        return str(self.length) if self.length > 1 else "-"


@dataclass(frozen=True)
class ModelTask:
    """What an engine of bench/model_engines.py is told."""

    name: str
    length: int
    sizes: Sizes
    threads: int
    decodes: bool = False
    """One token behind so many, which lie in a static cache."""


@dataclass(frozen=True)
class Speed:
    """What was measured of one model in one phase, by engine; who is missing is in `missing`."""

    model: str
    phase: str
    compile_seconds: dict[str, float]
    """Tracing, compiling and the first run."""
    median_seconds: dict[str, float]
    difference: dict[str, float]
    """To eager mode, relative to the largest value."""
    missing: dict[str, str] = field(default_factory=dict)

    def ratio(self) -> float | None:
        """How many times as long as Inductor a call takes."""
        return _quotient(self.median_seconds, "opweld", "inductor")

    def compile_ratio(self) -> float | None:
        """How many times as long Inductor compiles."""
        return _quotient(self.compile_seconds, "inductor", "opweld")


@dataclass(frozen=True)
class Memory:
    """By how much the memory of a process grows by compiling and running a model once.

    The model itself, and what a run in eager mode takes, were there before. Each number is for the
    model and for one of DEEPER times the layers.
    """

    model: str
    weight_bytes: tuple[int, int]
    held_bytes: tuple[int, int]
    peak_bytes: tuple[int, int]

    def copies(self, grown: tuple[int, int]) -> float:
        """Bytes that each further byte of weights takes: what the compiler itself has cancels."""
        return (grown[1] - grown[0]) / (self.weight_bytes[1] - self.weight_bytes[0])


def _quotient(values: dict[str, float], above: str, below: str) -> float | None:
    known = above in values and below in values
    return values[above] / values[below] if known else None


def phases_of(name: str, lengths: Sequence[int] = LENGTHS) -> list[Phase]:
    """The lengths that a model is timed at, and for those that generate a step of decoding."""
    if len(MODELS[name].lengths) == 1:
        return [Phase(1)]
    phases = [Phase(length) for length in lengths]
    return [*phases, Phase(lengths[-1], decodes=True)] if MODELS[name].generates else phases


def measure_model(
    name: str,
    threads: int,
    rounds: int,
    sizes: Sizes = SIZES,
    lengths: Sequence[int] = LENGTHS,
) -> tuple[list[Speed], Memory | None]:
    """Everything about one model; no memory where nobody tells it, or Opweld fails."""
    with nothing_kept():
        engines: dict[str, Engine] = {engine: _apart(engine, threads) for engine in ENGINES}
        try:
            measured = [
                measure_phase(name, phase, engines, threads, rounds, sizes)
                for phase in phases_of(name, lengths)
            ]
        finally:
            for engine in engines.values():
                engine.close()
        memory = _memory(name, measured[0][1], threads, sizes, lengths)
    return [speed for speed, _ in measured], memory


def _apart(engine: str, threads: int) -> Apart:
    return Apart(engine, "bench.model_engines", ENGINES[engine], threads, reads_onnx=False)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Processes that are started inside find nothing that others compiled."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        environment({"TORCHINDUCTOR_CACHE_DIR": folder, "OPWELD_COMPILED": "0"}),
    ):
        yield


def measure_phase(
    name: str, phase: Phase, engines: dict[str, Engine], threads: int, rounds: int, sizes: Sizes
) -> tuple[Speed, Loaded | None]:
    """Compiles in every engine, compares, and times those that are right in turns.

    Returns as well what Opweld loaded, if it did, for what it tells of memory.
    """
    task = ModelTask(name, phase.length, sizes, threads, phase.decodes)
    loaded: dict[str, Loaded] = {}
    missing: dict[str, str] = {}
    for engine, each in engines.items():
        try:
            loaded[engine] = each.load(task)
        except CannotRunError as error:
            missing[engine] = str(error)
    if "eager" not in loaded:
        raise CannotRunError(f"{name} does not run in eager mode: {missing['eager']}")
    expected = loaded["eager"].outputs
    largest = float(abs(expected["result"]).max())
    difference = {}
    for engine, each in loaded.items():
        difference[engine] = largest_difference(each.outputs, expected) / largest
        # Written so that NaN, which is below nothing, is refused too.
        if not difference[engine] <= TOLERANCE:
            missing[engine] = f"wrong: differs from eager mode by {difference[engine]:.2g}"
    runs = {engine: each.run_once for engine, each in loaded.items() if engine not in missing}
    seconds = take_turns(runs, rounds, CASE_SECONDS, missing)
    speed = Speed(
        model=name,
        phase=str(phase),
        compile_seconds={
            engine: each.compile_seconds for engine, each in loaded.items() if engine != "eager"
        },
        median_seconds={engine: statistics.median(each) for engine, each in seconds.items()},
        difference=difference,
        missing=missing,
    )
    ours = loaded.get("opweld")
    for each in loaded.values():
        each.close()
    return speed, ours


def _memory(
    name: str, first: Loaded | None, threads: int, sizes: Sizes, lengths: Sequence[int]
) -> Memory | None:
    """Of the model as it was loaded first, in a fresh process, and of a deeper one in another."""
    if first is None or first.peak_bytes is None or first.held_bytes is None:
        return None
    deeper = replace(sizes, layers=DEEPER * sizes.layers)
    engine = _apart("opweld", threads)
    try:
        task = ModelTask(name, phases_of(name, lengths)[0].length, deeper, threads)
        second = engine.load(task)
    except CannotRunError:
        return None
    finally:
        engine.close()
    return Memory(
        model=name,
        weight_bytes=(weight_bytes(name, sizes), weight_bytes(name, deeper)),
        held_bytes=(first.held_bytes, second.held_bytes),
        peak_bytes=(first.peak_bytes, second.peak_bytes),
    )


def weight_bytes(name: str, sizes: Sizes) -> int:
    """Of the parameters of a model, each once."""
    with torch.device("meta"):
        model = make(name, sizes)
    return sum(each.numel() * each.element_size() for each in model.parameters())


# ---- tables ----

SPEED_HEADER = (
    "model", "length", "compiling: Inductor", "Opweld", "times shorter",
    "running: eager", "Inductor", "Opweld", "ratio to Inductor", "difference",
)  # fmt: skip
MEMORY_HEADER = (
    "model", "layers", "weights", "held", "peak", "held per byte", "peak per byte",
)  # fmt: skip


def speed_table(speeds: Sequence[Speed]) -> str:
    """A row for each model and phase, and the geometric means of the ratios."""
    rows = [_speed_row(each) for each in speeds]
    ratios = [each.ratio() for each in speeds if each.ratio() is not None]
    times = [each.compile_ratio() for each in speeds if each.compile_ratio() is not None]
    if ratios and times:
        means = [f"{statistics.geometric_mean(each):.2f}" for each in (times, ratios)]
        rows.append(["geometric mean", "", "", "", means[0], "", "", "", means[1], ""])
    missing = [
        f"- {each.model}, {each.phase}: {engine}: {reason}"
        for each in speeds
        for engine, reason in each.missing.items()
    ]
    return "\n".join([markdown_table(SPEED_HEADER, rows), *(["", *missing] if missing else [])])


def _speed_row(speed: Speed) -> list[str]:
    def told(values: dict[str, float], engine: str, form: str, factor: float = 1) -> str:
        return form.format(values[engine] * factor) if engine in values else "-"

    ratio, times = speed.ratio(), speed.compile_ratio()
    difference = speed.difference.get("opweld", math.nan)
    return [
        speed.model,
        speed.phase,
        *(told(speed.compile_seconds, each, "{:.1f} s") for each in ("inductor", "opweld")),
        "-" if times is None else f"{times:.1f}",
        *(
            told(speed.median_seconds, each, "{:.2f} ms", 1e3)
            for each in ("eager", "inductor", "opweld")
        ),
        "-" if ratio is None else f"{ratio:.2f}",
        f"{difference:.0e}",
    ]


def memory_table(memories: Sequence[Memory], layers: int = SIZES.layers) -> str:
    """A row for each model: both depths, and what follows from their difference."""
    rows = []
    for each in memories:
        numbers = [
            " / ".join(f"{count / 1e6:.0f}" for count in pair)
            for pair in (each.weight_bytes, each.held_bytes, each.peak_bytes)
        ]
        copies = [f"{each.copies(pair):.2f}" for pair in (each.held_bytes, each.peak_bytes)]
        rows.append([each.model, f"{layers} / {DEEPER * layers}", *numbers, *copies])
    return markdown_table(MEMORY_HEADER, rows)


def as_json(speeds: Sequence[Speed], memories: Sequence[Memory]) -> dict:
    """All of it, with the ratios that follow."""
    return {
        "speeds": [
            asdict(each) | {"ratio": each.ratio(), "compile_ratio": each.compile_ratio()}
            for each in speeds
        ],
        "memories": [
            asdict(each)
            | {
                "held_per_byte": each.copies(each.held_bytes),
                "peak_per_byte": each.copies(each.peak_bytes),
            }
            for each in memories
        ],
    }


def from_json(report: dict) -> tuple[list[Speed], list[Memory]]:
    """What as_json() wrote; what follows from it follows again."""

    def made(kind: type, values: dict) -> object:
        fields = {name: values[name] for name in kind.__dataclass_fields__}
        lists = {name: tuple(each) for name, each in fields.items() if isinstance(each, list)}
        return kind(**fields | lists)

    speeds = [made(Speed, each) for each in report["speeds"]]
    return speeds, [made(Memory, each) for each in report["memories"]]
