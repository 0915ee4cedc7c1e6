"""The rules on how the folders of src/ may lean on each other, read off their `#include` lines."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# The pipeline from top to bottom: a folder may include from itself and from those before it.
ORDER = (
    "support",
    "graph",
    "ops",
    "import/onnx",
    "rewrite",
    "target",
    "fusion",
    "tile",
    "codegen/cpu",
    "kernels",
    "runtime",
    "report",
)

# Heavy or replaceable libraries, by the start of their include paths, and where they may be used.
# Everywhere else our own types stand between, so that a library can change without the compiler.
LIBRARY_HOMES = {
    "llvm/": ("codegen/cpu",),
    "onnx/": ("import/onnx",),
    "google/protobuf/": ("import/onnx",),
    "CLI/": (),
}

# Slow to compile: included from .cpp files only, so that one change does not rebuild everything.
NOT_IN_HEADERS = ("llvm/", "nlohmann/json.hpp", "onnx/", "google/protobuf/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


@dataclass(frozen=True)
class Violation:
    """One `#include` that breaks a rule."""

    file: str
    included: str
    why: str

    def __str__(self) -> str:
        """One line for a test's message."""
        return f"{self.file} includes {self.included}: {self.why}"


def folder_of(path: str) -> str | None:
    """The folder of ORDER that a path written from src/ lies in, or nothing."""
    parents = [str(parent) for parent in PurePosixPath(path).parents]
    return next((folder for folder in ORDER if folder in parents), None)


def check_order(file: str, included: str) -> str | None:
    """Why `file` may not include `included`, both written from src/, as far as the order goes."""
    mine, theirs = folder_of(file), folder_of(included)
    if mine is None:
        return None  # src/*.cpp lie below all folders and may use every one
    if theirs is None:
        return "files in folders may not lean on those directly in src/"
    if ORDER.index(theirs) > ORDER.index(mine):
        return f"{theirs} comes after {mine}"
    return None


def check_library(file: str, included: str) -> str | None:
    """Why `file` may not include the library header `included`."""
    if file.endswith(".h") and included.startswith(NOT_IN_HEADERS):
        return "too heavy for a header"
    for prefix, homes in LIBRARY_HOMES.items():
        if included.startswith(prefix) and folder_of(file) not in homes:
            return f"only {', '.join(homes) or 'tools'} may use this library"
    return None


def violations(source: Path) -> list[Violation]:
    """All broken rules below `source`, the src/ folder of a tree."""
    found = []
    for path in sorted([*source.rglob("*.h"), *source.rglob("*.cpp")]):
        file = path.relative_to(source).as_posix()
        for quote, included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            library = quote == "<" or included.startswith(("opweld/", *LIBRARY_HOMES))
            why = check_library(file, included) if library else check_order(file, included)
            if why:
                found.append(Violation(file, included, why))
    return found


def strangers(source: Path) -> list[str]:
    """Folders with sources that ORDER does not know, so that no rule would hold for them."""
    files = [*source.rglob("*.h"), *source.rglob("*.cpp")]
    paths = (path.relative_to(source).as_posix() for path in files)
    return sorted({path for path in paths if "/" in path and folder_of(path) is None})
