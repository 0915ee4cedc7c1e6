"""Writes the results of a run into docs/performance.md, between two marks."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bench.contest import Contest
from bench.launches import format_launches, launches_from_json
from bench.limits import format_limits, limits_from_json
from bench.models.cache import ROOT
from bench.report import (
    format_memory,
    format_reasons,
    format_summary,
    format_times,
    format_variants,
)
from bench.suites import SUITES

DOCUMENT = ROOT / "docs" / "performance.md"
BEGIN = "<!-- What follows is written by ./dev bench --document. -->"
END = "<!-- What precedes is written by ./dev bench --document. -->"


def write_document(results: Path) -> None:
    """Replaces the measured part of the document by what a JSON file of the arena holds."""
    report = json.loads(results.read_text(encoding="utf-8"))
    text = DOCUMENT.read_text(encoding="utf-8")
    before = text.partition(BEGIN)[2].partition(END)[0]
    part = with_other_suites(measured_part(report), before)
    DOCUMENT.write_text(replaced(text, part), encoding="utf-8")


def with_other_suites(part: str, before: str) -> str:
    """The measured part, and of what stood there before the suites that it lacks."""
    head, suites = _by_suite(part)
    suites = _by_suite(before)[1] | suites
    return "\n\n".join([head, *(suites[name] for name in SUITES if name in suites)])


def _by_suite(part: str) -> tuple[str, dict[str, str]]:
    """What stands before the first suite, and the section of each."""
    sections = re.split(r"^(?=### )", part, flags=re.MULTILINE)
    suites = {}
    head = []
    for section in sections:
        name = section.removeprefix("### ").partition(":")[0]
        if section.startswith("### ") and name in SUITES:
            suites[name] = section.strip()
        else:
            head.append(section.strip())
    return "\n\n".join(filter(None, head)), suites


def replaced(text: str, part: str, begins: str = BEGIN, ends: str = END) -> str:
    """The text with `part` between its marks. Raises ValueError when they are missing."""
    before, begin, rest = text.partition(begins)
    _, end, after = rest.partition(ends)
    if not begin or not end:
        raise ValueError("the document has lost the marks of its measured part")
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def measured_part(report: dict) -> str:
    """The machine, its limits, and for each suite the verdicts, all times, and what is missing."""
    machine = report["machine"]
    caches = ", ".join(f"{level} {size}" for level, size in machine["caches"].items())
    engines = ", ".join(dict.fromkeys(report["engines"].values()))
    parts = [
        f"`{report['settings']['command']}`, {report['settings']['threads']} threads, "
        f"on {machine['processor']}, {machine['cores']} cores "
        f"({', '.join(machine['instructions'])}), caches {caches}, {machine['memory_gb']} GB, "
        f"{machine['system']}; when it began, {machine['load_before']} processes wanted a core.\n"
        f"Engines: {engines}.",
        "### The machine",
        indented(format_limits(limits_from_json(report["limits"]))),
        "### Launches: what a kernel takes beyond its work",
        indented(format_launches(launches_from_json(report["launches"]))),
    ]
    for name, described in report["suites"].items():
        contests = [Contest.from_json(each) for each in described]
        title = SUITES[name].__doc__.splitlines()[0].rstrip(".")
        parts += [
            f"### {name}: {title}",
            f"Measured on {report['date']} by `{report['settings']['command']}`.",
            format_summary(contests, markdown=True),
            "Medians:",
            format_times(contests),
            "Memory:",
            format_memory(contests, markdown=True),
        ]
        if variants := format_variants(contests, markdown=True):
            parts += ["Opweld beside itself:", variants]
        if reasons := format_reasons(contests):
            parts.append(reasons)
    return "\n\n".join(parts)


def indented(text: str) -> str:
    """As a block of code in Markdown."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())
