"""Divides a traced graph into segments that Opweld compiles and operators that run in eager mode.

A node's *round* is the number of times that a path to it changes from eager operators back to
compiled ones. All compiled operators of a round are one segment, which runs before the round's
eager operators; so there are no more segments than the longest chain of such changes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from opweld.torch.translate import is_getitem, is_plain_tensor, refusal, traced

aten = torch.ops.aten


@dataclass
class Round:
    """What runs together: first the compiled operators, then the others in their order."""

    compiled: list[Node] = field(default_factory=list)
    eager: list[Node] = field(default_factory=list)


@dataclass
class Partition:
    """The rounds of a graph, and why each eager operator is one."""

    rounds: list[Round]
    refusals: dict[Node, str]
    in_place: dict[Node, Node]
    """Operators that write into the graph's input that they get, with the copy which that saves."""


def is_host(node: Node) -> bool:
    """Whether it computes sizes, or takes a result apart: work of Python, not of a kernel."""
    if is_getitem(node):
        return True
    value = traced(node)
    return isinstance(value, int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool)


def mutates(node: Node) -> bool:
    """Whether the operator writes into an operand."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


# What writes a part of its first operand, with the form that does so in place.
IN_PLACE_FORMS = {
    aten.index_put.default: aten.index_put_.default,
    aten.index_copy.default: aten.index_copy_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.masked_scatter.default: aten.masked_scatter_.default,
}


def find_in_place(graph: torch.fx.Graph) -> dict[Node, Node]:
    """Cache updates: an operator whose result is only written back into its own first operand.

    Tracing makes `cache.index_copy_(...)` a copy of the whole cache and, at the end, a copy back.
    Where nobody reads the old contents afterwards, the operator may write into the cache itself.
    """
    order = {node: i for i, node in enumerate(graph.nodes)}
    found = {}
    for copy in graph.nodes:
        if copy.target is not aten.copy_.default or copy.users:
            continue
        target, update = copy.args[:2]
        if not isinstance(update, Node) or update.target not in IN_PLACE_FORMS:
            continue
        others = [user for user in target.users if user not in (copy, update)]
        if (
            target.op == "placeholder"
            and update.args[0] is target
            and sum(each is target for each in update.all_input_nodes) == 1
            and target not in _nodes_of(update.args[1:])
            and all(order[user] < order[update] for user in others)
            and not any(_is_view(user) for user in others)
            and is_plain_tensor(traced(target))
        ):
            found[update] = copy
    return found


def _nodes_of(arguments: Iterable[object]) -> set[Node]:
    found: set[Node] = set()
    torch.fx.node.map_arg(tuple(arguments), found.add)
    return found


def _is_view(node: Node) -> bool:
    """Whether its result may be memory of its operand."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(each.alias_info is not None for each in schema.arguments)


def partition(module: GraphModule) -> Partition:
    """Decides for every node; eager operators keep their reason."""
    return _Partitioner(module).run()


class _Partitioner:
    """Gives rounds to nodes, in the order of the graph."""

    def __init__(self, module: GraphModule) -> None:
        self.nodes = list(module.graph.nodes)
        self.in_place = find_in_place(module.graph)
        self.compiled: set[Node] = set()
        self.refusals: dict[Node, str] = {}
        self.round_of: dict[Node, int] = {}
        self.earliest = 0  # after an operator that writes where the trace does not say
        self.seeded = 0  # random operators keep their order
        self.given: set[str] = set()
        """Symbols that the graph's inputs tell."""

    def run(self) -> Partition:
        for node in self.nodes:
            if node.op == "placeholder":
                self.given |= _free_symbols(node)
            if node.op != "call_function":
                self.round_of[node] = 0
                continue
            reason = _reason(node, self.in_place, self.compiled)
            if reason is None:
                self.compiled.add(node)
            elif not is_host(node):
                self.refusals[node] = reason
            self.round_of[node] = self._round(node)
        rounds = [Round() for _ in range(max(self.round_of.values(), default=0) + 1)]
        for node in self.nodes:
            if node.op == "call_function":
                place = rounds[self.round_of[node]]
                (place.compiled if node in self.compiled else place.eager).append(node)
        return Partition(rounds, self.refusals, self.in_place)

    def _round(self, node: Node) -> int:
        lowest = max([self.earliest, *(self._after(each, node) for each in node.all_input_nodes)])
        if node in self.in_place:
            # Behind everything that reads what it overwrites.
            readers = [each for each in node.args[0].users if each in self.round_of]
            return max([lowest, *(self.round_of[each] for each in readers)])
        if mutates(node):
            lowest = max(lowest, *self.round_of.values())
            if node.target is not aten.copy_.default:
                self.earliest = lowest + 1
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            lowest = self.seeded = max(lowest, self.seeded)
        return lowest

    def _after(self, operand: Node, node: Node) -> int:
        """The first round in which an operand's value is there for a node."""
        mine = self.round_of[operand]
        if node not in self.compiled or operand in self.compiled:
            return mine
        if operand.op != "call_function":
            return mine
        # Numbers over the symbols of the graph's inputs are read off those.
        if is_host(operand) and not is_getitem(operand):
            return 0 if _free_symbols(operand) <= self.given else mine + 1
        return mine + 1


def _free_symbols(node: Node) -> set[str]:
    value = traced(node)
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    found: set[str] = set()
    for size in sizes:
        if isinstance(size, torch.SymInt):
            found |= {str(each) for each in size.node.expr.free_symbols}
    return found


def _reason(node: Node, in_place: dict[Node, Node], compiled: set[Node]) -> str | None:
    if is_getitem(node):
        return None if node.args[0] in compiled else "a result of an eager operator"
    if is_host(node):
        return "a number"
    if node in in_place:
        return "it updates a cache in place"
    if mutates(node):
        return "it writes into an operand"
    return refusal(node)
