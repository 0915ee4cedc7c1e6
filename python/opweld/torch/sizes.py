"""Sizes of tensors that PyTorch traces, as the texts that Opweld reads.

A size is a number, or a SymInt over symbols of the trace (s0, s27, u0); what Opweld's language of
sizes lacks makes an operator that needs it run in eager mode.
"""

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Max, Min, Mod, PythonMod

# What Opweld takes for a size without a bound, as does GraphBuilder.
LARGEST = 2**40


class Unsupported(Exception):
    """Opweld cannot say this operator; the message tells why. It then runs in eager mode."""


Size = int | str
FLOOR = (FloorDiv, CleanDiv)
MODULO = (Mod, PythonMod)


def _call(name: str, arguments: tuple[sympy.Expr, ...]) -> str:
    texts = [_text(each) for each in arguments]
    result = texts[-1]
    for text in reversed(texts[:-1]):
        result = f"{name}({text}, {result})"
    return result


def _text(expression: sympy.Expr) -> str:
    match expression:
        case sympy.Integer():
            return str(int(expression))
        case sympy.Symbol():
            return str(expression)
        case sympy.Add():
            return "(" + " + ".join(map(_text, expression.args)) + ")"
        case sympy.Mul():
            return "(" + " * ".join(map(_text, expression.args)) + ")"
        case sympy.Pow() if expression.exp.is_Integer and 0 < int(expression.exp) < 5:
            return "(" + " * ".join([_text(expression.base)] * int(expression.exp)) + ")"
    if isinstance(expression, FLOOR):
        return _call("floor_div", expression.args)
    if isinstance(expression, MODULO):
        return _call("mod", expression.args)
    if isinstance(expression, Max | sympy.Max):
        return _call("max", expression.args)
    if isinstance(expression, Min | sympy.Min):
        return _call("min", expression.args)
    raise Unsupported(f"the size {expression} is none that Opweld can compute")


def expression_of(size: int | torch.SymInt) -> sympy.Expr:
    """The expression over the trace's symbols."""
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def to_size(size: int | torch.SymInt) -> Size:
    """A number where it is one, else the text of its expression."""
    expression = expression_of(size)
    return int(expression) if expression.is_Integer else _text(expression)


def to_sizes(sizes: torch.Size | tuple | list) -> list[Size]:
    """The same for a shape."""
    return [to_size(size) for size in sizes]


def symbols_of(value: object) -> dict[str, tuple[int, int]]:
    """The symbols that the shape of a traced value, or the value itself, is made of: their ranges.

    Raises:
        Unsupported: a symbol may be negative, which no size of Opweld may.
    """
    found = {}
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    for size in sizes:
        if not isinstance(size, torch.SymInt):
            continue
        ranges = size.node.shape_env.var_to_range
        for symbol in size.node.expr.free_symbols:
            found[str(symbol)] = _bounds(str(symbol), ranges.get(symbol))
    return found


def _bounds(name: str, known: object) -> tuple[int, int]:
    if known is None:
        return 0, LARGEST
    if not known.lower >= 0:
        raise Unsupported(f"the number {name} may be negative")
    upper = int(known.upper) if known.upper.is_Integer else LARGEST
    return int(known.lower), min(upper, LARGEST)
