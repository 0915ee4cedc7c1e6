"""Models of the package transformers, exported by PyTorch to ONNX, against eager mode."""

from pathlib import Path

import onnx
import opweld
import pytest
import torch
from opweld.torch import account_of

from bench.model_table import compare
from bench.models.exported_transformers import (
    cause_of,
    compare_exported,
    exported,
    for_export,
    free_sizes,
    kernels_of_last_layer,
    write,
)
from bench.models.small_transformers import MODELS

# Kernels of a layer, at the most; the backend has as many (docs/models.md). Attention that is not
# found, a norm or an activation by itself would be another.
LAYER = {
    "Llama": 5,
    "Mistral": 5,
    "Qwen2": 5,
    "Qwen3": 8,
    "Mixtral": 15,
    "Qwen2-MoE": 17,
    "GPT-2": 5,
    "BERT": 7,
    "DistilBERT": 7,
    "RoBERTa": 7,
    "ViT": 5,
    "CLIP text": 5,
    "CLIP vision": 5,
    "Whisper decoder": 10,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_file_agrees_with_eager_mode_at_every_length(name: str) -> None:
    found = compare_exported(name)
    assert found.difference < 2**-16
    assert 0 < found.layer <= LAYER[name]
    # Attention is found, in whatever spelling the exporter has it: nothing is left of the softmax.
    of_layers = [kernel for kernel in found.kernels if kernel["layer"]]
    assert any("Attention" in kernel["operators"] for kernel in of_layers)
    assert not any("IsNaN" in kernel["operators"] for kernel in of_layers)


@pytest.mark.parametrize("name", MODELS)
def test_a_layer_has_the_kernels_that_the_backend_gives_it(name: str) -> None:
    graphs, _ = compare(name)
    (segment,) = account_of(graphs[-1]).segments
    assert compare_exported(name).layer == kernels_of_last_layer(segment)


def test_layers_are_those_of_the_model() -> None:
    path = exported("BERT").path
    program = opweld.compile(path)
    layers = {kernel["layer"] for kernel in program.explain(batch=1, length=8).kernels}
    assert layers == {"", "encoder.layer.0", "encoder.layer.1"}


def test_sizes_of_a_file_are_free(tmp_path: Path) -> None:
    program = opweld.compile(exported("Whisper decoder").path)
    assert program.symbols == ["batch", "length"]
    assert [info.sizes[:2] for info in program.inputs] == [["batch", "length"], ["batch", 12]]
    program = opweld.compile(exported("ViT").path)
    assert [info.sizes for info in program.inputs] == [["batch", 3, 32, 32]]
    assert list(free_sizes("ViT")["pixel_values"]) == [0]


class Stem(torch.nn.Module):
    """What vision and speech models begin with: a convolution, an activation, another."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv1d(8, 16, 3, padding=1)
        self.second = torch.nn.Conv1d(16, 16, 3, stride=2, padding=1)
        self.image = torch.nn.Conv2d(3, 16, 4, stride=4)

    def forward(
        self, sound: torch.Tensor, image: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of tokens of both."""
        gelu = torch.nn.functional.gelu
        tokens = gelu(self.second(gelu(self.first(sound)))).permute(0, 2, 1)
        return tokens, gelu(self.image(image)).flatten(2).transpose(1, 2)


def test_convolutions_of_any_size(tmp_path: Path) -> None:
    model = Stem().eval()
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    inputs = (torch.randn(2, 8, 20), torch.randn(2, 3, 16, 16))
    path = tmp_path / "stem.onnx"
    with torch.no_grad():
        torch.onnx.export(
            model,
            inputs,
            dynamo=True,
            dynamic_shapes=({0: batch, 2: length}, {0: batch}),
            verbose=False,
        ).save(path)
    assert "Conv" in {node.op_type for node in onnx.load(path).graph.node}
    program = opweld.compile(path)
    for count, size in ((2, 20), (1, 7), (3, 33)):
        given = (torch.randn(count, 8, size), torch.randn(count, 3, 16, 16))
        with torch.no_grad():
            wanted = model(*given)
        for actual, expected in zip(program(*given), wanted, strict=True):
            torch.testing.assert_close(actual, expected, rtol=2**-10, atol=2**-16)
    # Each convolution with its activation; before it, where windows overlap, their positions, which
    # follow from the length, and the windows themselves.
    kernels = [kernel["kind"] for kernel in program.explain({"batch": 2, "length": 20}).kernels]
    assert kernels == ["map", "map", "contract", "map", "map", "contract", "contract"]


def test_what_cannot_be_exported_is_told_by_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        try:
            raise TypeError("no such operator\nand more")
        except TypeError as cause:
            raise RuntimeError("the exporter's own words") from cause

    monkeypatch.setattr(torch.onnx, "export", refuse)
    write("ViT", tmp_path)
    assert (tmp_path / "error.txt").read_text() == "TypeError: no such operator"
    assert cause_of(ValueError()) == "ValueError: "
    assert for_export("Llama").config.use_cache is False
