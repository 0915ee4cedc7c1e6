"""Models that are compiled into a file, and run from it: by the command, and by a program in C."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import opweld
import pytest

from bench.models.cache import BUILD
from bench.opweld_command import opweld_path
from tests.python.own_cache import OwnCache

EXAMPLE = BUILD / "release" / "examples" / "run_compiled"
PLUGIN = BUILD / "release" / "examples" / "libexample_ops.so"
MODEL = """graph g(%x: f32[rows, 24]) {
  %w = constant {value = f32[24, 100] random 1}
  %v = constant {value = f32[100, 24] random 2}
  %m = matmul(%x, %w) @"/up" op "MatMul"
  %a = gelu(%m) @"/act" op "Gelu"
  %d = matmul(%a, %v) @"/down" op "MatMul"
  %t = reshape(%d) {shape = <rows, 24>} @"/twice" op "Reshape"
  %y = add(%t, %x) @"/add" op "Add"
  %s = softmax(%y) {axis = -1} @"/softmax" op "Softmax"
  return %s as "y"
}"""


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    """One call of a program, with whatever becomes of it."""
    command = [str(argument) for argument in arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def done(*arguments: object) -> str:
    """What the command prints that must succeed."""
    result = call(opweld_path(), *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(exit_code: int, *arguments: object) -> str:
    """The one message of a command that must fail, and print no result."""
    result = call(opweld_path(), *arguments)
    assert result.returncode == exit_code, (arguments, result.stderr)
    assert result.stdout == ""
    assert result.stderr.count("opweld: ") == 1
    return result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and what it was compiled to."""
    folder = tmp_path_factory.mktemp("aot")
    (folder / "model.graph").write_text(MODEL)
    done("compile", folder / "model.graph", "-o", folder / "model.opw", "--no-cache")
    return folder


def results(model: Path, out: Path, *options: object) -> bytes:
    done("run", model, "--output", out, *options)
    with np.load(out) as outputs:
        return outputs["y"].tobytes()


@pytest.mark.parametrize("rows", [1, 7, 16, 33, 300])
def test_one_file_gives_the_bits_of_every_length(folder: Path, tmp_path: Path, rows: int) -> None:
    dims = ("--dim", f"rows={rows}")
    expected = results(folder / "model.graph", tmp_path / "a.npz", *dims)
    assert results(folder / "model.opw", tmp_path / "b.npz", *dims) == expected
    options = (*dims, "--single-launch", "--threads", 1)
    assert results(folder / "model.opw", tmp_path / "c.npz", *options) == expected
    inputs = np.random.default_rng(rows).random((rows, 24), dtype=np.float32)
    np.savez(tmp_path / "in.npz", x=inputs)
    given = ("--input", tmp_path / "in.npz")
    expected = results(folder / "model.graph", tmp_path / "d.npz", *given)
    assert results(folder / "model.opw", tmp_path / "e.npz", *given) == expected


def test_kept_code_makes_the_same_file(folder: Path, tmp_path: Path) -> None:
    """Objects that come out of the compile cache are linked like new ones."""
    tool = OwnCache(tmp_path, "OPWELD_COMPILED")
    for name in ("first.opw", "second.opw"):
        command = [opweld_path(), "compile", folder / "model.graph", "-o", tmp_path / name]
        subprocess.run(command, env=tool.environment, check=True, capture_output=True)
    assert list((tool.cache / "compiled").rglob("*"))
    assert (tmp_path / "first.opw").read_bytes() == (tmp_path / "second.opw").read_bytes()
    assert (tmp_path / "first.opw").read_bytes() == (folder / "model.opw").read_bytes()


def test_what_was_written_is_told(folder: Path, tmp_path: Path) -> None:
    text = done("compile", folder / "model.graph", "-o", tmp_path / "m.opw")
    assert "weights" in text
    assert f"opweld run {tmp_path / 'm.opw'} runs it" in text
    told = json.loads(
        done(
            "compile", folder / "model.graph", "-o", tmp_path / "m.opw", "--json",
            "--target", "host-generic", "--fusion", "none",
        )
    )  # fmt: skip
    assert told["bytes"] == (tmp_path / "m.opw").stat().st_size
    assert told["weight_bytes"] >= 2 * 24 * 100 * 4
    assert told["kernels"] == 5
    assert told["target"] == "host-generic"
    assert told["fusion"] == "none"
    assert "sse2" in told["features"]
    assert "avx" not in told["features"]


# What explain tells of a plan, wherever it has it from.
TOLD = (
    "level", "sizes", "conditions", "versions", "search", "kernels", "edges", "recomputed",
    "layers", "equal_layers", "totals", "log", "tuning",
)  # fmt: skip


def test_explain_tells_what_it_told_of_the_model(folder: Path, tmp_path: Path) -> None:
    """At the sizes that compiling was given, and at any others."""
    dims = ("--dim", "rows=40")
    file = tmp_path / "m.opw"
    done("compile", folder / "model.graph", "-o", file, *dims)
    for asked, same in (((), dims), (dims, dims), (("--dim", "rows=700"),) * 2):
        told = json.loads(done("explain", file, "--json", *asked))
        fresh = json.loads(done("explain", folder / "model.graph", "--json", *same))
        assert told["edges"]
        for key in TOLD:
            assert told[key] == fresh[key], key
        assert (told["model"], told["target"]["name"]) == ("model.graph", "host")
    stored = json.loads(done("explain", file, "--json"))
    text = done("explain", file)
    assert "rows = 40" in text
    for kernel in stored["kernels"]:
        assert kernel["name"] in text
        assert kernel["operators"] in text
    done("explain", file, "--explain", tmp_path / "account.json")
    assert json.loads((tmp_path / "account.json").read_text()) == stored
    together = json.loads(done("explain", file, "--json", "--single-launch"))
    assert together["totals"]["launches"] == 1
    done("compile", folder / "model.graph", "-o", file, "--no-account")
    assert "--no-account" in refused(1, "explain", file)


def test_questions_are_answered_of_a_file(folder: Path) -> None:
    """As they are of the model: about operators that are gone as well, and about edges."""
    file, model = folder / "model.opw", folder / "model.graph"
    for question in (
        ("--why", "/add"), ("--why", "/up", "/act"), ("--why", "/up", "/softmax"),
        ("--why", "/add", "--json"), ("--why", "/twice"),
    ):  # fmt: skip
        assert done("explain", file, *question) == done("explain", model, *question), question
    assert "did you mean" in refused(2, "explain", file, "--why", "/ad d")
    edges = [line for line in done("explain", model, "--all-edges").splitlines() if " | " in line]
    assert len(edges) > 3
    assert set(edges) <= set(done("explain", file, "--all-edges").splitlines())
    for command in ("explain", "run", "bench"):
        done(command, file, "--require", "MatMul + Gelu")
        assert "Softmax + Gelu" in refused(1, command, file, "--require", "Softmax + Gelu")


def test_diff_takes_files(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "none.opw"
    done("compile", folder / "model.graph", "-o", file, "--fusion", "none")
    assert "are equal" in done("diff", folder / "model.opw", folder / "model.opw")
    account = tmp_path / "account.json"
    done("explain", folder / "model.graph", "--explain", account)
    assert "are equal" in done("diff", folder / "model.opw", account)
    result = call(opweld_path(), "diff", folder / "model.opw", file)
    assert result.returncode == 1
    assert "level: auto -> none" in result.stdout or "auto" in result.stdout
    done("compile", folder / "model.graph", "-o", file, "--no-account")
    assert "--no-account" in refused(2, "diff", file, file)
    assert "cannot be opened" in refused(2, "diff", tmp_path / "missing.opw", file)


# ---- the command where there is no compiler ----


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command by itself, in a folder of its own."""
    copy = tmp_path_factory.mktemp("alone") / "bin" / "opweld"
    copy.parent.mkdir()
    shutil.copy(opweld_path(), copy)
    return copy


def test_the_command_itself_needs_nothing_of_the_compiler() -> None:
    dynamic = call("readelf", "--dynamic", "--wide", opweld_path()).stdout
    assert "NEEDED" in dynamic
    everything = call("ldd", opweld_path()).stdout
    assert "libzip" in everything
    assert not re.search(r"LLVM|protobuf|onnx", dynamic + everything, re.IGNORECASE)
    half = call("ldd", opweld_path().with_name("opweld_compiler.so")).stdout
    assert "LLVM" in half


def test_files_run_and_are_explained_without_the_compiler(
    alone: Path, folder: Path, tmp_path: Path
) -> None:
    expected = results(folder / "model.opw", tmp_path / "a.npz", "--dim", "rows=9")
    out = tmp_path / "b.npz"
    result = call(alone, "run", folder / "model.opw", "--output", out, "--dim", "rows=9")
    assert (result.returncode, result.stderr) == (0, "")
    with np.load(out) as outputs:
        assert outputs["y"].tobytes() == expected
    for arguments in (
        ("explain", folder / "model.opw", "--all-edges"),
        ("explain", folder / "model.opw", "--why", "/add"),
        ("explain", folder / "model.opw", "--json", "--dim", "rows=5"),
        ("diff", folder / "model.opw", folder / "model.opw"),
        ("reasons", "F-FORK"),
        ("--version",),
    ):
        result = call(alone, *arguments)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout == done(*arguments)
    told = call(alone, "bench", folder / "model.opw", "--json", "--repeats", 2)
    assert json.loads(told.stdout)["repeats"] == 2


def test_help_is_given_without_the_compiler(alone: Path) -> None:
    assert call(alone, "--help").stdout == done("--help")
    commands = re.findall(r"^  ([a-z-]+)  +[A-Z]", done("--help"), re.MULTILINE)
    assert {"run", "compile", "explain", "report", "verify", "bench", "doctor"} <= set(commands)
    for command in commands:
        assert call(alone, command, "--help").stdout == done(command, "--help"), command
    assert call(alone, "compile").returncode == 2


def test_what_takes_the_compiler_says_that_it_is_not_there(
    alone: Path, folder: Path, tmp_path: Path
) -> None:
    model = folder / "model.graph"
    for arguments in (
        ("run", model), ("compile", model, "-o", tmp_path / "m.opw"), ("explain", model),
        ("report", model), ("verify", model), ("bench", model), ("info", model), ("operators",),
        ("run-cases", model), ("run", folder / "model.opw", "--input", "x=x.pb"),
    ):  # fmt: skip
        result = call(alone, *arguments)
        assert result.returncode == 1, arguments
        assert result.stdout == ""
        assert result.stderr.startswith("opweld: ")
        assert str(alone.parent / "opweld_compiler.so") in result.stderr
        assert "run, bench and explain take a compiled model (.opw)" in result.stderr
    doctor = call(alone, "doctor")
    assert doctor.returncode == 1
    assert "compiler           none" in doctor.stdout
    assert not json.loads(call(alone, "doctor", "--json").stdout)["well"]


def test_another_thing_in_place_of_the_compiler_is_an_error(alone: Path, tmp_path: Path) -> None:
    """Neither a library that cannot be loaded nor one of something else crashes the command."""
    command = tmp_path / "opweld"
    shutil.copy(alone, command)
    other = tmp_path / "opweld_compiler.so"
    other.write_bytes(b"no library")
    result = call(command, "operators")
    assert result.returncode == 1
    assert "cannot be loaded" in result.stderr
    assert str(other) in result.stderr
    shutil.copy(PLUGIN, other)
    result = call(command, "operators")
    assert result.returncode == 1
    assert "install both anew together" in result.stderr


def test_bench_times_a_file(folder: Path) -> None:
    told = json.loads(done("bench", folder / "model.opw", "--json", "--repeats", 3))
    assert told["fusion"] == "auto"
    assert set(told["passes"]) == {"load"}
    assert "--compare" in refused(2, "bench", folder / "model.opw", "--compare")


def test_what_was_decided_when_compiling_cannot_be_asked_for_again(folder: Path) -> None:
    file = folder / "model.opw"
    for option in (
        ("--fusion", "none"), ("--target", "host-avx2"), ("--numerics", "strict"), ("--tune",),
        ("--dump-after", "plan"), ("--plugin", PLUGIN), ("--without", "chain"),
        ("--rules", "linear"), ("--attention-chains",), ("--in-place", "y=x"),
    ):  # fmt: skip
        message = refused(2, "run", file, *option)
        assert option[0] in message
        assert "opweld compile" in message
    for command in ("verify", "info", "report"):
        extra = ("-o", folder / "page.html") if command == "report" else ()
        assert "compiled from" in refused(2, command, file, *extra)
    assert "compiled from" in refused(2, "compile", file, "-o", folder / "again.opw")
    assert ".opw" in refused(2, "compile", folder / "model.graph", "-o", folder / "model.bin")
    for option in ("--measure", "--passes"):
        assert "explain with the model" in refused(2, "explain", file, option)


def test_wrong_sizes_and_missing_files_are_errors(folder: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((3, 23), np.float32))
    message = refused(2, "run", folder / "model.opw", "--input", tmp_path / "in.npz")
    assert "axis 1" in message
    assert "cannot be opened" in refused(1, "run", tmp_path / "none.opw")
    nowhere = tmp_path / "none" / "m.opw"
    assert "cannot write" in refused(1, "compile", folder / "model.graph", "-o", nowhere)


def test_a_damaged_file_is_refused_whatever_was_done_to_it(folder: Path, tmp_path: Path) -> None:
    sound = (folder / "model.opw").read_bytes()
    damaged = tmp_path / "damaged.opw"
    generator = np.random.default_rng(3)
    head = len(sound) - 2 * 24 * 104 * 4 - 8192  # what comes before the weights, and some less
    for place in generator.integers(8, max(head, 4096), 12):
        changed = bytearray(sound)
        changed[place] ^= 0x40
        damaged.write_bytes(changed)
        result = call(opweld_path(), "run", damaged, "--dim", "rows=2")
        # What lies between sections is nobody's.
        assert result.returncode == 1 or sound[place] == 0, place
    for cut in (0, 7, 8, 63, 500, len(sound) // 2, len(sound) - 1):
        damaged.write_bytes(sound[:cut])
        assert str(damaged) in refused(1, "run", damaged)


def test_a_plugin_is_not_taken_along(tmp_path: Path) -> None:
    model = tmp_path / "custom.graph"
    model.write_text(
        'graph g(%x: f32[n, 8]) {\n  %y = "com.example.SortRows"(%x) @"/sort"\n  return %y as "y" }'
    )
    message = refused(
        2, "compile", model, "-o", tmp_path / "m.opw", "--plugin", PLUGIN, "--dim", "n=4"
    )
    assert "'/sort'" in message
    assert "plugin 'example'" in message
    assert not (tmp_path / "m.opw").exists()


# ---- the program in C ----


def test_the_program_gives_what_the_command_gives(folder: Path, tmp_path: Path) -> None:
    result = call(EXAMPLE, folder / "model.opw", 5)
    assert result.returncode == 0, result.stderr
    np.savez(tmp_path / "ones.npz", x=np.ones((5, 24), np.float32))
    out = tmp_path / "out.npz"
    done("run", folder / "model.opw", "--input", tmp_path / "ones.npz", "--output", out)
    found = re.fullmatch(r"y \[rows, 24\]: 5 24 first (\S+)\n", result.stdout)
    assert found
    with np.load(out) as outputs:
        assert np.float32(found[1]) == outputs["y"][0, 0]


def test_the_program_says_what_is_wrong(folder: Path, tmp_path: Path) -> None:
    result = call(EXAMPLE, tmp_path / "none.opw", 5)
    assert result.returncode == 1
    assert "cannot be opened" in result.stderr
    assert call(EXAMPLE, folder / "model.graph", 5).returncode == 1


def test_the_program_needs_nothing_of_the_compiler() -> None:
    dynamic = call("readelf", "--dynamic", "--wide", EXAMPLE).stdout
    needed = set(re.findall(r"NEEDED.*\[lib([^.\]]+)", dynamic))
    assert {"c"} <= needed <= {"c", "m", "gcc_s", "stdc++", "fmt", "xxhash"}
    everything = call("ldd", EXAMPLE).stdout
    assert not re.search(r"LLVM|protobuf|onnx", everything, re.IGNORECASE)
    symbols = call("nm", "--demangle", EXAMPLE).stdout
    assert "opweld::Executable::run" in symbols
    for absent in ("llvm::", "google::protobuf", "onnx::", "opweld::tile::lower", "opweld::cpu::"):
        assert absent not in symbols


def test_the_program_is_short() -> None:
    source = Path(__file__).resolve().parents[2] / "examples" / "runtime" / "run_compiled.c"
    main = source.read_text().split("int main(")[1]
    assert len(main.splitlines()) <= 42


# ---- from Python ----


def test_a_program_is_saved_and_loaded_in_python(folder: Path, tmp_path: Path) -> None:
    program = opweld.compile(folder / "model.graph")
    program.save(tmp_path / "m.opw")
    loaded = opweld.load_program(tmp_path / "m.opw", threads=1)
    assert [info.name for info in loaded.inputs] == ["x"]
    assert repr(loaded) == repr(program)
    for rows in (1, 17, 200):
        x = np.random.default_rng(rows).random((rows, 24), dtype=np.float32)
        assert loaded(x)[0].tobytes() == program(x)[0].tobytes()
    for rows in (1, 64, 500):
        fresh = program.explain(rows=rows)
        told = loaded.explain(rows=rows)
        assert told.edges
        assert told.kernels == fresh.kernels
        assert told.edges == fresh.edges
        assert told.log == fresh.log
    stored = json.loads(done("explain", tmp_path / "m.opw", "--json"))
    assert stored["sizes"] == {"rows": 128}
    assert "opweld.Program" in loaded._repr_html_()
    x = np.ones((2, 24), np.float32)
    for wrong in (
        lambda: loaded.save(tmp_path / "again.opw"),
        lambda: loaded.verify(x),
        lambda: loaded(x[:, 1:]),
        lambda: program.save(tmp_path / "m.bin"),
        lambda: opweld.load_program(tmp_path / "m.opw", threads=2000),
        lambda: opweld.load(tmp_path / "m.opw"),
    ):
        with pytest.raises(opweld.UsageError):
            wrong()
    with pytest.raises(opweld.Error, match="opweld compile"):
        opweld.load_program(folder / "model.graph")


def test_what_the_command_wrote_runs_in_python(folder: Path) -> None:
    loaded = opweld.load_program(folder / "model.opw")
    x = np.random.default_rng(1).random((9, 24), dtype=np.float32)
    expected = opweld.compile(folder / "model.graph")(x)[0]
    assert loaded(x)[0].tobytes() == expected.tobytes()
