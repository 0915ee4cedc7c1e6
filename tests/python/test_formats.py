"""Models that turn NCHW into NHWC and back: transposes are read through, or refused by name."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch_helpers import Compiled, assert_same

from bench.opweld_command import FUSION_LEVELS, opweld_path, run_model

CHANNELS = 12
TO_LAST, TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
FIRST, LAST = ["n", CHANNELS, "h", "w"], ["n", "h", "w", CHANNELS]


def constants() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)

    def random(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32) / np.float32(4)

    c = CHANNELS
    return {
        "depthwise": random(c, 1, 3, 3),
        "point": random(c, c, 1, 1),
        "window": random(c, c, 3, 3),
        "bias": random(c),
        "gamma": random(c),
        "beta": random(c),
        "up": random(c, 4 * c),
        "up_bias": random(4 * c),
        "down": random(4 * c, c),
        "square": random(c, c),
    }


def node(op: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=output, **attributes)


def turned(value: str, output: str, permutation: list[int]) -> onnx.NodeProto:
    return node("Transpose", value, output, perm=permutation)


# Nodes from x to y, and the axes of both.
MODELS: dict[str, tuple[list[onnx.NodeProto], list]] = {
    "pointwise": (
        [
            turned("x", "last", TO_LAST),
            node("Mul", "last gamma", "scaled"),
            node("Relu", "scaled", "positive"),
            turned("positive", "y", TO_FIRST),
        ],
        FIRST,
    ),
    "norm": (
        [
            turned("x", "last", TO_LAST),
            node("LayerNormalization", "last gamma beta", "norm", axis=-1),
            turned("norm", "y", TO_FIRST),
        ],
        FIRST,
    ),
    "matmul": (
        [
            turned("x", "last", TO_LAST),
            node("MatMul", "last square", "product"),
            node("Relu", "product", "positive"),
            turned("positive", "y", TO_FIRST),
        ],
        FIRST,
    ),
    # A residual in NCHW beside rows in NHWC, as in ConvNeXt.
    "residual": (
        [
            turned("x", "last", TO_LAST),
            node("LayerNormalization", "last gamma beta", "norm", axis=-1),
            node("MatMul", "norm up", "wide"),
            node("Add", "wide up_bias", "biased"),
            node("Relu", "biased", "positive"),
            node("MatMul", "positive down", "narrow"),
            turned("narrow", "first", TO_FIRST),
            node("Add", "x first", "y"),
        ],
        FIRST,
    ),
    # As exporters from TensorFlow write it: convolutions in NCHW, all else in NHWC.
    "convolution": (
        [
            turned("x", "first", TO_FIRST),
            node("Conv", "first point", "product", kernel_shape=[1, 1]),
            turned("product", "last", TO_LAST),
            node("Add", "last bias", "biased"),
            node("Relu", "biased", "positive"),
            node("Add", "positive x", "y"),
        ],
        LAST,
    ),
    "average": (
        [
            turned("x", "first", TO_FIRST),
            node("Relu", "first", "positive"),
            node("GlobalAveragePool", "positive", "mean"),
            node("Mul", "positive mean", "scaled"),
            turned("scaled", "y", TO_LAST),
        ],
        LAST,
    ),
}


def written(path: Path, nodes: Sequence[onnx.NodeProto], axes: list) -> Path:
    used = {name for each in nodes for name in each.input}
    tensors = [numpy_helper.from_array(v, k) for k, v in constants().items() if k in used]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        list(nodes),
        "formats",
        [tensor("x", TensorProto.FLOAT, axes)],
        [tensor("y", TensorProto.FLOAT, axes)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def explained(model: Path) -> dict:
    sizes = [text for dim in ("n=2", "h=16", "w=16") for text in ("--dim", dim)]
    command = [str(opweld_path()), "explain", str(model), "--json", *sizes]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("name", MODELS)
def test_they_are_one_kernel(tmp_path: Path, name: str) -> None:
    account = explained(written(tmp_path / "model.onnx", *MODELS[name]))
    assert len(account["kernels"]) == 1, account["log"]
    assert all(kernel["operators"] != "Transpose" for kernel in account["kernels"])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 5, 7), (1, 16, 17), (0, 3, 3)])
def test_they_compute_what_onnx_runtime_computes(
    tmp_path: Path, name: str, sizes: tuple[int, int, int]
) -> None:
    nodes, axes = MODELS[name]
    model = written(tmp_path / "model.onnx", nodes, axes)
    n, h, w = sizes
    shape = (n, CHANNELS, h, w) if axes == FIRST else (n, h, w, CHANNELS)
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    reference = x if n == 0 else session.run(["y"], {"x": x})[0]
    for level in FUSION_LEVELS:
        actual = run_model(model, {"x": x}, f"--fusion={level}")["y"]
        np.testing.assert_allclose(actual, reference, rtol=2**-10, atol=2**-16)


def test_where_no_kernel_converts_it_says_so(tmp_path: Path) -> None:
    """What is read in both orders is written in one, and the other reader is kept apart."""
    nodes = [
        turned("x", "last", TO_LAST),
        node("MatMul", "last square", "product"),
        turned("product", "first", TO_FIRST),
        node("Add", "first x", "sum"),
        node("Mul", "sum first", "y"),
    ]
    account = explained(written(tmp_path / "model.onnx", nodes, FIRST))
    codes = {(edge["from"], edge["to"]): edge for edge in account["edges"]}
    edge = codes["first", "sum"]
    assert edge["code"] == "F-FORMAT"
    assert "nhwc meets nchw at first" in edge["detail"]


class Block(nn.Module):
    """Convolutions, a norm over channels in NHWC, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.point = nn.Conv2d(CHANNELS, CHANNELS, 1)
        self.window = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.norm = nn.LayerNorm(CHANNELS)
        self.linear = nn.Linear(CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        """[n, channels, h, w] to the same."""
        rows = self.norm(self.point(x).permute(0, 2, 3, 1))
        return torch.relu(self.window(x)) + self.linear(rows).permute(0, 3, 1, 2)


@pytest.mark.parametrize("kind", [torch.contiguous_format, torch.channels_last])
def test_channels_last_tensors_of_torch(kind: torch.memory_format) -> None:
    torch.manual_seed(4)
    module = Block().eval().to(memory_format=kind)
    compiled = Compiled(module)
    with torch.no_grad():
        for sizes in [(1, 4, 5), (2, 9, 8)]:
            x = torch.randn(sizes[0], CHANNELS, *sizes[1:]).to(memory_format=kind)
            assert_same(compiled(x), module(x))
