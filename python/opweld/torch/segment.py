"""One compiled segment of a traced graph: its program, and how it is run on tensors of PyTorch."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.fx import Node

from opweld import _core
from opweld.torch.dtypes import name_of
from opweld.torch.emitter import Emitter
from opweld.torch.partition import Partition
from opweld.torch.row_updates import emit_update, stored_sizes
from opweld.torch.sizes import to_size, to_sizes
from opweld.torch.translate import declare_symbols, emit, is_getitem, traced
from opweld.torch.views_in_torch import VIEWS
from opweld.torch.writes import operands_of

# What the model itself is called in a trace: a decorated forward knows it as the first argument.
MODEL = re.compile(r"^L\.(?:self|args\.0)\.")
LAYER = re.compile(r"^(.*?\.\d+)(?:\.|$)")
# Output sizes by input sizes are kept, up to so many.
MOST_SHAPES = 256


@dataclass(frozen=True)
class SizeFeed:
    """A symbol that no input of the segment tells: an input without elements brings it along."""

    symbol: str
    source: Node
    axis: int | None
    """Of the source tensor; nothing where the source is a number."""


@dataclass(frozen=True)
class SegmentOutput:
    """A result of a segment, and where in memory it goes."""

    node: Node
    dtype: torch.dtype
    order: list[int] | None = None
    """Of axes in memory, where it is not row-major."""
    input: int | None = None
    """It lies in place of this input, by its place."""
    target: Node | None = None
    """Nobody reads it, but the run copies it into this input of the graph when it is over."""


@dataclass
class Segment:
    """Compiled operators that run as one program."""

    nodes: list[Node]
    inputs: list[Node]
    feeds: list[SizeFeed]
    outputs: list[SegmentOutput]
    program: _core.Program
    runner: _core.AddressRunner
    symbols: list[str]
    batched: list[int]
    """Inputs that the program knows with a batch of 1 as their first axis."""
    copies: int = 0
    """Inputs that were copied since they were not dense."""
    calls: int = 0
    last: Sequence[Sequence[int]] = ()
    """Sizes of the inputs, those of feeds as well, in the last run."""
    _shapes: dict[Any, list[tuple[int, ...]]] = field(default_factory=dict)

    def run(self, env: dict[Node, Any]) -> None:
        """Reads its inputs from `env` and puts its outputs there."""
        held = [env[node] for node in self.inputs]
        for at, tensor in enumerate(held):
            if not tensor.is_contiguous():
                held[at] = tensor.contiguous()
                self.copies += 1
        sizes: list[Sequence[int]] = [tensor.shape for tensor in held]
        for at in self.batched:
            sizes[at] = (1, *sizes[at])
        addresses = [tensor.data_ptr() for tensor in held]
        for feed in self.feeds:
            value = env[feed.source]
            addresses.append(0)
            sizes.append((int(value) if feed.axis is None else value.shape[feed.axis], 0))
        key = tuple(sizes)
        shapes = self._shapes.get(key)
        if shapes is None:
            shapes = self.runner.output_sizes(sizes)
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key] = shapes
        outputs = [
            self._memory_for(output, shape, held, env)
            for output, shape in zip(self.outputs, shapes, strict=True)
        ]
        self.runner.run(addresses, sizes, [each.data_ptr() for each in outputs], shapes)
        self.calls += 1
        self.last = key
        written = []
        for output, made in zip(self.outputs, outputs, strict=True):
            target = output.target if output.input is None else self.inputs[output.input]
            if target is None:
                env[output.node] = made if output.order is None else _reordered(made, output.order)
                continue
            tensor = env[target]
            if made is tensor:
                written.append(tensor)
            else:
                tensor.copy_(made)
            if output.input is not None:
                env[output.node] = tensor
        if written:
            # PyTorch counts writes, but does not see those of a program.
            increment_version(written)

    @staticmethod
    def _memory_for(
        output: SegmentOutput,
        shape: Sequence[int],
        held: list[torch.Tensor],
        env: dict[Node, Any],
    ) -> torch.Tensor:
        if output.input is not None:
            return held[output.input]
        if output.target is not None and env[output.target].is_contiguous():
            return env[output.target]
        return torch.empty(shape, dtype=output.dtype)

    def last_values(self) -> dict[str, int]:
        """The values of its free sizes in the last run."""
        values = {}
        for info, sizes in zip(self.program.inputs(), self.last, strict=True):
            pairs = zip(info.sizes, sizes, strict=True)
            values.update({size: int(value) for size, value in pairs if isinstance(size, str)})
        symbols = {*self.symbols}
        return {name: value for name, value in values.items() if name in symbols}


def _reordered(tensor: torch.Tensor, order: list[int]) -> torch.Tensor:
    """The same values, with the axes lying in memory in this order."""
    inverse = [order.index(axis) for axis in range(len(order))]
    return tensor.permute(order).contiguous().permute(inverse)


def memory_order(tensor: torch.Tensor) -> list[int] | None:
    """In what order the axes of a traced tensor lie in memory; nothing where it is row-major."""
    if tensor.is_contiguous() or tensor.dim() < 2:
        return None
    strides = [_hint(each) for each in tensor.stride()]
    if None in strides or 0 in strides:
        return None
    order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
    return order if order != list(range(tensor.dim())) else None


def _hint(size: int | torch.SymInt) -> int | None:
    return size.node.hint if isinstance(size, torch.SymInt) else size


def _layer_of(node: Node) -> str:
    """The layer that the operator was traced in: "model.layers.0"."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [str(entry[0]) for entry in stack.values()]
    for path in paths:
        path = re.sub(r"\['?([^']*?)'?\]", r".\1", path)
        found = LAYER.match(MODEL.sub("", path))
        if found:
            return re.sub(r"\._modules|\.self", "", found[1])
    return ""


class SegmentBuilder:
    """Makes the program of a segment."""

    def __init__(
        self, name: str, nodes: list[Node], partition: Partition, constants: Mapping[Node, Any]
    ) -> None:
        self.nodes = nodes
        self.inside = set(nodes)
        self.everything = list(nodes[0].graph.nodes)
        self.constants = constants
        self.written_back = partition.written_back
        self.in_place = partition.in_place
        updates = self.in_place.updates
        self.updates = {node: updates[node] for node in nodes if node in updates}
        self.updated = {node.args[0]: rows for node, rows in self.updates.items()}
        self.stored: dict[Node, Any] = {}
        """What they write into, and their results, as tensor_scatter takes and gives them."""
        self.builder = _core.GraphBuilder(name)
        self.tensors: dict[Node, Any] = {}
        self.inputs: list[Node] = []

    def build(self, settings: Mapping[str, Any]) -> Segment:
        """Compiles it.

        Raises:
            opweld.Error: the graph cannot be compiled, though each operator can be translated.
        """
        reads = dict.fromkeys(
            each
            for node in self.nodes
            for each in operands_of(node, self.in_place)
            if each not in self.inside and isinstance(traced(each), torch.Tensor)
        )
        values = [value for node in [*reads, *self.nodes] for value in _flat(traced(node))]
        numbers = [traced(each) for node in self.nodes for each in node.all_input_nodes]
        numbers += [number for rows in self.updates.values() for number in rows.numbers()]
        symbols = declare_symbols(self.builder, [*values, *numbers])
        for node in reads:
            self._add_outside(node)
        feeds = [self._add_feed(symbol) for symbol in sorted(symbols.keys() - self._told())]
        emitter = Emitter(self.builder)
        for node in self.nodes:
            self.builder.layer(_layer_of(node))
            self.tensors[node] = self._emit(emitter, node)
        outputs = [self._output(node) for node in self.nodes if self._is_output(node)]
        in_place = {}
        for output in outputs:
            node = output.node
            self.builder.output(node.name, self.stored.get(node, self.tensors[node]))
            if output.input is not None:
                in_place[node.name] = self.inputs[output.input].name
        model = self.builder.finish()
        program = model.compile(_core.CompileSettings(**settings, in_place=in_place))
        written_back = [i for i, output in enumerate(outputs) if output.target is not None]
        return Segment(
            nodes=self.nodes,
            inputs=self.inputs,
            feeds=feeds,
            outputs=outputs,
            program=program,
            runner=_core.AddressRunner(program, written_back),
            symbols=model.symbols(),
            batched=[i for i, node in enumerate(self.inputs) if self._is_batched(node)],
        )

    def _output(self, node: Node) -> SegmentOutput:
        dtype = traced(node).dtype
        if node in self.stored:
            return SegmentOutput(node, dtype, input=self.inputs.index(node.args[0]))
        if node in self.written_back:
            return SegmentOutput(node, dtype, target=self.written_back[node])
        return SegmentOutput(node, dtype, order=self._order(node))

    def _emit(self, emitter: Emitter, node: Node) -> Any:
        if is_getitem(node):
            return self.tensors[node.args[0]][node.args[1]]
        if node in self.updates:
            before = self.stored[node.args[0]]
            after = emit_update(emitter, self.updates[node], before, self.tensors.__getitem__)
            self.stored[node] = after
            return emitter.reshape(after, to_sizes(traced(node).shape))
        return emit(emitter, node, self.tensors.__getitem__)

    def _add_outside(self, node: Node) -> None:
        value = traced(node)
        if node in self.constants:
            # Its memory belongs to PyTorch and stays where it is as long as the program lives.
            tensor = self.constants[node]
            address = tensor.data_ptr()
            self.tensors[node] = self.builder.weight_at(
                node.name, name_of(tensor.dtype), list(tensor.shape), address, tensor
            )
            return
        self.inputs.append(node)
        sizes = to_sizes(value.shape)
        if node in self.updated:
            sizes = stored_sizes(self.updated[node], sizes)
        tensor = self.builder.input(node.name, name_of(value.dtype), sizes)
        if node in self.updated:
            self.stored[node] = tensor
            tensor = Emitter(self.builder).reshape(tensor, to_sizes(value.shape))
        self.tensors[node] = tensor

    def _is_batched(self, node: Node) -> bool:
        return node in self.updated and self.updated[node].axis == 0

    def _told(self) -> set[str]:
        """Symbols that are alone the size of an axis of an input."""
        sizes = [size for node in self.inputs for size in to_sizes(traced(node).shape)]
        return {size for size in sizes if isinstance(size, str)}

    def _add_feed(self, symbol: str) -> SizeFeed:
        for node in self.everything:
            value = traced(node)
            axis: int | None = None
            if isinstance(value, torch.SymInt):
                matches = to_size(value) == symbol
            elif isinstance(value, torch.Tensor) and node.op == "placeholder":
                sizes = [
                    str(each.node.expr) if isinstance(each, torch.SymInt) else ""
                    for each in value.shape
                ]
                matches = symbol in sizes
                axis = sizes.index(symbol) if matches else None
            else:
                continue
            if matches:
                self.builder.input(f"size of {symbol}", "u8", [symbol, 0])
                return SizeFeed(symbol, node, axis)
        raise _core.Error(f"nothing tells the size {symbol}")

    def _is_output(self, node: Node) -> bool:
        if not isinstance(traced(node), torch.Tensor):
            return False
        return any(user not in self.inside for user in node.users)

    def _order(self, node: Node) -> list[int] | None:
        # Users see strides, and this operator goes by them; views of PyTorch do not care, but for
        # those that users see.
        matters = any(
            user.op == "output"
            or "as_strided" in str(user.target)
            or (user.target in VIEWS and _is_seen(user))
            for user in node.users
            if user not in self.inside
        )
        return memory_order(traced(node)) if matters else None


def _is_seen(view: Node) -> bool:
    """Whether a view leaves the graph, or one of it."""
    return any(
        user.op == "output" or (user.target in VIEWS and _is_seen(user)) for user in view.users
    )


def _flat(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]
