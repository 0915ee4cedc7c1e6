"""A pretrained sentence encoder at several batches and lengths."""

from __future__ import annotations

from bench.models.encoder import ensure_encoder
from bench.models.sentences import passage
from bench.suites.contest import Contest, Settings, hold_contest

SHAPES = [(1, 16), (1, 128), (1, 512), (8, 128)]

# Token vectors are about 0.1 to 1; two engines that sum in other orders differ by about 1e-6.
TOLERANCE = 1e-4


def encoder(settings: Settings) -> list[Contest]:
    """The MiniLM sentence encoder, fp32, against ONNX Runtime."""
    files = ensure_encoder()
    return [
        hold_contest(
            f"batch {batch}, length {length}",
            files.model,
            passage(files.tokenizer, batch, length),
            TOLERANCE,
            settings,
        )
        for batch, length in SHAPES
    ]
