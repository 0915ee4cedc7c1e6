"""clang-tidy with a memory: a file is analysed again only when something it reads has changed.

The key of a file is the digest of its own text, of every header that its last compilation read
(ninja keeps that list), of its compile flags, of .clang-tidy and of the tool's version. A key that
was once found clean is remembered as an empty file in the cache; a file with findings never is.
"""

import hashlib
import json
import os
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

TOOL = "clang-tidy-19"
BUILD = Path("build/release")
KEEP_DAYS = 30
# Options of the compile command that name files of this one build, not the meaning of the code.
PATH_OPTIONS = {"-o", "-c", "-MF", "-MT"}


def cache_folder() -> Path:
    """Where clean keys are kept, shared by all clones."""
    base = os.environ.get("OPWELD_CACHE") or str(Path.home() / ".cache" / "opweld")
    folder = Path(base) / "tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def forget_old(folder: Path) -> None:
    """Bounds the cache: keys that nobody asked for in a month go."""
    oldest = time.time() - KEEP_DAYS * 86400
    for entry in folder.iterdir():
        if entry.stat().st_mtime < oldest:
            entry.unlink(missing_ok=True)


def header_lists(root: Path) -> dict[Path, list[Path]]:
    """For every compiled source the files its last compilation read, itself first."""
    listing = subprocess.run(
        ["ninja", "-C", str(BUILD), "-t", "deps"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    lists = {}
    for block in listing.split("\n\n"):
        head, *rows = block.splitlines() or [""]
        if rows and "(VALID)" in head:
            files = [(root / BUILD / row.strip()).resolve() for row in rows]
            lists[files[0]] = files
    return lists


def compile_flags(root: Path) -> dict[Path, str]:
    """For every source its compile command without the paths of this tree."""
    flags = {}
    for entry in json.loads((root / BUILD / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        kept = [
            word
            for index, word in enumerate(words)
            if word not in PATH_OPTIONS and (index == 0 or words[index - 1] not in PATH_OPTIONS)
        ]
        flags[Path(entry["file"]).resolve()] = " ".join(kept).replace(str(root), "")
    return flags


@cache
def file_digest(path: Path) -> bytes:
    """Digest of a file's content, read once a run however many sources include it."""
    return hashlib.sha256(path.read_bytes()).digest()


def key(root: Path, files: list[Path], settings: str) -> str:
    """The digest of all that decides what clang-tidy says about one source."""
    digest = hashlib.sha256(settings.encode())
    digest.update((root / ".clang-tidy").read_bytes())
    for file in sorted(set(files)):
        digest.update(str(file).removeprefix(str(root)).encode() + file_digest(file))
    return digest.hexdigest()


def analyse(root: Path, source: Path, options: list[str]) -> str:
    """Runs clang-tidy on one source; its findings, or nothing."""
    command = [TOOL, "-p", str(BUILD), "--quiet", *options, str(source)]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if result.returncode == 0:
        return ""
    return result.stdout.strip() or result.stderr.strip() or f"{source}: {TOOL} crashed"


def check(root: Path, sources: list[Path], more_checks: list[str], jobs: int) -> str:
    """The findings in all sources, joined; empty when they are clean.

    `more_checks` are patterns of checks to add to those of .clang-tidy.
    Needs the release build, whose compile commands and header lists it reads.
    """
    if not (root / BUILD / "compile_commands.json").exists():
        return f"{BUILD} is not configured; run ./dev build first"
    tool = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True).stdout
    folder = cache_folder()
    forget_old(folder)
    options = [f"--checks={','.join(more_checks)}"] if more_checks else []
    lists, flags = header_lists(root), compile_flags(root)

    def one(source: Path) -> str:
        absolute = (root / source).resolve()
        if absolute not in lists or absolute not in flags:
            return f"{source}: not compiled by the release build, so it cannot be analysed"
        settings = " ".join([tool, *options, flags[absolute]])
        entry = folder / key(root, lists[absolute], settings)
        if entry.exists():
            entry.touch()
            return ""
        findings = analyse(root, source, options)
        if not findings:
            entry.touch()
        return findings

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return "\n".join(filter(None, pool.map(one, sources)))
