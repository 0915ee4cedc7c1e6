"""Small ONNX models, written in ONNX's own textual form and kept below `build/`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from bench.models.cache import BUILD, digest_of, made_once


def text_model(
    name: str, text: str, weights: Mapping[str, np.ndarray] | None = None, opset: int = 17
) -> Path:
    """The file of a graph `name (inputs) => (outputs) { nodes }` with these weights.

    The syntax is that of `onnx.parser`; the opset's version goes in front.
    """
    weights = weights or {}
    ir_version = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])
    source = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{text}'

    def write(folder: Path) -> None:
        model = onnx.parser.parse_model(source)
        for key, value in weights.items():
            model.graph.initializer.append(numpy_helper.from_array(value, key))
        onnx.checker.check_model(model)
        onnx.save(model, folder / "model.onnx")

    contents = [(key, value.dtype.str, value.tobytes()) for key, value in sorted(weights.items())]
    folder = BUILD / "models" / "arena" / re.sub(r"[^a-z0-9]+", "-", name.lower())
    return made_once(folder, digest_of(source, contents), write) / "model.onnx"


def graph_file(name: str, text: str) -> Path:
    """The file of a graph in Opweld's own textual form, kept in the same place."""

    def write(folder: Path) -> None:
        (folder / "model.graph").write_text(text + "\n", encoding="utf-8")

    folder = BUILD / "models" / "arena" / re.sub(r"[^a-z0-9]+", "-", f"own {name}".lower())
    return made_once(folder, digest_of(text), write) / "model.graph"


def normal(seed: int, *shape: int) -> np.ndarray:
    """Seeded standard normal numbers in fp32."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def shape_text(shape: Sequence[int]) -> str:
    """A shape as the textual form has it, float[...]."""
    return f"float[{', '.join(map(str, shape))}]"
