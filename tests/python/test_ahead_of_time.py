"""Models that are compiled into a file, and run from it: by the command, and by a program in C."""

from __future__ import annotations

import json
import re
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
  %y = add(%d, %x) @"/add" op "Add"
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


def test_explain_tells_what_it_told_of_the_model(folder: Path, tmp_path: Path) -> None:
    dims = ("--dim", "rows=40")
    done("compile", folder / "model.graph", "-o", tmp_path / "m.opw", *dims)
    stored = json.loads(done("explain", tmp_path / "m.opw", "--json"))
    fresh = json.loads(done("explain", folder / "model.graph", "--json", *dims))
    for key in ("level", "sizes", "kernels", "edges", "totals", "log"):
        assert stored[key] == fresh[key], key
    text = done("explain", tmp_path / "m.opw")
    assert "rows = 40" in text
    for kernel in stored["kernels"]:
        assert kernel["name"] in text
        assert kernel["operators"] in text
    done("explain", tmp_path / "m.opw", "--explain", tmp_path / "account.json")
    assert json.loads((tmp_path / "account.json").read_text()) == stored
    done("compile", folder / "model.graph", "-o", tmp_path / "m.opw", "--no-account")
    assert "--no-account" in refused(1, "explain", tmp_path / "m.opw")


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
        ("--rules", "linear"), ("--attention-chains",), ("--require", "MatMul"),
        ("--in-place", "y=x"),
    ):  # fmt: skip
        message = refused(2, "run", file, *option)
        assert option[0] in message
        assert "opweld compile" in message
    for command in ("verify", "info", "report"):
        extra = ("-o", folder / "page.html") if command == "report" else ()
        assert "compiled from" in refused(2, command, file, *extra)
    assert "compiled from" in refused(2, "compile", file, "-o", folder / "again.opw")
    assert ".opw" in refused(2, "compile", folder / "model.graph", "-o", folder / "model.bin")
    for option in (("--why", "/add"), ("--all-edges",), ("--measure",), ("--passes",)):
        assert "explain with the model" in refused(2, "explain", file, *option)


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
    fresh = program.explain(rows=64)
    told = loaded.explain(rows=64)
    for key in ("name", "kind", "operators", "bytes_read", "bytes_written"):
        assert [kernel[key] for kernel in told.kernels] == [kernel[key] for kernel in fresh.kernels]
    assert told.edges == []
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
