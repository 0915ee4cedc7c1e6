"""Text in, sentence embeddings out: what surrounds the encoder in use.

The encoder turns tokens into one vector per token; a sentence's embedding is the mean of the
vectors of its tokens, padding left out, scaled to length one. The dot product of two embeddings
is then the cosine of the angle between them: 1 for the same meaning, about 0 for unrelated.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

# Long enough to be cut to any length that the encoder accepts (512).
PASSAGE = (
    "A transformer layer is a dozen operators, and most of the time of each goes into carrying "
    "its tensors to main memory and back. A compiler that welds neighbouring operators into one "
    "kernel keeps the intermediate values close to the arithmetic: the scores of attention never "
    "leave the core, the residual is added while the row is still at hand, and the norm that "
    "follows finds its input where it was produced. "
)


def tokenise(tokenizer: Path, texts: Sequence[str], length: int | None = None) -> dict:
    """The encoder's three inputs for a batch of texts, int64 [batch, sequence].

    Texts are padded to the longest of them, or all padded or cut to `length`.
    """
    reader = Tokenizer.from_file(str(tokenizer))
    reader.no_truncation()
    reader.enable_padding(length=length)
    if length is not None:
        reader.enable_truncation(length)
    encoded = reader.encode_batch(list(texts))
    return {
        "input_ids": np.array([e.ids for e in encoded], np.int64),
        "attention_mask": np.array([e.attention_mask for e in encoded], np.int64),
        "token_type_ids": np.array([e.type_ids for e in encoded], np.int64),
    }


def passage(tokenizer: Path, batch: int, length: int) -> dict:
    """Inputs of exactly `length` real tokens in each row, for timing; no padding."""
    texts = [f"Copy {row}. " + PASSAGE * (1 + length // 64) for row in range(batch)]
    return {name: values[:, :length] for name, values in tokenise(tokenizer, texts).items()}


def embed(hidden: np.ndarray, attention_mask: np.ndarray) -> np.ndarray:
    """Sentence embeddings [batch, hidden] from token vectors [batch, sequence, hidden]."""
    weight = attention_mask[:, :, None].astype(np.float64)
    mean = (hidden * weight).sum(axis=1) / weight.sum(axis=1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def similarities(hidden: np.ndarray, attention_mask: np.ndarray) -> np.ndarray:
    """Cosine similarity of every pair of sentences in a batch, [batch, batch]."""
    embeddings = embed(hidden, attention_mask)
    return embeddings @ embeddings.T
