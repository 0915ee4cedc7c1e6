"""Format and lint checks over the sources that git knows; `./dev lint` and `./dev format`.

Each check is one named function that returns the problems it found as text, empty when there are
none, so that the test run can count every check as one test.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tidy

ROOT = Path(__file__).resolve().parent.parent
CPP_SUFFIXES = {".cpp", ".h"}
SHEBANG_SHELLS = ("#!/usr/bin/env bash", "#!/bin/bash", "#!/bin/sh", "# shellcheck shell=")


@dataclass(frozen=True)
class Outcome:
    """What one check found."""

    name: str
    problems: str
    seconds: float


def tracked_files() -> list[Path]:
    """All files git tracks or would add, relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = sorted({Path(name) for name in listing.split("\0") if name})
    return [path for path in paths if (ROOT / path).is_file()]


def run_tool(command: list[str], folder: Path = ROOT) -> str:
    """Runs a checker; its output when it objects, nothing when it is content."""
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if result.returncode == 0:
        return ""
    return (result.stdout + result.stderr).strip() or f"{command[0]} exited {result.returncode}"


def is_shell(path: Path) -> bool:
    """Whether the first line names a shell, for scripts without a suffix."""
    if path.suffix not in {"", ".sh"}:
        return False
    with (ROOT / path).open(encoding="utf-8", errors="replace") as file:
        return file.readline().startswith(SHEBANG_SHELLS)


def clang_format(fix: bool) -> str:
    """C++ sources in the style of .clang-format."""
    files = [str(path) for path in tracked_files() if path.suffix in CPP_SUFFIXES]
    if not files:
        return ""
    if fix:
        return run_tool(["clang-format-19", "-i", *files])
    found = run_tool(["clang-format-19", "--dry-run", "--Werror", *files])
    places = re.findall(r"^(.+?):(\d+):\d+: error: code should be clang-formatted", found, re.M)
    if not places:
        return found
    first = dict(reversed(places))
    lines = [f"{name}:{first[name]}: not in the house style" for name in sorted(first)]
    return "\n".join([*lines, "./dev format rewrites them"])


def ruff(*arguments: str) -> str:
    """One ruff command over the whole tree; its settings stand in pyproject.toml."""
    return run_tool([str(Path(sys.executable).parent / "ruff"), *arguments])


def node_tool(script: str, *arguments: str) -> str:
    """A tool of web/package-lock.json over web/, run by the Node that lies beside this Python."""
    node = str(Path(sys.executable).parent / "node")
    return run_tool([node, f"node_modules/{script}", *arguments], ROOT / "web")


def biome(*arguments: str) -> str:
    """Format and lint of the page's sources; the settings stand in web/biome.json."""
    return node_tool("@biomejs/biome/bin/biome", *arguments, "--colors=off")


def shellcheck() -> str:
    """Shell scripts, those without a suffix included."""
    files = [str(path) for path in tracked_files() if is_shell(path)]
    return run_tool(["shellcheck", "--external-sources", *files]) if files else ""


def clang_tidy(deep: bool) -> str:
    """The compiled sources of the product, each with the headers it includes.

    The examples are projects of their own, which the build does not compile.
    """
    folders = {"src", "tools", "include"}
    files = [path for path in tracked_files() if path.suffix == ".cpp" and path.parts[0] in folders]
    more_checks = ["clang-analyzer-*"] if deep else []
    return tidy.check(ROOT, files, more_checks, jobs=int(os.environ.get("OPWELD_JOBS", "2")))


QUICK_CHECKS: dict[str, Callable[[], str]] = {
    "clang-format": lambda: clang_format(fix=False),
    "ruff format": lambda: ruff("format", "--check", "--quiet"),
    "ruff check": lambda: ruff("check", "--quiet"),
    "shellcheck": shellcheck,
    "biome": lambda: biome("ci"),
    "tsc": lambda: node_tool("typescript/bin/tsc"),
}
DEPTHS = {
    "--fast": QUICK_CHECKS,
    "": QUICK_CHECKS | {"clang-tidy": lambda: clang_tidy(deep=False)},
    "--deep": QUICK_CHECKS | {"clang-tidy": lambda: clang_tidy(deep=True)},
}


def run_checks(depth: str = "") -> list[Outcome]:
    """Runs the checks of a depth in order, telling how each went as it ends."""
    outcomes = []
    for name, check in DEPTHS[depth].items():
        start = time.monotonic()
        problems = check()
        outcome = Outcome(name, problems, time.monotonic() - start)
        verdict = "FAILED" if problems else "ok"
        print(f"   {name:<14} {verdict:<7} {outcome.seconds:6.1f} s", flush=True)
        if problems:
            print(problems, flush=True)
        outcomes.append(outcome)
    return outcomes


def fix_all() -> int:
    """Rewrites what the formatters can; what remains is reported."""
    problems = [clang_format(fix=True)]
    for arguments in (("check", "--fix-only"), ("format",), ("check",)):
        problems.append(ruff(*arguments, "--quiet"))
    problems.append(biome("check", "--write"))
    remaining = "\n".join(filter(None, problems))
    print(remaining or ">> formatted")
    return 1 if remaining else 0


def main(arguments: list[str]) -> int:
    """Entry of `./dev lint` (no argument, --fast or --deep) and `./dev format` (--fix)."""
    if arguments == ["--fix"]:
        return fix_all()
    depth = " ".join(arguments)
    if depth not in DEPTHS:
        print(f"lint takes --fast or --deep or nothing, not {depth}", file=sys.stderr)
        return 2
    failed = [outcome for outcome in run_checks(depth) if outcome.problems]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
