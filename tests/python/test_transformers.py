"""Models of the package transformers through the backend, against eager mode."""

from pathlib import Path

import pytest
import torch

from bench.model_table import BEGIN, DOCUMENT, END, HEAD, compare, row, write
from bench.models.small_transformers import MODELS, make
from tests.python.torch_helpers import Compiled

# PyTorch traces a model with a sliding window once for lengths within it and once for others.
GRAPHS = {"Mistral": 2}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_with_eager_mode_at_every_length(name: str) -> None:
    graphs, difference = compare(name)
    assert difference < 2**-16
    assert len(graphs) == GRAPHS.get(name, 1)
    # One program for all lengths, and nothing in eager mode.
    assert all(graph.stats.compiles == 1 for graph in graphs)
    assert all(not graph.stats.eager for graph in graphs)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.generates])
def test_greedy_generation_gives_the_tokens_of_eager_mode(name: str) -> None:
    model = make(name)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    tokens = MODELS[name].inputs(7)["input_ids"]
    settings = {
        "attention_mask": torch.ones_like(tokens),
        "max_new_tokens": 12,
        "do_sample": False,
        "cache_implementation": "static",
        "disable_compile": True,  # it is us who compile
    }
    with torch.no_grad():
        expected = model.generate(tokens, **settings)
        compiled = Compiled(model.forward)
        model.forward = compiled
        actual = model.generate(tokens, **settings)
    assert actual.tolist() == expected.tolist()
    # The first step, which makes the cache, and all the others.
    assert len(compiled.graphs) == 2
    decoding = compiled.graphs[1]
    assert decoding.stats.calls == 11
    # Keys and values of both layers are written where they lie.
    assert len(decoding.partition.in_place.updates) == 4
    assert len(decoding.segments) == 1 and not decoding.stats.eager
    assert all(graph.stats.repacks == 0 for graph in compiled.graphs)


def test_the_table_has_every_model_and_is_made_by_its_command(tmp_path: Path) -> None:
    text = DOCUMENT.read_text()
    assert BEGIN in text and END in text
    lines = text[: text.index(BEGIN)].splitlines()
    names = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]
    assert names[1:] == list(MODELS)
    made = row("DistilBERT")
    write([made], tmp_path / "models.md")
    again = (tmp_path / "models.md").read_text()
    assert again.startswith(HEAD + made + "\n") and again.index(BEGIN) < again.index(END)
    # All but the kernels, which are those of the day, and the last digits of the difference.
    (kept,) = [line for line in lines if line.startswith("| DistilBERT |")]
    for column in (1, 2, 3, 6, 7):
        assert made.split(" | ")[column - 1] == kept.split(" | ")[column - 1]
