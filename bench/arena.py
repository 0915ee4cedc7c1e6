"""Times Opweld against other engines on the same model: `./dev bench [SUITE]`.

Engines take turns run by run, on the same inputs and as many threads, after each has warmed up,
and their results are compared first: a fast wrong answer is not timed.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path

from bench.suites import SUITES
from bench.suites.contest import Settings, format_contests


def main() -> None:
    """Runs the suites named on the command line, or lists them."""
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="without any, lists them")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for every engine")
    parser.add_argument("--rounds", type=int, default=30, help="timed runs of each engine")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers as JSON too")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.suites if name not in SUITES]
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(SUITES)}")
    if not arguments.suites:
        for name, suite in SUITES.items():
            print(f"{name:12} {suite.__doc__.splitlines()[0]}")
        return
    settings = Settings(threads=arguments.threads, rounds=arguments.rounds)
    results = {name: SUITES[name](settings) for name in arguments.suites}
    for name, contests in results.items():
        print(f"{name}: {settings.threads} threads, median of {settings.rounds} runs each\n")
        print(format_contests(contests))
    if arguments.json:
        report = {
            "machine": {"processor": processor_name(), "cores": os.cpu_count()},
            "settings": asdict(settings),
            "suites": {name: [asdict(c) for c in cs] for name, cs in results.items()},
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def processor_name() -> str:
    """The processor's name as the kernel tells it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return "unknown"


if __name__ == "__main__":
    main()
