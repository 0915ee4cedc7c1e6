"""One operator of a traced graph, written into a graph of Opweld; and whether that can be done."""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from opweld._core import Error, GraphBuilder, GraphTensor
from opweld.torch import lower  # noqa: F401  (registers the translations)
from opweld.torch.dtypes import name_of
from opweld.torch.emitter import TRANSLATIONS, Emitter
from opweld.torch.row_updates import RowUpdate, emit_update, row_update, stored_sizes
from opweld.torch.sizes import Unsupported, symbols_of, to_sizes


def traced(node: Node) -> Any:
    """What tracing said of a node's result: a tensor without data, a number, or several."""
    return node.meta.get("val")


def is_plain_tensor(value: object) -> bool:
    """Whether it is a tensor that lies in the processor's memory, with strides, and unquantised."""
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == "cpu"
        and value.layout is torch.strided
        and not value.is_quantized
        and not value.is_conj()
        and not value.is_neg()
    )


def readers_of_results(node: Node) -> frozenset[int]:
    """Of a node with several results, which of them somebody reads."""
    return frozenset(
        user.args[1] for user in node.users if is_getitem(user) and isinstance(user.args[1], int)
    )


def is_getitem(node: Node) -> bool:
    """Whether it takes one of several results."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem"


def is_host(node: Node) -> bool:
    """Whether it computes sizes, or takes a result apart: work of Python, not of a kernel."""
    if is_getitem(node):
        return True
    value = traced(node)
    return isinstance(value, int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool)


def emit(
    emitter: Emitter, node: Node, tensor_of: Callable[[Node], GraphTensor]
) -> GraphTensor | tuple[GraphTensor | None, ...]:
    """Translates one operator, whose operands `tensor_of` gives.

    Raises:
        Unsupported: the operator has no translation, or not with these operands.
    """
    translation = TRANSLATIONS.get(node.target)
    if translation is None:
        raise Unsupported("Opweld has no translation of it")

    def value_of(argument: object) -> object:
        if isinstance(argument, Node):
            value = traced(argument)
            return tensor_of(argument) if isinstance(value, torch.Tensor) else value
        if isinstance(argument, list | tuple):
            return [value_of(each) for each in argument]
        return argument

    emitter.wanted = readers_of_results(node)
    args = [value_of(each) for each in node.args]
    kwargs = {name: value_of(each) for name, each in node.kwargs.items()}
    try:
        return translation(emitter, traced(node), *args, **kwargs)
    except Unsupported:
        rows = row_update(node)
        if rows is None:
            raise
        return emit_written(emitter, node, rows, tensor_of)
    except (TypeError, IndexError, KeyError, AttributeError, ValueError, OverflowError) as error:
        # A form of the operator that the translation does not know.
        raise Unsupported(f"this form of it is not translated ({error})") from error


def emit_written(
    emitter: Emitter, node: Node, rows: RowUpdate, tensor_of: Callable[[Node], GraphTensor]
) -> GraphTensor:
    """What an operator makes of its first operand by writing rows, with the operand's sizes.

    Raises:
        Unsupported: Opweld cannot say where the rows are.
    """
    before = tensor_of(node.args[0])
    stored = emitter.reshape(before, stored_sizes(rows, before.sizes()))
    written = emit_update(emitter, rows, stored, tensor_of)
    return emitter.reshape(written, before.sizes())


def declare_symbols(builder: GraphBuilder, values: list[object]) -> dict[str, tuple[int, int]]:
    """Makes the symbols of traced values known to a builder."""
    symbols: dict[str, tuple[int, int]] = {}
    for value in values:
        symbols.update(symbols_of(value))
    for name, (low, high) in sorted(symbols.items()):
        builder.symbol(name, low, high)
    return symbols


def _same_type(tensor: GraphTensor | None, expected: torch.Tensor) -> bool:
    if tensor is None:
        return True
    if tensor.dtype() != name_of(expected.dtype):
        return False
    sizes, wanted = tensor.sizes(), to_sizes(expected.shape)
    if len(sizes) != len(wanted):
        return False
    both = zip(sizes, wanted, strict=True)
    return all(a == b for a, b in both if isinstance(a, int) and isinstance(b, int))


def refusal(node: Node, rows: RowUpdate | None = None) -> str | None:
    """Why Opweld cannot do this operator, or write these rows in place; nothing if it can.

    The operator is translated alone, into a graph that is thrown away, and its result held against
    what tracing says it is.
    """
    if rows is None and node.target not in TRANSLATIONS:
        return "Opweld has no translation of it"
    results = traced(node)
    several = isinstance(results, list | tuple)
    read = [*node.all_input_nodes, *([] if rows is None else rows.operands())]
    operands = [each for each in dict.fromkeys(read) if isinstance(traced(each), torch.Tensor)]
    everything = [*(results if several else [results]), *map(traced, read)]
    everything += [] if rows is None else rows.numbers()
    tensors = [each for each in everything if isinstance(each, torch.Tensor)]
    if not all(map(is_plain_tensor, tensors)):
        return "a tensor of it is not a plain one in the processor's memory"
    builder = GraphBuilder()
    try:
        declare_symbols(builder, [each for each in everything if each is not None])
        inputs = {
            each: builder.input(
                each.name, name_of(traced(each).dtype), to_sizes(traced(each).shape)
            )
            for each in operands
        }
        emitter = Emitter(builder)
        if rows is None:
            made = emit(emitter, node, inputs.__getitem__)
        else:
            made = emit_written(emitter, node, rows, inputs.__getitem__)
        builder.check()
        pairs = zip(made, results, strict=True) if several else [(made, results)]
        if not all(_same_type(*pair) for pair in pairs):
            return f"its translation gives {made}, where ATen gives {results}"
    except (Unsupported, Error) as reason:
        return str(reason)
    return None
