"""`opweld verify`: agreement is told, and a difference is traced to the first kernel."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

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


def verify(folder: Path, x: np.ndarray) -> subprocess.CompletedProcess[str]:
    """Runs the command on the model with these rows."""
    model = folder / "model.graph"
    model.write_text(MODEL, encoding="utf-8")
    np.save(folder / "x.npy", x)
    command = [str(opweld_path()), "verify", str(model), "--input", f"x={folder / 'x.npy'}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_ordinary_values_agree(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((5, 4), np.float32)
    result = verify(tmp_path, x)
    assert result.returncode == 0, result.stderr
    assert "z: largest difference" in result.stdout


def test_a_difference_is_traced_to_its_kernel_and_node(tmp_path: Path) -> None:
    # In f32 the one is lost beside 1e8; in f64, which the reference computes in, it is not.
    x = np.array([[1e8, 1, -1e8, 0]], np.float32)
    result = verify(tmp_path, x)
    assert result.returncode == 1
    assert "output 'z', against the reference" in result.stderr
    assert "first at" in result.stderr
    assert "matmul" in result.stderr
