"""Times Opweld against other engines on the same models: `./dev bench SUITE...`.

The machine is measured first: what it copies, reads, multiplies and adds at best. Then engines take
turns run by run, on the same inputs, cores and number of threads, after each has warmed up; their
results are compared before that, and a wrong answer is not timed.

    ./dev bench                        lists the suites
    ./dev bench all                    every suite
    ./dev bench all --quick            tiny sizes and few rounds: does everything still run?
    ./dev bench norms --rivals openvino
    ./dev bench models                 docs/models.md: models through torch.compile
    ./dev bench models --help          says more of that
    ./dev bench all --alone            Opweld alone, beside its fractions of the last run
    ./dev bench --inner-loops          what the innermost loops of kernels consist of; times nothing
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from bench.alone import (
    Alone,
    format_alone,
    fractions_of_last_run,
    has_floor,
    time_alone,
    write_alone,
)
from bench.contest import Contest, Settings, hold_contest
from bench.document import write_document
from bench.engines import RIVALS, ours, rivals
from bench.engines.base import CannotRunError, Engine
from bench.inner_loops import format_inner_loops, write_inner_loops
from bench.launches import format_launches, measure_launches
from bench.limits import Limits, best_limits, format_limits, measure_limits
from bench.machine import describe_machine
from bench.models.cache import BUILD
from bench.plot import plot_suite
from bench.products import bound_of_fusion
from bench.report import (
    format_contests,
    format_memory,
    format_progress,
    format_summary,
    format_variants,
)
from bench.suites import SUITES

RESULTS = BUILD / "bench"


def main() -> None:
    """Runs the suites named on the command line, or lists them."""
    if sys.argv[1:2] == ["models"]:
        from bench import model_table  # needs the package that it is about

        model_table.main(sys.argv[2:])
        return
    parser = _parser()
    arguments = parser.parse_args()
    unknown = [name for name in arguments.suites if name not in SUITES and name != "all"]
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}; there are all, {', '.join(SUITES)}")
    if arguments.inner_loops:
        print(format_inner_loops(listing=arguments.listing))
        if arguments.document:
            write_inner_loops()
        return
    if not arguments.suites and arguments.document:
        write_document(arguments.json)
        return
    if not arguments.suites:
        for name, suite in SUITES.items():
            print(f"{name:12} {suite.__doc__.splitlines()[0]}")
        return
    names = list(SUITES) if "all" in arguments.suites else arguments.suites
    if arguments.alone:
        _run_alone(names, arguments)
        return
    limits = _limits_for(arguments.threads)
    settings = Settings(
        threads=arguments.threads,
        rounds=3 if arguments.quick else arguments.rounds,
        case_seconds=arguments.case_seconds,
    )
    # Every engine inherits this: as many cores as threads, the same for all.
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[: settings.threads])
    print(">> measuring what a launch costs", flush=True)
    launches = measure_launches(settings.threads, *([settings.rounds] if arguments.quick else []))
    others = rivals(settings.threads, arguments.rivals)
    report = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "machine": describe_machine(),
        "settings": asdict(settings) | {"quick": arguments.quick, "command": _command()},
        "engines": _versions(others),
        "launches": launches and asdict(launches),
        "suites": {},
    }
    results: dict[str, list[Contest]] = {}
    try:
        for name in names:
            results[name] = _run_suite(
                name, arguments.quick, others, limits[settings.threads], settings
            )
            os.sched_setaffinity(0, cores)
            limits = best_limits(limits, measure_limits())
            os.sched_setaffinity(0, sorted(cores)[: settings.threads])
            # Whatever held the machine up at one measurement counts for no suite.
            results = {
                suite: [contest.against(limits[settings.threads]) for contest in contests]
                for suite, contests in results.items()
            }
            _keep(arguments.json, report, limits, results)
    finally:
        for engine in others:
            engine.close()
    print(format_limits(limits) + "\n")
    print(f"{format_launches(launches)}\n")
    for name, contests in results.items():
        print(f"{name}: {settings.threads} threads\n\n{format_summary(contests)}\n")
        print(f"{format_memory(contests)}\n")
        if variants := format_variants(contests):
            print(f"{variants}\n")
    if arguments.document:
        write_document(arguments.json)
    wrong = [
        f"{contest.name}: {engine} {reason}"
        for contests in results.values()
        for contest in contests
        for engine, reason in contest.missing.items()
        if engine.startswith("opweld")
    ]
    if wrong:
        sys.exit("\n".join(["./dev bench: Opweld failed:", *wrong]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="or all; without, lists them")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument(
        "--threads", type=int, default=cores, help=f"of every engine: 1 or {cores} (default)"
    )
    parser.add_argument("--rounds", type=int, default=15, help="timed runs of each engine at most")
    parser.add_argument(
        "--case-seconds",
        type=float,
        default=20.0,
        help="no further round of a case after so long, once there were five (default: 20)",
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, few rounds: a smoke run")
    parser.add_argument(
        "--rivals", nargs="+", choices=list(RIVALS), help="only these (default: all)"
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        default=RESULTS / "results.json",
        help="where the numbers go (default: build/bench/results.json), plots beside it",
    )
    parser.add_argument(
        "--document",
        action="store_true",
        help="write the results into docs/performance.md, where other suites stay as they are; "
        "without a SUITE, those of the last run",
    )
    parser.add_argument(
        "--alone",
        action="store_true",
        help="time cases with a floor as their target without rivals, on one thread and on all; "
        "with --document into docs/inner-loops.md",
    )
    parser.add_argument(
        "--inner-loops",
        action="store_true",
        help="count the instructions of innermost loops and end; with --document into "
        "docs/inner-loops.md",
    )
    parser.add_argument(
        "--listing", action="store_true", help="with --inner-loops: print the loops as well"
    )
    return parser


def _command() -> str:
    return "./dev bench " + " ".join(sys.argv[1:])


def _limits_for(threads: int) -> dict[int, Limits]:
    print(">> measuring the machine", flush=True)
    limits = measure_limits()
    if threads not in limits:
        known = " or ".join(map(str, limits))
        raise SystemExit(f"the machine was measured with {known} threads; choose one of these")
    return limits


def _versions(engines: Sequence[Engine]) -> dict[str, str]:
    """The version of each engine, or why it cannot be used here."""
    versions = {}
    for engine in engines:
        try:
            versions[engine.name] = engine.version()
        except CannotRunError as error:
            versions[engine.name] = f"- ({error})"
        print(f">> {engine.name}: {versions[engine.name]}", flush=True)
    return versions


def _run_suite(
    name: str, tiny: bool, others: Sequence[Engine], limits: Limits, settings: Settings
) -> list[Contest]:
    contests = []
    for case in SUITES[name](tiny, settings.threads):
        start = time.perf_counter()
        print(f">> {name}: {case.name} ...", end="", flush=True)
        engines = [
            (engine, True)
            for engine in ours(case.levels, case.single_launch, case.without, case.chains)
        ]
        engines += [(engine, False) for engine in others]
        contest = hold_contest(case, engines, limits, settings)
        if any(timing.engine == "opweld none" for timing in contest.timings):
            contest = replace(contest, notes=(bound_of_fusion(case, settings.threads),))
        contests.append(contest)
        print(f" {time.perf_counter() - start:.0f} s: {format_progress(contest)}", flush=True)
    print(f"\n{name}: {settings.threads} threads, medians of at most {settings.rounds} runs\n")
    print(format_contests(contests) + "\n", flush=True)
    return contests


def _run_alone(names: Sequence[str], arguments: argparse.Namespace) -> None:
    limits = _limits_for(arguments.threads)
    timed: list[Alone] = []
    for name in names:
        for case in filter(has_floor, SUITES[name](arguments.quick, arguments.threads)):
            timed.append(time_alone(name, case, list(limits)))
            print(f">> {name}: {case.name}", flush=True)
        limits = best_limits(limits, measure_limits())
    last = fractions_of_last_run(arguments.json)
    print(f"{format_limits(limits)}\n\n{format_alone(timed, limits, last)}")
    if arguments.document:
        write_alone(timed, limits, last)


def _keep(
    path: Path, report: dict, limits: dict[int, Limits], results: dict[str, list[Contest]]
) -> None:
    """Writes the numbers so far, and a plot of each suite beside them."""
    report["limits"] = {threads: asdict(each) for threads, each in limits.items()}
    report["suites"] = {name: [c.as_json() for c in suite] for name, suite in results.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    for name, contests in results.items():
        plot_suite(name, contests, path.parent / f"{name}.svg")


if __name__ == "__main__":
    main()
