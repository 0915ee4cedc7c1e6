"""The timing of models against eager mode and Inductor, on a tiny one and on made-up numbers."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench import model_speed, model_table
from bench.engines.base import CannotRunError
from bench.model_speed import Memory, Phase, Speed, measure_model, measure_phase, phases_of
from bench.models.small_transformers import SMALL
from tests.python.fake_engines import FixedEngine

TINY = dataclasses.replace(SMALL, layers=1, batch=1)


def test_a_tiny_model_is_compiled_compared_and_timed_everywhere() -> None:
    speeds, memory = measure_model("Llama", threads=1, rounds=1, sizes=TINY, lengths=(5,))
    assert [each.phase for each in speeds] == ["5", "1 behind 5"]
    for speed in speeds:
        assert speed.missing == {}
        assert speed.median_seconds.keys() == {"eager", "inductor", "opweld"}
        assert speed.compile_seconds.keys() == {"inductor", "opweld"}
        assert 0 < speed.difference["opweld"] < 1e-5
        assert all(each > 0 for each in speed.median_seconds.values())
    assert memory is not None
    # A layer has q and o of 64 x 64, k and v of half, three of 64 x 128, and two norms.
    layer = 4 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64)
    outside = 4 * (2 * 128 * 64 + 64)
    assert memory.weight_bytes == (outside + layer, outside + model_speed.DEEPER * layer)
    assert all(0 <= a <= b for a, b in zip(memory.held_bytes, memory.peak_bytes, strict=True))


def answers(value: float) -> Callable[[dict], dict]:
    return lambda inputs: {"result": np.array([1.0, value])}


class OfModels(FixedEngine):
    """Takes a model's task, which has no inputs of its own."""

    def load(self, task: model_speed.ModelTask) -> object:
        """See the base class."""
        return super().load(dataclasses.make_dataclass("Inputs", ["inputs"])({}))


def test_what_is_wrong_is_not_timed() -> None:
    engines = {
        "eager": OfModels("eager", 0.3, answers(4)),
        "inductor": OfModels("inductor", 0.2, answers(4)),
        "opweld": OfModels("opweld", 0.1, answers(5)),
    }
    speed, _ = measure_phase("Llama", Phase(5), engines, threads=1, rounds=1, sizes=TINY)
    assert speed.median_seconds == {"eager": 0.3, "inductor": 0.2}
    assert speed.missing == {"opweld": "wrong: differs from eager mode by 0.25"}
    assert speed.ratio() is None and speed.compile_ratio() == 1
    assert "- Llama, 5: opweld: wrong" in model_speed.speed_table([speed])


def test_nan_is_wrong() -> None:
    engines = {
        "eager": OfModels("eager", 0.3, answers(4)),
        "opweld": OfModels("opweld", 0.1, answers(float("nan"))),
    }
    speed, _ = measure_phase("Llama", Phase(5), engines, threads=1, rounds=1, sizes=TINY)
    assert "opweld" in speed.missing


def test_who_cannot_run_is_missing_and_eager_mode_must() -> None:
    class Broken(OfModels):
        def load(self, task: model_speed.ModelTask) -> object:
            raise CannotRunError("no")

    engines = {
        "eager": OfModels("eager", 0.3, answers(4)),
        "inductor": Broken("inductor", 0.2, answers(4)),
    }
    speed, _ = measure_phase("Llama", Phase(5), engines, threads=1, rounds=1, sizes=TINY)
    assert speed.missing == {"inductor": "no"}
    with pytest.raises(CannotRunError, match="Llama does not run in eager mode: no"):
        measure_phase("Llama", Phase(5), {"eager": Broken("eager", 1, answers(4))}, 1, 1, TINY)


def test_phases() -> None:
    assert [str(each) for each in phases_of("BERT")] == ["32", "128"]
    assert [str(each) for each in phases_of("Qwen3")] == ["32", "128", "1 behind 128"]
    assert [str(each) for each in phases_of("ViT")] == ["-"]


SPEED = Speed(
    "Llama", "32", {"inductor": 20.0, "opweld": 2.5},
    {"eager": 0.004, "inductor": 0.003, "opweld": 0.0015}, {"opweld": 2e-7},
)  # fmt: skip
MEMORY = Memory("Llama", (40_000_000, 100_000_000), (90_000_000, 156_000_000), (100, 60_000_100))


def test_ratios_and_tables() -> None:
    assert SPEED.ratio() == 0.5 and SPEED.compile_ratio() == 8
    assert MEMORY.copies(MEMORY.held_bytes) == pytest.approx(1.1)
    lines = model_speed.speed_table([SPEED, SPEED]).splitlines()
    assert lines[2] == (
        "| Llama | 32 | 20.0 s | 2.5 s | 8.0 | 4.00 ms | 3.00 ms | 1.50 ms | 0.50 | 2e-07 |"
    )
    assert re.search(r"geometric mean .* 8.00 .* 0.50 ", lines[-1])
    (row,) = model_speed.memory_table([MEMORY]).splitlines()[2:]
    assert row == "| Llama | 4 / 12 | 40 / 100 | 90 / 156 | 0 / 60 | 1.10 | 1.00 |"


def test_measurements_survive_the_file_and_go_between_the_marks(tmp_path: Path) -> None:
    machine = {"processor": "P", "cores": 2, "load_before": 0.1}
    report = {"machine": machine, "settings": {"threads": 2, "rounds": 3}}
    report |= model_speed.as_json([SPEED], [MEMORY])
    report = json.loads(json.dumps(report))
    assert model_speed.from_json(report) == ([SPEED], [MEMORY])
    document = tmp_path / "models.md"
    model_table.write(["| counted |"], document)
    model_table.write_measured(report, document)
    once = document.read_text()
    assert "| counted |" in once and "| Llama | 32 |" in once and "on\nP with 2 cores" in once
    # Each part leaves the other as it is.
    model_table.write(["| counted anew |"], document)
    again = document.read_text()
    assert again == once.replace("| counted |", "| counted anew |")
