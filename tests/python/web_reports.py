"""Makes the reports that the tests of the page open: `python -m tests.python.web_reports FOLDER`.

They are the encoder's, measured; one of a model of two thousand operators; one of a model whose
names are markup; and one without measurements.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.models.encoder import ensure_encoder
from bench.opweld_command import opweld

WIDTH = 32
LAYERS = 40
# In what each layer of the large model is made of: a feed-forward with its norm, and a chain.
CHAIN = 40


def value(name: str) -> onnx.ValueInfoProto:
    """A tensor of the models below."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", WIDTH])


def save(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray]) -> Path:
    """A model that maps x to y."""
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, path.stem, [value("x")], [value("y")], initializers)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def large_model(path: Path) -> Path:
    """Two thousand operators in forty layers of fifty, with residual edges."""
    generator = np.random.default_rng(1)
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {}

    def node(layer: int, op: str, *inputs: str, **attributes: object) -> str:
        name = f"/layers.{layer}/{op.lower()}_{len(nodes)}/{op}"
        result = f"{name}_output_0"
        nodes.append(helper.make_node(op, list(inputs), [result], name, **attributes))
        return result

    def weight(name: str, *sizes: int) -> str:
        weights[name] = generator.standard_normal(sizes, np.float32) / 8
        return name

    hidden = "x"
    for layer in range(LAYERS):
        scale, shift = weight(f"scale_{layer}", WIDTH), weight(f"shift_{layer}", WIDTH)
        inner = node(layer, "LayerNormalization", hidden, scale, shift)
        for _ in range(3):
            inner = node(layer, "MatMul", inner, weight(f"w_{len(nodes)}", WIDTH, WIDTH))
            inner = node(layer, "Add", inner, weight(f"b_{len(nodes)}", WIDTH))
            inner = node(layer, "Tanh", inner)
        for step in range(CHAIN - 1):
            op = ("Sigmoid", "Add", "Mul")[step % 3]
            inner = node(layer, op, inner) if op == "Sigmoid" else node(layer, op, inner, hidden)
        hidden = node(layer, "Add", inner, hidden)
    nodes[-1].output[0] = "y"
    return save(path, nodes, weights)


def hostile_model(path: Path) -> Path:
    """Names that would be markup, or end the script, if they got into the page as they are."""
    names = [
        "<img src=x onerror=alert(1)>",
        '</script><script>alert("2")</script>',
        "<!--<script>&lt;b&gt;\u2028'\"`${alert(3)}",
    ]
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], name=names[0]),
        helper.make_node("MatMul", ["a", "w"], ["b"], name=names[1]),
        helper.make_node("Softmax", ["b"], ["y"], name=names[2], axis=-1),
    ]
    return save(path, nodes, {"w": np.ones((WIDTH, WIDTH), np.float32)})


def main(folder: Path) -> None:
    """Writes all reports and their models into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder = ensure_encoder().model
    hostile = hostile_model(folder / "hostile.onnx")
    opweld("report", encoder, "-o", folder / "encoder.html", "--repeats=3")
    opweld("report", large_model(folder / "large.onnx"), "-o", folder / "large.html", "--repeats=3")
    opweld("report", hostile, "-o", folder / "hostile.html", "--repeats=1")
    opweld("report", hostile, "-o", folder / "unmeasured.html", "--no-measure")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
