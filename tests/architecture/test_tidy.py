"""clang-tidy is run again when anything that decides its answer has changed, and only then."""

from pathlib import Path

import pytest
import tidy


def make_tree(root: Path) -> list[Path]:
    (root / "src").mkdir(parents=True)
    (root / ".clang-tidy").write_text("Checks: '-*,bugprone-*'\n")
    files = [root / "src" / "a.cpp", root / "src" / "a.h"]
    for file in files:
        file.write_text(f"// {file.name}\n")
    return files


def key_of(root: Path, files: list[Path], settings: str = "tool flags") -> str:
    tidy.file_digest.cache_clear()
    return tidy.key(root, files, settings)


def test_the_key_is_the_same_in_every_clone(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    assert key_of(first, make_tree(first)) == key_of(second, make_tree(second))


@pytest.mark.parametrize("changed", ["src/a.cpp", "src/a.h", ".clang-tidy"])
def test_the_key_changes_with_every_file_that_is_read(tmp_path: Path, changed: str) -> None:
    files = make_tree(tmp_path)
    before = key_of(tmp_path, files)
    with (tmp_path / changed).open("a") as file:
        file.write("// more\n")
    assert key_of(tmp_path, files) != before


def test_the_key_changes_with_flags_and_with_the_list_of_headers(tmp_path: Path) -> None:
    files = make_tree(tmp_path)
    before = key_of(tmp_path, files)
    assert key_of(tmp_path, files, "tool other-flags") != before
    assert key_of(tmp_path, files[:1]) != before


def test_a_source_that_was_not_compiled_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path)
    monkeypatch.setenv("OPWELD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tidy, "header_lists", lambda root: {})
    monkeypatch.setattr(tidy, "compile_flags", lambda root: {})
    assert "build first" in tidy.check(tmp_path, [Path("src/a.cpp")], [], jobs=1)
    (tmp_path / tidy.BUILD).mkdir(parents=True)
    (tmp_path / tidy.BUILD / "compile_commands.json").write_text("[]")
    assert "not compiled" in tidy.check(tmp_path, [Path("src/a.cpp")], [], jobs=1)
