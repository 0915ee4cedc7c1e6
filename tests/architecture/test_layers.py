"""The source tree keeps the order of the pipeline and stays readable."""

import re
from pathlib import Path

import layers
import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# A file longer than this does more than one thing.
LONGEST = 600


def plant(source: Path, name: str, *includes: str) -> None:
    path = source / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"#include {include}\n" for include in includes))


def test_folders_use_only_folders_above_them() -> None:
    assert "\n".join(map(str, layers.violations(SOURCE))) == ""


def test_public_headers_stand_alone() -> None:
    assert len(list((ROOT / "include" / "opweld").glob("*.h"))) > 5
    assert "\n".join(map(str, layers.public_violations(ROOT / "include"))) == ""


def test_a_public_header_that_leans_on_src_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "opweld/a.h", "<vector>", '"opweld/b.h"', '"graph/graph.h"', "<fmt/format.h>")
    plant(tmp_path, "opweld/b.h", "<span>")
    found = layers.public_violations(tmp_path)
    assert [violation.included for violation in found] == ["graph/graph.h", "fmt/format.h"]


def test_every_folder_has_its_place_in_the_order() -> None:
    assert layers.strangers(SOURCE) == []


def test_the_documentation_lists_the_folders_that_there_are() -> None:
    assert [name for name in layers.ORDER if not list((SOURCE / name).rglob("*.cpp"))] == []
    rows = re.findall(r"^\| `([a-z/]+)/` \|", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert rows == list(layers.ORDER)


def test_cmake_lists_the_same_folders_in_the_same_order() -> None:
    lines = (SOURCE / "CMakeLists.txt").read_text().splitlines()
    calls = [line for line in lines if line.startswith("opweld_folder(")]
    names = [call.removeprefix("opweld_folder(").split()[0].rstrip(")") for call in calls]
    assert names == list(layers.ORDER)


def test_source_files_are_short() -> None:
    folders = ("src", "tools", "include", "examples", "bench", "demo", "python", "scripts", "tests")
    folders += ("web/src", "web/tests")
    suffixes = {".h", ".cpp", ".py", ".sh", ".ts", ".css"}
    files = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in files
        if path.suffix in suffixes
    }
    assert lengths
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


@pytest.mark.parametrize(
    ("file", "include", "why"),
    [
        ("graph/a.h", '"tile/tile_ir.h"', "tile comes after graph"),
        ("runtime/a.cpp", '"tile/tile_ir.h"', "tile comes after runtime"),
        ("graph/a.cpp", '"compile.h"', "files in folders may not lean on those directly in src/"),
        ("compile.cpp", '"api/api.h"', "api stands on everything else"),
        ("report/a.cpp", '"api/api.h"', "api stands on everything else"),
        ("tile/a.cpp", '"llvm/IR/Module.h"', "only target, codegen/cpu may use this library"),
        ("tile/a.cpp", "<llvm/IR/Module.h>", "only target, codegen/cpu may use this library"),
        ("graph/a.h", "<nlohmann/json.hpp>", "only fusion, aot, tune, report may use this library"),
        ("report/a.cpp", "<CLI/CLI.hpp>", "only tools may use this library"),
        ("tune/a.cpp", '"codegen/cpu/emit.h"', "it brings a library along"),
        ("compile.cpp", '"codegen/cpu/through.h"', "it brings a library along"),
    ],
)
def test_a_broken_rule_is_found(tmp_path: Path, file: str, include: str, why: str) -> None:
    for header in ("tile/tile_ir.h", "runtime/b.h", "api/api.h", "compile.h"):
        plant(tmp_path, header, "<vector>")
    plant(tmp_path, "codegen/cpu/emit.h", "<llvm/IR/IRBuilder.h>")
    plant(tmp_path, "codegen/cpu/through.h", '"codegen/cpu/emit.h"')
    plant(tmp_path, file, "<vector>", include)
    (violation,) = layers.violations(tmp_path)
    assert violation.file == file
    assert violation.why.startswith(why)


def test_allowed_includes_are_let_be(tmp_path: Path) -> None:
    plant(tmp_path, "tile/a.h", '"support/dim.h"')
    plant(tmp_path, "support/dim.h", "<cstdint>")
    plant(tmp_path, "tile/a.cpp", '"tile/a.h"', "<fmt/format.h>", '"opweld/x.h"')
    plant(tmp_path, "codegen/cpu/emit.h", "<llvm/IR/Module.h>")
    plant(tmp_path, "codegen/cpu/b.cpp", '"codegen/cpu/emit.h"', '"tile/a.h"')
    plant(tmp_path, "compile.cpp", '"tile/a.h"', '"compile.h"')
    plant(tmp_path, "compile.h", "<vector>")
    plant(tmp_path, "api/b.cpp", '"compile.h"', '"tile/a.h"', '"opweld/x.h"')
    assert layers.violations(tmp_path) == []


def test_a_folder_without_a_place_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "codegen/cuda/a.cpp")
    plant(tmp_path, "codegen/cpu/a.cpp")
    plant(tmp_path, "compile.cpp")
    assert layers.strangers(tmp_path) == ["codegen/cuda/a.cpp"]
