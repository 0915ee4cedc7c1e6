"""Cases of the arena by themselves: which count, what is told of them, where it is written."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import alone
from bench.alone import (
    BEGIN,
    END,
    Alone,
    format_alone,
    fractions_of_last_run,
    has_floor,
    time_alone,
    write_alone,
)
from bench.case import Case, Target, Work
from bench.contest import Contest, Timing
from bench.limits import Limits, Rates
from bench.models.text_model import text_model

RATES = Rates({1 << 20: 1e9})
LIMITS = {
    threads: Limits(threads=threads, flops=threads * 1e9, copy_bytes=RATES, read_bytes=RATES)
    for threads in (1, 2)
}
CASE = Case(
    name="sums",
    model=Path("sums.onnx"),
    inputs={"x": np.ones(2, np.float32)},
    tolerance=1e-6,
    work=Work(flops=4e6),  # 4 ms on one thread, 2 ms on both
    target=Target(floor=0.9),
)
# Nine tenths of the floor on one thread, half of it on two.
TIMED = Alone("matmul", CASE, {1: 4e-3 / 0.9, 2: 4e-3}, first=12e-3)
LAST = {("matmul", "sums"): 0.25}


def test_only_what_is_held_to_the_floor_whatever_rivals_take_counts() -> None:
    assert has_floor(CASE)
    assert has_floor(replace(CASE, target=Target(floor=0.9, ratio=1.0)))
    assert not has_floor(replace(CASE, target=Target()))
    assert not has_floor(replace(CASE, target=Target(ratio=0.8)))
    assert not has_floor(replace(CASE, target=Target(floor=0.9, ratio=0.8, either=True)))


def test_times_become_fractions_of_the_floor() -> None:
    header, _, row = format_alone([TIMED], LIMITS, LAST).splitlines()
    assert header.split("  ")[1:] != []
    assert row.split() == ["matmul:", "sums", "90%", "25%", "90%", "50%", "1.11x", "3.0x"]
    assert format_alone([TIMED], LIMITS, {}).splitlines()[-1].split()[3] == "-"


def test_the_last_run_is_read_from_what_the_arena_kept(tmp_path: Path) -> None:
    timing = Timing("opweld", True, 8e-3, 8e-3, 0.0, 0.0, kernels=1)
    contest = Contest(CASE.name, [timing], {}, "opweld", CASE.work, 2e-3, CASE.target)
    results = tmp_path / "results.json"
    assert fractions_of_last_run(results) == {}
    results.write_text(json.dumps({"suites": {"matmul": [contest.as_json()]}}), encoding="utf-8")
    assert fractions_of_last_run(results) == LAST


def test_the_document_holds_the_table_and_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "inner-loops.md"
    document.write_text(f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n", encoding="utf-8")
    monkeypatch.setattr(alone, "DOCUMENT", document)
    write_alone([TIMED], LIMITS, LAST)
    text = document.read_text(encoding="utf-8")
    assert "| matmul: sums | 90% | 25% | 90% | 50% | 1.11x | 3.0x |" in text
    assert re.search(r"fp32 multiply-add +1 GFLOP/s +2 GFLOP/s", text)
    assert "old" not in text
    assert text.startswith("before\n") and text.endswith("after\n")


def test_a_case_is_timed_warm_on_each_number_of_threads_and_once_cold() -> None:
    model = text_model("arena test", "g (float[2] x) => (float[2] y) { y = Add(x, x) }")
    timed = time_alone("matmul", replace(CASE, model=model), [1, 2])
    assert timed.seconds.keys() == {1, 2}
    assert all(seconds > 0 for seconds in [*timed.seconds.values(), timed.first])
