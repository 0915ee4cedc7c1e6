"""Cases of the arena by themselves: no engine takes turns with Opweld, nothing displaces its data.

`./dev bench SUITE... --alone` times each case that has a fraction of the floor as its target, on
one thread and on all, against what the machine was measured to do in the same minutes. Beside the
fraction of the last run of the arena that tells a slow kernel from one whose data others displaced.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.case import Case
from bench.contest import Contest
from bench.document import replaced
from bench.limits import Limits, format_limits
from bench.models.cache import ROOT
from bench.opweld_command import input_options, opweld
from bench.table import markdown_table, table

# Between these marks in the document.
BEGIN = "<!-- What follows is written by ./dev bench --alone. -->"
END = "<!-- What precedes is written by ./dev bench --alone. -->"
DOCUMENT = ROOT / "docs" / "inner-loops.md"


@dataclass(frozen=True)
class Alone:
    """A case and its times in seconds."""

    suite: str
    case: Case
    seconds: dict[int, float]  # medians of warm runs by number of threads
    first: float  # the first run on all threads


def has_floor(case: Case) -> bool:
    """Whether a fraction of the floor is asked for, whatever rivals take."""
    return case.target.floor is not None and not case.target.either


def time_alone(suite: str, case: Case, threads: Sequence[int]) -> Alone:
    """Runs a case warm on each number of threads, and cold on the most of them."""
    with tempfile.TemporaryDirectory() as folder:
        given = input_options(case.inputs, Path(folder))

        def seconds(count: int, *options: str) -> float:
            model = case.ours or case.model
            arguments = ["--no-tuned", f"--threads={count}", "--json", *options]
            return json.loads(opweld("bench", model, *given, *arguments))["median_seconds"]

        return Alone(
            suite=suite,
            case=case,
            seconds={count: seconds(count) for count in threads},
            first=seconds(max(threads), "--warmup=0", "--repeats=1"),
        )


def fractions_of_last_run(results: Path) -> dict[tuple[str, str], float]:
    """Opweld's fraction of the floor by suite and case, from a JSON file of the arena."""
    if not results.exists():
        return {}
    report = json.loads(results.read_text(encoding="utf-8"))
    contests = {
        suite: [Contest.from_json(each) for each in described]
        for suite, described in report["suites"].items()
    }
    return {
        (suite, contest.name): contest.fraction(contest.ours())
        for suite, each in contests.items()
        for contest in each
        if contest.ours() is not None
    }


def format_alone(
    timed: Sequence[Alone],
    limits: dict[int, Limits],
    last: dict[tuple[str, str], float],
    markdown: bool = False,
) -> str:
    """A row for each case: fractions of the floor, the gain of threads, the cost of a first run."""
    most = max(limits)

    def percent(fraction: float | None) -> str:
        return "-" if fraction is None else f"{fraction:.0%}"

    rows = []
    for each in timed:
        floors = {count: each.case.work.floor(limits[count]) for count in each.seconds}
        rows.append(
            [
                f"{each.suite}: {each.case.name}",
                f"{each.case.target.floor:.0%}",
                percent(last.get((each.suite, each.case.name))),
                *(percent(floors[count] / each.seconds[count]) for count in limits),
                f"{each.seconds[min(limits)] / each.seconds[most]:.2f}x",
                f"{each.first / each.seconds[most]:.1f}x",
            ]
        )
    threads = [f"{count} thread{'s' * (count > 1)}" for count in limits]
    header = ["case", "target", "in turns", *threads, f"faster by {most}", "first run"]
    return (markdown_table if markdown else table)(header, rows)


def write_alone(
    timed: Sequence[Alone], limits: dict[int, Limits], last: dict[tuple[str, str], float]
) -> None:
    """Replaces the table in the document, and what the machine did in these minutes."""
    machine = "\n".join(f"    {line}".rstrip() for line in format_limits(limits).splitlines())
    part = f"{format_alone(timed, limits, last, markdown=True)}\n\n{machine}"
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(replaced(text, part, BEGIN, END), encoding="utf-8")
