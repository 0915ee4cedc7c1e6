"""The log that the environment asks for, by way of the command line."""

import os
import subprocess
from pathlib import Path

import pytest

from bench.opweld_command import opweld_path

GRAPH = """graph small(%x: f32[batch, s]) {
  %y = exp(%x)
  %z = softmax(%y) {axis = -1}
  return %z as "z"
}
"""
FORMED = "AutoFusion: exp + softmax -> FusedKernel_0 saves 1.0 kB, 1 kernel"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.graph"
    path.write_text(GRAPH)
    return path


def errors(*command: str | Path, **environment: str) -> str:
    """What the command says on standard error."""
    clean = {name: value for name, value in os.environ.items() if "OPWELD_LOG" not in name}
    done = subprocess.run(
        [str(opweld_path()), *map(str, command)],
        capture_output=True,
        text=True,
        env=clean | environment,
        check=True,
    )
    return done.stderr


@pytest.mark.parametrize("verb", ["run", "explain", "verify"])
def test_every_verb_that_compiles_honours_it(verb: str, model: Path) -> None:
    assert errors(verb, model) == ""
    assert FORMED in errors(verb, model, OPWELD_LOG_LEVEL="1").splitlines()


def test_what_became_one_counts_as_the_operators_of_the_model(tmp_path: Path) -> None:
    model = tmp_path / "projections.graph"
    model.write_text("""graph projections(%x: f32[n, 4]) {
      %v = constant {value = f32[4, 4] random 1}
      %w = constant {value = f32[4, 4] random 2}
      %q = matmul(%x, %v)
      %k = matmul(%x, %w)
      %t = transpose(%k) {permutation = [1, 0]}
      %y = matmul(%q, %t)
      return %y as "y"
    }""")
    lines = errors("run", model, "--dim", "n=128", OPWELD_LOG_LEVEL="1").splitlines()
    # One reading of x, 128 x 4 floats, and the transposed copy of k, written and read. The slices
    # of the merged result are no operators of the model.
    assert lines[1:] == [
        "AutoFusion: matmul + matmul -> FusedKernel_0 saves 2.0 kB, 1 kernel",
        "AutoFusion: transpose + matmul -> FusedKernel_1 saves 4.1 kB, 1 kernel",
    ]


def test_debug_has_a_line_for_every_kept_edge(model: Path) -> None:
    lines = errors("run", model, "--fusion=none", OPWELD_LOG_LEVEL="0").splitlines()
    kept = [line for line in lines if line.startswith("AutoFusion: keep ")]
    assert len(kept) == 1
    assert "[F-LEVEL] hint: " in kept[0]


def test_a_file_is_appended_to_and_standard_error_left_alone(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    for _ in range(2):
        assert errors("run", model, OPWELD_LOG_LEVEL="1", OPWELD_LOG_FILE=str(log)) == ""
    assert log.read_text().splitlines().count(FORMED) == 2


def test_wrong_settings_are_told_and_do_no_harm(model: Path, tmp_path: Path) -> None:
    assert "OPWELD_LOG_LEVEL='loud'" in errors("run", model, OPWELD_LOG_LEVEL="loud")
    nowhere = str(tmp_path / "no" / "folder")
    told = errors("run", model, OPWELD_LOG_LEVEL="1", OPWELD_LOG_FILE=nowhere)
    assert nowhere in told
    assert FORMED in told


def test_the_help_tells_of_it() -> None:
    command = [str(opweld_path()), "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "OPWELD_LOG_LEVEL" in text
    assert "OPWELD_LOG_FILE" in text
