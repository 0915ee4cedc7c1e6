"""Files that take a while to make and are kept below `build/` until what makes them changes."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


def digest_of(*parts: object, files: Iterable[Path] = ()) -> str:
    """A key that changes with any of the values and with the content of any of the files."""
    digest = hashlib.sha256(repr(parts).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def made_once(folder: Path, key: str, make: Callable[[Path], None]) -> Path:
    """Returns `folder`, first filled by `make` unless that was done before with the same key.

    `make` writes into an empty folder that takes the final name once it is complete; several
    processes may ask at the same time.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    stamp = folder / "made-from.sha256"
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == key:
            return folder
        partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        try:
            make(partial)
            (partial / stamp.name).write_text(key)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder
