"""Plans for hardware that is not here: told as such, counted like any other, and never run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bench.models.bert_layer import write_layer
from bench.models.encoder import Config as BertConfig
from bench.models.llama_layer import Variant, write_models
from bench.models.llama_spelling import Config
from bench.opweld_command import FUSION_LEVELS, opweld_path

PLANNED = {"ascend-910b": "Huawei Ascend 910B3", "cuda-sm90": "NVIDIA H100 SXM5"}
LLAMA = Config(hidden=64, heads=4, kv_heads=2, mlp=96, layers=2, positions=512, dtype="float16")
NAMES = ("primitives", "newest", "bert")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    spellings = ("primitives", "newest")
    llama = write_models(folder, LLAMA, [Variant(spelling, "prefill") for spelling in spellings])
    (folder / "bert").mkdir()
    write_layer(folder / "bert", BertConfig(48, 4, 1, 64, 1e-12))
    return dict(zip(spellings, llama, strict=True)) | {"bert": folder / "bert" / "model.onnx"}


def opweld(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(opweld_path()), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def account(model: Path, target: str, *options: str) -> dict:
    given = ("--dim=sequence=256", f"--target={target}", "--json", *options)
    done = opweld("explain", model, *given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("target", PLANNED)
@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_told_as_one(models: dict[str, Path], name: str, target: str) -> None:
    told = account(models[name], target)
    assert next(iter(told)) == "target"
    assert told["target"]["name"] == target
    assert told["target"]["here"] is False
    note = (
        f"A plan for {target} ({PLANNED[target]}), which is not here: nothing was compiled or run"
    )
    assert told["target"]["note"].startswith(note)
    text = opweld("explain", models[name], "--dim=sequence=256", f"--target={target}")
    assert text.stdout.splitlines()[0].startswith(note)
    here = account(models[name], "host")
    assert here["target"]["here"] is True
    assert "note" not in here["target"]


@pytest.mark.parametrize("target", PLANNED)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_counted(models: dict[str, Path], name: str, target: str) -> None:
    kernels, moved = {}, {}
    for level in FUSION_LEVELS:
        told = account(models[name], target, f"--fusion={level}")
        totals, predicted = told["totals"], told["predicted"]
        kernels[level] = totals["kernels"]
        moved[level] = totals["read_bytes"] + totals["written_bytes"]
        assert len(told["kernels"]) == len(predicted["kernels"]) == kernels[level]
        assert predicted["streamed_bytes"] == sum(
            each["streamed_bytes"] for each in predicted["kernels"]
        )
        assert all(each["predicted_seconds"] > 0 for each in predicted["kernels"])
    assert kernels["auto"] < kernels["ops"] <= kernels["none"]
    assert moved["auto"] < moved["ops"] <= moved["none"]
    # Without fusion it does not matter which hardware is planned for.
    unfused = account(models[name], "host", "--fusion=none")["totals"]
    assert kernels["none"] == unfused["kernels"]
    assert moved["none"] == unfused["read_bytes"] + unfused["written_bytes"]


@pytest.mark.parametrize("target", PLANNED)
@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("verify",),
        ("bench", "--repeats", "1"),
        ("report", "--json"),
        ("explain", "--measure"),
        ("explain", "--single-launch"),
        ("explain", "--dump-after=codegen"),
    ],
    ids=" ".join,
)
def test_nothing_is_run(models: dict[str, Path], command: tuple[str, ...], target: str) -> None:
    verb, *options = command
    done = opweld(verb, models["bert"], f"--target={target}", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"target '{target}' is hardware that is not here" in done.stderr
    assert "opweld explain plans and counts for it" in done.stderr


def test_help_lists_them() -> None:
    done = opweld("explain", "--help")
    words = done.stdout.replace(",", " ").split()
    assert {"host", "host-avx2", *PLANNED} <= set(words)
