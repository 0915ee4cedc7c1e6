"""What fusion can gain at most: the share of an unfused run that it makes no less."""

from __future__ import annotations

from bench.case import Case
from bench.opweld_command import profile_model


def bound_of_fusion(case: Case, threads: int) -> str:
    """A sentence on the share of matmuls in an unfused run, and the gain that leaves."""
    options = ["--fusion=none", f"--threads={threads}", "--no-tuned"]
    kernels = profile_model(case.model, case.inputs, *options)
    share = share_of_products(kernels)
    return (
        f"unfused, matmuls take {share:.0%} of the time: with the same matmuls, fusion gains "
        f"{1 / share:.2f}x at most"
    )


def share_of_products(kernels: list[dict]) -> float:
    """How much of the time of these kernels is that of matmuls, as `opweld bench --profile`."""
    products = sum(k["median_seconds"] for k in kernels if k["kind"] == "contract")
    return products / sum(k["median_seconds"] for k in kernels)
