"""From the graph that Dynamo traced to one of ATen operators, in a single pass.

AOTAutograd, which does so for any graph, runs it twice: once to see what is written into and which
results share memory, and once to trace it, functional tensors around all of them. That is most of
what compiling takes after Dynamo. A graph without gradients that writes into nothing and gives
away no memory but its own comes out the same without all that, and most graphs of inference are
such. What is not known to be one is left to AOTAutograd.
"""

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import TracingContext
from torch.fx import GraphModule, Interpreter, Node
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.random import fork_rng

from opweld.torch.translate import is_plain_tensor, traced
from opweld.torch.writes import mutates

aten = torch.ops.aten

log = logging.getLogger(__name__)

IN_PLACE_FUNCTIONS = frozenset(
    {
        operator.delitem,
        operator.iadd,
        operator.iand,
        operator.ifloordiv,
        operator.ilshift,
        operator.imatmul,
        operator.imod,
        operator.imul,
        operator.ior,
        operator.ipow,
        operator.irshift,
        operator.isub,
        operator.itruediv,
        operator.ixor,
        operator.setitem,
    }
)
# Functions that change what others do: vmap and its kin, and autocast.
TRANSFORMING_MODULES = ("torch._functorch", "torch._C._functorch", "torch.amp")


def traced_once(
    module: GraphModule,
    inputs: Sequence[Any],
    decompositions: Mapping[Any, Callable[..., Any]],
) -> GraphModule | None:
    """The graph in operators of ATen, with the inputs of the module in their order.

    Args:
        module: what Dynamo traced.
        inputs: its inputs, tensors of the user.
        decompositions: what to take apart on the way.

    Returns:
        The graph; nothing where gradients are wanted, where sizes are free, where it may write
        into a tensor, where a result shares memory with another or with an input, and where
        tracing fails: whatever that says, AOTAutograd says it better.
    """
    context = TracingContext.try_get()
    if context is None or context.fake_mode is None:
        return None
    if not all(map(_is_plain_input, inputs)) or not all(map(_is_plain_call, module.graph.nodes)):
        return None
    if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
        return None
    if torch.is_autocast_enabled("cpu"):
        return None
    try:
        graph = _trace(module, inputs, decompositions, context.fake_mode)
    except Exception as reason:
        log.debug("left to AOTAutograd: %s", reason)
        return None
    return graph if _is_functional(graph) else None


def static_inputs(module: GraphModule) -> set[int]:
    """Which inputs of what Dynamo traced are parameters and buffers, by their place."""
    return {
        i
        for i, node in enumerate(module.graph.find_nodes(op="placeholder"))
        if node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    }


def _is_plain_input(value: object) -> bool:
    """Whether it is a tensor and no more than that."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and is_plain_tensor(value)


def _is_plain_call(node: Node) -> bool:
    """Whether what Dynamo says of a node leaves no doubt that it only computes, on known sizes."""
    if node.op == "placeholder":
        value = node.meta.get("example_value")
        return isinstance(value, torch.Tensor) and all(isinstance(size, int) for size in value.shape)
    if node.op == "output":
        return True
    if node.op == "call_method":
        name = node.target
        return not (name.endswith("_") and not name.endswith("__")) and name != "__setitem__"
    if node.op != "call_function" or isinstance(node.target, torch._ops.HigherOrderOperator):
        return False
    if node.target is torch._C._set_grad_enabled:
        return node.args == (False,)
    if (getattr(node.target, "__module__", None) or "").startswith(TRANSFORMING_MODULES):
        return False
    named = node.kwargs.get("inplace") or node.kwargs.get("out") is not None
    return not named and node.target not in IN_PLACE_FUNCTIONS


def _trace(
    module: GraphModule,
    inputs: Sequence[torch.Tensor],
    decompositions: Mapping[Any, Callable[..., Any]],
    fake_mode: Any,
) -> GraphModule:
    def run(*args: torch.Tensor) -> Any:
        # So operators know the layers that those had which they come from.
        with fx_traceback.preserve_node_meta():
            return Interpreter(module).run(*args)

    with ExitStack() as stack:
        stack.enter_context(fork_rng(devices=()))
        stack.enter_context(torch.set_grad_enabled(torch.is_grad_enabled()))
        stack.enter_context(fake_mode)
        stack.enter_context(enable_python_dispatcher())
        # Others of the same memory: what happens to them is not seen by those who trace on.
        fakes = [fake_mode.from_tensor(each, static_shapes=True).detach() for each in inputs]
        graph = make_fx(run, dict(decompositions), _disable_torch_fn_metadata_mode=True)(*fakes)
    for node in graph.graph.find_nodes(op="call_function", target=aten.lift_fresh.default):
        # The constant itself is nobody's to write into.
        node.target = aten.lift_fresh_copy.default
    graph.graph.eliminate_dead_code()
    return graph


def _is_functional(graph: GraphModule) -> bool:
    """Whether nothing is written into, and every result has memory of its own."""
    for node in graph.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            return False
        if mutates(node):
            return False
    (output,) = graph.graph.find_nodes(op="output")
    results = [each for each in output.args[0] if each is not None]
    values = [traced(each) if isinstance(each, Node) else None for each in results]
    if not all(isinstance(each, torch.Tensor) and not each.requires_grad for each in values):
        return False
    taken = {_memory(traced(each)) for each in graph.graph.find_nodes(op="placeholder")}
    for value in values:
        memory = _memory(value)
        if memory in taken:
            return False
        taken.add(memory)
    return True


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
