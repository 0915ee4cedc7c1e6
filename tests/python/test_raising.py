"""Two spellings of the same layer become the same kernels."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bench.models.llama_layer import Variant, write_models
from bench.models.llama_spelling import Config
from bench.opweld_command import explain_model, opweld_path

# Query heads share key and value heads two by two.
GROUPED = Config(hidden=64, heads=4, kv_heads=2, mlp=96, layers=1, positions=32)


def operators_left(model: Path) -> Counter[str]:
    """The operators after all rewrites, with what they are and how, but for their names."""
    command = [str(opweld_path()), "run", str(model), "--dim", "sequence=3", "--dump-after=sweep"]
    graph = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    statement = r": (\w+\[.*?\]) = (\w+)\(.*?\)( \{.*?\})?(?= @|$)"
    statements = re.findall(statement, graph, re.MULTILINE)
    found = Counter(
        f"{operator} {result}{attributes}"
        for result, operator, attributes in statements
        if operator != "constant"
    )
    # 1 / sqrt(head) is a number of f32 in one spelling, of f64 in the other.
    return Counter({re.sub(r"(0\.\d{6})\d+", r"\1", text): n for text, n in found.items()})


@pytest.mark.parametrize("phase", ["whole", "prefill", "decode"])
def test_primitives_become_the_operators_of_the_newest_spelling(tmp_path: Path, phase: str) -> None:
    variants = [Variant("primitives", phase), Variant("newest", phase)]
    primitives, newest = write_models(tmp_path, GROUPED, variants)
    left = operators_left(primitives)
    assert left == operators_left(newest)
    raised = Counter(text.split()[0] for text in left.elements())
    assert raised["rms_norm"] == 2
    assert raised["rope"] == 2
    assert raised["attention"] == raised["silu"] == 1
    assert raised["softmax"] == raised["sigmoid"] == raised["reduce_mean"] == 0


@pytest.mark.parametrize("spelling", ["primitives", "newest"])
@pytest.mark.parametrize("phase", ["whole", "prefill", "decode"])
def test_projections_and_gates_are_merged(tmp_path: Path, spelling: str, phase: str) -> None:
    (model,) = write_models(tmp_path, GROUPED, [Variant(spelling, phase)])
    labels = [
        kernel["operators"]
        for kernel in explain_model(model, "--dim", "sequence=2")["kernels"]
        if kernel["kind"] in ("contract", "chain")
    ]
    # Q, K and V, behind their norm, turned and split into heads where they are made, be V an output
    # of the model (prefill) or not; beside them the output projection, and gate, up and down.
    merged = "RMSNormalization + MatMul + MatMul + MatMul + "
    (projections,) = [label for label in labels if label.startswith(merged)]
    assert projections.count("RotaryEmbedding") == 2
    assert len(labels) == 4
    # The norm before these is with them, or with the projection that makes its rows.
    assert sum(label.endswith("MatMul + MatMul + Swish + Mul") for label in labels) == 1
    assert sum(label.count("RMSNormalization") for label in labels) == 2


def test_unfused_and_strict_runs_keep_the_primitives(tmp_path: Path) -> None:
    (model,) = write_models(tmp_path, GROUPED, [Variant("primitives", "whole")])
    for choice in ("--fusion=none", "--numerics=strict"):
        text = json.dumps(explain_model(model, choice))
        assert "RMSNormalization" not in text
        assert "Softmax" in text
