"""The command under bad input: a clear refusal each time, never a crash, a hang or half a file."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.opweld_command import opweld_path

SECONDS = 60


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(opweld_path()), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=SECONDS
    )


def refused(exit_code: int, *arguments: object) -> str:
    """What a command says that must end with the exit code and one message, and print no result."""
    result = run(*arguments)
    assert result.returncode == exit_code, (arguments, result.returncode, result.stderr)
    assert result.stdout == ""
    message = result.stderr.strip()
    assert message.startswith("opweld: ")
    assert message.count("opweld: ") == 1
    return message


def info(name: str, shape: list, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def small_model() -> onnx.ModelProto:
    """A table looked up, a matmul, a norm: an operator of each kind, with weights."""
    generator = np.random.default_rng(1)

    def weight(name: str, *sizes: int) -> TensorProto:
        return numpy_helper.from_array(generator.random(sizes, dtype=np.float32), name)

    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"], name="embed"),
        helper.make_node("MatMul", ["x", "w"], ["h"], name="project"),
        helper.make_node("Add", ["h", "b"], ["s"], name="bias"),
        helper.make_node("Softmax", ["s"], ["y"], name="normalise", axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [info("ids", ["batch", "sequence"], TensorProto.INT64)],
        [info("y", ["batch", "sequence", 5])],
        [weight("table", 10, 8), weight("w", 8, 5), weight("b", 5)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    onnx.save(small_model(), path)
    return path


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    return save(tmp_path / "ids.npy", np.array([[1, 2, 3]]))


def save(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def test_a_good_run_writes_its_output(model: Path, ids: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    result = run("run", model, "--input", f"ids={ids}", "--output", output)
    assert (result.returncode, result.stderr) == (0, "")
    with np.load(output) as arrays:
        np.testing.assert_allclose(arrays["y"].sum(-1), 1, rtol=1e-5)


# ---- files that are no models ----


@pytest.mark.parametrize("verb", ["run", "info", "explain", "verify", "bench"])
@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"text, no model", b"\xff" * 999])
def test_a_file_that_is_no_model(verb: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    assert str(path) in refused(1, verb, path)


@pytest.mark.parametrize("verb", ["run", "info", "explain", "verify", "bench"])
def test_a_file_that_is_not_there(verb: str, tmp_path: Path) -> None:
    assert "nowhere.onnx" in refused(1, verb, tmp_path / "nowhere.onnx")
    assert str(tmp_path) in refused(1, verb, tmp_path)


def outcome(path: Path, output: Path) -> None:
    """Runs what may or may not be a model still: an answer, or a refusal and no output."""
    result = run("run", path, "--output", output, "--threads=1", "--dim", "sequence=3")
    assert result.returncode in (0, 1, 2), (result.returncode, result.stderr)
    assert output.exists() == (result.returncode == 0)
    assert (result.returncode == 0) == (result.stderr == "")
    assert [p.name for p in output.parent.glob("out*")] == (
        ["out.npz"] if result.returncode == 0 else []
    )
    output.unlink(missing_ok=True)


def test_every_truncation(model: Path, tmp_path: Path) -> None:
    whole = model.read_bytes()
    path = tmp_path / "cut.onnx"
    for length in range(0, len(whole), 17):
        path.write_bytes(whole[:length])
        outcome(path, tmp_path / "out.npz")


@pytest.mark.parametrize("seed", range(10))
def test_mutations_of_a_model(model: Path, tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    whole = model.read_bytes()
    path = tmp_path / "mutated.onnx"
    for _ in range(25):
        content = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            at = generator.randrange(len(content))
            match generator.randrange(4):
                case 0:
                    content[at] = generator.randrange(256)
                case 1:
                    content[at] ^= 1 << generator.randrange(8)
                case 2:
                    del content[at : at + generator.randint(1, 8)]
                case _:
                    content[at:at] = generator.randbytes(generator.randint(1, 8))
        path.write_bytes(bytes(content))
        outcome(path, tmp_path / "out.npz")


# ---- models that make no sense ----


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = small_model()
    change(model)
    return model


def cyclic(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[1] = "cast"
    model.graph.node.append(helper.make_node("Cast", ["y"], ["cast"], to=TensorProto.INT64))


def unknown(model: onnx.ModelProto) -> None:
    model.graph.node[2].op_type = "Shazam"


def wrong_type(model: onnx.ModelProto) -> None:
    bias = numpy_helper.from_array(np.zeros(5, np.int64), "b")
    model.graph.initializer[2].CopyFrom(bias)


def wrong_shape(model: onnx.ModelProto) -> None:
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.zeros((7, 5), np.float32), "w"))


def huge_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[1].dims[:] = [2**60, 5]


def overflowing_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[1].dims[:] = [2**62, 2**62]


def negative_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[1].dims[:] = [-8, -5]


def many_weights(model: onnx.ModelProto) -> None:
    model.graph.initializer.extend([model.graph.initializer[2]] * 100_000)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (cyclic, ["'embed' (Gather)", "cycle"]),
        (unknown, ["1 x Shazam", "'bias'"]),
        (wrong_type, ["'bias' (Add)"]),
        (wrong_shape, ["'project' (MatMul)", "8", "7"]),
        (huge_weight, ["'w'", str(2**60)]),
        (overflowing_weight, ["'w'", "impossible sizes"]),
        (negative_weight, ["'w'", "impossible sizes"]),
        (many_weights, ["'b' is given twice"]),
    ],
)
def test_models_that_make_no_sense(change: Callable, parts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(changed(change), path)
    message = refused(1, "run", path, "--output", tmp_path / "out.npz")
    for part in [str(path), *parts]:
        assert part in message
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("sizes", [[2**60], [2**40, 2**40], [2**62, 2**62, 4], [2**31, 2**31]])
def test_inputs_of_declared_sizes_that_no_machine_has(sizes: list[int], tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["y"], name="grow")],
        "g",
        [info("x", sizes)],
        [info("y", sizes)],
    )
    path = tmp_path / "huge.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    result = run("run", path, "--output", tmp_path / "out.npz")
    assert result.returncode in (1, 2), result.stderr
    assert result.stderr.startswith("opweld: ")
    assert not list(tmp_path.glob("out*"))


# ---- weights in files of their own ----


def external_model(folder: Path) -> Path:
    path = folder / "external.onnx"
    onnx.save_model(
        small_model(), path, save_as_external_data=True, location="weights", size_threshold=0
    )
    assert run("run", path).returncode == 0
    return path


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    """ONNX's names are; a file may hold any bytes."""
    model = tmp_path / "names.onnx"
    named = small_model().SerializeToString()
    model.write_bytes(named.replace(b"normalise", b"norm\xff\xfeise").replace(b"ids", b"i\xffs"))
    for verb in ("info", "verify", "explain", "bench"):
        command = [str(opweld_path()), verb, str(model), "--json"]
        result = subprocess.run(command, capture_output=True, timeout=SECONDS)
        assert result.returncode == 0, (verb, result.stderr)
        assert json.loads(result.stdout.decode())
    model.write_bytes(named.replace(b"Softmax", b"Soft\xffax"))
    assert "normalise" in refused(1, "run", model)


def test_weights_that_are_missing_or_cut_off(tmp_path: Path) -> None:
    path = external_model(tmp_path)
    weights = tmp_path / "weights"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    assert "weights" in refused(1, "run", path)
    weights.unlink()
    assert "weights" in refused(1, "run", path)


@pytest.mark.parametrize("place", ["../weights", "/etc/passwd", "a/../../weights"])
def test_weights_outside_the_folder_of_the_model(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path = external_model(folder)
    (tmp_path / "weights").write_bytes((folder / "weights").read_bytes())
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[1].external_data:
        if entry.key == "location":
            entry.value = place
    path.write_bytes(model.SerializeToString())
    message = refused(1, "run", path)
    assert "'w'" in message
    assert place in message


# ---- inputs and outputs of a run ----


@pytest.mark.parametrize(
    ("name", "array", "parts"),
    [
        ("tokens", np.array([[1]]), ["'tokens'", "ids"]),
        ("ids", np.array([1, 2]), ["'ids'"]),
        ("ids", np.array([[1.0]], np.float32), ["'ids'", "i64", "f32"]),
        ("ids", np.array([["a"]]), ["ids.npy"]),
    ],
)
def test_inputs_that_do_not_fit(
    name: str, array: np.ndarray, parts: list[str], model: Path, tmp_path: Path
) -> None:
    path = save(tmp_path / "ids.npy", array)
    message = refused(2, "run", model, "--input", f"{name}={path}")
    for part in parts:
        assert part in message


def test_input_files_that_cannot_be_read(model: Path, ids: Path, tmp_path: Path) -> None:
    for suffix in ("npy", "npz", "txt"):
        for content in (b"", b"garbage", ids.read_bytes()[:40]):
            path = tmp_path / f"bad.{suffix}"
            path.write_bytes(content)
            wanted = path if suffix == "npz" else f"ids={path}"
            assert path.name in refused(2, "run", model, "--input", wanted)
        assert f"none.{suffix}" in refused(
            2, "run", model, "--input", f"ids={tmp_path}/none.{suffix}"
        )
    assert "NAME=FILE" in refused(2, "run", model, "--input", "ids")


@pytest.mark.parametrize("index", [10, -11, 2**40, -(2**63)])
@pytest.mark.parametrize("fusion", ["none", "ops", "auto"])
def test_an_index_beyond_the_table(index: int, fusion: str, model: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "ids.npy", np.array([[0, index, 1]]))
    output = tmp_path / "out.npz"
    output.write_bytes(b"of an earlier run")
    message = refused(
        1, "run", model, "--input", f"ids={path}", "--output", output, f"--fusion={fusion}"
    )
    assert "embed" in message
    assert output.read_bytes() == b"of an earlier run"
    assert [p.name for p in tmp_path.glob("out*")] == ["out.npz"]


def test_an_output_that_cannot_be_written(model: Path, ids: Path, tmp_path: Path) -> None:
    for output in (tmp_path / "no" / "out.npz", tmp_path):
        message = refused(1, "run", model, "--input", f"ids={ids}", "--output", output)
        assert str(output) in message
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ids.npy", "small.onnx"]


# ---- the command line ----


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["run"],
        ["run", "{model}", "--frobnicate"],
        ["run", "{model}", "--fusion=much"],
        ["run", "{model}", "--threads=-1"],
        ["run", "{model}", "--threads=many"],
        ["run", "{model}", "--numerics=loose"],
        ["run", "{model}", "--target=abacus"],
        ["run", "{model}", "--dump-after=lunch"],
        ["run", "{model}", "--dim", "sequence"],
        ["run", "{model}", "--dim", "sequence=long"],
        ["run", "{model}", "--dim", "sequence=-3"],
        ["run", "{model}", "--dim", f"sequence={2**70}"],
        ["run", "{model}", "--dim", "width=3"],
        ["run", "{model}", "--in-place", "present=past"],
        ["run-cases", "{model}"],
    ],
)
def test_wrong_usage(arguments: list[str], model: Path) -> None:
    result = run(*(a.format(model=model) for a in arguments))
    assert result.returncode == 2, result.stderr
    assert result.stderr.strip()
    assert result.stdout == ""


@pytest.mark.parametrize("word", ["explian", "--versoin", "{model}"])
def test_a_word_that_is_no_subcommand_is_named_with_those_that_are(word: str, model: Path) -> None:
    word = word.format(model=model)
    message = refused(2, word, model)
    assert f"'{word}'" in message
    assert "run, compile, explain" in message


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run", "--dim", "sequence=3", "--dim", "sequence=4"], ["'sequence'", "3 and 4"]),
        (["bench", "--paced", "--compare"], ["--paced", "--compare"]),
        (["bench", "--output", "o.npz"], ["--output", "--paced", "opweld run"]),
        (["bench", "--cache", "--no-cache"], ["--cache", "--no-cache"]),
        (["run", "--tune", "--no-tuned"], ["--tune", "--no-tuned"]),
    ],
)
def test_arguments_that_contradict_each_other(
    arguments: list[str], parts: list[str], model: Path
) -> None:
    message = refused(2, *arguments, model)
    assert all(part in message for part in parts), message


def test_the_same_size_twice_is_no_contradiction(model: Path) -> None:
    result = run("run", model, *("--dim", "sequence=3") * 2)
    assert (result.returncode, result.stderr) == (0, "")


def test_tune_seconds_are_those_of_tune(model: Path) -> None:
    result = run("run", model, "--tune-seconds", "1")
    assert result.returncode == 2
    assert "--tune" in result.stderr
    assert result.stdout == ""


def test_info_says_where_to_go_with_a_textual_graph(tmp_path: Path) -> None:
    model = tmp_path / "step.graph"
    model.write_text(CACHE)
    message = refused(2, "info", model)
    assert str(model) in message
    assert "opweld explain" in message


CACHE = """graph step(%x: f32[b, 2, 4, 8], %past: f32[b, 2, 64, 8], %"a=b": f32[b, 2, 64, 8]) {
  %present = tensor_scatter(%past, %x) {axis = 2, mode = "linear"}
  %other = tensor_scatter(%"a=b", %x) {axis = 2, mode = "linear"}
  return %present as "present", %other as "c=d"
}
"""
WRITE = "write OUTPUT=INPUT, such as present_key=past_key"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["="], WRITE),
        (["present"], WRITE),
        (["present="], WRITE),
        (["=past"], WRITE),
        (["future=past"], "no output 'future'; its outputs are present, c=d"),
        (["present=future"], "no input 'future'; its inputs are x, past, a=b"),
        (["past=present"], "the output comes first: present=past"),
        (["present=past", "present=a=b"], "lies in place of input 'past' already"),
        (["present=x"], "they must be of one type"),
        (["present=a=b"], "does not write rows into that input"),
    ],
)
def test_in_place_says_how_it_is_written(values: list[str], message: str, tmp_path: Path) -> None:
    model = tmp_path / "step.graph"
    model.write_text(CACHE)
    result = run("run", model, *(f"--in-place={value}" for value in values))
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_in_place_takes_names_with_an_equals_sign(tmp_path: Path) -> None:
    model = tmp_path / "step.graph"
    model.write_text(CACHE)
    result = run("run", model, "--in-place=c=d=a=b", "--in-place", "present=past")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("size", [2**40, 2**62])
def test_a_size_that_no_memory_holds(size: int, model: Path) -> None:
    result = run("run", model, "--dim", f"sequence={size}")
    assert result.returncode in (1, 2)
    assert result.stderr.startswith("opweld: ")
    assert f"sequence = {size}" in result.stderr


# Each size for itself is fine.
SPREAD = """graph spread(%x: f32[a, b, c]) {
  %y = exp(%x) @"/exp"
  %z = reduce_sum(%y) {axes = [0, 1, 2]} @"/sum"
  return %z as "z"
}
"""


@pytest.mark.parametrize("verb", ["run", "verify", "bench"])
@pytest.mark.parametrize(
    ("size", "code", "message"),
    [
        (2**18, 1, "out of memory: the elements of an input need "),
        (2**20, 2, "too large to address: "),
        (2**22, 2, "too large to address: "),
    ],
)
def test_a_tensor_that_no_memory_holds(
    verb: str, size: int, code: int, message: str, tmp_path: Path
) -> None:
    model = tmp_path / "spread.graph"
    model.write_text(SPREAD)
    result = run(verb, model, *(f"--dim={name}={size}" for name in "abc"))
    assert result.returncode == code
    # Which tensor, of which type, and the way out.
    assert message in result.stderr
    assert f"f32[{size}, {size}, {size}], input 'x'" in result.stderr
    assert f"Smaller sizes need less (a = {size}, b = {size}, c = {size})" in result.stderr


def test_an_account_that_cannot_be_given_names_the_tensor(tmp_path: Path) -> None:
    model = tmp_path / "spread.graph"
    model.write_text(SPREAD)
    result = run("explain", model, *(f"--dim={name}={2**22}" for name in "abc"))
    assert result.returncode == 2
    assert "too large to address: f32[4194304, 4194304, 4194304]" in result.stderr


@pytest.mark.parametrize(
    "verb", ["run", "explain", "verify", "bench", "diff", "doctor", "info", "operators"]
)
def test_help_says_what_each_option_is_for(verb: str) -> None:
    result = run(verb, "--help")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    options = [i for i, line in enumerate(lines) if line.startswith("  -")]
    assert options
    for i in options:
        # The text stands behind the option, or on the next line where the option is long.
        text = re.split(r"\s{2,}", lines[i].strip(), maxsplit=1)[1:] or [lines[i + 1]]
        assert len(text[0].split()) > 2, lines[i]


@pytest.mark.parametrize(
    ("verb", "keys"),
    [
        ("info", {"inputs", "outputs", "operators", "unsupported", "opset"}),
        ("explain", {"kernels"}),
        ("verify", {"outputs", "equal"}),
    ],
)
def test_json_is_one_value_on_standard_output(verb: str, keys: set[str], model: Path) -> None:
    first, second = (run(verb, model, "--json") for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert keys <= set(json.loads(first.stdout))
    assert list(json.loads(first.stdout)) == list(json.loads(second.stdout))


def test_a_single_launch_is_told_beside_its_kernels(model: Path, ids: Path) -> None:
    given = ("--input", f"ids={ids}", "--fusion=none", "--repeats", "2", "--json")
    lines = run("bench", model, *given, "--single-launch", "--compare").stdout.splitlines()
    told = [json.loads(line) for line in lines]
    assert [(each["fusion"], each["single_launch"]) for each in told] == [
        (level, launch) for level in ("none", "ops", "auto") for launch in (False, True)
    ]
    for each in told:
        assert each["launches"] == (1 if each["single_launch"] else each["kernels"])
        assert each["median_seconds"] > 0
    account = json.loads(run("explain", model, "--single-launch", "--fusion=none", "--json").stdout)
    assert account["totals"]["kernels"] == told[0]["kernels"]
    assert account["totals"]["launches"] == 1
    stretches = [kernel["stretch"] for kernel in account["kernels"]]
    assert max(stretches) == account["totals"]["barriers"]
    text = run("explain", model, "--single-launch", "--fusion=none").stdout
    assert f"1 launch, {max(stretches)} barriers inside" in text
    apart = run("explain", model, "--fusion=none").stdout
    assert f"{len(stretches)} launches, 0 barriers inside" in apart


def test_a_single_launch_gives_the_same_outputs(model: Path, ids: Path, tmp_path: Path) -> None:
    results = []
    for index, flags in enumerate([(), ("--single-launch",)]):
        output = tmp_path / f"{index}.npz"
        run("run", model, "--input", f"ids={ids}", "--output", output, *flags)
        with np.load(output) as arrays:
            results.append(arrays["y"])
    assert np.array_equal(*results)
