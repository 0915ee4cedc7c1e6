"""`--tune` from the command line: what it finds is kept, used, told, and can be left aside."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bench.opweld_command import opweld_path
from tests.python.own_cache import OwnCache


class Tool(OwnCache):
    """The command with a cache folder of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "OPWELD_TUNED")
        self.file = self.cache / "tuning.json"

    def __call__(self, verb: str, *options: object, **environment: str) -> tuple[str, str]:
        """Standard output and standard error of a call that must succeed."""
        result = self.call(verb, *options, **environment)
        assert result.returncode == 0, result.stderr
        return result.stdout, result.stderr

    def call(
        self, verb: str, *options: object, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """A call however it ends."""
        command = [str(opweld_path()), verb, str(self.model), *map(str, options)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            env={**self.environment, **environment},
        )

    def outputs(self, *options: object) -> np.ndarray:
        """What a run gives."""
        path = self.cache.parent / "out.npz"
        self("run", "--dim", "rows=37", "--output", path, *options)
        with np.load(path) as arrays:
            return arrays["y"]

    def choose(self, blocking: dict[str, int]) -> None:
        """Puts this choice where the measurement left its own."""
        document = json.loads(self.file.read_text())
        (machine,) = document["machines"].values()
        (choice,) = machine.values()
        choice["blocking"] = blocking
        self.file.write_text(json.dumps(document))


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


@pytest.mark.parametrize("verb", ["run", "bench", "explain", "verify"])
def test_every_verb_that_compiles_can_tune(tool: Tool, verb: str) -> None:
    _, told = tool(verb, "--tune", "--dim", "rows=37")
    assert "tuning 1 of 1" in told
    document = json.loads(tool.file.read_text())
    assert document["format"] == 1
    (machine,) = document["machines"].values()
    ((name, choice),) = machine.items()
    assert name.startswith("contract matmul + relu: f32 * x 24 . f32 24 x 96; ")
    assert choice["sizes"] == "rows = 37"


def test_nothing_is_measured_or_kept_without_the_flag(tool: Tool) -> None:
    _, told = tool("run")
    assert told == ""
    assert not tool.cache.exists()


def test_what_was_measured_is_not_measured_again_at_the_same_sizes(tool: Tool) -> None:
    tool("run", "--tune", "--dim", "rows=37")
    kept = tool.file.read_text()
    _, told = tool("run", "--tune", "--dim", "rows=37")
    assert "as measured before" in told
    assert tool.file.read_text() == kept


def test_a_choice_is_used_told_and_changes_no_result(tool: Tool) -> None:
    expected = tool.outputs("--no-tuned")
    tool("run", "--tune", "--dim", "rows=37")
    tool.choose({"panels": 2})
    plain, _ = tool("explain", "--no-tuned")
    assert "Tuning:" not in plain
    chosen, _ = tool("explain")
    assert "Tuning: FusedKernel_0 (matmul + relu): panels 2, " in chosen
    account, _ = tool("explain", "--json")
    assert len(json.loads(account)["tuning"]) == 1
    times, _ = tool("bench", "--repeats", "1", "--json")
    assert len(json.loads(times)["tuning"]) == 1
    times, _ = tool("bench", "--repeats", "1")
    assert "Tuning: FusedKernel_0" in times
    _, log = tool("run", OPWELD_LOG_LEVEL="1")
    assert "Tuning: FusedKernel_0" in log
    ignored, _ = tool("explain", OPWELD_TUNED="0")
    assert "Tuning:" not in ignored
    assert tool.outputs().tobytes() == expected.tobytes()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99, "machines": {}}', "\0" * 100])
def test_a_damaged_file_is_no_tuning_and_rebuilt(tool: Tool, text: str) -> None:
    tool.cache.mkdir()
    tool.file.write_text(text)
    plain, told = tool("explain")
    assert "Tuning:" not in plain
    assert told == ""
    tool("run", "--tune")
    assert json.loads(tool.file.read_text())["format"] == 1


@pytest.mark.parametrize("blocking", [{"rows": 999999}, {"depth": -1}, {"panels": 10**30}])
def test_a_choice_that_no_kernel_offers_is_not_used(tool: Tool, blocking: dict[str, int]) -> None:
    tool("run", "--tune")
    tool.choose(blocking)
    plain, _ = tool("explain")
    assert "Tuning:" not in plain


def test_processes_that_tune_at_once_leave_a_whole_file(tool: Tool) -> None:
    command = [str(opweld_path()), "run", str(tool.model), "--tune", "--threads=1"]
    processes = [
        subprocess.Popen(
            [*command, "--dim", f"rows={rows}", f"--fusion={fusion}"],
            env=tool.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for rows, fusion in [(5, "auto"), (6, "none")]
    ]
    for process in processes:
        _, told = process.communicate(timeout=120)
        assert process.returncode == 0, told
    (machine,) = json.loads(tool.file.read_text())["machines"].values()
    assert {name.partition(":")[0] for name in machine} == {
        "contract matmul",
        "contract matmul + relu",
    }
    assert sorted(path.name for path in tool.cache.iterdir()) == ["tuning.json", "tuning.json.lock"]


def test_without_time_the_defaults_stay(tool: Tool) -> None:
    _, told = tool("run", "--tune", "--tune-seconds", "0")
    assert "time is up" in told
    assert not tool.file.exists()


def test_flags_that_contradict_each_other_are_refused(tool: Tool) -> None:
    result = tool.call("run", "--tune", "--no-tuned")
    assert result.returncode == 2
    assert "exclude each other" in result.stderr
    assert tool.call("run", "--tune", "--tune-seconds", "-1").returncode == 2


def test_a_folder_that_cannot_be_written_is_an_error(tool: Tool) -> None:
    tool.cache.write_text("a file")
    result = tool.call("run", "--tune")
    assert result.returncode == 1
    assert "cannot make the folder" in result.stderr


def test_help_teaches(tool: Tool) -> None:
    text, _ = tool("bench", "--help")
    assert "--tune" in text
    assert "--tune-seconds" in text
    assert "--no-tuned" in text
    text = subprocess.run([str(opweld_path()), "--help"], capture_output=True, text=True).stdout
    assert "OPWELD_CACHE_DIR" in text
    assert "OPWELD_TUNED" in text
