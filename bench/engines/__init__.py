"""The engines that meet in the arena, one file each."""

from __future__ import annotations

from bench.engines.apart import Apart
from bench.engines.base import Engine
from bench.engines.opweld import Opweld

# Name, module and class of each rival, and whether it reads ONNX files. The modules import heavy
# packages, so only the process that runs the engine imports them.
RIVALS = {
    "onnxruntime": ("bench.engines.onnx_runtime", "OnnxRuntime", True),
    "openvino": ("bench.engines.open_vino", "OpenVino", True),
    "torch eager": ("bench.engines.torch_eager", "TorchEager", False),
    "inductor": ("bench.engines.inductor", "Inductor", False),
    "inductor max-autotune": ("bench.engines.inductor_max", "InductorMax", False),
}


def rivals(threads: int, names: list[str] | None = None) -> list[Engine]:
    """The rivals of these names, or all, each in a process of its own."""
    return [
        Apart(name, module, kind, threads, reads_onnx)
        for name, (module, kind, reads_onnx) in RIVALS.items()
        if names is None or name in names
    ]


def ours(
    levels: tuple[str, ...],
    single_launch: bool = False,
    without: tuple[str, ...] = (),
    chains: bool = False,
) -> list[Engine]:
    """Opweld at each of these levels; in one launch, without schedules, with all chains."""
    engines: list[Engine] = [Opweld(level) for level in levels]
    engines += [Opweld(single_launch=True)] if single_launch else []
    engines += [Opweld(without=schedule) for schedule in without]
    return engines + ([Opweld(chains=True)] if chains else [])
