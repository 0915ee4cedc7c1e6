"""What came of holding a compiled model against its meaning; as text, and in a notebook."""

import html
from dataclasses import dataclass
from typing import Any

from opweld._core import KernelCheck, OutputCheck


@dataclass(frozen=True)
class Verification:
    """What was compared, and how far it is apart.

    `print` shows the outputs and whatever differs, a notebook shows every kernel as a table.
    """

    outputs: list[OutputCheck]
    """Of each output: the differences to the unfused run and to double precision."""
    kernels: list[KernelCheck]
    """Of each kernel, in the order in which they ran: how far it is from its operators."""
    custom_operators: int
    """How many were called beside what they declare of themselves."""
    fault: str
    """What differs first, and where: the output, then the first kernel that is wrong."""

    @property
    def ok(self) -> bool:
        """Whether all agrees."""
        return not self.fault

    @property
    def differing(self) -> list[KernelCheck]:
        """The kernels that are not what their operators are."""
        return [kernel for kernel in self.kernels if kernel.fault]

    def headline(self) -> str:
        """One line: how many kernels were held to their operators, and what came of it."""
        count, wrong = len(self.kernels), len(self.differing)
        kernels = f"{count} kernel{'' if count == 1 else 's'} held to operators in double precision"
        return f"{kernels}: {f'{wrong} differ' if wrong else 'all agree'}"

    def __str__(self) -> str:
        outputs = [
            f"  {each.name}: largest difference to unfused {each.to_unfused:.3g}, "
            f"to the reference {each.to_reference:.3g}"
            for each in self.outputs
        ]
        return "\n".join([self.headline(), *outputs, *([self.fault] if self.fault else [])])

    def _repr_html_(self) -> str:
        outputs = _table(
            ("output", "to unfused", "to the reference", "of the tolerance", ""),
            [
                (
                    each.name,
                    f"{each.to_unfused:.3g}",
                    f"{each.to_reference:.3g}",
                    f"{each.of_tolerance:.3g}",
                    each.fault,
                )
                for each in self.outputs
            ],
        )
        kernels = _table(
            ("kernel", "operators", "layer", "largest difference", ""),
            [
                (
                    each.name,
                    each.operators,
                    each.layer,
                    f"{each.largest_difference:.3g}",
                    each.fault,
                )
                for each in self.kernels
            ],
        )
        fault = f"<pre>{html.escape(self.fault)}</pre>" if self.fault else ""
        return f"<p>{html.escape(self.headline())}</p>{fault}{outputs}{kernels}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    def cells(tag: str, texts: tuple[str, ...]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts) + "</tr>"

    body = "".join(cells("td", row) for row in rows)
    return f"<table><thead>{cells('th', head)}</thead><tbody>{body}</tbody></table>"


def make_verification(raw: Any) -> Verification:
    """Of an `opweld._core.Verification`."""
    return Verification(raw.outputs, raw.kernels, raw.custom_operators, raw.fault)
