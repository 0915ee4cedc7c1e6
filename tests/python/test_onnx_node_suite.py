"""The harness around ONNX's node tests: what it hands over, and how it judges the answers."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from bench.opweld_command import FUSION_LEVELS, opweld_path
from tests.python import onnx_node_suite
from tests.python.onnx_node_cases import (
    OUTSIDE,
    STRUCTURAL_OPERANDS,
    Case,
    Supported,
    bind_structural_inputs,
    load_cases,
    parse_outside,
    split_cases,
)
from tests.python.onnx_node_suite import Answer, judge, run_cases, summarise, write_junit


def case(name: str, operators: str = "Add", types: str = "float") -> Case:
    return Case(name, operators.split(), types.split(), "m", [], [], 1e-3, 1e-7)


# Answers each case as its name says; `die` ends the process in its second level.
FAKE_OPWELD = """
import json, sys, time
for case in json.load(open(sys.argv[1])):
    for fusion in ("none", "ops", "auto"):
        kind = case["name"].split("_")[0]
        if kind == "die" and fusion == "ops":
            print('{"name": "die', end="", flush=True)
            sys.exit("last words")
        if kind == "hang":
            time.sleep(60)
        status = {"die": "passed", "half": "failed" if fusion == "auto" else "passed"}
        print(json.dumps({"name": case["name"], "fusion": fusion,
                          "status": status.get(kind, kind), "message": "m"}), flush=True)
"""


@pytest.fixture
def answers_to(tmp_path: Path) -> Callable[..., dict[str, list[Answer]]]:
    script = tmp_path / "fake_opweld.py"
    script.write_text(FAKE_OPWELD)

    def run(*names: str, jobs: int = 1) -> dict[str, list[Answer]]:
        requests = [{"name": name} for name in names]
        answers = run_cases([sys.executable, str(script)], requests, jobs)
        return {name: [a for a in answers if a.name == name] for name in names}

    return run


def statuses(answers: list[Answer]) -> dict[str, str]:
    assert len(answers) == len(FUSION_LEVELS)
    return {answer.fusion: answer.status for answer in answers}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_crash_costs_one_case(answers_to: Callable, jobs: int) -> None:
    names = ["passed_1", "die_1", "failed_1", "die_2", "die_3", "passed_2", "unsupported_1"]
    answers = answers_to(*names, jobs=jobs)
    for name in names:
        kind = name.split("_")[0]
        expected = dict.fromkeys(FUSION_LEVELS, kind)
        if kind == "die":
            expected = {"none": "passed", "ops": "crashed", "auto": "crashed"}
        assert statuses(answers[name]) == expected
    assert "exit code 1: last words" in answers["die_1"][1].message


def test_a_process_that_hangs_is_ended(
    answers_to: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_node_suite, "SILENCE_SECONDS", 1)
    answers = answers_to("passed_1", "hang_1", "passed_2")
    assert statuses(answers["hang_1"]) == dict.fromkeys(FUSION_LEVELS, "crashed")
    assert "silent for 1 s" in answers["hang_1"][0].message
    assert statuses(answers["passed_2"]) == dict.fromkeys(FUSION_LEVELS, "passed")


SUPPORTED = Supported(frozenset({"Add", "Mul"}), frozenset({"float", "int64"}))


def test_inside_must_pass_at_every_level(answers_to: Callable) -> None:
    inside = [case("passed_in"), case("half_in"), case("unsupported_in"), case("missing_in")]
    answers = answers_to("passed_in", "half_in", "unsupported_in")
    verdicts = judge(inside, [], [a for each in answers.values() for a in each], SUPPORTED)
    problems = {v.name: v.problem for v in verdicts}
    assert problems == {
        "passed_in": "",
        "half_in": "auto: failed: m",
        "unsupported_in": "; ".join(f"{f}: unsupported: m" for f in FUSION_LEVELS),
        "missing_in": "not answered at every level",
    }
    assert summarise(verdicts, [], 7).splitlines()[-1] == "onnx: 1 of 4 passed of 7 in all"


@pytest.mark.parametrize("name", ["passed", "half", "failed", "error", "die"])
def test_a_case_outside_must_be_refused_at_import(answers_to: Callable, name: str) -> None:
    (rule,) = parse_outside("operator Conv: why")
    outside = [(case(f"{kind}_out", "Conv"), rule) for kind in ("unsupported", name)]
    answers = answers_to(*(c.name for c, _ in outside))
    verdicts = judge([], outside, [a for each in answers.values() for a in each], SUPPORTED)
    assert [v.name for v in verdicts] == [f"{name}_out"]
    assert verdicts[0].problem.startswith("line 1 of outside.txt: matches it, but it was not refu")
    assert "    2 outside: why" in summarise(verdicts, outside, 2)


@pytest.mark.parametrize(
    ("line", "stale"),
    [
        ("operator Conv: why", ""),
        ("operator Conv Mul: why", ""),
        ("operator Mul: why", "matches it by Mul, which is supported"),
        ("type string: why", ""),
        ("type int64: why", "matches it by int64, which is supported"),
        ("case unsup*: why", ""),
    ],
)
def test_a_reason_that_no_longer_holds_fails_the_suite(
    answers_to: Callable, line: str, stale: str
) -> None:
    one = case("unsupported_out", "Conv Mul", "int64 string")
    answers = answers_to(one.name)[one.name]
    problems = [v.problem for v in judge([], [(one, *parse_outside(line))], answers, SUPPORTED)]
    assert problems == ([f"line 1 of outside.txt: {stale}"] if stale else [])


def test_the_report_counts_every_verdict(tmp_path: Path) -> None:
    import run_tests

    answers = [Answer("a", f, "passed") for f in FUSION_LEVELS]
    verdicts = judge([case("a"), case("b")], [], answers, SUPPORTED)
    write_junit(tmp_path / "r.xml", verdicts)
    assert run_tests.count_junit(tmp_path / "r.xml", 1) == run_tests.Count(passed=1, failed=1)


def test_the_list_says_nothing_untrue_or_unclear() -> None:
    rules = parse_outside("# comment\n\noperator Conv* Loop: a reason\ntype string: text\n")
    assert [(r.line, r.kind, r.patterns) for r in rules] == [
        (3, "operator", ["Conv*", "Loop"]),
        (4, "type", ["string"]),
    ]
    cases = [case("a", "Conv"), case("b", types="string float"), case("c")]
    inside, outside = split_cases(cases, rules)
    assert [c.name for c in inside] == ["c"]
    assert {c.name: rule.line for c, rule in outside} == {"a": 3, "b": 4}
    for text, message in [
        ("operator Conv", "line 1: expected"),
        ("\noperators Conv: x", "line 2: expected"),
        ("operator: x", "line 1: expected"),
        ("operator Conv:  ", "line 1: no reason"),
    ]:
        with pytest.raises(ValueError, match=message):
            parse_outside(text)
    with pytest.raises(ValueError, match="line 1: Pool matches no case"):
        split_cases(cases, parse_outside("operator Pool: x"))


def test_the_committed_list_fits_the_installed_package() -> None:
    _, cases = load_cases()
    inside, outside = split_cases(cases, parse_outside(OUTSIDE.read_text(encoding="utf-8")))
    assert len(inside) + len(outside) == len(cases) > 1500
    assert len(inside) > 1000


def test_inputs_that_decide_shapes_become_initializers() -> None:
    def info(name: str, shape: list[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.INT64, shape)

    # `sizes` reaches the shape operand through a node; `data` only through its own shape.
    graph = helper.make_graph(
        [
            helper.make_node("Shape", ["data"], ["own"]),
            helper.make_node("Mul", ["own", "sizes"], ["shape"]),
            helper.make_node("Reshape", ["data", "shape"], ["y"]),
        ],
        "g",
        [info("data", [4]), info("sizes", [1])],
        [info("y", [4])],
    )
    model = helper.make_model(graph)
    values = [
        numpy_helper.from_array(np.arange(size, dtype=np.int64), name)
        for name, size in (("data", 4), ("sizes", 1))
    ]
    assert [v.name for v in bind_structural_inputs(model, values)] == ["data"]
    assert [i.name for i in model.graph.input] == ["data"]
    assert [i.name for i in model.graph.initializer] == ["sizes"]


def read(path: Path) -> TensorProto:
    return TensorProto.FromString(path.read_bytes())


def test_the_changed_models_still_give_the_expected_outputs() -> None:
    operators = {*STRUCTURAL_OPERANDS, "ReduceSum", "ReduceMax"}
    folder, cases = load_cases()
    cases = [c for c in cases if len(c.operators) == 1 and operators.intersection(c.operators)]
    # Dropout in training draws random numbers, which no two implementations agree on.
    cases = [c for c in cases if "training" not in c.name]
    assert len(cases) > 100
    for one in cases:
        evaluator = ReferenceEvaluator(str(folder / one.model))
        inputs = [read(folder / path) for path in one.inputs]
        assert evaluator.input_names == [i.name for i in inputs]
        outputs = evaluator.run(None, {i.name: numpy_helper.to_array(i) for i in inputs})
        for actual, path in zip(outputs, one.outputs, strict=True):
            expected = numpy_helper.to_array(read(folder / path))
            assert actual.dtype == expected.dtype
            np.testing.assert_allclose(
                actual.astype(np.float64), expected.astype(np.float64), one.rtol, one.atol
            )


def test_a_request_holds_what_the_command_reads() -> None:
    folder, cases = load_cases()
    one = next(c for c in cases if c.name == "test_layer_normalization_4d_axis1")
    request = one.request(folder)
    assert set(request) == {"name", "model", "inputs", "outputs", "rtol", "atol"}
    for path in [request["model"], *request["inputs"], *request["outputs"]]:
        assert Path(path).is_file()
    assert [len(request["inputs"]), len(request["outputs"])] == [3, 3]
    assert dataclasses.replace(one, name="x").request(folder)["model"] == request["model"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: np.where(np.arange(x.size).reshape(x.shape) == 7, x + np.float32(0.01), x),
        lambda x: np.where(np.arange(x.size).reshape(x.shape) == 7, np.float32(np.nan), x),
        lambda x: x.astype(np.float64),
        lambda x: x.reshape(-1),
        lambda x: x[:0],
    ],
    ids=["value", "nan", "dtype", "shape", "size"],
)
def test_the_command_notices_a_wrong_result(spoil: Callable, tmp_path: Path) -> None:
    folder, cases = load_cases()
    one = next(c for c in cases if c.name == "test_tanh")
    right = one.request(folder)
    value = numpy_helper.to_array(read(Path(right["outputs"][0])))
    wrong = right | {"name": "wrong", "outputs": [str(tmp_path / "wrong.pb")]}
    message = numpy_helper.from_array(spoil(value), "y")
    (tmp_path / "wrong.pb").write_bytes(message.SerializeToString())
    answers = run_cases([str(opweld_path()), "run-cases", "--json"], [right, wrong])
    assert {(a.name, a.fusion): a.status for a in answers} == {
        (name, fusion): status
        for name, status in ((one.name, "passed"), ("wrong", "failed"))
        for fusion in FUSION_LEVELS
    }


@pytest.mark.parametrize(
    "entry",
    [
        1,
        {"name": "a"},
        {"name": 1, "model": "m", "inputs": [], "outputs": []},
        {"name": "a", "model": "m", "inputs": "x", "outputs": []},
        {"name": "a", "model": "m", "inputs": [], "outputs": [None]},
        {"name": "a", "model": "m", "inputs": [], "outputs": [], "rtol": "tiny"},
    ],
)
def test_the_command_refuses_a_list_that_makes_no_sense(entry: object, tmp_path: Path) -> None:
    listing = tmp_path / "list.json"
    listing.write_text(json.dumps([entry]))
    command = [opweld_path(), "run-cases", listing]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert f"{listing}: case 1: " in result.stderr
