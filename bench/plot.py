"""A plot of a suite: how much of the machine's limit each engine reached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.contest import Contest


def plot_suite(name: str, contests: Sequence[Contest], path: Path) -> bool:
    """Writes bars of the fraction of the floor, a group for each case; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    engines = list(dict.fromkeys(t.engine for contest in contests for t in contest.timings))
    figure = Figure(figsize=(1.5 + 0.17 * len(contests) * (len(engines) + 2), 4.5))
    axes = figure.add_subplot()
    width = 1 / (len(engines) + 1.5)
    for index, engine in enumerate(engines):
        timings = [
            next((t for t in contest.timings if t.engine == engine), None) for contest in contests
        ]
        heights = [
            contest.fraction(timing) * 100 if timing else 0.0
            for contest, timing in zip(contests, timings, strict=True)
        ]
        places = [group + index * width for group in range(len(contests))]
        axes.bar(places, heights, width, label=engine, hatch="//" if "opweld" in engine else "")
    middle = (len(engines) - 1) * width / 2
    labels = [contest.name for contest in contests]
    axes.set_xticks([group + middle for group in range(len(contests))], labels)
    axes.tick_params(axis="x", labelrotation=20, labelsize=8)
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("right")
    axes.axhline(100, color="black", linewidth=0.8)
    axes.set_ylabel("% of the machine's limit")
    axes.set_title(f"{name} (more is faster)")
    axes.legend(fontsize=8, ncols=2)
    # Without a date the file depends on nothing but the numbers.
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    return True
