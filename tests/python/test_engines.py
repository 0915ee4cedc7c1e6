"""Engines in processes of their own, and Opweld among them."""

import os
from pathlib import Path

import numpy as np
import pytest
from fake_engines import GREEDY, GREEDY_BYTES

from bench.engines import apart, ours, rivals
from bench.engines.apart import Apart
from bench.engines.base import CannotRunError, Task
from bench.engines.opweld import Opweld
from bench.models.text_model import text_model
from bench.opweld_command import FUSION_LEVELS
from bench.process_memory import bytes_in_use, peak_bytes


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Apart:
    monkeypatch.setattr(apart, "LOGS", tmp_path)
    engine = Apart("moody one", "fake_engines", "MoodyEngine", threads=1)
    yield engine
    engine.close()


def task(mood: float) -> Task:
    return Task(Path("unread.onnx"), {"x": np.array([mood, 8.0])}, ("y",), threads=1)


def test_an_engine_apart_answers_as_if_it_were_here(moody: Apart, tmp_path: Path) -> None:
    assert moody.version() == "moody 1"
    first, second = moody.load(task(0)), moody.load(task(5))
    assert first.outputs["y"].tolist() == [0, 16]
    assert second.outputs["y"].tolist() == [10, 16]
    assert first.compile_seconds == 0.5
    assert 0 < first.run_once() < 1
    first.close()
    assert 0 < second.run_once() < 1
    with pytest.raises(CannotRunError, match="KeyError"):
        first.run_once()
    assert "said to the log" in (tmp_path / "moody-one.log").read_text()


def test_the_peak_of_memory_is_that_of_the_model(moody: Apart) -> None:
    small = moody.load(task(0)).peak_bytes
    large = moody.load(task(GREEDY)).peak_bytes
    again = moody.load(task(0)).peak_bytes
    # The system counts pages in batches, some hundred of them at a time.
    batch = 4 << 20
    assert GREEDY_BYTES - batch <= large < GREEDY_BYTES + (64 << 20)
    assert small < 64 << 20
    # What an earlier model took at most is none of this one's.
    assert again < 64 << 20


def test_others_have_huge_pages_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(apart, "LOGS", tmp_path)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0")
    monkeypatch.delenv("THP_MEM_ALLOC_ENABLE", raising=False)
    engine = Apart("settings", "fake_engines", "SettingsEngine", threads=1)
    try:
        assert engine.version() == repr(apart.HUGE_PAGES)
    finally:
        engine.close()
    assert os.environ["GLIBC_TUNABLES"] == "glibc.malloc.check=0"
    assert "THP_MEM_ALLOC_ENABLE" not in os.environ


def test_what_goes_wrong_there_is_told_in_a_line(moody: Apart) -> None:
    with pytest.raises(CannotRunError, match=r"^ValueError: no such operator$"):
        moody.load(task(2))
    with pytest.raises(CannotRunError, match=r"^not today$"):
        moody.load(task(3))
    with pytest.raises(CannotRunError, match=r"^its process ended with code 3$"):
        moody.load(task(1))
    assert moody.load(task(4)).outputs["y"].tolist() == [8, 16]


def test_a_missing_package_is_a_reason_too() -> None:
    absent = Apart("absent", "bench.engines.no_such_engine", "Engine", threads=1)
    with pytest.raises(CannotRunError, match="ModuleNotFoundError: No module named"):
        absent.version()
    absent.close()


def test_rivals_can_be_chosen_by_name() -> None:
    assert [engine.name for engine in rivals(1, ["openvino"])] == ["openvino"]
    assert len(rivals(1)) == 5
    assert [engine.name for engine in rivals(1) if engine.reads_onnx] == ["onnxruntime", "openvino"]


def test_opweld_takes_part_at_each_level() -> None:
    model = text_model("engine test", "g (float[2] x) => (float[2] y) { y = Add(x, x) }")
    given = {"x": np.array([1.0, 2.0], np.float32)}
    for engine in ours(FUSION_LEVELS):
        loaded = engine.load(Task(model, given, ("y",), threads=1))
        assert loaded.outputs["y"].tolist() == [2, 4]
        assert loaded.kernels == 1
        assert loaded.run_once() > 0
        loaded.close()
    assert [engine.name for engine in ours(FUSION_LEVELS)] == [
        "opweld none",
        "opweld ops",
        "opweld",
    ]


def test_opweld_takes_part_in_one_launch() -> None:
    model = text_model(
        "engine launch", "g (float[4, 8] x) => (float[4, 8] y) { s = Softmax(x) y = Tanh(s) }"
    )
    given = {"x": np.ones((4, 8), np.float32)}
    apart, together = (
        engine.load(Task(model, given, ("y",), threads=2))
        for engine in (Opweld("none"), Opweld("none", single_launch=True))
    )
    assert (apart.kernels, apart.launches) == (2, 2)
    assert (together.kernels, together.launches) == (2, 1)
    assert np.array_equal(apart.outputs["y"], together.outputs["y"])
    assert together.run_once() > 0
    for loaded in (apart, together):
        # One row of intermediates at the least, and its buffers.
        assert loaded.held_bytes >= 4 * 4 * 8
        assert loaded.bound_bytes == 1.1 * 4 * 4 * 8
        assert loaded.peak_bytes > 1 << 20
        loaded.close()
    assert [engine.name for engine in ours(("none", "auto"), single_launch=True)] == [
        "opweld none",
        "opweld",
        "opweld single launch",
    ]


def test_opweld_takes_part_without_a_schedule() -> None:
    model = text_model(
        "engine without", "g (float[4, 8] x) => (float[4, 8] y) { s = Exp(x) y = Tanh(s) }"
    )
    given = {"x": np.ones((4, 8), np.float32)}
    engines = ours(("auto",), without=("map",))
    assert [engine.name for engine in engines] == ["opweld", "opweld without map"]
    together, apart = (engine.load(Task(model, given, ("y",), threads=1)) for engine in engines)
    assert (together.kernels, apart.kernels) == (1, 2)
    # x and y, and between two kernels s, written and read.
    assert (together.moved_bytes, apart.moved_bytes) == (2 * 4 * 4 * 8, 4 * 4 * 4 * 8)
    for loaded in (together, apart):
        loaded.close()


def test_memory_in_use_is_told_by_the_system() -> None:
    before = bytes_in_use()
    block = np.ones(100 << 20, np.uint8)
    assert bytes_in_use() - before > 90 << 20
    assert peak_bytes() >= before + (90 << 20)
    assert block[0] == 1
    assert bytes_in_use("no such process") is None


def test_what_opweld_refuses_is_a_reason() -> None:
    model = text_model("engine test", "g (float[2] x) => (float[2] y) { y = Add(x, x) }")
    wrong = Task(model, {"x": np.ones(3, np.float32)}, ("y",), threads=1)
    with pytest.raises(CannotRunError, match="x"):
        ours(("auto",))[0].load(wrong)
