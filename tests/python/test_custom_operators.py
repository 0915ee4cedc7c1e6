"""Models with custom operators, by the command: imported, fused, explained, verified, refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.models.cache import BUILD
from bench.opweld_command import opweld_path

EXAMPLE = BUILD / "release" / "examples" / "libexample_ops.so"
PLUGINS = BUILD / "release" / "tests" / "plugins"
SAMPLE, FAULTY, BROKEN = (PLUGINS / f"{name}.so" for name in ("sample", "faulty", "broken"))
SECONDS = 60


def opweld(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(opweld_path()), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=os.environ | environment,
    )


def done(*arguments: object, **environment: str) -> str:
    result = opweld(*arguments, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*arguments: object, **environment: str) -> str:
    result = opweld(*arguments, **environment)
    assert result.returncode == 1, (result.returncode, result.stdout, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("opweld: ")
    return result.stderr


def model_of(
    nodes: list, inputs: dict[str, list], outputs: list[str], **weights: np.ndarray
) -> bytes:
    """A model of float nodes, those of other domains than ONNX's among them."""
    domains = {node.domain for node in nodes if node.domain}
    graph = helper.make_graph(
        nodes,
        "custom",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in sorted(domains))]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return model.SerializeToString()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A residual, a norm by body, a product, a cap by expression, and an opaque sort."""
    generator = np.random.default_rng(3)
    nodes = [
        helper.make_node("Add", ["x", "r"], ["h"], name="/residual"),
        helper.make_node("ScaleNorm", ["h", "g"], ["n"], name="/norm", domain="com.example"),
        helper.make_node("MatMul", ["n", "w"], ["p"], name="/project"),
        helper.make_node("SoftCap", ["p"], ["c"], name="/cap", domain="com.example", limit=2.0),
        helper.make_node("SortRows", ["c"], ["y"], name="/sort", domain="com.example"),
        helper.make_node("Neg", ["y"], ["z"], name="/neg"),
    ]
    path = tmp_path / "custom.onnx"
    path.write_bytes(
        model_of(
            nodes,
            {"x": ["n", 24], "r": ["n", 24]},
            ["z", "h"],
            g=np.array([4], np.float32),
            w=generator.normal(size=(24, 40)).astype(np.float32),
        )
    )
    return path


def test_results_are_those_of_numpy(model: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    x, r = (generator.normal(size=(7, 24)).astype(np.float32) for _ in range(2))
    np.savez(tmp_path / "in.npz", x=x, r=r)
    weight = numpy_helper.to_array(onnx.load(model).graph.initializer[1]).astype(np.float64)
    h = x.astype(np.float64) + r
    normed = 4 * h / np.maximum(np.linalg.norm(h, axis=-1, keepdims=True), 1e-5)
    expected = -np.sort(2 * np.tanh(normed @ weight / 2), axis=-1)
    for level in ("none", "ops", "auto"):
        out = tmp_path / f"{level}.npz"
        done("run", model, "--plugin", EXAMPLE, "--fusion", level, "--input", tmp_path / "in.npz",
             "--output", out)  # fmt: skip
        with np.load(out) as results:
            np.testing.assert_allclose(results["z"], expected, rtol=2**-10, atol=2**-16)
            np.testing.assert_array_equal(results["h"], x + r)


def test_an_expression_and_a_body_fuse_like_built_in_operators(model: Path) -> None:
    plan = json.loads(done("explain", model, "--plugin", EXAMPLE, "--json"))
    kernels = [kernel["operators"] for kernel in plan["kernels"]]
    assert any("Add + ScaleNorm" in label for label in kernels), kernels
    assert any("MatMul + SoftCap" in label for label in kernels), kernels
    assert "SortRows" in kernels
    done("explain", model, "--plugin", EXAMPLE, "--require", "MatMul + SoftCap")
    sources = {name for kernel in plan["kernels"] for name in kernel["sources"]}
    assert sources == {"/residual", "/norm", "/project", "/cap", "/sort", "/neg"}


def test_an_opaque_operator_says_what_to_declare(model: Path, tmp_path: Path) -> None:
    plan = json.loads(done("explain", model, "--plugin", EXAMPLE, "--json"))
    edges = [edge for edge in plan["edges"] if "/sort" in (edge["from"], edge["to"])]
    assert {edge["code"] for edge in edges} == {"F-OPAQUE"}
    advice = f"custom operator 'com.example.SortRows' of plugin 'example' ({EXAMPLE})"
    for edge in edges:
        assert advice in edge["detail"]
        assert "OpweldOp.expression" in edge["detail"]
    text = done("explain", model, "--plugin", EXAMPLE)
    assert f"note: /sort is run by a call: {advice}" in text
    why = done("explain", model, "--plugin", EXAMPLE, "--why", "/sort")
    assert "F-OPAQUE" in why
    assert advice in why
    assert "declare an expression or a body" in why
    log = tmp_path / "log"
    done("run", model, "--plugin", EXAMPLE, OPWELD_LOG_LEVEL="1", OPWELD_LOG_FILE=str(log))
    assert f"AutoFusion: /sort is run by a call: {advice}" in log.read_text()


@pytest.mark.parametrize("numerics", ["default", "strict"])
def test_verify_holds_all_forms_to_the_reference(model: Path, numerics: str) -> None:
    report = json.loads(
        done(
            "verify", model, "--plugin", EXAMPLE, "--numerics", numerics, "--json", "--dim", "n=33"
        )
    )
    assert report["equal"]
    assert report["kernels"]["differ"] == 0
    assert "custom_operators" not in report, "none of them has code beside its expression"


def one_node(tmp_path: Path, op: str, domain: str = "test.sample", **attributes: object) -> Path:
    path = tmp_path / f"{op}.onnx"
    node = helper.make_node(op, ["x"], ["y"], name="/it", domain=domain, **attributes)
    path.write_bytes(model_of([node], {"x": ["n"]}, ["y"]))
    return path


def test_verify_compares_code_with_what_it_declares(tmp_path: Path) -> None:
    honest = one_node(tmp_path, "Honest")
    report = json.loads(done("verify", honest, "--plugin", SAMPLE, "--json"))
    assert report["custom_operators"] == {"compared": 1, "differ": 0}
    text = done("verify", honest, "--plugin", SAMPLE)
    assert "1 custom operator compared with what it declares: the same values" in text
    for op, what in (("Liar", "its expression"), ("BodyLiar", "its body")):
        result = opweld("verify", one_node(tmp_path, op), "--plugin", SAMPLE)
        assert result.returncode == 1
        assert "1 custom operator compared with what it declares: 1 DIFFER" in result.stdout
        message = f"custom operator '/it' (test.sample.{op} of plugin 'sample', {SAMPLE})"
        assert message in result.stderr
        assert f"compute() gives other values than {what} declares" in result.stderr


def test_without_the_plugin_the_model_says_the_way_out(model: Path) -> None:
    message = refused("run", model)
    assert "3 nodes cannot be imported" in message
    assert "com.example.SoftCap" in message
    assert "--plugin LIBRARY" in message
    info = json.loads(done("info", model, "--json"))
    assert len(info["unsupported"]) == 3
    assert json.loads(done("info", model, "--json", "--plugin", EXAMPLE))["unsupported"] == []


def test_nodes_are_held_to_the_schema(tmp_path: Path) -> None:
    def message(**attributes: object) -> str:
        path = one_node(tmp_path, "SoftCap", "com.example", **attributes)
        return refused("run", path, "--plugin", EXAMPLE)

    assert "has an attribute 'limits' that plugin 'example' does not declare" in message(limits=1.0)
    assert "attribute 'limit' has the wrong type" in message(limit="wide")
    assert "attribute 'limit' is NaN" in message(limit=float("nan"))
    assert "'/it'" in message(limit=float("nan"))


def test_operators_are_listed_with_where_they_come_from() -> None:
    text = done("operators", "--plugin", EXAMPLE, "--plugin", SAMPLE)
    assert f"operators of plugin 'example' 1.0 ({EXAMPLE}):" in text
    assert "  com.example.SoftCap  [expression]  limit * tanh(x / limit)" in text
    assert "  com.example.ScaleNorm  [body]" in text
    assert "  com.example.SortRows  [opaque]" in text
    plugins = json.loads(done("operators", "--plugin", SAMPLE, "--json"))["plugins"]
    assert [plugin["name"] for plugin in plugins] == ["sample"]
    assert {op["form"] for op in plugins[0]["operators"]} == {"expression", "body", "opaque"}
    assert json.loads(done("operators", "--json"))["plugins"] == []


def test_broken_plugins_are_refused_by_every_command(model: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.so"
    commands = [["operators"], ["info", model], *([c, model] for c in ("run", "explain", "verify"))]
    for command in commands:
        assert f"plugin '{missing}': no such file" in refused(*command, "--plugin", missing)
    wrong = refused("run", model, "--plugin", BROKEN, OPWELD_TEST_BROKEN="new_abi")
    assert "version 2 of the interface, and this Opweld has version 1" in wrong
    bad = refused("operators", "--plugin", BROKEN, OPWELD_TEST_BROKEN="expression_syntax")
    assert "operator 'test.broken.Op': its expression: line 1, column 15: expected ')'" in bad


def test_code_that_fails_is_an_error_that_names_node_and_plugin(tmp_path: Path) -> None:
    for op, says in (
        ("Throws", "compute() threw an exception: out of paint"),
        ("WritesTwice", "compute() wrote beside result 'y'"),
        ("TooLarge", "the shape rule lies: result 'y' is [128] by what is declared, and [129]"),
    ):
        message = refused("run", one_node(tmp_path, op, "test.faulty"), "--plugin", FAULTY)
        assert says in message
        assert f"test.faulty.{op} '/it'" in message
        assert f"(plugin 'faulty', {FAULTY})" in message


def test_the_python_package_loads_plugins(model: Path) -> None:
    """In a process of its own, since a plugin stays for as long as its process lives."""
    script = """
import sys, opweld
model, example, broken = sys.argv[1:]
try:
    opweld.load(model)
except opweld.Error as error:
    assert "SoftCap" in str(error), error
else:
    raise SystemExit("it loads without the plugin")
try:
    opweld.load_plugin(broken)
except opweld.Error as error:
    assert broken in str(error), error
else:
    raise SystemExit("what is broken loads")
plugin = opweld.load_plugin(example)
assert plugin.operators[0] == "com.example.SoftCap", plugin.operators
assert [each.path for each in opweld.loaded_plugins()] == [plugin.path]
program = opweld.compile(model)
print(program.explain(n=8))
"""
    environment = os.environ | {"PYTHONPATH": str(BUILD / "release" / "python")}
    result = subprocess.run(
        [sys.executable, "-c", script, str(model), str(EXAMPLE), str(BROKEN)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    assert "SoftCap" in result.stdout
