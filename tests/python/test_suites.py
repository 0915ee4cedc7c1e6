"""The models of the arena's suites, at tiny sizes: Opweld agrees with ONNX Runtime on each."""

import ast
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from bench.bf16 import BF16
from bench.case import Case
from bench.contest import output_names
from bench.limits import Limits, Rates
from bench.models.cache import ROOT
from bench.opweld_command import FUSION_LEVELS, OpweldError, explain_model, run_model
from bench.suites import SUITES
from bench.suites.chain import decoder_half, encoder_half

FLAT = Rates({1 << 20: 1e9})
FP32 = {"rtol": 2**-10, "atol": 2**-16}
LIMITS = Limits(threads=1, flops=1e9, copy_bytes=FLAT, read_bytes=FLAT)
TINY = [(suite, case) for suite in SUITES for case in SUITES[suite](True, 1)]
NAMES = [f"{suite}-{case.name}" for suite, case in TINY]


def in_fp32(path: Path) -> onnx.ModelProto:
    """The model with fp32 in place of bf16, of which ONNX Runtime multiplies none; values stay."""
    model = onnx.load(path)
    for info in [*model.graph.input, *model.graph.output]:
        if info.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
            info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.BFLOAT16:
            wide = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    return model


@pytest.mark.parametrize(("suite", "case"), TINY, ids=NAMES)
def test_opweld_agrees_with_onnx_runtime(suite: str, case: Case) -> None:
    names = output_names(case.model)
    session = onnxruntime.InferenceSession(
        in_fp32(case.model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = {
        name: value.astype(np.float32) if value.dtype == BF16 else value
        for name, value in case.inputs.items()
    }
    expected = dict(zip(names, session.run(names, inputs), strict=True))
    own = [case.ours] if case.ours else []
    for model in [case.model, *case.spellings.values(), *own]:
        for level in FUSION_LEVELS:
            actual = run_model(model, case.inputs, f"--fusion={level}")
            assert actual.keys() == expected.keys()
            for name, value in expected.items():
                half = actual[name].dtype == BF16
                assert half == (case.work.precision == "bf16")
                tolerance = {"rtol": 2**-6, "atol": 2**-6} if half else FP32
                np.testing.assert_allclose(actual[name].astype(np.float64), value, **tolerance)


ONE_LAUNCH = [(suite, case) for suite, case in TINY if case.single_launch]


@pytest.mark.parametrize(
    ("suite", "case"), ONE_LAUNCH, ids=[f"{suite}-{case.name}" for suite, case in ONE_LAUNCH]
)
def test_one_launch_gives_the_same_bits(suite: str, case: Case) -> None:
    for level in FUSION_LEVELS:
        apart = run_model(case.model, case.inputs, f"--fusion={level}")
        together = run_model(case.model, case.inputs, f"--fusion={level}", "--single-launch")
        assert apart.keys() == together.keys()
        for name, value in apart.items():
            assert value.tobytes() == together[name].tobytes()


def test_short_cases_are_timed_in_one_launch_too() -> None:
    assert {suite for suite, _ in ONE_LAUNCH} == {"encoder", "layer", "small-batch"}


@pytest.mark.parametrize("half", [encoder_half, decoder_half])
def test_chains_are_left_out_on_request(half: Callable[[int, int, int], Case]) -> None:
    # So many rows that a chain pays on any number of cores that this may run on.
    case = half(128 * len(os.sched_getaffinity(0)), 24, 40)
    together = explain_model(case.model)
    apart = explain_model(case.model, "--without=chain")
    assert together["totals"]["kernels"] == 1 < apart["totals"]["kernels"]
    kept = {edge["code"] for edge in apart["edges"] if edge["verdict"] != "fused"}
    assert kept == {"F-WITHOUT"}
    one, several = (run_model(case.model, case.inputs, *of) for of in ([], ["--without=chain"]))
    for name, value in one.items():
        np.testing.assert_allclose(several[name], value, **FP32)


def test_only_schedules_that_there_are_can_be_left_out() -> None:
    with pytest.raises(OpweldError, match="chain"):
        explain_model(TINY[0][1].model, "--without=everything")


def test_each_suite_has_cases_with_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {suite for suite, _ in TINY} == set(SUITES)


@pytest.mark.parametrize(("suite", "case"), TINY, ids=NAMES)
def test_each_case_has_a_floor_and_a_twin(suite: str, case: Case) -> None:
    assert case.work.floor(LIMITS) > 0
    # Read and not imported, since tests do without PyTorch.
    source = ROOT / f"{case.twin.module.replace('.', '/')}.py"
    classes = [n for n in ast.parse(source.read_text()).body if isinstance(n, ast.ClassDef)]
    assert case.twin.name in {found.name for found in classes}
