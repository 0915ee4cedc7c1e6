"""ONNX's own node tests as files: a model, inputs and expected outputs for each case.

The `onnx` package makes the cases in memory, from numpy. Here they are written once per version
of the package below `build/`, with an index that says which operators and element types each
uses. One thing is changed on the way: an input whose *value* decides a shape (the new shape of a
Reshape, the axes of a reduction) becomes an initializer, which is where every exporter puts it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from bench.models.cache import BUILD, ROOT, digest_of, made_once

VECTORS = BUILD / "onnx-node"
OUTSIDE = ROOT / "tests" / "onnx_node" / "outside.txt"

# The operands of each operator whose values decide shapes, axes or a mode of operation.
STRUCTURAL_OPERANDS: dict[str, tuple[int, ...]] = {
    "CenterCropPad": (1,),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "Dropout": (2,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}
# What the package's own runner allows for bfloat16: two units in the last place.
BFLOAT16_RTOL = 2**-6
# Cases that are held to Opweld's tolerance for float16 instead of the package's 1e-3. Here what is
# expected was computed with every intermediate of attention rounded to 16 bits.
FLOAT16_RTOL = {"test_attention_4d_causal_fp16_expanded": 2**-9}

# Their results depend on the shape of the operand alone.
SHAPE_READERS = {"Shape", "Size"}


@dataclass(frozen=True)
class Case:
    """One node test. Paths are relative to the folder of vectors."""

    name: str
    operators: list[str]
    types: list[str]
    model: str
    inputs: list[str]
    outputs: list[str]
    rtol: float
    atol: float

    def request(self, folder: Path) -> dict[str, object]:
        """The case as an entry of the list that `opweld run-cases` reads."""
        return {
            "name": self.name,
            "model": str(folder / self.model),
            "inputs": [str(folder / path) for path in self.inputs],
            "outputs": [str(folder / path) for path in self.outputs],
            "rtol": self.rtol,
            "atol": self.atol,
        }


def load_cases() -> tuple[Path, list[Case]]:
    """The folder of vectors, written first if need be, and all cases in order of name."""
    key = digest_of(onnx.__version__, files=[Path(__file__)])
    folder = made_once(VECTORS, key, write_vectors)
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    return folder, [Case(**entry) for entry in index]


def write_vectors(folder: Path) -> None:
    """Writes every node test of the installed package, and `index.json`."""
    with warnings.catch_warnings():
        # The package computes infinities and NaN on purpose, and numpy remarks on each.
        warnings.simplefilter("ignore", RuntimeWarning)
        tests = sorted(load_model_tests(kind="node"), key=lambda test: test.name)
    cases = [_write_case(folder, test) for test in tests]
    index = json.dumps([asdict(case) for case in cases], indent=1)
    (folder / "index.json").write_text(index, encoding="utf-8")


def _write_case(folder: Path, test: onnx.backend.test.case.test_case.TestCase) -> Case:
    model, (inputs, outputs) = test.model, test.data_sets[0]
    (folder / test.name).mkdir()
    given = [_to_proto(value, info) for value, info in zip(inputs, model.graph.input, strict=True)]
    wanted = [
        _to_proto(value, info) for value, info in zip(outputs, model.graph.output, strict=True)
    ]
    operators, types = operators_of(model), types_of(model)
    given = bind_structural_inputs(model, given)

    def write(name: str, message: onnx.ModelProto | TensorProto) -> str:
        path = f"{test.name}/{name}"
        (folder / path).write_bytes(message.SerializeToString(deterministic=True))
        return path

    return Case(
        name=test.name,
        operators=operators,
        types=types,
        model=write("model.onnx", model),
        inputs=[write(f"input_{i}.pb", message) for i, message in enumerate(given)],
        outputs=[write(f"output_{i}.pb", message) for i, message in enumerate(wanted)],
        rtol=BFLOAT16_RTOL
        if "bfloat16" in map(_element_type, wanted)
        else FLOAT16_RTOL.get(test.name, test.rtol),
        atol=test.atol,
    )


def _to_proto(value: object, info: onnx.ValueInfoProto) -> object:
    """A value of the package in the message that its declared type asks for."""
    if isinstance(value, TensorProto):
        message = TensorProto()
        message.CopyFrom(value)
        message.name = info.name
        return message
    convert = {
        "tensor_type": lambda: numpy_helper.from_array(np.asarray(value), info.name),
        "sequence_type": lambda: numpy_helper.from_list(value, info.name),
        "optional_type": lambda: numpy_helper.from_optional(value, info.name),
        "map_type": lambda: numpy_helper.from_dict(value, info.name),
    }
    return convert[info.type.WhichOneof("value")]()


def _element_type(message: object) -> str:
    if not isinstance(message, TensorProto):
        return type(message).__name__
    return TensorProto.DataType.Name(message.data_type).lower()


def bind_structural_inputs(model: onnx.ModelProto, given: Iterable[object]) -> list[object]:
    """Turns inputs that decide shapes into initializers; returns the values still to be given."""
    structural = _structural_values(model.graph)
    kept = []
    for value in given:
        if isinstance(value, TensorProto) and value.name in structural:
            model.graph.initializer.append(value)
        else:
            kept.append(value)
    bound = {initializer.name for initializer in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in bound]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return kept


def _structural_values(graph: onnx.GraphProto) -> set[str]:
    """Every value that a structural operand is computed from, through whatever nodes."""
    structural: set[str] = set()
    for node in reversed(graph.node):
        operands = STRUCTURAL_OPERANDS.get(node.op_type, ())
        if node.op_type.startswith("Reduce"):
            operands = (1,)
        structural.update(node.input[i] for i in operands if i < len(node.input))
        if structural.intersection(node.output) and node.op_type not in SHAPE_READERS:
            structural.update(node.input)
    return structural - {""}


def operators_of(model: onnx.ModelProto) -> list[str]:
    """The operators of a model, those inside its nodes' graphs included."""
    return sorted({node.op_type for node in _nodes(model.graph)})


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from _nodes(inner)


def types_of(model: onnx.ModelProto) -> list[str]:
    """The element types of all values of a model, and `sequence`, `optional`, `map`."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    types: set[str] = set()
    for info in [*inferred.input, *inferred.output, *inferred.value_info]:
        kind = info.type.WhichOneof("value")
        if kind == "tensor_type":
            types.add(TensorProto.DataType.Name(info.type.tensor_type.elem_type).lower())
        elif kind is not None:
            types.add(kind.removesuffix("_type"))
    return sorted(types - {"undefined"})


@dataclass(frozen=True)
class Supported:
    """What the compiler says it takes: operators and element types by ONNX's names."""

    operators: frozenset[str]
    types: frozenset[str]


@dataclass
class OutsideRule:
    """One line of the list of cases that are outside: what it matches, and why."""

    line: int
    kind: str
    patterns: list[str]
    reason: str

    def matched(self, case: Case) -> list[str]:
        """What of the case the patterns fit: operators, types or its name."""
        subjects = {"operator": case.operators, "type": case.types, "case": [case.name]}[self.kind]
        return [s for s in subjects if any(fnmatchcase(s, pattern) for pattern in self.patterns)]

    def is_stale(self, case: Case, supported: Supported) -> bool:
        """Whether all that puts the case outside is supported by now."""
        known = {"operator": supported.operators, "type": supported.types, "case": frozenset()}
        return known[self.kind].issuperset(self.matched(case))


def parse_outside(text: str) -> list[OutsideRule]:
    """Reads the list; raises ValueError naming the line that is not as its head describes."""
    rules = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        what, colon, reason = line.partition(":")
        kind, *patterns = what.split() or [""]
        if not colon or kind not in ("operator", "type", "case") or not patterns:
            raise ValueError(
                f"line {number}: expected `operator|type|case PATTERN...: reason`, not: {line}"
            )
        if not reason.strip():
            raise ValueError(f"line {number}: no reason given")
        rules.append(OutsideRule(number, kind, patterns, reason.strip()))
    return rules


def split_cases(
    cases: Iterable[Case], rules: list[OutsideRule]
) -> tuple[list[Case], list[tuple[Case, OutsideRule]]]:
    """The cases inside, and those outside, each with the first rule that puts it there.

    Raises ValueError for a rule that matches no case: such a line says nothing true.
    """
    inside, outside = [], []
    used: set[int] = set()
    for case in cases:
        matching = [rule for rule in rules if rule.matched(case)]
        used.update(rule.line for rule in matching)
        if matching:
            outside.append((case, matching[0]))
        else:
            inside.append(case)
    dead = [rule for rule in rules if rule.line not in used]
    if dead:
        raise ValueError(f"line {dead[0].line}: {' '.join(dead[0].patterns)} matches no case")
    return inside, outside
