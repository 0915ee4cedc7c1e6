"""What the backend did with a model, and what was lost before it saw anything."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opweld.account import Account, format_bytes, make_account
from opweld.torch import backend as backends
from opweld.torch.graph import CompiledGraph
from opweld.torch.segment import Segment

# Namespaces whose operators are PyTorch's own.
OWN_NAMESPACES = ("aten", "prims", "prim", "quantized", "c10d", "higher_order", "_operator", "math")


@dataclass(frozen=True)
class EagerOperator:
    """An operator that runs in eager mode, between kernels that could otherwise be one."""

    name: str
    """As PyTorch calls it, "aten.cummax.default"."""
    count: int
    """Nodes in the graph."""
    reason: str

    @property
    def remedy(self) -> str:
        """What a user can do; empty where that is nothing."""
        namespace = self.name.split(".")[0]
        if namespace in OWN_NAMESPACES or "." not in self.name:
            return ""
        operator = self.name.removesuffix(".default").replace(".", "::", 1)
        return f'give it a body: @opweld.custom_op("{operator}")'

    def __str__(self) -> str:
        text = f"{self.name} ({self.count}): {self.reason}"
        return f"{text}; {self.remedy}" if self.remedy else text


@dataclass(frozen=True)
class GraphBreak:
    """A place at which tracing stopped: nothing is fused across it."""

    reason: str
    file: str
    line: int
    code: str
    """The user's source line."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.code}\n    {self.reason}"


@dataclass(frozen=True)
class GraphAccount:
    """One traced graph."""

    name: str
    segments: list[Account]
    """Of every program, with eager operators between them."""
    eager: list[EagerOperator]


@dataclass(frozen=True)
class ModelAccount:
    """The account of a model; `print` it, or show it in a notebook."""

    graphs: list[GraphAccount]
    breaks: list[GraphBreak]

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """Those of all graphs, in order."""
        return [kernel for each in self._segments() for kernel in each.kernels]

    @property
    def eager(self) -> dict[str, int]:
        """Operators in eager mode: how many nodes of each, in all graphs."""
        found: dict[str, int] = {}
        for graph in self.graphs:
            for each in graph.eager:
                found[each.name] = found.get(each.name, 0) + each.count
        return found

    def _segments(self) -> list[Account]:
        return [segment for graph in self.graphs for segment in graph.segments]

    def headline(self) -> str:
        """One line: graphs, kernels, what they move, and what is in the way."""
        if not self.graphs:
            return (
                "Nothing was compiled: the model ran in eager mode. Is it marked "
                "torch.compiler.disable, or does it compute nothing with tensors?"
            )
        segments = self._segments()
        read = sum(each.bytes_read for each in segments)
        written = sum(each.bytes_written for each in segments)
        return (
            f"{_count(len(self.graphs), 'graph')}, {_count(len(segments), 'program')}, "
            f"{_count(len(self.kernels), 'kernel')}: {format_bytes(read)} read, "
            f"{format_bytes(written)} written; {_count(sum(self.eager.values()), 'operator')} in "
            f"eager mode, {_count(len(self.breaks), 'graph break')}"
        )

    def __str__(self) -> str:
        lines = [self.headline()]
        for each in self.breaks:
            lines.append(f"Graph break at {each}")
        for graph in self.graphs:
            lines += [f"{graph.name}: in eager mode {each}" for each in graph.eager]
            for number, segment in enumerate(graph.segments):
                lines.append(f"{graph.name}, program {number}: {segment}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(self.headline())}</p>"]
        lost = [f"Graph break at {each}" for each in self.breaks]
        lost += [f"In eager mode: {each}" for graph in self.graphs for each in graph.eager]
        if lost:
            items = "".join(f"<li><pre>{html.escape(each)}</pre></li>" for each in lost)
            parts.append(f"<ul>{items}</ul>")
        parts += [segment._repr_html_() for segment in self._segments()]
        return "".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _account_of(segment: Segment) -> Account:
    return make_account(segment.program, segment.last_values())


def account_of(graph: CompiledGraph) -> GraphAccount:
    """The account of a graph that has run, at the sizes of its last run."""
    eager = [
        EagerOperator(name, count, graph.stats.reasons[name])
        for name, count in sorted(graph.stats.eager.items())
    ]
    return GraphAccount(graph.name, [_account_of(each) for each in graph.segments], eager)


def _breaks(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> list[GraphBreak]:
    found = []
    for each in torch._dynamo.explain(function)(*args, **kwargs).break_reasons:
        frame = each.user_stack[-1] if each.user_stack else None
        lines = [line.strip() for line in str(each.reason).splitlines() if line.strip()]
        reason = " ".join(lines[:2]).replace("Explanation: ", "")
        if frame is None:
            found.append(GraphBreak(reason, "", 0, ""))
        else:
            found.append(GraphBreak(reason, frame.filename, frame.lineno or 0, frame.line or ""))
    return found


def explain(
    model: Callable[..., Any],
    *inputs: Any,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = True,
    **named: Any,
) -> ModelAccount:
    """Compiles and runs a model once, without gradients, and tells what became of it.

    Says which kernels there are and what they move, as for a model file; which operators run in
    eager mode, and why; and where tracing stopped, with the source line, since nothing is fused
    across such a place (`.item()`, `.numpy()`, a branch on data, a call that cannot be traced).

    Everything that PyTorch has compiled so far in this process is compiled anew when it is next
    called, since this begins with `torch._dynamo.reset()`. The model runs several times: what it
    writes into its inputs and buffers, it writes as often.

    Args:
        model: a module or function; a compiled one is taken as it was before.
        inputs: what it is called with.
        options: those of the backend.
        dynamic: as for `torch.compile`.
        named: what it is called with by name.
    """
    function = getattr(model, "_orig_mod", model)
    seen: list[CompiledGraph] = []
    with torch.no_grad():
        breaks = _breaks(function, inputs, named)
        torch._dynamo.reset()
        with backends.observing(seen.append):
            compiled = torch.compile(function, backend=_with(options), dynamic=dynamic)
            compiled(*inputs, **named)
    torch._dynamo.reset()
    return ModelAccount([account_of(graph) for graph in seen], breaks)


def _with(options: dict[str, Any] | None) -> Callable[..., Any]:
    def run(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        return backends.backend(module, examples, options=options)

    return run
