"""What was fused, what was not and why, and what that moves; as text, JSON, and in a notebook."""

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


def format_bytes(count: int) -> str:
    """1234567 as "1.23 MB"; powers of ten, as everywhere in Opweld."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return (
                f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count // size} {unit}"
            )
    return f"{count} B"


@dataclass(frozen=True)
class Account:
    """The account of a compiled model at given values of its free sizes.

    Bytes are counted at kernel boundaries: every tensor that a kernel reads or writes, once,
    weights included. `print` shows the table and the log, a notebook shows it as HTML.
    """

    kernels: list[dict[str, Any]]
    """In order of execution: name, kind, operators, layer, sources, bytes_read, bytes_written."""
    edges: list[dict[str, Any]]
    """A verdict on every edge: from, to, fused, kernel, code, sentence, detail, remedy, bytes."""
    log: list[str]
    """A line for every fused kernel, then one for every edge that was kept, with the reason."""
    notes: list[str]
    """Operators that run as calls, and caches that are copied although they need not be."""
    bytes_read: int
    bytes_written: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    document: str = "{}"
    """The same as `opweld explain --json` prints it."""

    @property
    def json(self) -> dict[str, Any]:
        """The account as `opweld explain --json` prints it, parsed."""
        return json.loads(self.document)

    def headline(self) -> str:
        """One line: how many kernels, and what they move."""
        at = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        return (
            f"{len(self.kernels)} kernels, {format_bytes(self.bytes_read)} read, "
            f"{format_bytes(self.bytes_written)} written" + (f" at {at}" if at else "")
        )

    def __str__(self) -> str:
        width = max((len(kernel["name"]) for kernel in self.kernels), default=0)
        rows = [
            f"  {kernel['name']:<{width}}  {format_bytes(kernel['bytes_read']):>8}  "
            f"{format_bytes(kernel['bytes_written']):>8}  {kernel['operators']}"
            for kernel in self.kernels
        ]
        return "\n".join([self.headline(), *rows, *self.log, *self.notes])

    def _repr_html_(self) -> str:
        cells = [
            "<tr>"
            + "".join(
                f"<td>{html.escape(str(text))}</td>"
                for text in (
                    kernel["name"],
                    kernel["operators"],
                    kernel["layer"],
                    format_bytes(kernel["bytes_read"]),
                    format_bytes(kernel["bytes_written"]),
                )
            )
            + "</tr>"
            for kernel in self.kernels
        ]
        head = "".join(
            f"<th>{name}</th>" for name in ("kernel", "operators", "layer", "read", "written")
        )
        lines = "\n".join(html.escape(line) for line in [*self.log, *self.notes])
        return (
            f"<p>{html.escape(self.headline())}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(cells)}</tbody></table>"
            f"<details><summary>Fusion log</summary><pre>{lines}</pre></details>"
        )


def make_account(program: Any, sizes: Mapping[str, int]) -> Account:
    """The account of an `opweld._core.Program`; all free sizes of its inputs must have a value."""
    values = dict(sizes)
    raw = program.account(values)
    return Account(
        kernels=raw["kernels"],
        edges=raw["edges"],
        log=raw["log"],
        notes=[*raw["tuning"], *raw["notes"]],
        bytes_read=raw["bytes_read"],
        bytes_written=raw["bytes_written"],
        sizes=values,
        document=program.account_json(values),
    )
