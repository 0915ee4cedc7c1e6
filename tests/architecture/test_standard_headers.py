"""Every C++ file includes the standard headers of what it calls."""

from pathlib import Path

from standard_headers import missing_headers

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "examples", "include", "src", "tests", "tools")


def test_standard_headers_are_included_where_they_are_used() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.[ch]*"))]
    sources = [file for file in files if file.suffix in (".h", ".cpp")]
    assert len(sources) > 300
    found = [
        f"{file.parent.relative_to(ROOT)}/{line}"
        for file in sources
        for line in missing_headers(file)
    ]
    assert not found, "\n".join(found)


def test_a_missing_header_is_found(tmp_path: Path) -> None:
    file = tmp_path / "a.cpp"
    file.write_text("#include <vector>\nauto a = std::find(v.begin(), v.end(), 1);\n")
    assert missing_headers(file) == ["a.cpp calls std::find and does not include <algorithm>"]


def test_comments_and_the_own_header_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.cpp"
    file.write_text('#include "a.h"\n// std::sort(x)\nauto a = std::find(b, e, 1);\n')
    (tmp_path / "a.h").write_text("#include <algorithm>\n")
    assert missing_headers(file) == []
