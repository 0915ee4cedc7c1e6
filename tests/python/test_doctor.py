"""opweld doctor: what it says of this machine, and of what is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from bench.models.cache import ROOT
from bench.opweld_command import opweld_path


def doctor(
    *arguments: str, drop: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {n: v for n, v in os.environ.items() if not n.startswith("OPWELD_") and n not in drop}
    return subprocess.run(
        [str(opweld_path()), "doctor", *arguments],
        capture_output=True,
        text=True,
        env=clean | environment,
        timeout=60,
    )


def findings(**environment: str) -> dict[str, dict[str, str]]:
    done = doctor("--json", **environment)
    report = json.loads(done.stdout)
    assert report["well"] == (done.returncode == 0)
    assert report["well"] == all(not each["problem"] for each in report["findings"])
    return {each["name"]: each for each in report["findings"]}


def test_all_is_well_and_told(tmp_path: Path) -> None:
    done = doctor(OPWELD_CACHE_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    found = findings(OPWELD_CACHE_DIR=str(tmp_path))
    version = re.search(r"project\(opweld VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert found["version"]["value"] == version[1]
    assert found["automatic fusion"]["value"] == "on: exp + neg are one kernel"
    assert found["LLVM"]["value"].startswith("19.")
    assert re.fullmatch(r"\d+, one for each core", found["threads"]["value"])
    offered, planned = found["targets"]["value"].split("; planned for: ")
    assert "host-generic" in offered.split(", ")
    assert planned == "ascend-910b, cuda-sm90"
    assert found["OPWELD_CACHE_DIR"]["value"] == str(tmp_path)
    modes = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if modes.exists():
        assert f"[{found['huge pages']['value']}]" in modes.read_text()
    for each in found.values():
        assert f"{each['name']:<18} {each['value']}\n" in done.stdout


def test_the_cache_is_measured(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(b"x" * 123_456)
    value = findings(OPWELD_CACHE_DIR=str(tmp_path))["cache folder"]["value"]
    told = f"{tmp_path}, 123.5 kB, 0 measured block sizes for this machine, 0 B of plans and code"
    assert value == told
    new = tmp_path / "not" / "yet"
    assert findings(OPWELD_CACHE_DIR=str(new))["cache folder"]["value"] == f"{new}, not made yet"
    assert not new.exists()


def test_what_is_wrong_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for name, value, at in (
        ("OPWELD_CACHE_DIR", str(file / "cache"), "cache folder"),
        ("OPWELD_LOG_LEVEL", "loud", "OPWELD_LOG_LEVEL"),
        ("OPWELD_LOG_FILE", str(tmp_path / "no" / "folder"), "OPWELD_LOG_FILE"),
        ("OPWELD_LOG_FILE", str(tmp_path), "OPWELD_LOG_FILE"),
    ):
        assert findings(**{name: value})[at]["problem"], name
        done = doctor(**{name: value})
        assert done.returncode == 1
        assert "PROBLEM: " in done.stdout
        assert f"opweld: something is wrong with: {at}\n" in done.stderr


def test_what_may_not_be_meant_is_a_note(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for environment, at, part in (
        ({"OPWELD_LOG_LEVEL": "2"}, "OPWELD_LOG_LEVEL", "no AutoFusion line"),
        ({"OPWELD_LOG_FILE": str(log)}, "OPWELD_LOG_FILE", "OPWELD_LOG_LEVEL"),
        ({"OPWELD_TUNED": "0"}, "OPWELD_TUNED", "left aside"),
        ({"OPWELD_LOGLEVEL": "1"}, "OPWELD_LOGLEVEL", "did you mean 'OPWELD_LOG_LEVEL'"),
    ):
        assert part in findings(**environment)[at]["note"]
    assert not log.exists()


def test_a_home_that_is_missing(tmp_path: Path) -> None:
    done = doctor("--json", drop=("HOME",))
    assert done.returncode == 0
    (cache,) = [e for e in json.loads(done.stdout)["findings"] if e["name"] == "cache folder"]
    assert (cache["value"], bool(cache["note"])) == ("none", True)
