"""Divides a traced graph into segments that Opweld compiles and operators that run in eager mode.

A node's *round* is the number of times that a path to it changes from eager operators back to
compiled ones. All compiled operators of a round are one segment, which runs before the round's
eager operators; so there are no more segments than the longest chain of such changes.
"""

from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from opweld.torch import views_in_torch
from opweld.torch.stacked_writes import is_part
from opweld.torch.translate import is_getitem, is_host, refusal, traced
from opweld.torch.writes import InPlace, find_in_place, find_written_back, mutates, operands_of

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
    in_place: InPlace
    written_back: dict[Node, Node]
    """Results of programs, with the graph's inputs that these copy them into."""


def partition(module: GraphModule) -> Partition:
    """Decides for every node; eager operators keep their reason."""
    return _Partitioner(module).run()


class _Partitioner:
    """Gives rounds to nodes, in the order of the graph."""

    def __init__(self, module: GraphModule) -> None:
        self.graph = module.graph
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
            if node.op != "call_function" or is_part(node):
                self.round_of[node] = 0
                continue
            reason = self._reason(node)
            if reason is None:
                self.compiled.add(node)
            elif not is_host(node):
                self.refusals[node] = reason
            self.round_of[node] = self._round(node)
        self._keep_views_in_torch()
        written_back = find_written_back(self.graph, self.in_place, self.round_of, self.compiled)
        saved = {*self.in_place.copies.values(), *written_back.values()}
        for copy in saved:
            del self.refusals[copy]
        targets = {value: copy.args[0] for value, copy in written_back.items()}
        return Partition(self._rounds(saved), self.refusals, self.in_place, targets)

    def _keep_views_in_torch(self) -> None:
        """A round of nothing but views would only copy: those are left to PyTorch.

        So are rows of keys and values that only leave the graph, as the last ones that a cache with
        a sliding window keeps: an attention reads what they are a part of, which is in memory.
        """
        working = {
            self.round_of[node] for node in self.compiled if node.target not in views_in_torch.VIEWS
        }
        self.compiled = {node for node in self.compiled if self.round_of[node] in working}
        for node in reversed(self.nodes):
            if node in self.compiled and self._is_kept_part(node):
                self.compiled.remove(node)

    def _is_kept_part(self, node: Node) -> bool:
        """Of what an attention reads, and read by nothing that is compiled."""
        leaves = node.users and not any(user in self.compiled for user in node.users)
        if node.target not in views_in_torch.VIEWS or not leaves:
            return False
        whole = node
        while whole.target in views_in_torch.VIEWS:
            whole = whole.args[0]
        return whole in self.compiled and _is_attended(whole)

    def _rounds(self, saved: set[Node]) -> list[Round]:
        rounds = [Round() for _ in range(max(self.round_of.values(), default=0) + 1)]
        for node in self.nodes:
            if node.op == "call_function" and node not in saved and not is_part(node):
                place = rounds[self.round_of[node]]
                (place.compiled if node in self.compiled else place.eager).append(node)
        return rounds

    def _reason(self, node: Node) -> str | None:
        """Why it runs in eager mode; nothing if a program does it."""
        if is_getitem(node):
            return None if node.args[0] in self.compiled else "a result of an eager operator"
        if is_host(node):
            return "a number"
        if node in self.in_place.updates:
            return None
        if node in self.in_place.reasons:
            return self.in_place.reasons[node]
        if mutates(node):
            return "it writes into an operand"
        return refusal(node)

    def _round(self, node: Node) -> int:
        operands = operands_of(node, self.in_place)
        lowest = max([self.earliest, *(self._after(each, node) for each in operands)])
        if node in self.in_place.reasons:
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
        if operand.op != "call_function" or is_part(operand):
            return mine
        # Numbers over the symbols of the graph's inputs are read off those.
        if is_host(operand) and not is_getitem(operand):
            return 0 if _free_symbols(operand) <= self.given else mine + 1
        return mine + 1


# What an attention reads keys and values through.
_THROUGH = {*views_in_torch.VIEWS, aten._unsafe_view.default, aten.clone.default}


def _is_attended(value: Node) -> bool:
    """Whether an attention reads it as keys or values, behind views or repeated."""
    seen = {value}
    pending = [value]
    while pending:
        for user in (each := pending.pop()).users:
            if user.target is aten._scaled_dot_product_flash_attention_for_cpu.default:
                if each in user.args[1:3]:
                    return True
            elif user.target in _THROUGH and user not in seen:
                seen.add(user)
                pending.append(user)
    return False


def _free_symbols(node: Node) -> set[str]:
    value = traced(node)
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    found: set[str] = set()
    for size in sizes:
        if isinstance(size, torch.SymInt):
            found |= {str(each) for each in size.node.expr.free_symbols}
    return found
