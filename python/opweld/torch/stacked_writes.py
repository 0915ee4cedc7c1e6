"""Writes into parts of an input that are tensors of their own, as layers of a stacked cache are.

What is written into `cache[i]` is traced as a new cache with that part in it, part after part, and
at the end of the graph as a copy of the last one into the input:

    a = cache[0]; b = index_copy(a, ..); one = select_scatter(cache, b, 0, 0)
    c = one[1]; d = index_copy(c, ..); two = select_scatter(one, d, 0, 1);  cache.copy_(two)

The parts do not overlap, and lie where they are in the input. So each is as good as an input that
is written by itself:

    b = index_copy(cache[0], ..); cache[0].copy_(b); d = index_copy(cache[1], ..); cache[1].copy_(d)
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, Node

from opweld.torch.translate import is_host, traced

aten = torch.ops.aten

_PART = "opweld_part_of_input"


def is_part(node: Node) -> bool:
    """Whether it is a part of an input that counts as one: made by PyTorch before anything runs."""
    return _PART in node.meta


def is_input(node: Node) -> bool:
    """Whether it is an input of the graph, or a part of one."""
    return node.op == "placeholder" or is_part(node)


def input_of(node: Node) -> Node:
    """The input that a part, or a part of a part, belongs to."""
    while is_part(node):
        node = node.args[0]
    return node


def take_apart(graph: Graph) -> None:
    """Makes parts of every input that is written part by part and read no other way."""
    copies = [node for node in graph.nodes if node.target is aten.copy_.default and not node.users]
    while copies:
        copies += _Stack(graph, copies.pop()).take_apart()


class _Stack:
    """An input, and the copy that ends what is written into it."""

    def __init__(self, graph: Graph, copy: Node) -> None:
        self.graph = graph
        self.copy = copy
        self.target: Node = copy.args[0]
        self.writes = self._find_writes()
        self.parts: dict[int, Node] = {}

    def take_apart(self) -> list[Node]:
        """The copies into parts, which may be stacks themselves."""
        if not self.writes or not is_input(self.target) or not self._is_read_by_parts():
            return []
        for number, whole in enumerate(self._wholes()):
            for user in list(whole.users):
                if user.target is aten.select.int:
                    user.replace_all_uses_with(self._part_at(number, user))
                    self.graph.erase_node(user)
                elif is_host(user):
                    user.replace_input_with(whole, self.target)
        copies = [self._copy(index) for index in sorted(set(map(self._index, self.writes)))]
        for node in (self.copy, *reversed(self.writes)):
            self.graph.erase_node(node)
        return copies

    def _find_writes(self) -> list[Node]:
        """From the first to the last; empty where the input is written otherwise."""
        found = []
        value = self.copy.args[1]
        while value is not self.target:
            is_write = isinstance(value, Node) and value.target is aten.select_scatter.default
            if not is_write or self._index(value) is None:
                return []
            found.append(value)
            value = value.args[0]
        return found[::-1]

    def _index(self, node: Node) -> int | None:
        """Of the part that is selected or written; nothing unless it is a number, on axis 0."""
        dim, index = node.args[-2:]
        size = traced(self.target).shape[0]
        if dim != 0 or not isinstance(index, int):
            return None
        if index < 0:
            return index + size if isinstance(size, int) else None
        return index

    def _wholes(self) -> Iterator[Node]:
        yield self.target
        yield from self.writes

    def _is_read_by_parts(self) -> bool:
        def is_fine(user: Node, whole: Node) -> bool:
            if user in self.writes:
                return user.args[0] is whole and user.args[1] is not whole
            if user.target is aten.select.int:
                return self._index(user) is not None
            return user is self.copy or is_host(user)

        return all(is_fine(user, whole) for whole in self._wholes() for user in whole.users)

    def _part_at(self, number: int, select: Node) -> Node:
        """What a part holds after so many writes."""
        index = self._index(select)
        for write in reversed(self.writes[:number]):
            if self._index(write) == index:
                return write.args[1]
        return self._part(index, select.meta)

    def _part(self, index: int, meta: dict[str, Any]) -> Node:
        if index not in self.parts:
            first = next(node for node in self.graph.nodes if not is_input(node))
            with self.graph.inserting_before(first):
                part = self.graph.call_function(aten.select.int, (self.target, 0, index))
            part.meta = {**meta, _PART: True}
            self.parts[index] = part
        return self.parts[index]

    def _copy(self, index: int) -> Node:
        (*_, last) = [write for write in self.writes if self._index(write) == index]
        written = last.args[1]
        part = self._part(index, written.meta)
        with self.graph.inserting_before(self.copy):
            copy = self.graph.call_function(aten.copy_.default, (part, written))
        copy.meta = {"val": traced(part)}
        return copy
