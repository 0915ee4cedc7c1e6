"""How much memory a process has in use and had at most, as Linux tells it.

It counts pages in batches for each processor, so that some hundred kilobytes are uncertain.
"""

from __future__ import annotations

from pathlib import Path

PROCESSES = Path("/proc")


def bytes_in_use(process: int | str = "self") -> int | None:
    """What is resident now, pages of mapped files included; None where nobody tells."""
    return _field(process, "VmRSS")


def peak_bytes(process: int | str = "self") -> int | None:
    """The most that was resident at once, since the start or forget_peak()."""
    return _field(process, "VmHWM")


def forget_peak() -> bool:
    """Begins anew to keep the peak of this process; False where that cannot be had."""
    try:
        (PROCESSES / "self" / "clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _field(process: int | str, name: str) -> int | None:
    try:
        lines = (PROCESSES / str(process) / "status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None
