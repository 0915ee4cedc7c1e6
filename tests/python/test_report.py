"""The page of a report, from the command line and from Python; `--trace` on the command line."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import opweld as package
import pytest

from bench.opweld_command import opweld, opweld_path

GRAPH = """graph small(%x: f32[batch, s]) {
  %y = exp(%x) @"</script><!--"
  %r = reshape(%y) {shape = <batch, s>}
  %z = softmax(%r) {axis = -1}
  return %z as "z"
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.graph"
    path.write_text(GRAPH)
    return path


def document_of(page: Path) -> dict:
    """What the page holds, as a browser would find it."""
    text = page.read_text(encoding="utf-8")
    start = '<script type="application/json" id="report">'
    assert text.count(start) == 1
    return json.loads(text.split(start)[1].split("</script>")[0])


def test_the_page_is_one_file_with_the_document_in_it(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = opweld("report", model, "-o", page, "--dim", "s=24", "--repeats=2")
    assert said.startswith(f"{page}: ")
    document = document_of(page)
    assert document["model"] == "small.graph"
    assert document["sizes"] == {"batch": 1, "s": 24}
    assert document["repeats"] == 2
    assert all(kernel["seconds"] > 0 for kernel in document["kernels"])
    assert [level["level"] for level in document["levels"]] == ["none", "ops", "auto"]
    assert all(level["seconds"] > 0 for level in document["levels"])
    text = page.read_text(encoding="utf-8")
    # Nothing that a browser would fetch.
    assert re.findall(r"""<(?:script|link|img)[^>]*(?:src|href)=["'](?!data:)""", text) == []
    assert "Content-Security-Policy" in text


def test_its_figures_are_those_of_explain(model: Path) -> None:
    document = json.loads(opweld("report", model, "--json", "--no-measure"))
    explained = json.loads(opweld("explain", model, "--json"))
    assert document["repeats"] == 0
    assert len(document["kernels"]) == explained["totals"]["kernels"]
    for kernel, other in zip(document["kernels"], explained["kernels"], strict=True):
        assert "seconds" not in kernel
        assert kernel["label"] == other["operators"]
        for figure in ("read_bytes", "written_bytes"):
            assert kernel[figure] == other[figure]
    edges = [edge for edge in document["after"]["edges"] if edge["verdict"] != "edge"]
    assert len(edges) == len(explained["edges"])
    assert [edge["verdict"] for edge in edges] == [edge["verdict"] for edge in explained["edges"]]


def test_a_page_that_cannot_be_written_is_an_error(model: Path, tmp_path: Path) -> None:
    command = [opweld_path(), "report", model, "--no-measure", "-o", tmp_path / "no" / "page.html"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "cannot write" in done.stderr
    assert "page.html" in done.stderr


def test_a_single_launch_is_refused(model: Path) -> None:
    command = [str(opweld_path()), "report", str(model), "--single-launch"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--single-launch" in done.stderr


def test_a_program_writes_the_page_of_its_model(model: Path, tmp_path: Path) -> None:
    program = package.compile(model, fusion="ops")
    page = program.report(tmp_path / "page.html", s=24, repeats=2)
    assert page == tmp_path / "page.html"
    document = document_of(page)
    assert document["model"] == "small.graph"
    assert document["sizes"] == {"batch": 1, "s": 24}
    assert document["repeats"] == 2
    # Of the level that the program has, beside those that it is compared with.
    kernels = program.explain(batch=1, s=24).kernels
    assert [kernel["label"] for kernel in document["kernels"]] == [
        kernel["operators"] for kernel in kernels
    ]
    assert [level["level"] for level in document["levels"]] == ["none", "ops", "auto"]
    assert all(level["seconds"] > 0 for level in document["levels"])
    same = json.loads(
        opweld("report", model, "--json", "--no-measure", "--fusion=ops", "--dim=s=24")
    )
    assert document["after"]["edges"] == same["after"]["edges"]


def test_a_page_of_a_run_on_given_arrays(model: Path, tmp_path: Path) -> None:
    program = package.compile(package.parse(GRAPH))
    x = np.ones((3, 5), np.float32)
    document = document_of(program.report(str(tmp_path / "page.html"), inputs=[x], repeats=0))
    assert document["model"] == "small"
    assert document["sizes"] == {"batch": 3, "s": 5}
    assert all("seconds" not in kernel for kernel in document["kernels"])


def test_a_page_that_cannot_be_made_raises(tmp_path: Path) -> None:
    program = package.compile(package.parse(GRAPH))
    page = tmp_path / "page.html"
    with pytest.raises(package.UsageError, match="no free size 't'"):
        program.report(page, t=3)
    with pytest.raises(package.UsageError, match="repeats"):
        program.report(page, repeats=-1)
    with pytest.raises(package.UsageError, match="sizes are those of the inputs"):
        program.report(page, inputs=[np.ones((3, 5), np.float32)], s=5)
    with pytest.raises(package.UsageError, match="'x'"):
        program.report(page, inputs=[np.ones(3, np.float32)])
    with pytest.raises(package.Error, match="cannot write"):
        program.report(tmp_path / "no" / "page.html", repeats=0)
    assert not page.exists()


def events_of(file: Path, category: str) -> list[dict]:
    events = json.loads(file.read_text())["traceEvents"]
    return [event for event in events if event.get("cat") == category]


@pytest.mark.parametrize("verb", ["run", "bench"])
def test_a_trace_has_every_launch_and_every_kernel(verb: str, model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    for options in ([], ["--single-launch"]):
        opweld(verb, model, f"--trace={trace}", "--fusion=none", "--dim", "batch=3", *options)
        kernels = {event["args"]["kernel"] for event in events_of(trace, "kernel")}
        explained = opweld("explain", model, "--json", "--fusion=none", *options)
        expected = [kernel["name"] for kernel in json.loads(explained)["kernels"]]
        assert kernels == set(expected)
        assert len(events_of(trace, "launch")) == (1 if options else len(expected))


def test_a_trace_of_several_levels_at_once_is_refused(model: Path, tmp_path: Path) -> None:
    for option in ("--compare", "--paced"):
        command = [opweld_path(), "bench", model, option, f"--trace={tmp_path / 'trace.json'}"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        assert done.returncode == 2
        assert "--trace" in done.stderr
