"""The benchmark's own arithmetic: turns, differences and tables."""

import math

import numpy as np
import pytest

from bench import turns
from bench.suites.contest import Contest, Timing, format_contests, largest_difference
from bench.table import megabytes, milliseconds, table


def test_each_engine_runs_once_per_round_and_each_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 0)
    order: list[str] = []
    runs_a_turn = turns.WARM_UP_RUNS + 1

    def engine(name: str, seconds: float) -> tuple:
        def run() -> float:
            order.append(name)
            # Whatever is uncounted is slow: whole rounds at first, then the start of each turn.
            counted = (len(order) - 1) % runs_a_turn >= turns.WARM_UP_RUNS
            warm = len(order) > 2 * runs_a_turn * turns.WARM_UP_ROUNDS
            return seconds if warm and counted else 100.0

        return name, run

    seconds = turns.take_turns(dict([engine("a", 1.0), engine("b", 2.0)]), rounds=4)
    assert seconds == {"a": [1.0] * 4, "b": [2.0] * 4}
    assert order[::runs_a_turn] == ["a", "b", "b", "a"] * 3
    assert order[runs_a_turn - 1 :: runs_a_turn] == order[::runs_a_turn]


def test_the_largest_difference_is_over_all_outputs_and_shows_nan() -> None:
    expected = {"x": np.array([1.0, 2.0]), "y": np.zeros((0, 3))}
    assert largest_difference(expected, expected) == 0
    assert largest_difference({**expected, "x": np.array([1.0, 2.5])}, expected) == 0.5
    for broken in ([1.0, math.nan], [math.nan, 9.0]):
        assert math.isnan(largest_difference({**expected, "x": np.array(broken)}, expected))
    with pytest.raises(ValueError, match=r"outputs are \['x'\]"):
        largest_difference({"x": expected["x"]}, expected)
    with pytest.raises(ValueError, match=r"x has shape \(1,\), expected \(2,\)"):
        largest_difference({**expected, "x": np.ones(1)}, expected)


def test_half_precision_is_compared_without_overflow() -> None:
    top = np.array([60000], np.float16)
    assert largest_difference({"x": top}, {"x": -top}) == 2 * float(top[0])


def test_a_contest_is_a_row_per_engine() -> None:
    timings = [Timing("one", 0.002, 0.001, 1.0, 0.0), Timing("two", 0.25, 0.2, 125.0, 1e-6)]
    text = format_contests([Contest("batch 1", timings)])
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows[2:] == [
        "batch 1 one 2.00 ms 1.00 ms 1.00x 0.0e+00",
        "two 250 ms 200 ms 125.00x 1.0e-06",
    ]


def test_a_floor_is_told_as_a_fraction_and_notes_come_last() -> None:
    contest = Contest("small", [Timing("one", 0.002, 0.001, 1.0, 0.0)], notes=("a note",))
    text = format_contests([contest.against(0.001)])
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0].endswith("of peak")
    assert lines[2] == "small one 2.00 ms 1.00 ms 1.00x 0.0e+00 50%"
    assert lines[-1] == "small: a note"


def test_tables_align() -> None:
    assert table(["a", "b"], [["long", 1], ["x", 100]], indent=1) == (
        " a       b\n ----  ---\n long    1\n x     100"
    )
    assert megabytes(1_234_567_890) == "1,234.6 MB"
    assert [milliseconds(s) for s in (0.0000123, 0.0999, 1.5)] == ["0.01 ms", "99.90 ms", "1500 ms"]
