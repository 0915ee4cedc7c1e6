"""The demo, as a new user sees it."""

import re
import subprocess
import sys

from bench.models.cache import ROOT


def test_the_demo_shows_meaning_agreement_and_saving() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "demo.demo", "--quick"], cwd=ROOT, capture_output=True, text=True
    )
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
