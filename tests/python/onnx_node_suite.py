"""Runs ONNX's node tests through `opweld run-cases` at every level of fusion.

    python -m tests.python.onnx_node_suite
    python -m tests.python.onnx_node_suite --case 'test_softmax*' --case 'test_attention_4d*'

A case that no line of `tests/onnx_node/outside.txt` matches must pass at every level. A case that a
line matches must be refused at every level when it is imported, with a message and for a reason
that holds: what the line matches is none of the operators or types that `opweld operators` lists.
The compiler answers case by case; should it end before
the last one, the case it was busy with counts as crashed and the rest is run by a new process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bench.opweld_command import FUSION_LEVELS, opweld, opweld_path
from tests.python.onnx_node_cases import (
    OUTSIDE,
    Case,
    OutsideRule,
    Supported,
    load_cases,
    parse_outside,
    split_cases,
)

# A case compiles in well under a second; a process silent for this long hangs.
SILENCE_SECONDS = 120


@dataclass(frozen=True)
class Answer:
    """What became of one case at one level."""

    name: str
    fusion: str
    status: str
    message: str = ""

    # Whether the model was compiled for this case, and not for an earlier one of the same model.
    compiled: bool = True

    @classmethod
    def of(cls, entry: dict) -> Answer:
        """Picks the fields above from a line of the command; there may be more."""
        return cls(**{name: entry[name] for name in cls.__dataclass_fields__ if name in entry})

    @property
    def passed(self) -> bool:
        """Whether all outputs were right."""
        return self.status == "passed"


@dataclass(frozen=True)
class Verdict:
    """One line of the result: a case, and what is wrong with it if anything is."""

    name: str
    problem: str = ""


def run_cases(command: Sequence[str], requests: Sequence[dict], jobs: int = 1) -> list[Answer]:
    """Runs the cases in `jobs` processes and returns an answer per case and level.

    `command` is all of the command but the file with the list of cases, which comes last.
    """
    shares = [requests[i::jobs] for i in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        return [
            a for share in pool.map(lambda s: list(_run_share(command, s)), shares) for a in share
        ]


def _run_share(command: Sequence[str], requests: Sequence[dict]) -> Iterator[Answer]:
    """Runs cases one after the other, in a new process after each that ended early."""
    left = list(requests)
    while left:
        answers, ending = _run_once(command, left)
        yield from answers
        levels = defaultdict(set)
        for answer in answers:
            levels[answer.name].add(answer.fusion)
        answered = [r for r in left if levels[r["name"]] == set(FUSION_LEVELS)]
        if len(answered) == len(left):
            return
        # Answers come in order, so the first case without all of its answers ended the process.
        culprit, *left = left[len(answered) :]
        for fusion in FUSION_LEVELS:
            if fusion not in levels[culprit["name"]]:
                yield Answer(culprit["name"], fusion, "crashed", ending)


def _run_once(command: Sequence[str], requests: Sequence[dict]) -> tuple[list[Answer], str]:
    """The answers of one process, and how it ended."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "errors").open("w+") as errors:
        listing = Path(folder) / "cases.json"
        listing.write_text(json.dumps(requests), encoding="utf-8")
        process = subprocess.Popen(
            [*command, str(listing)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        answers, silent = _read_answers(process)
        errors.seek(0)
        last_words = errors.read()[-500:].strip()
    how = f"silent for {SILENCE_SECONDS} s" if silent else f"exit code {process.returncode}"
    return answers, f"{how}: {last_words}" if last_words else how


def _read_answers(process: subprocess.Popen) -> tuple[list[Answer], bool]:
    """All answers of a process, and whether it had to be stopped for its silence."""
    answers: list[Answer] = []
    with ThreadPoolExecutor(1) as reader:
        while True:
            line = reader.submit(process.stdout.readline)
            try:
                text = line.result(SILENCE_SECONDS)
            except TimeoutError:
                process.kill()
                process.wait()
                return answers, True
            if not text:
                process.wait()
                return answers, False
            if text.endswith("}\n"):  # else it is the beginning of a line that a crash cut off
                answers.append(Answer.of(json.loads(text)))


def judge(
    inside: Iterable[Case],
    outside: Iterable[tuple[Case, OutsideRule]],
    answers: Iterable[Answer],
    supported: Supported,
) -> list[Verdict]:
    """A verdict for each case inside, and for each outside that should not be there."""
    by_name = defaultdict(list)
    for answer in answers:
        by_name[answer.name].append(answer)
    verdicts = []
    for case in inside:
        wrong = [a for a in by_name[case.name] if not a.passed]
        problem = "; ".join(f"{a.fusion}: {a.status}: {a.message}" for a in wrong)
        if len(by_name[case.name]) != len(FUSION_LEVELS):
            problem = problem or "not answered at every level"
        verdicts.append(Verdict(case.name, problem))
    for case, rule in outside:
        problem = problem_outside(case, rule, by_name[case.name], supported)
        if problem:
            verdicts.append(Verdict(case.name, f"line {rule.line} of outside.txt: {problem}"))
    return verdicts


def problem_outside(
    case: Case, rule: OutsideRule, answers: Sequence[Answer], supported: Supported
) -> str:
    """Why a case cannot be outside, or not as it is; empty if all is well."""
    if rule.is_stale(case, supported):
        return f"matches it by {', '.join(rule.matched(case))}, which is supported"
    if len(answers) != len(FUSION_LEVELS):
        return "matches it, but it was not answered at every level"
    taken = [f"{a.fusion}: {a.status}: {a.message}" for a in answers if a.status != "unsupported"]
    return f"matches it, but it was not refused: {'; '.join(taken)}" if taken else ""


def write_junit(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Writes the verdicts in the form that test reports are counted from."""
    suite = ElementTree.Element("testsuite", name="onnx_node")
    for verdict in verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname="onnx_node", name=verdict.name)
        if verdict.problem:
            ElementTree.SubElement(case, "failure", message=verdict.problem[:2000])
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def summarise(
    verdicts: Sequence[Verdict], outside: Iterable[tuple[Case, OutsideRule]], total: int
) -> str:
    """The problems one by one, then why cases are outside, then passed of run of all."""
    lines = [f"{v.name}: {v.problem}" for v in verdicts if v.problem]
    reasons = Counter(rule.reason for _, rule in outside)
    lines += [f"{count:5} outside: {reason}" for reason, count in reasons.most_common()]
    passed = sum(not v.problem for v in verdicts)
    lines.append(f"onnx: {passed} of {len(verdicts)} passed of {total} in all")
    return "\n".join(lines)


def supported() -> Supported:
    """What `opweld operators` lists."""
    listed = json.loads(opweld("operators", "--json"))
    return Supported(frozenset(listed["operators"]), frozenset(listed["element_types"]))


def main() -> int:
    """Runs all cases, or those asked for; 0 when every verdict is good."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.python.onnx_node_suite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", action="append", metavar="PATTERN", help="only matching cases")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--junit", type=Path, help="write a JUnit report here")
    arguments = parser.parse_args()
    folder, cases = load_cases()
    try:
        inside, outside = split_cases(cases, parse_outside(OUTSIDE.read_text(encoding="utf-8")))
    except ValueError as error:
        raise SystemExit(f"{OUTSIDE}: {error}") from error
    if arguments.case:
        cases = [c for c in cases if any(fnmatchcase(c.name, p) for p in arguments.case)]
        chosen = {case.name for case in cases}
        inside = [case for case in inside if case.name in chosen]
        outside = [(case, rule) for case, rule in outside if case.name in chosen]
    requests = [case.request(folder) for case in cases]
    command = [str(opweld_path()), "run-cases", "--json"]
    answers = run_cases(command, requests, arguments.jobs)
    verdicts = judge(inside, outside, answers, supported())
    if arguments.junit:
        write_junit(arguments.junit, verdicts)
    print(summarise(verdicts, outside, len(cases)))
    return int(not verdicts or any(v.problem for v in verdicts))


if __name__ == "__main__":
    sys.exit(main())
