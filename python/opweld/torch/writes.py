"""What a traced graph writes into its inputs, and which of that programs do themselves.

Tracing makes every write a new tensor and, at the end of the graph, a copy of it into the input.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from opweld.torch.given_views import same_type
from opweld.torch.row_updates import RowUpdate, row_update
from opweld.torch.stacked_writes import is_input
from opweld.torch.translate import is_host, is_plain_tensor, refusal, traced
from opweld.torch.views_in_torch import VIEWS

aten = torch.ops.aten

# What writes a part of its first operand, with the form that does so in place.
IN_PLACE_FORMS = {
    aten.index_copy.default: aten.index_copy_.default,
    aten.index_put.default: aten.index_put_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.masked_scatter.default: aten.masked_scatter_.default,
}


@dataclass
class InPlace:
    """Operators that write into the graph's input that they get, with the copy that this saves."""

    copies: dict[Node, Node] = field(default_factory=dict)
    updates: dict[Node, RowUpdate] = field(default_factory=dict)
    """Those that programs do; the others run in eager mode."""
    reasons: dict[Node, str] = field(default_factory=dict)
    """Why those others do."""


def mutates(node: Node) -> bool:
    """Whether the operator writes into an operand."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def find_in_place(graph: torch.fx.Graph) -> InPlace:
    """Operators whose result is only written back into their own first operand.

    Where nobody reads the old contents afterwards, the operator may write into the input itself. A
    program does so if nobody reads them at all, for its kernels read and write at once.
    """
    found = InPlace()
    for copy in graph.nodes:
        if copy.target is not aten.copy_.default or copy.users:
            continue
        target, update = copy.args[:2]
        if (
            not is_input(target)
            or not is_plain_tensor(traced(target))
            or not isinstance(update, Node)
            or not update.args
            or update.args[0] is not target
            or target in _nodes_of(update.args[1:])
        ):
            continue
        others = [user for user in target.users if user not in (copy, update)]
        written = _written(update)
        reason = _why_not_in_a_program(update, written, target, others)
        if reason is None:
            found.updates[update] = written.rows
        elif update.target in IN_PLACE_FORMS and _read_before(update, others):
            found.reasons[update] = f"it writes into a tensor in place: {reason}"
        else:
            continue
        found.copies[update] = copy
    return found


@dataclass(frozen=True)
class _Written:
    """The rows that an operator writes into a tensor."""

    rows: RowUpdate | None
    by: Node
    """The operator that has them among its operands."""
    between: tuple[Node, ...] = ()
    """What else is traced of the write."""


def _written(update: Node) -> _Written:
    """The rows, where they are of a slice that is the whole tensor, too.

    `cache[:, at] = x` is traced as that, the slice being for the first axis.
    """
    tensor, inner, *where = update.args if len(update.args) > 1 else (None, None)
    if (
        update.target is aten.slice_scatter.default
        and _is_whole(traced(update), *where)
        and list(inner.users) == [update]
        and inner.args
        and isinstance(inner.args[0], Node)
    ):
        part = inner.args[0]
        if (
            part.target is aten.slice.Tensor
            and part.args[0] is tensor
            and tensor not in _nodes_of(inner.args[1:])
            and list(part.users) == [inner]
            and same_type(part, update)
        ):
            further = _written(inner)
            return _Written(further.rows, further.by, (part, inner, *further.between))
    return _Written(row_update(update), update)


def _is_whole(
    tensor: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> bool:
    """Whether a slice of the tensor is all of it."""
    size = tensor.shape[dim]
    is_end = end is None or (isinstance(end, int) and isinstance(size, int) and end >= size)
    return start in (0, None) and step == 1 and (is_end or end == sys.maxsize)


def _why_not_in_a_program(
    update: Node, written: _Written, target: Node, others: list[Node]
) -> str | None:
    if written.rows is None:
        return "not certain to be consecutive rows"
    if any(_reads(each, target) for each in others if each not in written.between):
        return "what it overwrites is read before"
    if written.by is not update and refusal(written.by) is not None:
        return refusal(written.by)
    return refusal(update, written.rows)


def _reads(user: Node, operand: Node) -> bool:
    """Whether it reads an operand's elements, and not just its sizes."""
    if is_host(user):
        return False
    if user.target is aten.copy.default:
        return user.args[1] is operand
    if user.target in VIEWS:
        return any(_reads(each, user) for each in user.users)
    return True


def _read_before(update: Node, others: list[Node]) -> bool:
    """Whether who reads what an operator overwrites is done when it runs."""
    readers = [each for each in others if not is_host(each)]
    return all(each < update and not _is_view(each) for each in readers)


def operands_of(node: Node, in_place: InPlace) -> list[Node]:
    """What it reads in the program that it is in."""
    rows = in_place.updates.get(node)
    written = [] if rows is None else rows.operands()
    return list(dict.fromkeys([*node.all_input_nodes, *written]))


def _nodes_of(arguments: Iterable[object]) -> set[Node]:
    found: set[Node] = set()
    torch.fx.node.map_arg(tuple(arguments), found.add)
    return found


def _is_view(node: Node) -> bool:
    """Whether its result may be memory of its operand."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(each.alias_info is not None for each in schema.arguments)


def find_written_back(
    graph: torch.fx.Graph, in_place: InPlace, round_of: dict[Node, int], compiled: set[Node]
) -> dict[Node, Node]:
    """Results that leave their program for nothing but to be copied into an input of the graph.

    The program copies them itself when it is done. So nobody but programs may read what the input
    held, and none that runs later.
    """
    found = {}

    def is_beside(user: Node, value: Node) -> bool:
        """Whether the same program computes both."""
        return user in compiled and round_of[user] == round_of[value]

    for copy in graph.nodes:
        if copy.target is not aten.copy_.default or copy.users or len(copy.args) != 2:
            continue
        target, value = copy.args
        if (
            isinstance(value, Node)
            and value in compiled
            and value not in in_place.copies
            and all(user is copy or is_beside(user, value) for user in value.users)
            and is_input(target)
            and is_plain_tensor(traced(target))
            and same_type(target, value)
            and all(
                user is copy
                or is_host(user)
                or user.op == "output"
                or (user in compiled and round_of[user] <= round_of[value])
                for user in target.users
            )
        ):
            found[value] = copy
    return found
