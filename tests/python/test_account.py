"""The account by way of the command line: why, what is required, what changed, and its lines."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.models.bert_layer import write_layer
from bench.models.encoder import Config as BertConfig
from bench.models.encoder import ensure_encoder
from bench.models.llama_layer import Variant, write_models
from bench.models.llama_spelling import Config
from bench.models.moe_layer import Mixture, moe_models
from bench.opweld_command import FUSION_LEVELS, explain_model, opweld_path

LLAMA = Config(hidden=64, heads=4, kv_heads=2, mlp=96, layers=3, positions=32)

GRAPH = """graph small(%x: f32[batch, 16]) {
  %w = constant {value = f32[16, 16] random 1}
  %m = matmul(%x, %w) @"/mlp/MatMul" op "MatMul" scope "layers.0"
  %g = gelu(%m) @"/mlp/Gelu" op "Gelu" scope "layers.0"
  %v, %i = top_k(%g) {axis = 1, k = <8>, largest = 0, sorted = 1} @"/TopK" op "TopK"
  return %v as "v"
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "small.graph"
    path.write_text(GRAPH)
    return path


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OPWELD_LOG")}
    return subprocess.run(
        [str(opweld_path()), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=clean | environment,
        timeout=120,
    )


def told(*arguments: object, code: int = 0) -> str:
    """What a command prints that ends with the exit code: on standard error if it fails."""
    done = run(*arguments)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    if code == 0:
        return done.stdout
    assert done.stderr.startswith("opweld: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


# ---- a verdict on every edge ----


def real_models(folder: Path) -> dict[str, Path]:
    llama = write_models(
        folder,
        LLAMA,
        [Variant(spelling, "decode") for spelling in ("primitives", "newest")],
    )
    bert = folder / "bert"
    bert.mkdir()
    write_layer(bert, BertConfig(48, 4, 1, 64, 1e-12))
    experts = moe_models(Mixture(width=16, inner=24, experts=3))
    return {
        "encoder": ensure_encoder().model,
        "llama-primitives": llama[0],
        "llama-newest": llama[1],
        "bert": bert / "model.onnx",
        "moe-fused": experts["fused"],
        "moe-dense": experts["dense"],
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return real_models(tmp_path_factory.mktemp("models"))


NAMES = ("encoder", "llama-primitives", "llama-newest", "bert", "moe-fused", "moe-dense")


def edges_as_planned(model: Path, level: str) -> int:
    """Operands that another operator computes, counted in the text of the graph that is planned."""
    done = run("explain", model, f"--fusion={level}", "--dump-after=in-place", "--json")
    assert done.returncode == 0, done.stderr
    operators: dict[str, str] = {}
    edges = 0
    value = r'%(?:"(?:[^"\\]|\\.)*"|[\w.]+)'
    for line in done.stderr.splitlines():
        statement = re.match(rf"  ((?:{value}(?:: [^=]*?)?(?:, )?)+) = (\w+)(\(?)(.*)", line)
        if statement is None:
            continue
        results, operator, reads, rest = statement.groups()
        for result in re.findall(value, results):
            operators[result] = operator
        if not reads:
            continue
        # Operands end at the first parenthesis outside of quotes.
        operands = re.match(rf"((?:{value}|_|, )*)\)", rest)
        assert operands is not None, line
        read = re.findall(value, operands[1])
        edges += sum(operators.get(name, "constant") != "constant" for name in read)
    return edges


@pytest.mark.parametrize("level", FUSION_LEVELS)
@pytest.mark.parametrize("name", NAMES)
def test_every_edge_has_one_verdict(
    name: str, level: str, models: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "account.json"
    assert told("explain", models[name], f"--fusion={level}", f"--explain={path}") == ""
    account = json.loads(path.read_text())
    assert len(account["edges"]) == edges_as_planned(models[name], level) > 0
    nodes = onnx.load(models[name], load_external_data=False).graph.node
    names = {node.name for node in nodes}

    def are_names(sources: list[str]) -> bool:
        """Whether they are of the model; what has no name there has one of ours."""
        unknown = [each for each in sources if each not in names]
        return all("" in names and re.fullmatch(r"\w+_\d+", each) for each in unknown)

    for edge in account["edges"]:
        assert set(edge) == {
            *("from", "to", "from_sources", "to_sources", "verdict", "code", "rule", "detail"),
            *("remedy", "bytes_saved", "flops_added", "kernel"),
        }
        assert edge["verdict"] in ("fused", "kept")
        assert (edge["code"] == "") == (edge["verdict"] == "fused")
        assert are_names(edge["from_sources"] + edge["to_sources"])
    for kernel in account["kernels"]:
        assert are_names(kernel["sources"])
        assert max(Counter(kernel["sources"]).values()) == 1


def test_operators_that_became_one_are_all_named(models: dict[str, Path]) -> None:
    account = explain_model(models["llama-primitives"])
    (kernel, *_) = [k for k in account["kernels"] if "RMSNormalization" in k["operators"]]
    norm = [name for name in kernel["sources"] if "norm" in name]
    assert len(norm) > 3


# ---- the table of layers ----


def test_equal_layers_are_shown_once(models: dict[str, Path]) -> None:
    text = told("explain", models["encoder"])
    for level, layers in {"none": "(6 equal)", "ops": "equal)", "auto": "equal)"}.items():
        rows = [line for line in text.splitlines() if re.search(rf" {level} +\d+ ", line)]
        assert any(layers in row for row in rows), rows
        assert sum("encoder/layer." in row for row in rows) <= 3


def unnamed(path: Path, folder: Path) -> Path:
    """The same model without the names of its nodes."""
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = ""
    stripped = folder / "unnamed.onnx"
    onnx.save(model, stripped)
    return stripped


def test_layers_are_found_without_names(models: dict[str, Path], tmp_path: Path) -> None:
    named = explain_model(models["encoder"], "--fusion=none")
    model = unnamed(models["encoder"], tmp_path)
    found = explain_model(model, "--fusion=none")
    assert named["totals"] == found["totals"]
    (layers,) = [each for each in found["equal_layers"] if each["count"] > 1]
    (expected,) = [each for each in named["equal_layers"] if each["count"] > 1]
    assert layers["first"] == "block 0"
    assert layers["last"] == "block 5"
    assert layers["kernels"] == expected["kernels"]
    # Operators without a name are known by the tensors that they make.
    tensor = onnx.load(model, load_external_data=False).graph.node[-1].output[0]
    assert "What happened:" in told("explain", model, "--why", tensor)


# ---- why ----


def test_why_answers_in_three_sentences(graph: Path) -> None:
    lines = told("explain", graph, "--why", "/mlp/MatMul", "/mlp/Gelu").splitlines()
    assert [line.split(":")[0] for line in lines] == ["What happened", "The rule", "What to change"]
    assert "share FusedKernel_0" in lines[0]
    (happened, rule, _) = told("explain", "--why", "/TopK", graph).splitlines()
    assert "Kernel_1" in happened
    assert "F-OPAQUE" in rule
    answer = json.loads(told("explain", graph, "--json", "--why", "/mlp/G", "/TopK"))
    assert set(answer) == {"happened", "rule", "change", "code"}
    assert answer["code"] == "F-OPAQUE"


def test_why_suggests_names(graph: Path) -> None:
    assert "did you mean '/mlp/Gelu'?" in told("explain", graph, "--why", "/mlp/Gleu", code=2)
    assert "'/mlp/Gelu', '/mlp/MatMul'" in told("explain", graph, "--why", "/mlp/", code=2)


def test_why_knows_every_kind_of_operator_of_a_real_model(models: dict[str, Path]) -> None:
    model = onnx.load(models["bert"], load_external_data=False).graph
    for node in {node.op_type: node for node in model.node}.values():
        if node.op_type in ("Constant", "Shape", "Identity"):
            continue  # the importer needs no operator for them
        done = run("explain", models["bert"], "--why", node.name)
        assert done.returncode == 0, (node.name, node.op_type, done.stderr)
        assert len(done.stdout.splitlines()) == 3


# ---- require ----


@pytest.mark.parametrize("verb", ["run", "explain", "verify", "bench"])
def test_a_fusion_that_is_required(verb: str, graph: Path) -> None:
    repeats = ("--repeats=1",) if verb == "bench" else ()
    told(verb, graph, *repeats, "--require", "MatMul + Gelu", "--require=/mlp/Gelu + /mlp/MatMul")
    message = told(verb, graph, *repeats, "--require", "MatMul + Gelu + TopK", code=1)
    assert "'MatMul + Gelu + TopK' is not met" in message
    assert "'/mlp/Gelu' and '/TopK' are kept apart by F-OPAQUE" in message
    assert "F-LEVEL" in told(verb, graph, "--fusion=none", "--require=MatMul + Gelu", code=1)
    assert "MatMul + Add + Gelu" in told(verb, graph, "--require= + ", code=2)
    assert "--require" in told(verb, "--help")


def test_required_of_the_level_that_was_asked_for(graph: Path) -> None:
    told("bench", graph, "--compare", "--repeats=1", "--require", "MatMul + Gelu")


def test_a_real_model_keeps_its_fusions(models: dict[str, Path]) -> None:
    told(
        *("explain", models["encoder"], "--json"),
        *("--require", "6 x MatMul + Add + Gelu", "--require", "6 x Attention"),
    )
    message = told("explain", models["encoder"], "--require", "7 x Attention", code=1)
    assert "6 of 7 kernels have it" in message


# ---- diff ----


@pytest.fixture
def accounts(graph: Path, tmp_path: Path) -> tuple[Path, Path]:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    told("explain", graph, f"--explain={before}", "--fusion=none")
    told("explain", graph, f"--explain={after}")
    return before, after


def test_diff_is_like_diff(accounts: tuple[Path, Path]) -> None:
    before, after = accounts
    assert "are equal: 2 kernels, 2 edges" in told("diff", after, after)
    assert json.loads(told("diff", after, after, "--json"))["equal"]
    done = run("diff", before, after)
    assert done.returncode == 1
    assert done.stderr.startswith("opweld: the plans differ in ")
    lines = done.stdout.splitlines()
    assert "fusion: none -> auto" in lines
    assert "kernels: 3 -> 2" in lines
    assert any(line.startswith("  - map Gelu [layers.0], ") for line in lines)
    assert any(line.endswith(": '/mlp/Gelu', '/mlp/MatMul'") for line in lines if "  + " in line)
    assert "  /mlp/MatMul | /mlp/Gelu: kept by F-LEVEL -> fused" in lines
    told_json = json.loads(run("diff", before, after, "--json").stdout)
    assert not told_json["equal"]
    assert [len(told_json[key]) for key in ("kernels", "verdicts")] == [1, 2]


def test_diff_of_what_it_cannot_read(accounts: tuple[Path, Path], tmp_path: Path) -> None:
    assert "nowhere.json" in told("diff", accounts[0], tmp_path / "nowhere.json", code=2)
    broken = tmp_path / "broken.json"
    for text in ("", "{", "{}", "[1]", "null"):
        broken.write_text(text)
        assert "broken.json" in told("diff", broken, accounts[1], code=2)
    assert str(tmp_path) in told("diff", tmp_path, accounts[1], code=2)


def test_diff_of_two_sizes_and_two_spellings(models: dict[str, Path], tmp_path: Path) -> None:
    paths = []
    for name, batch in (("primitives", 1), ("primitives", 2), ("newest", 1)):
        paths.append(tmp_path / f"{name}-{batch}.json")
        told(
            *("explain", models[f"llama-{name}"], f"--explain={paths[-1]}"),
            *("--dim", f"batch={batch}"),
        )
    assert "size batch: 1 -> 2\n" in run("diff", paths[0], paths[1]).stdout
    assert run("diff", paths[0], paths[2]).returncode == 1


# ---- lines ----


def test_debug_has_a_line_for_every_edge(graph: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = run("run", graph, OPWELD_LOG_LEVEL="0", OPWELD_LOG_FILE=str(log))
    assert (done.returncode, done.stderr) == (0, "")
    lines = log.read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == ["AutoFusion"] * 4
    assert lines[2] == "AutoFusion: fuse /mlp/MatMul | /mlp/Gelu -> FusedKernel_0 saves 128 B"
    assert lines[3].startswith(
        "AutoFusion: keep /mlp/Gelu | /TopK: opaque (/TopK is run by a call) [F-OPAQUE] hint: "
    )
    shown = told("explain", graph, "--all-edges", "--dim", "batch=1").splitlines()
    assert set(lines[1:]) <= set(shown)


def test_a_model_in_which_nothing_is_fused_says_so(graph: Path) -> None:
    done = run("run", graph, "--fusion=none", OPWELD_LOG_LEVEL="1")
    assert done.stderr.splitlines()[1:] == [
        "AutoFusion: no kernel fuses operators; kept apart: 2 F-LEVEL"
    ]


# ---- hostile names ----


def test_names_may_be_anything(tmp_path: Path) -> None:
    names = ['a "quoted" + name', "</script>", "\x1b[31m", "{}", "{0}", "%s", " "]
    nodes = []
    for i, name in enumerate(names):
        nodes.append(helper.make_node("Exp", [f"t{i}"], [f"t{i + 1}"], name=name))
    model = helper.make_graph(
        nodes,
        "{}",
        [helper.make_tensor_value_info("t0", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info(f"t{len(names)}", TensorProto.FLOAT, ["n"])],
        [numpy_helper.from_array(np.zeros(1, np.float32), "unused")],
    )
    path = tmp_path / "names.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(model, opset_imports=opsets, ir_version=8), path)
    account = explain_model(path)
    assert account["kernels"][0]["sources"] == names
    for name in names[:-1]:
        assert f"'{name}'" in told("explain", path, "--why", name)
    assert "fuse" in run("run", path, OPWELD_LOG_LEVEL="0").stderr
