"""A traced graph made runnable: compiled segments, eager operators between them, frozen weights."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opweld import _core
from opweld.torch.given_views import OnInputs, take_views
from opweld.torch.partition import Partition, partition
from opweld.torch.segment import Segment, SegmentBuilder
from opweld.torch.stacked_writes import input_of, is_part, take_apart
from opweld.torch.translate import is_plain_tensor, traced
from opweld.torch.writes import IN_PLACE_FORMS, mutates, operands_of

# Of one graph that serves many modules, such as a layer compiled by itself: so many sets of weights
# are packed. A weight that changed so often is read anew in every call instead.
MOST_WEIGHT_SETS = 128
MOST_REPACKS = 3
# A number of Python is a constant of the programs; one that had more values than this is no more.
MOST_VALUES = 2


@dataclass
class GraphStats:
    """What happened to one traced graph."""

    compiles: int = 0
    """Segments that were compiled."""
    repacks: int = 0
    """Times that they were compiled again since a weight had changed."""
    calls: int = 0
    eager: Counter[str] = field(default_factory=Counter)
    """Operators that run in eager mode: how many nodes of each there are in the graph."""
    reasons: dict[str, str] = field(default_factory=dict)
    """For each of them, why."""


class Weights:
    """Frozen inputs as they were when programs were made of them."""

    def __init__(self, tensors: dict[Node, torch.Tensor]) -> None:
        self.tensors = tensors
        self.constants = {node: each.detach().contiguous() for node, each in tensors.items()}
        """Their memory, which stays as long as programs may read it."""
        self.segments: dict[int, Segment] = {}
        self._held = list(tensors.values())
        self._versions, self._addresses = self._marks()
        self._samples = {
            node: _core.MemorySample([each.data_ptr()], [each.numel() * each.element_size()])
            for node, each in tensors.items()
            if each.is_contiguous()
        }
        self._values = {node: sample.value() for node, sample in self._samples.items()}
        sampled = [tensors[node] for node in self._samples]
        self._sample = _core.MemorySample(
            [each.data_ptr() for each in sampled],
            [each.numel() * each.element_size() for each in sampled],
        )
        self._value = self._sample.value()

    def _marks(self) -> tuple[list[int], list[int]]:
        return [each._version for each in self._held], [each.data_ptr() for each in self._held]

    def changed(self) -> list[Node]:
        """Which of them somebody has written into, or moved, since.

        PyTorch counts writes, but for those by way of `.data`; the samples see most of these.
        """
        versions, addresses = self._marks()
        if versions != self._versions or addresses != self._addresses:
            known = zip(self.tensors, self._versions, self._addresses, strict=True)
            now = zip(versions, addresses, strict=True)
            return [
                node
                for (node, *before), after in zip(known, now, strict=True)
                if (*before,) != after
            ]
        if self._sample.value() == self._value:
            return []
        return [node for node, each in self._samples.items() if each.value() != self._values[node]]


class CompiledGraph:
    """Runs a traced graph; called with a list of its inputs, which it empties.

    Programs are made for the weights that a call comes with, and kept for others that have them.
    """

    _boxed_call = True

    def __init__(
        self,
        module: GraphModule,
        frozen: set[int],
        numbers: set[int],
        settings: Mapping[str, Any],
        name: str,
        on_inputs: OnInputs,
    ) -> None:
        self.module = module
        self.name = name
        self.settings = dict(settings)
        self.stats = GraphStats()
        self._views = take_views(module.graph, on_inputs)
        take_apart(module.graph)
        self.partition: Partition = partition(module)
        self.nodes = list(module.graph.nodes)
        self.placeholders = [node for node in self.nodes if node.op == "placeholder"]
        self.parts = [node for node in self.nodes if is_part(node)]
        (self.output,) = [node for node in self.nodes if node.op == "output"]
        written = {
            input_of(node.args[0])
            for node in self.nodes
            if node.op == "call_function" and mutates(node)
        }
        self.frozen = [
            node
            for i, node in enumerate(self.placeholders)
            if i in frozen and node not in written and is_plain_tensor(traced(node))
        ]
        self._numbers = [
            node
            for i, node in enumerate(self.placeholders)
            if i in numbers and i not in frozen and node not in written and _is_number(node)
        ]
        self._values: dict[Node, set[Any]] = {node: set() for node in self._numbers}
        self._lock = threading.Lock()
        self._weights: OrderedDict[tuple[Any, ...], Weights] = OrderedDict()
        self._attributes = self._read_attributes()
        self._repacks: Counter[Node] = Counter()
        for node, reason in self.partition.refusals.items():
            operator = str(node.target)
            self.stats.eager[operator] += 1
            self.stats.reasons.setdefault(operator, reason)
        self._order = self._steps()
        self._last_use = self._last_uses()

    def _read_attributes(self) -> dict[Node, Any]:
        found = {}
        for node in self.nodes:
            if node.op == "get_attr":
                value: Any = self.module
                for part in node.target.split("."):
                    value = getattr(value, part)
                found[node] = value
        return found

    def _steps(self) -> list[int | Node]:
        """Rounds by number for their segment, and the eager nodes after it."""
        steps: list[int | Node] = []
        for number, each in enumerate(self.partition.rounds):
            if each.compiled:
                steps.append(number)
            steps.extend(each.eager)
        return steps

    def _last_uses(self) -> list[list[Node]]:
        """For every step, the values that nobody reads afterwards.

        What only the step's own program reads is none of them: it never leaves the program.
        """
        last: dict[Node, int] = {}
        for at, step in enumerate(self._order):
            nodes = [step] if isinstance(step, Node) else self.partition.rounds[step].compiled
            inside = set() if isinstance(step, Node) else set(nodes)
            for node in nodes:
                given = [node] if any(user not in inside for user in node.users) else []
                operands = operands_of(node, self.partition.in_place)
                read = [each for each in operands if each not in inside]
                if node in self.partition.written_back:
                    read.append(self.partition.written_back[node])
                last.update(dict.fromkeys([*given, *read], at))
        read_last = {each for view in self._views.values() for each in view.needs()}
        for node in [*self.output.all_input_nodes, *read_last, *self._attributes]:
            last.pop(node, None)
        # Feeds of sizes may read any input.
        kept = {node for node in self.placeholders if not isinstance(traced(node), torch.Tensor)}
        uses: list[list[Node]] = [[] for _ in self._order]
        for node, at in last.items():
            if node not in kept:
                uses[at].append(node)
        return uses

    # ---- weights ----

    def begin(self, inputs: Sequence[Any]) -> None:
        """Makes the programs for such inputs on a thread of its own, while PyTorch goes on.

        It has yet to write the guards of what it traced, which takes as long. The first call waits
        until the programs are there; one that comes with other weights makes others.
        """
        env: dict[Node, Any] = dict(zip(self.placeholders, inputs, strict=True))
        env.update(self._attributes)

        def make() -> None:
            # What is wrong will be so in the first call, and is said there.
            with suppress(Exception):
                self._programs(env)

        threading.Thread(target=make, name=f"opweld {self.name}").start()

    def _programs(self, env: dict[Node, Any]) -> Weights:
        """The programs for the weights of this call, made anew where one has changed."""
        with self._lock:
            key = self._key(env)
            weights = self._weights.get(key)
            if weights is not None:
                changed = weights.changed()
                if not changed:
                    return weights
                self.stats.repacks += 1
                self._repacks.update(changed)
            elif self._see_values(env):
                key = self._key(env)
            weights = self._make(env)
            self._weights[key] = weights
            if len(self._weights) > MOST_WEIGHT_SETS:
                self._weights.popitem(last=False)
            return weights

    def _key(self, env: dict[Node, Any]) -> tuple[Any, ...]:
        """Which weights and numbers a call comes with."""
        values = [_value(env[node]) for node in self._numbers]
        return (*(id(env[node]) for node in self.frozen), *values)

    def _see_values(self, env: dict[Node, Any]) -> bool:
        """Notes the numbers of a call; whether one of them turned out to be no constant."""
        for node in self._numbers:
            self._values[node].add(_value(env[node]))
        constant = [node for node in self._numbers if len(self._values[node]) <= MOST_VALUES]
        if len(constant) == len(self._numbers):
            return False
        self._numbers = constant
        self._weights.clear()
        return True

    def _make(self, env: dict[Node, Any]) -> Weights:
        tensors = {
            node: env[node]
            for node in self.frozen
            if self._repacks[node] < MOST_REPACKS and not env[node].is_inference()
        }
        weights = Weights(tensors)
        weights.constants.update({node: env[node].detach() for node in self._numbers})
        weights.segments = self._build(weights, self.settings)
        self.stats.compiles += len(weights.segments)
        return weights

    def _build(self, weights: Weights, settings: Mapping[str, Any]) -> dict[int, Segment]:
        constants: dict[Node, torch.Tensor] = dict(weights.constants)
        for node, value in self._attributes.items():
            if is_plain_tensor(value):
                constants[node] = value.detach().contiguous()
        return {
            number: SegmentBuilder(
                f"{self.name}.{number}", each.compiled, self.partition, constants
            ).build(settings)
            for number, each in enumerate(self.partition.rounds)
            if each.compiled
        }

    def programs_with(self, **settings: Any) -> list[_core.Program]:
        """The same segments compiled otherwise, with the weights that ran last, to compare with."""
        if not self._weights:
            return []
        weights = next(reversed(self._weights.values()))
        built = self._build(weights, {**self.settings, **settings})
        return [segment.program for segment in built.values()]

    @property
    def segments(self) -> list[Segment]:
        """Those that ran last."""
        if not self._weights:
            return []
        return list(next(reversed(self._weights.values())).segments.values())

    # ---- running ----

    def __call__(self, args: list[Any]) -> list[Any]:
        """Runs the graph on its inputs, in the order of the trace."""
        env: dict[Node, Any] = dict(zip(self.placeholders, args, strict=True))
        args.clear()
        env.update(self._attributes)
        for part in self.parts:
            env[part] = self._run_eager(part, env)
        segments = self._programs(env).segments
        self.stats.calls += 1
        for step, unused in zip(self._order, self._last_use, strict=True):
            if isinstance(step, Node):
                env[step] = self._run_eager(step, env)
            else:
                segments[step].run(env)
            for node in unused:
                env.pop(node, None)
        results = list(torch.fx.node.map_arg(self.output.args[0], env.__getitem__))
        for place, view in self._views.items():
            results[place] = view.made(env)
        return results

    def _run_eager(self, node: Node, env: dict[Node, Any]) -> Any:
        args = torch.fx.node.map_arg(node.args, env.__getitem__)
        kwargs = torch.fx.node.map_arg(node.kwargs, env.__getitem__)
        target = node.target
        if node in self.partition.in_place.reasons:
            target = IN_PLACE_FORMS[target]
        return target(*args, **kwargs)


def _is_number(node: Node) -> bool:
    value = traced(node)
    return is_plain_tensor(value) and value.dim() == 0 and value.dtype is torch.float64


def _value(number: torch.Tensor) -> float | str:
    """A number's value, such that equal ones may stand for each other: 0 and -0 may not."""
    value = float(number)
    return value or str(value)
