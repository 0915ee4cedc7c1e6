"""Results that are views of a graph's inputs: no program makes them.

PyTorch makes such a result anew, as a view of what the caller handed over. Where a size in it is a
symbol, it goes by the strides and the offset of what the graph gives for it, and these are right
only of a view of that very tensor. Elements are never looked at.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node

from opweld.torch.sizes import Unsupported, to_sizes
from opweld.torch.translate import is_getitem, traced

aten = torch.ops.aten


@dataclass(frozen=True)
class OnInputs:
    """What PyTorch does with a graph's results and inputs, by their places."""

    made: set[int] = field(default_factory=set)
    """Results that it makes anew: inputs, or views of them."""
    written: dict[int, int] = field(default_factory=dict)
    """Results that it copies into an input when the graph is done, with the input."""


@dataclass(frozen=True)
class Step:
    """An operator as it stood in the graph."""

    node: Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def operands(self) -> set[Node]:
        """The nodes that it reads."""
        found: set[Node] = set()
        torch.fx.node.map_arg((self.args, self.kwargs), found.add)
        return found


@dataclass(frozen=True)
class GivenView:
    """A result that operators of views make of an input, one after the other."""

    input: Node
    base: Node
    """What they begin with: the input, or what is written back into it."""
    steps: tuple[Step, ...]

    def needs(self) -> set[Node]:
        """What they read: the input, and numbers."""
        read = {each for step in self.steps for each in step.operands()}
        return {self.input, *(read - {self.base, *(step.node for step in self.steps)})}

    def made(self, env: dict[Node, Any]) -> torch.Tensor:
        """The view."""
        here: dict[Node, Any] = {self.base: env[self.input]}

        def value_of(node: Node) -> Any:
            return here[node] if node in here else env[node]

        for step in self.steps:
            args, kwargs = torch.fx.node.map_arg((step.args, step.kwargs), value_of)
            here[step.node] = step.node.target(*args, **kwargs)
        return here[self.steps[-1].node]


def take_views(graph: Graph, on_inputs: OnInputs) -> dict[int, GivenView]:
    """Takes views of inputs out of the results of a graph.

    Args:
        graph: a traced graph; nothing stands in the place of what is taken.
        on_inputs: what of its results is such a view.

    Returns:
        The views, by their place.
    """
    (output,) = graph.find_nodes(op="output")
    results = list(output.args[0])
    inputs = graph.find_nodes(op="placeholder")
    written = _written_back(graph)
    for place, index in on_inputs.written.items():
        if isinstance(results[place], Node) and same_type(inputs[index], results[place]):
            written[results[place]] = inputs[index]
    found = {}
    for place in sorted(on_inputs.made):
        view = _view(results[place], written)
        if view is not None:
            found[place] = view
            results[place] = None
    output.args = (tuple(results),)
    steps = {step.node for view in found.values() for step in view.steps}
    for node in reversed(graph.nodes):
        if node in steps and not node.users:
            graph.erase_node(node)
    return found


def _written_back(graph: Graph) -> dict[Node, Node]:
    """What is copied as it is into an input, with the input."""
    found = {}
    for copy in graph.find_nodes(op="call_function", target=aten.copy_.default):
        target, value = copy.args[:2]
        if target.op == "placeholder" and isinstance(value, Node) and same_type(target, value):
            found[value] = target
    return found


def same_type(a: Node, b: Node) -> bool:
    """Whether both have the same dtype and sizes for certain."""
    try:
        return traced(a).dtype == traced(b).dtype and (
            to_sizes(traced(a).shape) == to_sizes(traced(b).shape)
        )
    except Unsupported:
        return False


def _view(result: object, written: dict[Node, Node]) -> GivenView | None:
    steps: list[Step] = []
    node = result
    while isinstance(node, Node) and node not in written and _is_step(node):
        steps.insert(0, Step(node, node.args, dict(node.kwargs)))
        node = node.args[0]
    if not steps or not isinstance(node, Node):
        return None
    source = written.get(node, node)
    is_input = source.op == "placeholder" and isinstance(traced(source), torch.Tensor)
    return GivenView(source, node, tuple(steps)) if is_input else None


def _is_step(node: Node) -> bool:
    if is_getitem(node):
        return True
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or schema.is_mutable or not node.args:
        return False
    first = schema.arguments[0].alias_info
    return first is not None and isinstance(node.args[0], Node)
