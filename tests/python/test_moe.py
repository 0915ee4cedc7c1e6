"""MoE of com.microsoft, imported and fused: against ONNX Runtime and against its definition."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.opweld_command import FUSION_LEVELS, opweld_path, run_model

EXPERTS, WIDTH, INNER, TOKENS = 5, 12, 20, 17


def moe_model(
    path: Path, operands: dict[str, np.ndarray], rank: int = 2, **attributes: object
) -> Path:
    """A model of the one operator; of its operands from fc1 on, those that are there."""
    names = ["fc1", "bias1", "fc2", "bias2", "fc3", "bias3"]
    given = ["x", "router", *(name if name in operands else "" for name in names)]
    tokens = ["tokens"] if rank == 2 else ["batch", "sequence"]

    def info(name: str, shape: list) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        [helper.make_node("MoE", given, ["y"], domain="com.microsoft", **attributes)],
        "moe",
        [info("x", [*tokens, WIDTH]), info("router", ["rows", EXPERTS])],
        [info("y", [*tokens, WIDTH])],
        [numpy_helper.from_array(value, name) for name, value in operands.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 9
    onnx.save(model, path)
    return path


def weights(wide: int, biases: bool, *, third: bool = False) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(7)
    shapes = {"fc1": (EXPERTS, wide, WIDTH), "fc2": (EXPERTS, WIDTH, INNER)}
    if third:
        shapes["fc3"] = (EXPERTS, INNER, WIDTH)
    if biases:
        shapes |= {"bias1": (EXPERTS, wide), "bias2": (EXPERTS, WIDTH)}
    if biases and third:
        shapes["bias3"] = (EXPERTS, INNER)
    return {
        name: generator.standard_normal(shape, np.float32) / 4 for name, shape in shapes.items()
    }


def inputs(rank: int = 2) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(8)
    shape = (TOKENS, WIDTH) if rank == 2 else (1, TOKENS, WIDTH)
    return {
        "x": generator.standard_normal(shape, np.float32),
        "router": generator.standard_normal((TOKENS, EXPERTS), np.float32),
    }


def check(model: Path, given: dict[str, np.ndarray], expected: np.ndarray) -> None:
    for level in FUSION_LEVELS:
        actual = run_model(model, given, f"--fusion={level}")["y"]
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=2**-10, atol=2**-16)


KINDS = {
    "relu": (INNER, {"activation_type": "relu"}),
    "silu": (INNER, {"activation_type": "silu"}),
    "identity": (INNER, {"activation_type": "identity"}),
    "swiglu": (2 * INNER, {"activation_type": "swiglu", "swiglu_fusion": 1}),
    "swiglu of other numbers": (
        2 * INNER,
        {
            "activation_type": "swiglu",
            "swiglu_fusion": 1,
            "activation_alpha": 1.702,
            "activation_beta": 1.0,
            "swiglu_limit": 0.5,
        },
    ),
}


@pytest.mark.parametrize(
    ("kind", "k", "normalize", "biases", "rank"),
    [
        *product(KINDS, [2], [1], [False], [2]),
        *product(KINDS, [2], [0], [True], [3]),
        *product(["silu"], [1, EXPERTS], [0, 1], [False], [2]),
    ],
)
def test_it_agrees_with_onnx_runtime(
    tmp_path: Path, kind: str, k: int, normalize: int, biases: bool, rank: int
) -> None:
    wide, attributes = KINDS[kind]
    attributes = attributes | {"k": k, "normalize_routing_weights": normalize}
    model = moe_model(tmp_path / "model.onnx", weights(wide, biases), rank, **attributes)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    given = inputs(rank)
    check(model, given, session.run(["y"], given)[0])


def gated_mixture(
    given: dict[str, np.ndarray],
    gate: np.ndarray,
    value: np.ndarray,
    down: np.ndarray,
    biases: dict[str, np.ndarray],
) -> np.ndarray:
    """The best two experts of each token, gated by SiLU, weighted by probabilities; in fp64."""
    result = np.zeros((TOKENS, WIDTH))
    for token in range(TOKENS):
        scores = np.exp(given["router"][token].astype(np.float64))
        scores /= scores.sum()
        x = given["x"][token].astype(np.float64)
        for expert in np.argsort(-scores)[:2]:
            g = gate[expert] @ x + biases.get("bias1", np.zeros((EXPERTS, 1)))[expert]
            v = value[expert] @ x + biases.get("bias3", np.zeros((EXPERTS, 1)))[expert]
            out = down[expert] @ (g / (1 + np.exp(-g)) * v)
            out += biases.get("bias2", np.zeros((EXPERTS, 1)))[expert]
            result[token] += scores[expert] * out
    return result


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("kind", ["silu", "swiglu"])
def test_gate_and_value_apart(tmp_path: Path, kind: str, biases: bool) -> None:
    operands = weights(INNER, biases, third=True)
    model = moe_model(tmp_path / "model.onnx", operands, k=2, activation_type=kind)
    parts = [operands[name] for name in ("fc1", "fc3", "fc2")]
    check(model, inputs(), gated_mixture(inputs(), *parts, operands))


def test_gate_and_value_one_half_after_the_other(tmp_path: Path) -> None:
    operands = weights(2 * INNER, biases=False)
    model = moe_model(
        tmp_path / "model.onnx", operands, k=2, activation_type="swiglu", swiglu_fusion=2
    )
    parts = operands["fc1"][:, :INNER], operands["fc1"][:, INNER:], operands["fc2"]
    check(model, inputs(), gated_mixture(inputs(), *parts, {}))


@pytest.mark.parametrize(("tokens", "products"), [(1, 2), (2048, 1)])
def test_experts_of_many_tokens_are_one_kernel(tmp_path: Path, tokens: int, products: int) -> None:
    """The router and the experts; of few tokens the stages of these are a kernel each."""
    wide, attributes = KINDS["swiglu"]
    model = moe_model(tmp_path / "model.onnx", weights(wide, biases=False), k=2, **attributes)
    sizes = [f"--dim=tokens={tokens}", f"--dim=rows={tokens}"]
    result = subprocess.run(
        [str(opweld_path()), "explain", str(model), *sizes],
        capture_output=True,
        text=True,
        check=True,
    )
    kernels = result.stdout.split("\n\n")[0]
    assert kernels.count(" contract ") == (2 if products == 2 else 0), kernels
    assert kernels.count(" chain ") == (0 if products == 2 else 1), kernels
    assert f"\n{products + 1} kernels" in kernels, kernels


@pytest.mark.parametrize(
    ("said", "changes", "attributes"),
    [
        ("use_sparse_mixer", {}, {"use_sparse_mixer": 1}),
        ("activation_type 'gelu'", {}, {"activation_type": "gelu"}),
        ("activation_type 'swiglu'", {}, {"activation_type": "swiglu"}),
        ("k is 0", {}, {"k": 0}),
        ("k is 4611686018427387904", {}, {"k": 2**62}),
        ("k must not exceed", {}, {"k": EXPERTS + 1}),
        ("fc2_experts_weights", {"fc2": None}, {}),
        ("rank 2", {"fc1": np.zeros((3, 4), np.float32)}, {}),
        ("no gate", {"fc1": np.zeros((EXPERTS, 21, WIDTH), np.float32)}, KINDS["swiglu"][1]),
        ("groups", {"fc2": np.zeros((EXPERTS + 1, WIDTH, INNER), np.float32)}, {}),
    ],
)
def test_what_it_cannot_be_is_refused(
    tmp_path: Path, said: str, changes: dict, attributes: dict
) -> None:
    operands = {
        name: value
        for name, value in (weights(INNER, biases=False) | changes).items()
        if value is not None
    }
    model = moe_model(tmp_path / "model.onnx", operands, **attributes)
    told = subprocess.run([str(opweld_path()), "run", str(model)], capture_output=True, text=True)
    assert told.returncode in (1, 2), told.stdout
    assert "MoE" in told.stderr
    assert said in told.stderr, told.stderr
