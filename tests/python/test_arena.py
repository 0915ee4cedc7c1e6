"""The benchmark's own arithmetic: turns, differences, contests, floors and tables."""

import json
import math
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from fake_engines import FixedEngine

from bench import turns
from bench.arena import SUITES
from bench.case import Case, Target, Work
from bench.contest import Contest, Settings, Timing, hold_contest, largest_difference
from bench.document import BEGIN, END, measured_part, replaced, with_other_suites
from bench.engines.base import CannotRunError
from bench.launches import (
    Cost,
    LaunchCosts,
    format_launches,
    launch_cost,
    launches_from_json,
    measure_launches,
)
from bench.limits import (
    Limits,
    Rates,
    best_limits,
    format_limits,
    limits_from_json,
    plausible_limits,
    read_limits,
)
from bench.machine import describe_machine
from bench.models.cache import ROOT
from bench.models.text_model import text_model
from bench.opweld_command import Memory
from bench.plot import plot_suite
from bench.products import share_of_products
from bench.report import (
    format_contests,
    format_memory,
    format_progress,
    format_reasons,
    format_summary,
    format_times,
    format_variants,
)
from bench.table import markdown_table, megabytes, milliseconds, table

FLAT = Rates({1 << 20: 100e9, 256 << 20: 10e9})
LIMITS = Limits(threads=2, flops=200e9, copy_bytes=FLAT, read_bytes=Rates({256 << 20: 50e9}))


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
            return seconds if warm and counted else 0.2

        return name, run

    seconds = turns.take_turns(dict([engine("a", 0.01), engine("b", 0.02)]), rounds=4)
    assert seconds == {"a": [0.01] * 4, "b": [0.02] * 4}
    assert order[::runs_a_turn] == ["a", "b", "b", "a"] * 3
    assert order[runs_a_turn - 1 :: runs_a_turn] == order[::runs_a_turn]


def test_rounds_end_with_the_budget_but_not_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 0)
    runs = {"a": lambda: 1.0}
    assert len(turns.take_turns(runs, 9, budget_seconds=0)["a"]) == turns.LEAST_ROUNDS
    assert len(turns.take_turns(runs, 9, budget_seconds=60)["a"]) == 9
    assert len(turns.take_turns(runs, 2, budget_seconds=0)["a"]) == 2


def test_who_cannot_go_on_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 0)
    # Two rounds of two runs, the first of them uncounted, and half a round.
    runs_left = iter(range(5))

    def tire() -> float:
        if next(runs_left, None) is None:
            raise CannotRunError("no more")
        return 0.01

    runs = {"a": lambda: 1.0, "b": tire}
    failed: dict[str, str] = {}
    assert turns.take_turns(runs, 6, failed=failed) == {"a": [1.0] * 6}
    assert failed == {"b": "no more"}
    with pytest.raises(CannotRunError, match="no more"):
        turns.take_turns(runs, 1)


def test_a_long_run_needs_no_other_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 0)
    count = 0

    def run() -> float:
        nonlocal count
        count += 1
        return turns.LONG_SECONDS

    assert len(turns.take_turns({"a": run}, 4)["a"]) == 4
    # Only before the first it is not known how long a run takes.
    assert count == turns.WARM_UP_ROUNDS + 4 + turns.WARM_UP_RUNS


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


@pytest.fixture
def case() -> Case:
    model = text_model("arena test", "g (float[2] x) => (float[2] y) { y = Add(x, x) }")
    other = text_model("arena test other", "g (float[2] x) => (float[2] y) { y = Sum(x, x) }")
    return Case(
        name="double",
        model=model,
        inputs={"x": np.array([1.0, 2.0], np.float32)},
        tolerance=0.5,
        work=Work(flops=1e8),
        spellings={"summed": other},
        target=Target(floor=0.4, ratio=0.6),
    )


def double(inputs: dict) -> dict:
    return {"y": inputs["x"] * 2}


def test_a_contest_times_who_is_right_and_says_why_others_are_not(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 0)

    def refuse(inputs: dict) -> dict:
        raise CannotRunError("not today")

    ours = FixedEngine("opweld", 0.001, double)
    first = FixedEngine("first", 0.004, double)
    # As if it took the model's PyTorch twin, of which there is one spelling.
    first.reads_onnx = False
    second = FixedEngine("second", 0.002, lambda inputs: {"y": inputs["x"] * 2 + 0.25})
    engines = [
        *[(ours, True), (first, False), (second, False)],
        (FixedEngine("wrong", 1.0, lambda inputs: {"y": inputs["x"] * 3}), False),
        (FixedEngine("nan", 1.0, lambda inputs: {"y": inputs["x"] * math.nan}), False),
        (FixedEngine("shy", 1.0, refuse), False),
    ]
    for engine, _ in engines[3:]:
        engine.reads_onnx = False
    contest = hold_contest(case, engines, LIMITS, Settings(threads=2, rounds=4))
    assert [timing.engine for timing in contest.timings] == [
        "opweld",
        "first",
        "second",
        "second, summed",
    ]
    assert contest.reference == "first"
    assert contest.missing == {
        "shy": "not today",
        "wrong": "wrong: differs from first by 2; 0.5 is allowed",
        "nan": "wrong: differs from first by nan; 0.5 is allowed",
    }
    assert [task.model for task in second.loads] == [case.model, case.spellings["summed"]]
    assert [task.model for task in ours.loads] == [case.model]
    assert all(task.outputs == ("y",) and task.threads == 2 for task in second.loads)
    assert (ours.closed, first.closed, second.closed) == (1, 1, 2)
    assert contest.best_rival().engine == "second"
    assert [contest.ratio(timing) for timing in contest.timings] == [0.5, 2.0, 1.0, 1.0]
    assert contest.floor_seconds == 0.0005
    assert contest.fraction(contest.ours()) == 0.5
    assert contest.reached() is True
    assert contest.against(replace(LIMITS, flops=1e12)).reached() is False
    described = json.loads(json.dumps(contest.as_json()))
    assert described["best_rival"] == "second"
    assert described["timings"][0] == {
        "engine": "opweld",
        "ours": True,
        "median_seconds": 0.001,
        "fastest_seconds": 0.001,
        "spread": 0.0,
        "difference": 0.0,
        "kernels": None,
        "compile_seconds": 0.25,
        "launches": None,
        "moved_bytes": None,
        "peak_bytes": None,
        "held_bytes": None,
        "bound_bytes": None,
        "ratio_to_best_rival": 0.5,
        "fraction_of_floor": 0.5,
    }


def test_without_a_rival_there_is_nothing_to_compare_with(case: Case) -> None:
    with pytest.raises(CannotRunError, match="nothing can be compared"):
        hold_contest(case, [(FixedEngine("opweld", 1.0, double), True)], LIMITS, Settings(1, 2))


def test_targets_are_met_in_all_their_parts_or_in_either() -> None:
    both = Target(floor=0.9, ratio=0.8)
    assert str(both) == ">= 90%, <= 0.80x"
    assert both.reached(0.9, 0.8, None)
    assert not both.reached(0.89, 0.8, None)
    assert not both.reached(0.9, None, None)
    either = Target(floor=0.95, ratio=0.85, either=True, kernels=3)
    assert str(either) == ">= 95% or <= 0.85x, 3 kernels"
    assert either.reached(0.1, 0.85, 3)
    assert either.reached(0.95, 2.0, 3)
    assert not either.reached(0.9, 0.9, 3)
    assert not either.reached(0.95, 0.5, 4)
    assert not either.reached(0.95, 0.5, None)
    assert str(Target()) == ""


def test_the_floor_is_the_larger_of_bytes_and_arithmetic() -> None:
    assert Work(flops=200e9).floor(LIMITS) == 1.0
    # 256 MB read and written move at the rate of copying so much, 2 MB in the caches.
    assert Work(128 << 20, 128 << 20, flops=1e6).floor(LIMITS) == (256 << 20) / 10e9
    assert Work(1 << 20, 1 << 20).floor(LIMITS) == (2 << 20) / 100e9
    # What hardly writes is held to the rate of reading.
    assert Work(read_bytes=50e9, written_bytes=0).floor(LIMITS) == 1.0
    assert Work().floor(LIMITS) == 0.0
    # Arithmetic in bf16 is held to what the machine does in bf16.
    fast = replace(LIMITS, tile_flops=10 * LIMITS.flops)
    assert Work(flops=1e12, precision="fp32").floor(fast) == 1e12 / LIMITS.flops
    assert Work(flops=1e12, precision="bf16").floor(fast) == 1e12 / (10 * LIMITS.flops)
    assert Work(flops=1e12, precision="bf16").floor(LIMITS) == 1e12 / LIMITS.flops


def test_limits_are_measured_again_when_many_threads_did_less_than_one() -> None:
    def measured(flops: float) -> dict[int, Limits]:
        rates = Rates({1 << 20: flops})
        return {1: Limits(1, 2e9, rates, rates), 2: Limits(2, flops, rates, rates)}

    for answers, asked, best in [
        ([4e9, 9e9], 1, 4e9),
        ([1e9, 4e9, 9e9], 2, 4e9),
        ([1e9, 1.5e9, 1.2e9, 9e9], 3, 1.5e9),
    ]:
        given = [measured(flops) for flops in answers]
        assert plausible_limits(lambda given=given: given.pop(0))[2].flops == best
        assert len(answers) - len(given) == asked


def test_limits_are_the_best_repetition_and_absent_where_a_loop_is() -> None:
    def run(name: str, threads: int, **rate: float) -> dict:
        return {"name": name, "threads": threads, "run_type": "iteration", **rate}

    runs = [
        run("FusedMultiplyAdd/real_time/threads:1", 1, items_per_second=1e9),
        run("FusedMultiplyAdd/real_time/threads:1", 1, items_per_second=3e9),
        {**run("FusedMultiplyAdd", 1, items_per_second=9e9), "run_type": "aggregate"},
        run("FusedMultiplyAdd/real_time/threads:2", 2, items_per_second=5e9),
        {**run("Bfloat16Dot/real_time/threads:1", 1), "error_occurred": True},
        run("Bfloat16Dot/real_time/threads:2", 2, items_per_second=8e9),
        run("Bfloat16Tiles/min_time:0.010/repeats:9/threads:1", 1, items_per_second=20e9),
        run("Bfloat16Tiles/min_time:0.010/repeats:9/threads:1", 1, items_per_second=60e9),
        run("Bfloat16Tiles/min_time:0.010/repeats:9/threads:1", 1, items_per_second=10e9),
    ]
    for threads in (1, 2):
        runs.append(run("Copy/1048576/real_time", threads, bytes_per_second=4e9 * threads))
        past = 3e9 if threads == 1 else 9e9  # of both copies the faster counts
        runs.append(run("CopyPastCaches/1048576/real_time", threads, bytes_per_second=past))
        runs.append(run("Read/4194304/real_time", threads, bytes_per_second=7e9 * threads))
    limits = read_limits(runs)
    assert limits[1] == Limits(1, 3e9, Rates({1 << 20: 4e9}), Rates({4 << 20: 7e9}), None, 60e9)
    assert limits[2] == Limits(2, 5e9, Rates({1 << 20: 9e9}), Rates({4 << 20: 14e9}), 8e9)
    assert [limits[1].peak("fp32"), limits[1].peak("bf16")] == [3e9, 60e9]
    assert [limits[2].peak("fp32"), limits[2].peak("bf16")] == [5e9, 8e9]
    slower = {t: replace(limits[t], flops=1e9, copy_bytes=Rates({1 << 20: 5e9})) for t in limits}
    assert best_limits(slower, limits)[1] == replace(limits[1], copy_bytes=Rates({1 << 20: 5e9}))
    assert best_limits(limits, slower)[2] == limits[2]
    lines = [" ".join(line.split()) for line in format_limits(limits).splitlines()]
    assert lines[2:] == [
        "fp32 multiply-add 3 GFLOP/s 5 GFLOP/s",
        "bf16 dot product - 8 GFLOP/s",
        "bf16 tiles 60 GFLOP/s -",
        "copy, 1 MB touched 4 GB/s 9 GB/s",
        "read, 4 MB touched 7 GB/s 14 GB/s",
    ]


def contests() -> list[Contest]:
    timings = [
        Timing("opweld", True, 0.002, 0.001, 0.05, 1e-6, kernels=3, compile_seconds=0.5),
        Timing("one", False, 0.25, 0.2, 0.0, 0.0),
    ]
    missing = {"two": "no such operator"}
    first = Contest("small", timings, missing, "one", Work(), 0.001, Target(floor=0.9))
    second = Contest("large", timings[1:], missing, "one", Work(), 0.1, notes=("hm",))
    return [first, second]


def test_a_table_has_a_row_per_engine_and_reasons_below() -> None:
    rows = [" ".join(line.split()) for line in format_contests(contests()).splitlines()]
    assert rows[2:] == [
        "small opweld 2.00 ms 5% 50% 0.01x 1.0e-06",
        "one 250 ms 0% 0% 1.00x 0.0e+00",
        "two - - - - -",
        "large one 250 ms 0% 40% 1.00x 0.0e+00",
        "two - - - - -",
        "",
        "all: two: no such operator",
        "large: hm",
    ]


def test_a_floor_that_is_beaten_is_told() -> None:
    first, second = contests()
    assert "faster than the floor" not in format_contests([first, second])
    lines = format_contests([first, replace(second, floor_seconds=0.3)]).splitlines()
    assert lines[-1].startswith("  large: faster than the floor")


def test_the_summary_sets_opweld_beside_floor_rival_and_target() -> None:
    assert format_progress(contests()[0]) == "opweld 2.00 ms, one 250 ms"
    assert format_progress(contests()[1]) == "one 250 ms"
    rows = [" ".join(line.split()) for line in format_summary(contests()).splitlines()]
    assert rows[2:] == [
        "small 2.00 ms 5% 3 0.50 s 50% one 0.01x >= 90% no",
        "large - - - - - one - - -",
    ]


def test_a_single_launch_is_held_against_launches_of_every_kernel() -> None:
    first, _ = contests()
    assert "launches made one" not in format_contests([first])
    apart = replace(first.timings[0], launches=3)
    together = replace(apart, engine="opweld single launch", median_seconds=0.0015, launches=1)
    both = replace(first, timings=[apart, together, first.timings[1]])
    # It is no rival, nor the engine that the target is for.
    assert both.ours() == apart and both.best_rival().engine == "one"
    lines = format_contests([both]).splitlines()
    assert lines[-1] == "  small: opweld takes 0.75x the time with its 3 launches made one"


def test_opweld_stands_beside_itself_in_each_way_it_was_timed() -> None:
    first, second = contests()
    assert format_variants([first, second]) == ""
    full = replace(first.timings[0], launches=3, moved_bytes=20_000_000)
    apart = replace(
        full, engine="opweld without chain", median_seconds=0.0025, kernels=5, launches=5
    )
    none = replace(full, engine="opweld none")
    both = replace(first, timings=[full, none, apart, first.timings[1]])
    assert both.ours() == full and both.best_rival().engine == "one"
    rows = [" ".join(line.split()) for line in format_variants([both, second]).splitlines()]
    assert rows[2:] == [
        "small opweld 2.00 ms 1.00x 3 3 20.0 MB",
        "opweld without chain 2.50 ms 1.25x 5 5 20.0 MB",
    ]
    assert format_variants([both], markdown=True).splitlines()[-1] == (
        "|  | opweld without chain | 2.50 ms | 1.25x | 5 | 5 | 20.0 MB |"
    )


def test_memory_stands_beside_its_bound_and_the_peaks_of_others() -> None:
    first, second = contests()
    ours, other = first.timings
    told = replace(ours, peak_bytes=90_000_000, held_bytes=51_000_000, bound_bytes=50_000_000)
    first = replace(first, timings=[told, replace(other, peak_bytes=120_000_000)])
    rows = [" ".join(line.split()) for line in format_memory([first, second]).splitlines()]
    assert rows[2:] == [
        "small 51.0 MB 50.0 MB 1.020x no 90.0 MB 120.0 MB",
        "large - - - - - -",
    ]
    within = replace(told, held_bytes=49_999_999)
    row = format_memory([replace(first, timings=[within])], markdown=True).splitlines()[-1]
    assert row == "| small | 50.0 MB | 50.0 MB | 1.000x | yes | 90.0 MB |"
    nothing = replace(told, held_bytes=0, bound_bytes=0)
    row = format_memory([replace(first, timings=[nothing])], markdown=True).splitlines()[-1]
    assert row == "| small | 0.0 MB | 0.0 MB | - | yes | 90.0 MB |"
    memory = Memory(40, held_weight_bytes=48, arena_bytes=20, scratch_bytes=5, live_bytes=10)
    assert memory.held() == 73
    assert memory.bound() == 51


def test_a_launch_costs_what_is_beyond_the_work_evenly_shared() -> None:
    # 100 kernels of 8 us; on four threads 2 us each and 1.5 us beside it, 1 us at best.
    cost = launch_cost([800e-6, 800e-6, 1], [350e-6, 2, 350e-6, 300e-6, 3], 4)
    assert cost.median == pytest.approx(1.5e-6)
    assert cost.fastest == pytest.approx(1e-6)
    # Nothing shared: all that others might have done counts.
    assert launch_cost([800e-6], [800e-6], 4).median == pytest.approx(6e-6)
    costs = LaunchCosts(2, Cost(2.5e-6, 2e-6), Cost(1.25e-6, 0.5e-6))
    rows = [" ".join(line.split()) for line in format_launches(costs).splitlines()]
    assert rows[0] == "a kernel on 2 threads, beyond its work median fastest run target"
    assert rows[2:] == [
        "each kernel a launch 2.50 us 2.00 us <= 2 us",
        "all kernels one launch 1.25 us 0.50 us <= 2 us",
    ]
    assert launches_from_json(json.loads(json.dumps(asdict(costs)))) == costs
    assert "not measured" in format_launches(launches_from_json(None))


def test_launches_are_measured_on_a_chain_that_stays_apart() -> None:
    costs = measure_launches(2, rounds=2)
    assert costs.threads == 2
    # Below a millisecond a kernel even on a machine that is busy; a bound on sense, not on speed.
    assert all(abs(cost.median) < 1e-3 for cost in (costs.apart, costs.together))
    assert measure_launches(1) is None


def test_the_document_keeps_what_people_wrote() -> None:
    assert replaced(f"a\n{BEGIN}\nold\n{END}\nb\n", "new") == f"a\n{BEGIN}\n\nnew\n\n{END}\nb\n"
    with pytest.raises(ValueError, match="has lost the marks"):
        replaced("a\nb\n", "new")
    replaced((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"), "new")
    assert format_times(contests()).splitlines() == [
        "|  | floor | opweld | one | two |",
        "| --- | --- | --- | --- | --- |",
        "| small | 1.00 ms | 2.00 ms | 250 ms | - |",
        "| large | 100 ms | - | 250 ms | - |",
    ]
    assert format_reasons(contests()) == "- all: two: no such operator\n- large: hm"


def test_suites_that_a_run_lacks_stay_in_the_document() -> None:
    machine = "on a machine\n\n### The machine\n\nfast\n"
    old = f"\n\n{machine}\n### matmul: of old\n\n1\n\n### norms: of old\n\n2\n"
    new = "on another\n\n### norms: new\n\n3"
    order = [name for name in SUITES if name in ("matmul", "norms")]
    sections = {"matmul": "### matmul: of old\n\n1", "norms": "### norms: new\n\n3"}
    assert with_other_suites(new, old) == "\n\n".join(
        ["on another", *(sections[name] for name in order)]
    )
    assert with_other_suites(new, "") == new


def test_the_document_says_where_and_how_it_was_measured() -> None:
    machine = describe_machine()
    assert machine["cores"] >= 1 and machine["memory_gb"] >= 1 and machine["load_before"] >= 0
    report = {
        "date": "2030-01-02",
        "machine": machine,
        "engines": {"one": "one 1.0", "two": "two 2.0", "two again": "two 2.0"},
        "settings": {"command": "./dev bench norms", "threads": 2},
    }
    report["limits"] = {2: asdict(LIMITS)}
    report["launches"] = asdict(LaunchCosts(2, Cost(1.5e-6, 1e-6), Cost(1e-6, 0)))
    report["suites"] = {"norms": [contest.as_json() for contest in contests()]}
    report = json.loads(json.dumps(report))
    assert [Contest.from_json(each) for each in report["suites"]["norms"]] == contests()
    assert limits_from_json(report["limits"]) == {2: LIMITS}
    text = measured_part(report)
    assert text.startswith("`./dev bench norms`, 2 threads, on ")
    assert f"{machine['cores']} cores" in text
    assert "Measured on 2030-01-02 by `./dev bench norms`." in text
    assert "Engines: one 1.0, two 2.0." in text
    assert "    copy, 256 MB touched" in text
    assert "    each kernel a launch" in text
    assert format_memory(contests(), markdown=True) in text
    assert "not measured on one thread" in measured_part({**report, "launches": None})
    assert "### norms: RMSNorm with its residual, LayerNorm and softmax, in fp32" in text
    assert format_times(contests()) in text and format_reasons(contests()) in text


def test_a_plot_is_left_out_where_nothing_can_draw_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not plot_suite("suite", contests(), tmp_path / "suite.svg")
    assert list(tmp_path.iterdir()) == []


def test_the_arena_lists_its_suites_without_importing_an_engine() -> None:
    program = (
        "import sys; from bench.arena import main; sys.argv = ['bench']; main(); "
        "print(*sorted({'torch', 'openvino', 'matplotlib', 'onnxruntime'} & set(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    *listed, imported = answer.stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(SUITES)
    assert all(len(line.split()) > 3 for line in listed)
    assert imported == ""


def test_the_share_of_matmuls_bounds_what_fusion_gains() -> None:
    kernels = [("contract", 3.0), ("map", 0.5), ("contract", 1.0), ("row", 0.5)]
    assert share_of_products([{"kind": k, "median_seconds": s} for k, s in kernels]) == 0.8


def test_tables_align() -> None:
    assert table(["a", "b"], [["long", 1], ["x", 100]], indent=1) == (
        " a       b\n ----  ---\n long    1\n x     100"
    )
    assert markdown_table(["", "b"], [["long", 1]]) == "|  | b |\n| --- | --- |\n| long | 1 |"
    assert megabytes(1_234_567_890) == "1,234.6 MB"
    times = (0.0000123, 0.00234, 0.0999, 1.5)
    assert [milliseconds(s) for s in times] == ["0.012 ms", "2.34 ms", "99.90 ms", "1500 ms"]
