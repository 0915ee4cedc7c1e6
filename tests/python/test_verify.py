"""`opweld verify`: agreement is told, and a difference is traced to the first kernel."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bench.opweld_command import opweld_path

# Weights, so that the compiled graph has constants that only packed kernels hold.
MODEL = """graph cancelling(%x: f32[s, 4]) {
  %w = constant {value = f32[4, 2] {1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0}}
  %b = constant {value = f32[2] random 2}
  %y = matmul(%x, %w)
  %z = add(%y, %b)
  return %z as "z"
}
"""


# Deep enough for the rounding of halves to add up beyond the tolerance of one kernel, fused or not.
DEEP = """graph deep(%h0: {dtype}[s, 64]) {{
  %w = constant {{value = {dtype}[64, 64] random 7}}
{layers}
  return %h{depth} as "z"
}}
"""
LAYER = """  %p{i} = matmul(%h{i}, %w)
  %t{i} = tanh(%p{i})
  %h{next} = add(%t{i}, %h{i})"""

# In f32, which sums of halves are kept in, 100 is lost beside 60000 * 60000.
CANCELLING_HALVES = """graph cancelling(%x: f16[s, 3]) {
  %w = constant {value = f16[3, 1] {60000.0, 100.0, 60000.0}}
  %y = matmul(%x, %w)
  return %y as "z"
}
"""


# A chain of a norm, a matmul and a cast, of inputs that were scaled down.
NORMED = """graph normed(%x: bf16[n, 64]) {
  %c = constant {value = bf16[] {0.0025}}
  %s = constant {value = bf16[64] random 1}
  %w = constant {value = bf16[64, 48] random 2}
  %t = mul(%x, %c)
  %a = rms_norm(%t, %s) {axis = -1, epsilon = 1e-05}
  %m = matmul(%a, %w)
  %y = cast(%m) {to = f32}
  return %y as "y"
}
"""

# Two matmuls, the second of which overflows.
OVERFLOWING = """graph overflowing(%x: f16[512, 512]) {
  %c = constant {value = f16[] {800.0}}
  %v = constant {value = f16[512, 512] random 1}
  %w = constant {value = f16[512, 64] random 2}
  %t = mul(%x, %c)
  %h = matmul(%t, %v)
  %y = matmul(%h, %w)
  return %y as "y"
}
"""

ROUNDED = """graph rounded(%x: bf16[n], %z: bf16[n]) {
  %a = add(%x, %z)
  %y = cast(%a) {to = f32}
  return %y as "y"
}
"""

# Weights that follow from constants are rounded once, when these are folded.
FOLDED = """graph folded(%x: f32[n, 8]) {
  %c = constant {value = bf16[] {0.3}}
  %v = constant {value = bf16[8, 4] random 1}
  %w = mul(%v, %c)
  %f = cast(%w) {to = f32}
  %y = matmul(%x, %f)
  return %y as "y"
}
"""

# 0.7 * 10 is 7 in f32, and a little less in f64.
WHOLE = """graph whole(%x: f32[n]) {
  %ten = constant {value = f32[] {10.0}}
  %a = mul(%x, %ten)
  %y = cast(%a) {to = i32}
  return %y as "y"
}
"""


def deep_model(dtype: str, depth: int = 24) -> str:
    """A chain of `h = tanh(h w) + h`."""
    layers = "\n".join(LAYER.format(i=i, next=i + 1) for i in range(depth))
    return DEEP.format(dtype=dtype, layers=layers, depth=depth)


def verify(folder: Path, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs the command on a model given as text."""
    model = folder / "model.graph"
    model.write_text(text, encoding="utf-8")
    command = [str(opweld_path()), "verify", str(model), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def saved(folder: Path, x: np.ndarray) -> tuple[str, str]:
    """The flags that give the model these rows."""
    np.save(folder / "x.npy", x)
    return "--input", f"x={folder / 'x.npy'}"


def test_ordinary_values_agree(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((5, 4), np.float32)
    result = verify(tmp_path, MODEL, *saved(tmp_path, x))
    assert result.returncode == 0, result.stderr
    assert "z: largest difference" in result.stdout
    assert "1 checked one by one on the inputs they had, 0 differ" in result.stdout


def test_a_difference_is_traced_to_its_kernel_and_node(tmp_path: Path) -> None:
    # In f32 the one is lost beside 1e8; in f64, which the reference computes in, it is not.
    x = np.array([[1e8, 1, -1e8, 0]], np.float32)
    result = verify(tmp_path, MODEL, *saved(tmp_path, x))
    assert result.returncode == 1
    assert "output 'z', against the reference" in result.stderr
    assert "first at" in result.stderr
    assert "matmul" in result.stderr


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_rounding_of_halves_from_kernel_to_kernel_is_no_fault(tmp_path: Path, dtype: str) -> None:
    result = verify(tmp_path, deep_model(dtype), "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["equal"]
    assert report["kernels"] == {"checked": 24, "differ": 0}
    # Else the test would not show what it is for.
    assert report["outputs"][0]["difference_to_reference"] > 0.02


def test_a_kernel_of_halves_that_differs_is_a_fault(tmp_path: Path) -> None:
    x = np.array([[60000, 1, -60000]], np.float16)
    result = verify(tmp_path, CANCELLING_HALVES, *saved(tmp_path, x))
    assert result.returncode == 1
    assert "a kernel differs from its operators" in result.stderr
    assert "first at" in result.stderr
    assert "instead of 100" in result.stderr


def test_a_single_launch_is_held_to_kernels_run_apart(tmp_path: Path) -> None:
    flags = ("--single-launch", "--fusion=none", "--threads=2")
    result = verify(tmp_path, deep_model("f32"), *flags, "--json")
    assert result.returncode == 0, result.stderr
    launch = json.loads(result.stdout)["single_launch"]
    assert launch["launches"] == 1
    assert launch["kernels"] == 3 * 24
    assert 0 < launch["barriers"] < 3 * 24
    assert launch["identical"]
    text = verify(tmp_path, deep_model("f32"), *flags).stdout
    assert f"72 kernels in 1 launch with {launch['barriers']} barriers: the same bits" in text


@pytest.mark.parametrize("numerics", ["default", "strict"])
@pytest.mark.parametrize(
    "text",
    [NORMED, OVERFLOWING, ROUNDED, FOLDED],
    ids=["norm", "overflow", "cast", "fold"],
)
def test_rounding_where_the_plan_rounds_is_no_fault(
    tmp_path: Path, text: str, numerics: str
) -> None:
    result = verify(tmp_path, text, f"--numerics={numerics}")
    assert result.returncode == 0, result.stderr
    assert ", 0 differ" in result.stdout


@pytest.mark.parametrize("numerics", ["default", "strict"])
def test_whole_numbers_come_of_values_in_the_compute_type(tmp_path: Path, numerics: str) -> None:
    flags = saved(tmp_path, np.full(9, 0.7, np.float32))
    result = verify(tmp_path, WHOLE, f"--numerics={numerics}", *flags, "--json")
    assert result.returncode == 0, result.stderr
    # Else the test would not show what it is for.
    assert json.loads(result.stdout)["outputs"][0]["difference_to_reference"] == 1


def test_in_strict_an_operator_that_differs_is_still_a_fault(tmp_path: Path) -> None:
    x = np.array([[60000, 1, -60000]], np.float16)
    flags = saved(tmp_path, x)
    result = verify(tmp_path, CANCELLING_HALVES, "--numerics=strict", *flags)
    assert result.returncode == 1
    assert "a kernel differs from its operators" in result.stderr
    assert "instead of 100" in result.stderr
