"""The backend `opweld` of `torch.compile`."""

import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.source import LocalSource
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch.fx import GraphModule

from opweld.torch.decompositions import decompositions
from opweld.torch.given_views import OnInputs
from opweld.torch.graph import CompiledGraph
from opweld.torch.lower.contract import register_transformers
from opweld.torch.single_trace import static_inputs, traced_once

# What a user may set, torch.compile(model, backend="opweld", options={...}).
SETTINGS = ("fusion", "numerics", "threads", "target", "single_launch", "tuned")

_counter = itertools.count()
_graphs: "weakref.WeakSet[CompiledGraph]" = weakref.WeakSet()
_observers: list[Callable[[CompiledGraph], Any]] = []


def graphs() -> list[CompiledGraph]:
    """Every graph that was compiled in this process and is still in use, in order."""
    return sorted(_graphs, key=lambda graph: int(graph.name.removeprefix("graph")))


@contextmanager
def observing(observer: Callable[[CompiledGraph], Any]) -> Iterator[None]:
    """Calls the observer with every graph that is compiled meanwhile."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def _settings(options: Mapping[str, Any] | None) -> dict[str, Any]:
    chosen = dict(options or {})
    unknown = sorted(chosen.keys() - {*SETTINGS, "freeze"})
    if unknown:
        known = ", ".join([*SETTINGS, "freeze"])
        raise ValueError(f"backend opweld has no option {', '.join(unknown)}; it has {known}")
    chosen.setdefault("threads", torch.get_num_threads())
    return chosen


def _compile(
    module: GraphModule, frozen: set[int], numbers: set[int], settings: Mapping[str, Any]
) -> CompiledGraph:
    graph = CompiledGraph(
        module, frozen, numbers, settings, f"graph{next(_counter)}", _results_on_inputs()
    )
    _graphs.add(graph)
    for observer in _observers:
        observer(graph)
    return graph


def _static_inputs() -> set[int]:
    """Which of the traced graph's inputs are parameters and buffers, by their place."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return set() if metadata is None else set(metadata.static_input_indices)


def _results_on_inputs() -> OnInputs:
    """Which of the traced graph's results PyTorch makes of its inputs itself, and writes there."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return OnInputs()
    written = dict(enumerate(metadata.mutated_inp_runtime_indices))
    kinds = (OutputType.is_input, OutputType.alias_of_input)
    places = enumerate(metadata.output_info, start=len(written))
    return OnInputs({place for place, each in places if each.output_type in kinds}, written)


def _numbers(module: GraphModule) -> set[int]:
    """Which of the traced inputs are numbers that the model has, by their place.

    With `dynamic=True` PyTorch hands over every float that a module has, such as the epsilon of a
    norm, as a tensor that it makes anew for each call. Arguments of the call are none of these:
    they are there to change.
    """
    inputs = [node.meta.get("grapharg") for node in module.graph.nodes if node.op == "placeholder"]
    return {
        i
        for i, each in enumerate(inputs)
        if getattr(each, "pass_arg_as_tensor", False) and not isinstance(each.source, LocalSource)
    }


def backend(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **ignored: Any,
) -> Callable[..., Any]:
    """Compiles what PyTorch traced; `torch.compile(model, backend="opweld")` calls it.

    Numbers that a model has, such as the epsilon of a norm, are constants of its programs, however
    they were traced; one that turns out to change is read in every call.

    Without gradients, parameters and buffers are frozen: packed once into the programs, and again
    after a user wrote into them (`options={"freeze": False}` reads them in every call). With
    gradients, the forward pass is compiled with parameters read in every call, and the backward
    pass runs as PyTorch traced it, operator by operator.

    Args:
        module: the graph, with operators of torch.
        example_inputs: those of the call that it is traced for.
        options: `fusion`, `numerics`, `threads`, `target`, `single_launch` and `tuned` as for
            `opweld.compile`, and `freeze`. Threads are by default as many as PyTorch uses.
        ignored: what else PyTorch hands to backends.

    Raises:
        ValueError: an option is none that there is.
    """
    register_transformers()
    settings = _settings(options)
    freeze = settings.pop("freeze", True)
    numbers = _numbers(module)

    single = traced_once(module, example_inputs, decompositions())
    if single is not None:
        frozen = static_inputs(module) if freeze else set()
        compiled = _compile(single, frozen, numbers, settings)
        compiled.begin(example_inputs)
        return lambda *inputs: compiled(list(inputs))

    def inference(graph: GraphModule, inputs: Sequence[Any]) -> CompiledGraph:
        compiled = _compile(graph, _static_inputs() if freeze else set(), numbers, settings)
        # It may have inputs of its own beside those that Dynamo knows.
        if len(inputs) == len(example_inputs):
            compiled.begin(example_inputs)
        return compiled

    def forward(graph: GraphModule, inputs: Sequence[Any]) -> CompiledGraph:
        return _compile(graph, set(), numbers, settings)

    def backward(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return _boxed(graph)

    compiler = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )
    return compiler(module, example_inputs)


def _boxed(graph: GraphModule) -> Callable[..., Any]:
    def run(args: list[Any]) -> Any:
        return torch.fx.Interpreter(graph).boxed_run(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
