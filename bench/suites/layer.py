"""One layer of well-known transformers, with random weights of their sizes."""

from __future__ import annotations

from pathlib import Path

from bench.case import Case, Target, Twin, Work
from bench.models import bert_layer, graph_writer, llama_layer
from bench.models.cache import BUILD, digest_of, made_once
from bench.models.encoder import Config as BertConfig
from bench.models.llama_layer import Variant, random_inputs, write_models
from bench.models.llama_spelling import Config as LlamaConfig
from bench.opweld_command import FUSION_LEVELS
from bench.suites.encoder import SHORT, encoder_work

LLAMA_2_7B = LlamaConfig()
TINY_LLAMA = LlamaConfig(hidden=48, heads=6, kv_heads=6, mlp=80, positions=64)
BERT_BASE = BertConfig(768, 12, 1, 512, 1e-12)
TINY_BERT = BertConfig(48, 6, 1, 64, 1e-12)

# Outputs of a layer are up to about 10; sums of up to 11008 products, in fp32.
TOLERANCE = 2e-3


def layer(tiny: bool, threads: int) -> list[Case]:
    """Llama 2 7B (prefill, decode) and BERT-base, one layer in fp32."""
    del threads
    if tiny:
        return [
            llama("tiny Llama", TINY_LLAMA, "prefill", 5),
            llama("tiny Llama", TINY_LLAMA, "decode", 1, past=7),
            bert("tiny BERT", TINY_BERT, 2, 5),
        ]
    return [
        llama("Llama-2-7B", LLAMA_2_7B, "prefill", 16),
        llama("Llama-2-7B", LLAMA_2_7B, "prefill", 128),
        llama("Llama-2-7B", LLAMA_2_7B, "prefill", 512),
        llama("Llama-2-7B", LLAMA_2_7B, "decode", 1, past=512),
        bert("BERT-base", BERT_BASE, 1, 128),
        bert("BERT-base", BERT_BASE, 8, 128),
    ]


def llama(
    name: str, config: LlamaConfig, phase: str, length: int, past: int = 0, batch: int = 1
) -> Case:
    """A decoder layer that keeps keys and values, in two spellings."""
    sources = sorted(Path(llama_layer.__file__).parent.glob("llama_*.py"))
    sources.append(Path(graph_writer.__file__))
    variants = [Variant(spelling, phase) for spelling in ("primitives", "newest")]
    folder = made_once(
        BUILD / "models" / "arena" / f"llama-{config.hidden}",
        digest_of(config, files=sources),
        lambda to: write_models(
            to, config, [Variant(v.spelling, p) for v in variants for p in ("prefill", "decode")]
        ),
    )
    primitives, newest = (folder / variant.file_name for variant in variants)
    after = f" after {past}" if past else ""
    together = f", batch {batch}" if batch > 1 else ""
    return Case(
        f"{name} {phase} {length}{after}{together}",
        primitives,
        random_inputs(config, phase, batch, length, past),
        TOLERANCE,
        llama_work(config, length, past, batch),
        Twin("bench.twins.llama", "Layer", {"config": config}),
        spellings={"newest operators": newest},
        target=Target(floor=0.95, ratio=0.85, either=True, kernels=5 if past else 3),
        levels=FUSION_LEVELS,
        single_launch=batch * length <= SHORT,
    )


def llama_work(config: LlamaConfig, length: int, past: int, batch: int = 1) -> Work:
    """Weights and cache read once, keys and values written; the arithmetic that is not masked."""
    weights = sum(rows * columns for rows, columns in config.matrices().values())
    kept = 2 * config.kv_heads * config.head
    pairs = length * past + length * (length + 1) / 2
    return Work(
        read_bytes=4 * (weights + batch * (past * kept + length * config.hidden)),
        written_bytes=4 * batch * ((past + length) * kept + length * config.hidden),
        flops=batch * (2 * length * weights + 4 * config.hidden * pairs),
    )


def bert(name: str, config: BertConfig, batch: int, length: int) -> Case:
    """An encoder layer, its norms and GELU spelled out, all tokens real."""
    return Case(
        f"{name} batch {batch}, length {length}",
        bert_layer.ensure_layer(config),
        bert_layer.random_inputs(config, batch, length),
        TOLERANCE,
        encoder_work(config, batch, length),
        Twin("bench.twins.bert", "Layer", {"heads": config.num_attention_heads}),
        target=Target(ratio=0.8) if (batch, length) == (1, 128) else Target(),
        levels=FUSION_LEVELS,
        single_launch=batch * length <= SHORT,
    )
