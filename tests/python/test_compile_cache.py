"""What one call of the command compiled, another one finds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from bench.opweld_command import opweld_path
from tests.python.own_cache import MODEL, OwnCache


class Tool(OwnCache):
    """The command with a cache folder of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "OPWELD_COMPILED")

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """A call that goes on beside us."""
        return subprocess.Popen(
            [str(opweld_path()), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **environment},
        )

    def __call__(self, *arguments: object, **environment: str) -> str:
        """Standard output of a call that must succeed."""
        process = self.start(*arguments, **environment)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return output

    def found(self, option: str = "--cache", **environment: str) -> dict[str, object]:
        """What `bench` found ready."""
        arguments = ["bench", self.model, option, "--repeats", 1, "--warmup", 0, "--json"]
        return json.loads(self(*arguments, **environment))["found"]

    def entries(self) -> list[Path]:
        """All files of the compile cache."""
        return sorted(path for path in (self.cache / "compiled").rglob("*") if path.is_file())


def test_a_second_start_finds_the_plan_and_all_code(tmp_path: Path) -> None:
    """Whatever command left them, and for a model that differs in numbers of its weights alone."""
    tool = Tool(tmp_path)
    tool("run", tool.model, "--dim", "rows=37", "--output", tmp_path / "first.npz")
    assert tool.entries()
    found = tool.found()
    assert found["plan"]
    assert found["functions"] == found["all_functions"] > 0
    tool("run", tool.model, "--dim", "rows=37", "--output", tmp_path / "second.npz")
    with np.load(tmp_path / "first.npz") as first, np.load(tmp_path / "second.npz") as second:
        assert first["y"].tobytes() == second["y"].tobytes()
    tool.model.write_text(MODEL.replace("random 1", "random 2"))
    found = tool.found()
    assert found["plan"]
    assert found["functions"] == found["all_functions"]
    tool("run", tool.model, "--dim", "rows=37", "--output", tmp_path / "third.npz")
    with np.load(tmp_path / "first.npz") as first, np.load(tmp_path / "third.npz") as third:
        assert (first["y"] != third["y"]).any()


def test_it_can_be_left_aside(tmp_path: Path) -> None:
    """By a flag and by the environment; `bench` times compiling from nothing unless told."""
    tool = Tool(tmp_path)
    tool("run", tool.model, "--no-cache")
    tool("run", tool.model, OPWELD_COMPILED="0")
    tool("bench", tool.model, "--repeats", 1)
    assert not tool.entries()
    tool("run", tool.model)
    assert tool.entries()
    assert not tool.found("--no-cache")["plan"]
    assert not tool.found(OPWELD_COMPILED="0")["plan"]


def test_damage_is_survived(tmp_path: Path) -> None:
    """Entries that were cut short or overwritten are made anew."""
    tool = Tool(tmp_path)
    tool("run", tool.model)
    for index, path in enumerate(tool.entries()):
        path.write_bytes(path.read_bytes()[: index * 20])
    assert not tool.found()["plan"]
    assert tool.found()["plan"]


def test_several_processes_share_it(tmp_path: Path) -> None:
    """At once, from nothing: all succeed with the same result, and one set of entries stays."""
    tool = Tool(tmp_path)
    outputs = [tmp_path / f"{i}.npz" for i in range(4)]
    running = [tool.start("run", tool.model, "--output", path) for path in outputs]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    results = set()
    for path in outputs:
        with np.load(path) as arrays:
            results.add(arrays["y"].tobytes())
    assert len(results) == 1
    found = tool.found()
    assert found["plan"]
    assert all(path.suffix == ".entry" for path in tool.entries())


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    """The model runs; `doctor` says what is wrong."""
    tool = Tool(tmp_path)
    tool.cache.write_text("no folder")
    tool("run", tool.model)
    process = tool.start("doctor")
    output, _ = process.communicate(timeout=120)
    assert "neither compiled code nor what --tune measures can be kept" in output


def test_doctor_tells_how_much_there_is(tmp_path: Path) -> None:
    """The folder, and what of it are plans and code."""
    tool = Tool(tmp_path)
    tool("run", tool.model)
    assert "of plans and code" in tool("doctor")
    assert "every start compiles anew" in tool("doctor", OPWELD_COMPILED="0")
