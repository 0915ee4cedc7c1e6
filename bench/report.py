"""Results of the arena as text: for the terminal and for docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence

from bench.contest import Contest, Timing
from bench.table import markdown_table, megabytes, milliseconds, table

HEADER = ("", "engine", "median", "spread", "of the floor", "of best rival", "difference")
SUMMARY = (
    *("", "opweld", "spread", "kernels", "compiled in", "of the floor"),
    *("best rival", "of its time", "target", "met"),
)


# A floor that is beaten by more than this was none.
MEASUREMENT_ERROR = 0.05
BEATEN = (
    "faster than the floor: other work held up the measuring of limits, or a cache kept the data"
)


def format_contests(contests: Sequence[Contest]) -> str:
    """A row for each engine in each contest; who has no timing stands as "-", reasons follow."""
    rows: list[list[str]] = []
    for contest in contests:
        first = len(rows)
        rows += [_timing_row(contest, timing) for timing in contest.timings]
        rows += [["", engine, *["-"] * (len(HEADER) - 2)] for engine in contest.missing]
        rows[first][0] = contest.name
    return "\n".join([table(HEADER, rows), "", *_reasons(contests)])


def format_progress(contest: Contest) -> str:
    """A contest in a few words, for those who wait."""
    both = [timing for timing in (contest.ours(), contest.best_rival()) if timing is not None]
    return ", ".join(f"{each.engine} {milliseconds(each.median_seconds)}" for each in both)


def format_summary(contests: Sequence[Contest], markdown: bool = False) -> str:
    """A row for each contest: Opweld against the floor, the best rival and the target."""
    rows = [_summary_row(contest) for contest in contests]
    return (markdown_table if markdown else table)(SUMMARY, rows)


def format_times(contests: Sequence[Contest]) -> str:
    """A Markdown table of the medians: a row for each contest, a column for each engine."""
    engines = list(
        dict.fromkeys(
            name
            for contest in contests
            for name in [*(t.engine for t in contest.timings), *contest.missing]
        )
    )
    # Ours first, then the rivals in the order in which they are listed everywhere.
    engines.sort(key=lambda name: not name.startswith("opweld"))
    rows = []
    for contest in contests:
        medians = {t.engine: milliseconds(t.median_seconds) for t in contest.timings}
        floor = milliseconds(contest.floor_seconds)
        rows.append([contest.name, floor, *(medians.get(engine, "-") for engine in engines)])
    return markdown_table(["", "floor", *engines], rows)


MEMORY = ("", "held by opweld", "weights + 1.1x live", "of that", "met", "opweld at most")


def format_memory(contests: Sequence[Contest], markdown: bool = False) -> str:
    """A row for each contest: what Opweld holds against its bound, and the peak of each engine."""
    others = list(
        dict.fromkeys(t.engine for contest in contests for t in contest.timings if not t.ours)
    )
    rows = [_memory_row(contest, others) for contest in contests]
    return (markdown_table if markdown else table)([*MEMORY, *others], rows)


VARIANTS = ("", "", "median", "of opweld's time", "kernels", "launches", "moved")


def format_variants(contests: Sequence[Contest], markdown: bool = False) -> str:
    """Opweld beside itself: each way that a contest was timed in; empty where there is one.

    "Moved" are the tensors that kernels read and write, each once a kernel.
    """
    rows = []
    for contest in contests:
        full = contest.ours()
        if full is None or not contest.variants():
            continue
        for timing in [full, *contest.variants()]:
            rows.append(
                [
                    contest.name if timing is full else "",
                    timing.engine,
                    milliseconds(timing.median_seconds),
                    f"{timing.median_seconds / full.median_seconds:.2f}x",
                    "-" if timing.kernels is None else str(timing.kernels),
                    "-" if timing.launches is None else str(timing.launches),
                    "-" if timing.moved_bytes is None else megabytes(timing.moved_bytes),
                ]
            )
    return (markdown_table if markdown else table)(VARIANTS, rows) if rows else ""


def format_reasons(contests: Sequence[Contest]) -> str:
    """A Markdown list of what the tables leave open: notes, and why an engine has no time."""
    return "\n".join(f"- {line.strip()}" for line in _reasons(contests))


def _timing_row(contest: Contest, timing: Timing) -> list[str]:
    ratio = contest.ratio(timing)
    return [
        "",
        timing.engine,
        milliseconds(timing.median_seconds),
        f"{timing.spread:.0%}",
        f"{contest.fraction(timing):.0%}",
        "-" if ratio is None else f"{ratio:.2f}x",
        f"{timing.difference:.1e}",
    ]


def _summary_row(contest: Contest) -> list[str]:
    timing, best = contest.ours(), contest.best_rival()
    rival = [best.engine if best else "-"]
    verdict = [str(contest.target) or "-", {None: "-", True: "yes", False: "no"}[contest.reached()]]
    if timing is None:
        return [contest.name, *["-"] * 5, *rival, "-", *verdict]
    row = _timing_row(contest, timing)
    told = ["-" if timing.kernels is None else str(timing.kernels)]
    told.append("-" if timing.compile_seconds is None else f"{timing.compile_seconds:.2f} s")
    return [contest.name, row[2], row[3], *told, row[4], *rival, row[5], *verdict]


def _memory_row(contest: Contest, others: Sequence[str]) -> list[str]:
    timing = contest.ours()
    row = [contest.name]
    if timing is None or timing.held_bytes is None or timing.bound_bytes is None:
        row += ["-"] * 4
    else:
        row += [megabytes(timing.held_bytes), megabytes(timing.bound_bytes)]
        # One kernel without weights has nothing to hold.
        part = timing.held_bytes / timing.bound_bytes if timing.bound_bytes else None
        row.append("-" if part is None else f"{part:.3f}x")
        row.append("yes" if timing.held_bytes <= timing.bound_bytes else "no")
    peaks = {t.engine: t.peak_bytes for t in contest.timings if t.peak_bytes is not None}
    for engine in ["opweld", *others]:
        row.append(megabytes(peaks[engine]) if engine in peaks else "-")
    return row


def _single_launch_note(contest: Contest) -> list[str]:
    """How the launch of everything compares, where it was timed."""
    apart, together = contest.ours(), contest.single_launch()
    if apart is None or together is None:
        return []
    ratio = together.median_seconds / apart.median_seconds
    return [f"opweld takes {ratio:.2f}x the time with its {apart.launches} launches made one"]


def _reasons(contests: Sequence[Contest]) -> list[str]:
    """The same reason in several contests is told once, with the names of all."""
    where: dict[str, list[str]] = {}
    for contest in contests:
        for engine, reason in contest.missing.items():
            where.setdefault(f"{engine}: {reason}", []).append(contest.name)
        beaten = any(contest.fraction(t) > 1 + MEASUREMENT_ERROR for t in contest.timings)
        told = [*contest.notes, *_single_launch_note(contest), *([BEATEN] if beaten else [])]
        for note in told:
            where.setdefault(note, []).append(contest.name)
    return [
        f"  {'all' if len(names) == len(contests) > 1 else '; '.join(names)}: {reason}"
        for reason, names in where.items()
    ]
