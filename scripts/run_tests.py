"""Runs test suites and counts: `./dev test`.

The suites are `lint` (each check counts as one test), `unit` (the C++ tests, after the release
build, which counts as one), `python` (pytest), `onnx` (ONNX's node tests), `sanitize` (the C++
tests that read what a user hands over, under the address and undefined-behaviour sanitizers) and
`web` (the page of `opweld report`: its functions in Node, the whole of it in a browser). A skipped
test counts as failed: a test that does not run proves nothing. So does a suite in which no test
ran. The last line is `N passed, N failed`.
"""

import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import checks

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "reports"
JOBS = os.environ.get("OPWELD_JOBS", "2")
# A single C++ test that takes longer than this hangs.
TEST_SECONDS = "300"
# The folders of tests that parse what users hand over, as build targets and prefixes of test names.
SANITIZED_FOLDERS = ("support", "graph", "import")


@dataclass
class Count:
    """Tests that passed and tests that did not, for whatever reason."""

    passed: int = 0
    failed: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.passed + other.passed, self.failed + other.failed)


# What XML 1.0 (section 2.2) has no way to write, such as the colours of a message.
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def read_cases(report: Path) -> list[ElementTree.Element]:
    """The test cases of a JUnit report."""
    text = report.read_text(encoding="utf-8", errors="replace")
    return list(ElementTree.fromstring(NOT_XML.sub("", text)).iter("testcase"))


def count_junit(report: Path, exit_code: int) -> Count:
    """Counts a JUnit report of ctest or pytest against the exit code of its runner.

    A case passed when it ran (ctest says so in `status`) and carries neither failure, error nor
    skip mark. A missing or broken report, one without cases, and a runner that failed though all
    its cases passed, are one failure each.
    """
    try:
        cases = read_cases(report)
    except (OSError, ElementTree.ParseError) as error:
        print(f"no test report: {error}", flush=True)
        return Count(failed=1)
    marks = ("failure", "error", "skipped")
    passed = sum(
        case.get("status", "run") == "run" and all(case.find(mark) is None for mark in marks)
        for case in cases
    )
    failed = len(cases) - passed
    if not cases or (exit_code != 0 and failed == 0):
        failed += 1
    return Count(passed, failed)


def show_failures(report: Path) -> None:
    """Prints what the failed cases of a ctest report said."""
    for case in read_cases(report):
        if case.get("status") != "run":
            output = (case.findtext("system-out") or "").strip()
            print(f"-- {case.get('name')}: {case.get('status')}\n{output}", flush=True)


def run(command: list[str]) -> int:
    """Runs a command with its output passed through."""
    return subprocess.run(command, cwd=ROOT).returncode


def fresh_report(name: str) -> Path:
    """The path of a suite's report, with any older one removed so that it cannot be counted."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    report = REPORTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    return report


def build(preset: str, *targets: str) -> Count:
    """Builds all that can be built, so that one broken file does not hide other results."""
    if not (ROOT / "build" / preset / "build.ninja").exists():
        command = ["cmake", "--preset", preset]
        configured = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if configured.returncode != 0:
            print(configured.stdout + configured.stderr, flush=True)
            return Count(failed=1)
    chosen = ["--target", *targets] if targets else []
    code = run(["cmake", "--build", "--preset", preset, "-j", JOBS, *chosen, "--", "-k", "0"])
    return Count(passed=1) if code == 0 else Count(failed=1)


def ctest(preset: str, *arguments: str) -> Count:
    """Runs the C++ tests of a preset; a test program that was not built is a failed test."""
    report = fresh_report(f"ctest-{preset}")
    command = ["ctest", "--preset", preset, "-j", JOBS, "--timeout", TEST_SECONDS, "--quiet"]
    code = run([*command, "--output-junit", str(report), *arguments])
    count = count_junit(report, code)
    if count.failed and report.exists():
        show_failures(report)
    return count


def lint_suite() -> Count:
    """Format and the quick linters; `./dev lint` adds clang-tidy, which takes far longer."""
    built = build("release")
    outcomes = checks.run_checks("--fast")
    failed = sum(bool(outcome.problems) for outcome in outcomes)
    return Count(len(outcomes) - failed, failed + built.failed)


def unit_suite() -> Count:
    """The release build and all its C++ tests."""
    return build("release") + ctest("release")


def python_suite() -> Count:
    """The tests written in Python, which drive the built command and compare with other tools."""
    built = build("release")
    report = fresh_report("pytest")
    command = [sys.executable, "-m", "pytest", "-q", "-n", JOBS]
    code = run([*command, f"--junitxml={report}"])
    return Count(failed=built.failed) + count_junit(report, code)


def onnx_suite() -> Count:
    """The node tests of ONNX at every level of fusion; each case counts as one test."""
    built = build("release")
    report = fresh_report("onnx")
    command = [sys.executable, "-m", "tests.python.onnx_node_suite", "--jobs", JOBS]
    code = run([*command, "--junit", str(report)])
    return Count(failed=built.failed) + count_junit(report, code)


def sanitize_suite() -> Count:
    """A short run under sanitizers; `./dev asan` runs all C++ tests that way."""
    names = [name for name in SANITIZED_FOLDERS if any((ROOT / "tests" / name).glob("*_test.cpp"))]
    built = build("asan", *(f"{name}_tests" for name in names))
    return built + ctest("asan", "-R", f"^({'|'.join(names)})\\.")


def web_suite() -> Count:
    """The page of `opweld report`: its functions in Node, then reports of models in Chromium."""
    built = build("release")
    made = run([sys.executable, "-m", "tests.python.web_reports", str(ROOT / "build/web-tests")])
    report = fresh_report("web")
    command = [str(Path(sys.executable).parent / "node"), "--test"]
    for reporter, destination in (("spec", "stdout"), ("junit", str(report))):
        command += [f"--test-reporter={reporter}", f"--test-reporter-destination={destination}"]
    code = run([*command, "web/tests/*.test.ts"])
    return Count(failed=built.failed + int(made != 0)) + count_junit(report, code)


SUITES: dict[str, Callable[[], Count]] = {
    "unit": unit_suite,
    "lint": lint_suite,
    "python": python_suite,
    "onnx": onnx_suite,
    "sanitize": sanitize_suite,
    "web": web_suite,
}


# What runs when no suite is named.
DAILY_SUITES = tuple(SUITES)


def main(names: list[str]) -> int:
    """Runs the suites named, or the daily ones, and prints the table and the total."""
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"no suite {', '.join(unknown)}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    # What somebody has measured on this machine or compiled is none of the tests' business.
    os.environ["OPWELD_TUNED"] = "0"
    os.environ["OPWELD_COMPILED"] = "0"
    rows = []
    total = Count()
    for name in names or DAILY_SUITES:
        print(f">> suite {name}", flush=True)
        start = time.monotonic()
        count = SUITES[name]()
        rows.append(f"{name:<10} {count.passed:8} {count.failed:8} {time.monotonic() - start:9.0f}")
        total += count
    print(f"\n{'suite':<10} {'passed':>8} {'failed':>8} {'seconds':>9}")
    print("\n".join(rows))
    print(f"{total.passed} passed, {total.failed} failed", flush=True)
    return 0 if total.failed == 0 and total.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
