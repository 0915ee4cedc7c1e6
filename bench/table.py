"""Plain text tables for terminals."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[object]], indent: int = 2) -> str:
    """A table with the first column to the left, the others to the right, and a ruled header."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    margin = " " * indent

    def line(row: Sequence[str]) -> str:
        padded = [row[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return margin + "  ".join(padded).rstrip()

    rule = margin + "  ".join("-" * width for width in widths)
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The same as Markdown, unaligned, so that a changed number changes one line."""
    lines = [list(header), ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def megabytes(count: float) -> str:
    """Bytes as 10^6, as memory traffic is usually told."""
    return f"{count / 1e6:,.1f} MB"


def milliseconds(seconds: float) -> str:
    """A time with three to four significant digits."""
    if seconds < 1e-3:
        return f"{seconds * 1e3:.3f} ms"
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
