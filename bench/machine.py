"""The machine that numbers were measured on, as the operating system tells it."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPU = Path("/sys/devices/system/cpu/cpu0/cache")


def describe_machine() -> dict[str, object]:
    """Processor, cores that may be used, vector instructions, caches, memory and load."""
    information = _fields(Path("/proc/cpuinfo"))
    flags = information.get("flags", "").split()
    wanted = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16")
    memory = _fields(Path("/proc/meminfo")).get("MemTotal", "0 kB").split()[0]
    return {
        "processor": information.get("model name", "unknown"),
        "cores": len(os.sched_getaffinity(0)),
        "instructions": [flag for flag in wanted if flag in flags],
        "caches": _caches(),
        "memory_gb": round(int(memory) / 2**20),
        # Processes that wanted a core in the last minute: more than none were others' work.
        "load_before": round(os.getloadavg()[0], 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def _fields(path: Path) -> dict[str, str]:
    """The first value of every key of a file of `key: value` lines; nothing when it is missing."""
    fields: dict[str, str] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    return fields


def _caches() -> dict[str, str]:
    """The size of each data cache that the first core sees, by its level."""
    caches = {}
    for index in sorted(CPU.glob("index*")):
        if (index / "type").read_text().strip() != "Instruction":
            caches[f"L{(index / 'level').read_text().strip()}"] = (
                (index / "size").read_text().strip()
            )
    return caches
