"""The demo: a real sentence encoder, then a layer of Llama 2 7B, fused and unfused.

./dev demo            both models; the Llama layer takes 1 GB of disk and 3 GB of memory
./dev demo --quick    the encoder only
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from bench.models import graph_writer, llama_layer, llama_newest, llama_primitives, llama_spelling
from bench.models.cache import BUILD, ROOT, digest_of, made_once
from bench.models.encoder import ensure_encoder
from bench.models.sentences import passage, similarities, tokenise
from bench.opweld_command import (
    FUSION_LEVELS,
    OpweldError,
    PacedRuns,
    explain_model,
    run_model,
)
from bench.table import megabytes, milliseconds, table
from bench.turns import take_turns

SENTENCES = [
    "A compiler fuses neighbouring operators into one kernel.",
    "Adjacent operations are merged so that data stays in cache.",
    "The cat dozes in the afternoon sun.",
    "A kitten is asleep on the warm windowsill.",
    "Add the onions and fry them until golden.",
    "How long should I cook the vegetables for?",
]
# How many tokens are timed: the length at which the encoder's speed is usually told.
LENGTH = 128
ROUNDS = 15
LLAMA = llama_spelling.Config()


def main() -> None:
    """Runs the demo and prints what it finds."""
    parser = argparse.ArgumentParser(
        prog="./dev demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="leave out the Llama layer")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    threads = f"--threads={arguments.threads}"
    try:
        show_encoder(threads)
        if not arguments.quick:
            show_llama(threads)
    except OpweldError as error:
        raise SystemExit(f"demo: {error}") from error


def show_encoder(threads: str) -> None:
    """Meaning, agreement, fusion and speed of the sentence encoder."""
    encoder = ensure_encoder()
    heading("A sentence encoder: all-MiniLM-L6-v2, pretrained, 6 layers, 384 wide")
    print(f"  {encoder.model.relative_to(ROOT)}\n")
    inputs = tokenise(encoder.tokenizer, SENTENCES)
    hidden = run_model(encoder.model, inputs, threads)["last_hidden_state"]
    print("Similarity of meaning, by the fused model (1 is the same, about 0 unrelated):\n")
    print(similarity_table(similarities(hidden, inputs["attention_mask"])))
    heading("What was fused")
    options = [threads, "--dim=batch=1", f"--dim=sequence={LENGTH}"]
    print(fusion_log(explain_model(encoder.model, *options)["log"]))
    heading(f"What it saves, for one text of {LENGTH} tokens")
    print(account(encoder.model, passage(encoder.tokenizer, 1, LENGTH), threads))


def show_llama(threads: str) -> None:
    """Kernels, traffic and time of a decoder layer in two spellings."""
    heading(f"A decoder layer shaped like Llama 2 7B, random weights, fp32, {LENGTH} tokens")
    folder = ensure_llama()
    inputs = llama_layer.random_inputs(LLAMA, "whole", batch=1, sequence=LENGTH)
    notes = {
        "primitives": "as an exporter of opset 17 leaves it: every norm, rotation and softmax "
        "spelled out",
        "newest": "in the operators of opset 24: RMSNormalization, RotaryEmbedding, Attention, "
        "Swish",
    }
    for spelling, note in notes.items():
        model = folder / llama_layer.Variant(spelling, "whole").file_name
        print(f"{spelling}: {note}\n")
        print(account(model, inputs, threads) + "\n")


def ensure_llama() -> Path:
    """The folder with both spellings, written the first time."""
    modules = (llama_layer, llama_spelling, llama_primitives, llama_newest, graph_writer)
    key = digest_of(LLAMA, files=[Path(module.__file__) for module in modules])
    variants = [llama_layer.Variant(name, "whole") for name in llama_layer.SPELLINGS]

    def write(folder: Path) -> None:
        print("  writing the model's weights, 800 MB, once ...\n", flush=True)
        llama_layer.write_models(folder, LLAMA, variants)

    return made_once(BUILD / "models" / "llama-7b", key, write)


def account(model: Path, inputs: dict[str, np.ndarray], threads: str) -> str:
    """A table of what each level of fusion costs, and how far its results are from unfused."""
    with ExitStack() as stack:
        runs = {
            level: stack.enter_context(PacedRuns(model, inputs, f"--fusion={level}", threads))
            for level in FUSION_LEVELS
        }
        seconds = take_turns({level: run.run_once for level, run in runs.items()}, ROUNDS)
    medians = {level: statistics.median(values) for level, values in seconds.items()}
    rows = [
        [
            level,
            run.account.kernels,
            megabytes(run.account.read_bytes),
            megabytes(run.account.written_bytes),
            milliseconds(medians[level]),
            f"{medians['none'] / medians[level]:.2f}x",
            "-" if level == "none" else difference(run.outputs, runs["none"].outputs),
            f"{run.account.compile_seconds:.1f} s",
        ]
        for level, run in runs.items()
    ]
    header = ["fusion", "kernels", "read", "written", "time", "speed", "difference", "compiled in"]
    notes = (
        f"  time: median of {ROUNDS} runs, the levels taking turns; "
        "difference: the largest of any value to unfused"
    )
    return f"{table(header, rows)}\n\n{notes}"


def difference(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> str:
    """The largest difference between any two values of two results."""
    return f"{np.max([np.abs(actual[name] - expected[name]).max() for name in expected]):.1e}"


def similarity_table(values: np.ndarray) -> str:
    """Each sentence against each, numbered."""
    numbers = range(1, len(SENTENCES) + 1)
    rows = [
        [f"{number}  {sentence}", *(f"{value:.2f}" for value in row)]
        for number, sentence, row in zip(numbers, SENTENCES, values, strict=True)
    ]
    return table(["", *numbers], rows)


def fusion_log(lines: Sequence[str]) -> str:
    """The lines of the log; those that differ from an earlier one in numbers only are counted."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith("AutoFusion: keep"):
            groups.setdefault(re.sub(r"\d+(\.\d+)?", "#", line), []).append(line)
    shown = []
    for first, *others in groups.values():
        more = f"   (and {len(others)} more like it)" if others else ""
        shown.append(f"  {first}{more}")
    return "\n".join(shown) or "  nothing"


def heading(text: str) -> None:
    """Prints a heading, ruled."""
    print(f"\n{text}\n{'=' * len(text)}\n")


if __name__ == "__main__":
    main()
