"""What the page of `opweld report` holds to: text of a model never becomes markup."""

import json
import re
from pathlib import Path

import pytest

WEB = Path(__file__).resolve().parents[2] / "web"
SOURCES = sorted((WEB / "src").glob("*.ts"))

# What would turn a string into elements, or run it.
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|setHTML"
    r"|createContextualFragment|\beval\(|new Function\("
)
ELEMENTS = re.compile(r"createElement(?:NS)?\((?!\"canvas\"\))")
NETWORK = re.compile(
    r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|https?://(?!www\.w3)"
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_source_makes_markup_of_text_or_asks_for_anything(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert MARKUP.findall(text) == []
    assert NETWORK.findall(text) == []
    if path.name != "dom.ts":
        assert ELEMENTS.findall(text) == []


def test_the_lock_file_names_no_registry_and_pins_everything() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages
    assert [name for name, entry in packages.items() if "resolved" in entry] == []
    assert [name for name, entry in packages.items() if "integrity" not in entry] == []
    stated = json.loads((WEB / "package.json").read_text(encoding="utf-8"))
    for group in ("dependencies", "devDependencies"):
        for name, version in stated[group].items():
            assert packages[f"node_modules/{name}"]["version"] == version
