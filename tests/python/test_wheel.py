"""The wheel: built as a user builds it, imported in an environment without this repository."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.models.cache import ROOT

PROGRAM = """
import importlib.metadata
import opweld

text = 'graph g(%x: f32[n]) { %y = relu(%x) return %y as "y" }'
(y,) = opweld.compile(opweld.parse(text))(memoryview(bytes(8)).cast("f"))
points = importlib.metadata.entry_points(group="torch_dynamo_backends")
print(list(memoryview(y)), opweld.__file__, [point.value for point in points])
"""


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment, with the wheel and nothing else in it."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip"]
    # As ./dev has it, so that nothing is compiled twice.
    cache = os.environ.get("CCACHE_DIR", str(Path.home() / ".cache" / "opweld" / "ccache"))
    settings = {"CCACHE_DIR": cache, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
    run(
        *pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
        "--wheel-dir", folder, ROOT, env=os.environ | settings,
    )  # fmt: skip
    (wheel,) = folder.glob("opweld-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(*pip, "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    return python


def test_the_wheel_runs_without_the_repository(environment: Path, tmp_path: Path) -> None:
    printed = run(environment, "-c", PROGRAM, cwd=tmp_path, env={})
    values, file, points = printed.strip().rsplit(" ", 2)
    assert values == "[0.0, 0.0]"
    assert Path(file).is_relative_to(environment.parent.parent)
    assert points == "['opweld.torch:backend']"


def test_the_wheel_is_typed(environment: Path) -> None:
    (package,) = environment.parent.parent.glob("lib/python*/site-packages/opweld")
    assert (package / "py.typed").exists()
    assert "class GraphBuilder" in (package / "_core.pyi").read_text()
