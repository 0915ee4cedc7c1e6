"""The demo, as a new user sees it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.models.cache import ROOT

# Python runs this before anything else: whatever reaches for the network fails.
NO_NETWORK = """
import socket

def refuse(*_):
    raise OSError("no network in this test")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
"""


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """An environment in which Python has no network."""
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    attempt = "import socket; socket.create_connection(('localhost', 9))"
    result = subprocess.run(
        [sys.executable, "-c", attempt], env=environment, capture_output=True, text=True
    )
    assert "no network in this test" in result.stderr
    return environment


def test_the_demo_shows_meaning_agreement_and_saving(offline: dict[str, str]) -> None:
    command = [sys.executable, "-m", "demo.demo", "--quick"]
    result = subprocess.run(command, cwd=ROOT, env=offline, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    output = result.stdout
    similar = [
        [float(value) for value in row.split()[-6:]]
        for row in re.findall(r"^  [1-6]  .*$", output, re.MULTILINE)
    ]
    assert len(similar) == 6
    for row, values in enumerate(similar):
        partner = row ^ 1
        others = [v for column, v in enumerate(values) if column not in (row, partner)]
        assert values[row] == 1.0
        assert values[partner] > 0.3 > max(others)
    assert "AutoFusion: " in output
    rows = {
        level: re.search(rf"^  {level} +(\d+)  +([\d,.]+) MB .*$", output, re.MULTILINE)
        for level in ("none", "ops", "auto")
    }
    kernels = {level: int(row[1]) for level, row in rows.items()}
    assert kernels["auto"] < kernels["ops"] < kernels["none"]
    for level in ("ops", "auto"):
        difference = float(re.search(r"\d\.\de[+-]\d\d", rows[level][0])[0])
        assert difference < 1e-4
