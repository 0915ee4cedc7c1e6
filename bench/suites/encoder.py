"""A pretrained sentence encoder at several batches and lengths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.models.encoder import ensure_encoder
from bench.models.sentences import passage
from bench.opweld_command import profile_model
from bench.suites.contest import Contest, Settings, hold_contest

SHAPES = [(1, 16), (1, 128), (1, 512), (8, 128)]

# Token vectors are about 0.1 to 1; two engines that sum in other orders differ by about 1e-6.
TOLERANCE = 1e-4


def encoder(settings: Settings) -> list[Contest]:
    """The MiniLM sentence encoder, fp32, against ONNX Runtime."""
    files = ensure_encoder()
    contests = []
    for batch, length in SHAPES:
        inputs = passage(files.tokenizer, batch, length)
        name = f"batch {batch}, length {length}"
        contest = hold_contest(name, files.model, inputs, TOLERANCE, settings)
        share = share_of_products(files.model, inputs, settings)
        note = (
            f"unfused, matmuls take {share:.0%} of the time: with the same matmuls, fusion gains "
            f"{1 / share:.2f}x at most"
        )
        contests.append(replace(contest, notes=(note,)))
    return contests


def share_of_products(model: Path, inputs: dict[str, np.ndarray], settings: Settings) -> float:
    """How much of an unfused run is spent in matmuls, which fusion does not make less of."""
    kernels = profile_model(model, inputs, "--fusion=none", f"--threads={settings.threads}")
    seconds = {
        kind: sum(k["median_seconds"] for k in kernels if k["kind"] == kind)
        for kind in {kernel["kind"] for kernel in kernels}
    }
    return seconds["contract"] / sum(seconds.values())
