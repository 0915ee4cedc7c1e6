"""From the graph that Dynamo traced to one of ATen operators, in a single pass.

AOTAutograd, which does so for any graph, runs it twice: once to see what is written into and which
results share memory, and once to trace it, functional tensors and proxies around all of them. That
is most of what compiling takes after Dynamo. A graph without gradients that writes into nothing and
gives away no memory but its own comes out the same if its operators are written down as they come,
and most graphs of inference are such. What is not known to be one is left to AOTAutograd.
"""

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch._guards import TracingContext
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.random import fork_rng
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from opweld.torch.translate import is_plain_tensor

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
# What tells of a node where in the user's model it is.
PLACES = ("nn_module_stack", "stack_trace")


class NotPlainError(Exception):
    """The graph is one for AOTAutograd."""


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
        return _trace(module, inputs, decompositions, context.fake_mode)
    except Exception as reason:
        log.debug("left to AOTAutograd: %s", reason)
        return None


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
        return isinstance(value, torch.Tensor) and all(
            isinstance(size, int) for size in value.shape
        )
    if node.op == "output":
        return True
    if node.op == "call_method":
        name = node.target
        return not (name.endswith("_") and not name.endswith("__")) and name != "__setitem__"
    if node.op != "call_function" or isinstance(node.target, HigherOrderOperator):
        return False
    if node.target is torch._C._set_grad_enabled:
        return node.args == (False,)
    if (getattr(node.target, "__module__", None) or "").startswith(TRANSFORMING_MODULES):
        return False
    named = node.kwargs.get("inplace") or node.kwargs.get("out") is not None
    return not named and node.target not in IN_PLACE_FUNCTIONS


class _Recorder(TorchDispatchMode):
    """Writes operators into a graph as they run, those that are to be taken apart in parts."""

    def __init__(self, decompositions: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.decompositions = decompositions
        self.graph = Graph()
        self.constants: dict[str, torch.Tensor] = {}
        self.place: dict[str, Any] = {}
        """What the graph says of its nodes now."""
        self._nodes: dict[int, Node] = {}
        self._known: list[torch.Tensor] = []
        """Those that have nodes, so that no other comes to have their place."""

    def add_input(self, number: int, value: FakeTensor) -> None:
        """Makes a tensor the next input."""
        self._know(value, self.graph.placeholder(f"arg{number}_1"))

    def node_of(self, value: object) -> Any:
        """The node of a tensor; any other value as it is."""
        if not isinstance(value, torch.Tensor):
            return value
        node = self._nodes.get(id(value))
        if node is not None:
            return node
        if isinstance(value, FakeTensor):
            raise NotPlainError("a tensor comes from nowhere")
        name = f"_tensor_constant{len(self.constants)}"
        self.constants[name] = value
        node = self.graph.get_attr(name)
        self._know(value, node)
        return node

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs and records an operator."""
        kwargs = kwargs or {}
        body = self.decompositions.get(func)
        if body is not None:
            with self:
                result = body(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if not isinstance(func, OpOverload) or func._schema.is_mutable:
            raise NotPlainError(f"{func} may write")
        if not any("Tensor" in str(each.type) for each in func._schema.returns):
            return _known(func(*args, **kwargs))
        with self:
            result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        # The constant itself is nobody's to write into.
        target = aten.lift_fresh_copy.default if func is aten.lift_fresh.default else func
        node = self.graph.call_function(
            target, tree_map(self.node_of, args), tree_map(self.node_of, kwargs)
        )
        node.meta.update(self.place)
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            self._know(result, node)
        elif isinstance(result, tuple | list):
            self._know_several(result, node)
        else:
            raise NotPlainError(f"{func} gives {type(result).__name__}")
        return result

    def _know_several(self, results: Sequence[Any], node: Node) -> None:
        node.meta["val"] = results
        for place, result in enumerate(results):
            if isinstance(result, torch.Tensor):
                item = self.graph.call_function(operator.getitem, (node, place))
                item.meta.update(self.place)
                self._know(result, item)
            elif result is not None:
                raise NotPlainError(f"{node.target} gives {type(result).__name__}")

    def _know(self, value: torch.Tensor, node: Node) -> None:
        node.meta["val"] = value
        self._nodes[id(value)] = node
        self._known.append(value)


def _known(value: Any) -> Any:
    """What a tensor tells of itself, which is none of its numbers."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        raise NotPlainError("a number is not known")
    return value


class _Runner(Interpreter):
    """Runs what Dynamo traced, and tells a recorder where it is."""

    def __init__(self, module: GraphModule, recorder: _Recorder) -> None:
        super().__init__(module)
        self.recorder = recorder

    def run_node(self, n: Node) -> Any:
        """See the base class."""
        self.recorder.place = {name: n.meta[name] for name in PLACES if name in n.meta}
        return super().run_node(n)


def _trace(
    module: GraphModule,
    inputs: Sequence[torch.Tensor],
    decompositions: Mapping[Any, Callable[..., Any]],
    fake_mode: FakeTensorMode,
) -> GraphModule:
    recorder = _Recorder(decompositions)
    with ExitStack() as stack:
        stack.enter_context(fork_rng(devices=()))
        stack.enter_context(torch.set_grad_enabled(torch.is_grad_enabled()))
        stack.enter_context(fake_mode)
        # Others of the same memory: what happens to them is not seen by those who trace on.
        fakes = [fake_mode.from_tensor(each, static_shapes=True).detach() for each in inputs]
        for number, fake in enumerate(fakes):
            recorder.add_input(number, fake)
        with recorder:
            results = _Runner(module, recorder).run(*fakes)
    _check_memory(fakes, results)
    recorder.graph.output(tree_map(recorder.node_of, results))
    recorder.graph.eliminate_dead_code()
    return GraphModule(recorder.constants, recorder.graph)


def _check_memory(inputs: Sequence[torch.Tensor], results: Sequence[Any]) -> None:
    """Every result has memory of its own.

    Raises:
        NotPlainError: one has not, or is no tensor, or has a gradient.
    """
    taken = {_memory(each) for each in inputs}
    for result in results:
        if not isinstance(result, FakeTensor) or result.requires_grad:
            raise NotPlainError("a result is no plain tensor")
        if _memory(result) in taken:
            raise NotPlainError("a result shares memory")
        taken.add(_memory(result))


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
