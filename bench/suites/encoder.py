"""A pretrained sentence encoder at several batches and lengths."""

from __future__ import annotations

from bench.case import Case, Target, Twin, Work
from bench.models.encoder import Config, ensure_encoder, package_folder
from bench.models.sentences import passage
from bench.opweld_command import FUSION_LEVELS

SHAPES = [(1, 1), (1, 16), (1, 128), (1, 512), (8, 128)]

# So few tokens that what stands between kernels may count beside them.
SHORT = 16

# Token vectors are about 0.1 to 1; two engines that sum in other orders differ by about 1e-6.
TOLERANCE = 1e-4


def encoder(tiny: bool, threads: int) -> list[Case]:
    """The MiniLM sentence encoder from end to end, in fp32."""
    del threads
    return [encode(*shape) for shape in ([(1, 4)] if tiny else SHAPES)]


def encode(batch: int, length: int) -> Case:
    """All six layers on so many texts of so many tokens."""
    files = ensure_encoder()
    config = Config.load(package_folder() / "config.json")
    return Case(
        f"batch {batch}, length {length}",
        files.model,
        passage(files.tokenizer, batch, length),
        TOLERANCE,
        encoder_work(config, batch, length),
        Twin("bench.twins.bert", "Encoder", {"heads": config.num_attention_heads}),
        target=Target(ratio=0.8) if (batch, length) == (1, 128) else Target(),
        levels=FUSION_LEVELS,
        single_launch=batch * length <= SHORT,
    )


def encoder_work(config: Config, batch: int, length: int) -> Work:
    """The arithmetic of matmuls and attention; the weights of the layers read once."""
    hidden, layers = config.hidden_size, config.num_hidden_layers
    # Four projections, and a feed-forward of four times the width.
    weights = layers * 12 * hidden * hidden
    attended = layers * 4 * hidden * length * length
    return Work(
        read_bytes=4 * weights,
        written_bytes=4 * batch * length * hidden,
        flops=2 * batch * length * weights + batch * attended,
    )
