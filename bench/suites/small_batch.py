"""Few tokens, kernel by kernel and with all kernels in one launch."""

from __future__ import annotations

from bench.case import Case
from bench.suites.encoder import encode
from bench.suites.layer import BERT_BASE, LLAMA_2_7B, TINY_BERT, TINY_LLAMA, bert, llama

TOKENS = [1, 4, 16]
PAST = 512


def small_batch(tiny: bool, threads: int) -> list[Case]:
    """One to sixteen tokens through MiniLM, BERT-base and Llama 2 7B layers, in one launch too."""
    del threads
    if tiny:
        return [
            encode(1, 3),
            bert("tiny BERT", TINY_BERT, 1, 3),
            llama("tiny Llama", TINY_LLAMA, "decode", 1, past=7, batch=2),
        ]
    return [
        *(encode(1, tokens) for tokens in TOKENS),
        *(bert("BERT-base", BERT_BASE, 1, tokens) for tokens in TOKENS),
        # So many sequences, each of which goes on by a token.
        *(llama("Llama-2-7B", LLAMA_2_7B, "decode", 1, PAST, batch) for batch in TOKENS),
    ]
