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
    "plugin",
    "rewrite",
    "target",
    "fusion",
    "runtime",
    "aot",
    "tile",
    "codegen/cpu",
    "tune",
    "report",
    "api",
)

# The folder above src/*.cpp: it may use those, and nothing else in src/ may use it.
TOP = "api"

# Heavy or replaceable libraries, by the start of their include paths, and the folders that may use
# them. Everywhere else our own types stand between, so that a library can change without the
# compiler changing. A header that includes one is for its own folder only, so that the cost of
# compiling it stays there.
LIBRARY_HOMES = {
    "llvm/": ("target", "codegen/cpu"),
    "onnx/": ("import/onnx",),
    "google/protobuf/": ("import/onnx",),
    "nlohmann/json.hpp": ("fusion", "aot", "tune", "report"),
    "xxhash.h": ("support",),
    "CLI/": (),
}

# What a public header in C may include.
C_HEADERS = ("stddef.h", "stdint.h")

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


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
    if mine == TOP:
        return None
    if theirs == TOP:
        return f"{TOP} stands on everything else in src/"
    if mine is None:
        return None  # src/*.cpp lie below all folders but TOP and may use every one
    if theirs is None:
        return "files in folders may not lean on those directly in src/"
    if ORDER.index(theirs) > ORDER.index(mine):
        return f"{theirs} comes after {mine}"
    return None


def check_library(file: str, included: str) -> str | None:
    """Why `file` may not include the library header `included`."""
    for prefix, homes in LIBRARY_HOMES.items():
        if included.startswith(prefix) and folder_of(file) not in homes:
            return f"only {', '.join(homes) or 'tools'} may use this library"
    return None


def read_includes(source: Path) -> dict[str, list[str]]:
    """What every file below `source` includes; files are written from there."""
    files = sorted([*source.rglob("*.h"), *source.rglob("*.cpp")])
    return {
        path.relative_to(source).as_posix(): INCLUDE.findall(path.read_text(encoding="utf-8"))
        for path in files
    }


def heavy_headers(includes: dict[str, list[str]]) -> set[str]:
    """The headers that bring one of LIBRARY_HOMES along, themselves or through others."""
    heavy: set[str] = set()
    libraries = tuple(LIBRARY_HOMES)
    while True:
        more = {
            file
            for file, names in includes.items()
            if file.endswith(".h")
            and any(name in heavy or name.startswith(libraries) for name in names)
        }
        if more == heavy:
            return heavy
        heavy = more


def violations(source: Path) -> list[Violation]:
    """All broken rules below `source`, the src/ folder of a tree."""
    includes = read_includes(source)
    heavy = heavy_headers(includes)
    found = []
    for file, names in includes.items():
        for included in names:
            why = check_library(file, included)
            if included in includes:
                why = check_order(file, included)
                if included in heavy and folder_of(included) != folder_of(file):
                    why = why or "it brings a library along that only its folder may use"
            if why:
                found.append(Violation(file, included, why))
    return found


def public_violations(include: Path) -> list[Violation]:
    """Includes of the public headers that are neither of the standard library nor public headers.

    Those of C are for the one header that is written in C.

    A user compiles these headers without src/ and without the libraries that we use.
    """
    return [
        Violation(file, included, "public headers include only the standard library and each other")
        for file, names in read_includes(include).items()
        for included in names
        if "." in included and not (include / included).is_file() and included not in C_HEADERS
    ]


def strangers(source: Path) -> list[str]:
    """Folders with sources that ORDER does not know, so that no rule would hold for them."""
    files = [*source.rglob("*.h"), *source.rglob("*.cpp")]
    paths = (path.relative_to(source).as_posix() for path in files)
    return sorted({path for path in paths if "/" in path and folder_of(path) is None})
