"""The generated models themselves: right by independent arithmetic, and shaped as promised."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from bench.models.cache import ROOT, made_once
from bench.models.encoder import ensure_encoder
from bench.models.llama_layer import (
    PHASES,
    SPELLINGS,
    Variant,
    past_names,
    present_names,
    random_inputs,
    write_models,
)
from bench.models.llama_spelling import Config
from bench.models.sentences import passage, similarities, tokenise

TINY = Config(hidden=48, heads=6, kv_heads=6, mlp=80, layers=2, positions=64)
GROUPED = Config(hidden=48, heads=6, kv_heads=2, mlp=80, layers=2, positions=64)
HALF = Config(hidden=48, heads=6, kv_heads=2, mlp=80, layers=1, positions=64, dtype="float16")
VARIANTS = [Variant(spelling, phase) for spelling in SPELLINGS for phase in PHASES]


def run(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.fixture(scope="module", params=[TINY, GROUPED, HALF], ids=["mha", "gqa", "half"])
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Config, Path]]:
    folder = tmp_path_factory.mktemp("llama")
    write_models(folder, request.param, VARIANTS)
    yield request.param, folder


class Oracle:
    """The decoder layers in fp64 numpy, written from the formulas and not from the graphs."""

    def __init__(self, config: Config, model: Path) -> None:
        self.config = config
        weights = onnx.load(model).graph.initializer
        self.weights = {w.name: numpy_helper.to_array(w).astype(np.float64) for w in weights}

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """RMSNorm times gamma."""
        scale = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + self.config.norm_epsilon)
        return x / scale * self.weights[f"{name}.weight"]

    def rotate(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Turns pair (i, i + head / 2), as a complex number, by position * base^(-2i / head)."""
        half = self.config.head // 2
        rates = self.config.rope_base ** (-np.arange(half) / half)
        turn = np.exp(1j * positions[:, None, :, None] * rates)
        turned = (x[..., :half] + 1j * x[..., half:]) * turn
        return np.concatenate([turned.real, turned.imag], axis=-1)

    def layer(self, index: int, x: np.ndarray, inputs: dict, outputs: dict) -> np.ndarray:
        """One layer, each query against the keys that are not later than it."""
        config, path = self.config, f"model.layers.{index}"
        batch, length, _ = x.shape

        def linear(module: str, tensor: np.ndarray) -> np.ndarray:
            return tensor @ self.weights[f"{path}.{module}.weight"]

        def heads(tensor: np.ndarray) -> np.ndarray:
            return tensor.reshape(batch, length, -1, config.head).swapaxes(1, 2)

        normed = self.norm(x, f"{path}.input_layernorm")
        q, k, v = (heads(linear(f"self_attn.{part}_proj", normed)) for part in "qkv")
        positions = inputs["position_ids"]
        q, k = self.rotate(q, positions), self.rotate(k, positions)
        past_k, past_v = (inputs.get(name, k[:, :, :0]) for name in past_names(index))
        k = np.concatenate([past_k.astype(np.float64), k], axis=2)
        v = np.concatenate([past_v.astype(np.float64), v], axis=2)
        outputs.update(zip(present_names(index), (k, v), strict=True))
        context = np.zeros_like(q)
        for b, h, i in np.ndindex(batch, config.heads, length):
            shared = h // (config.heads // config.kv_heads)
            last = k.shape[2] - length + i + 1
            scores = k[b, shared, :last] @ q[b, h, i] / np.sqrt(config.head)
            weights = np.exp(scores - scores.max())
            context[b, h, i] = weights / weights.sum() @ v[b, shared, :last]
        x = x + linear("self_attn.o_proj", context.swapaxes(1, 2).reshape(x.shape))
        normed = self.norm(x, f"{path}.post_attention_layernorm")
        gate = linear("mlp.gate_proj", normed)
        product = gate / (1 + np.exp(-gate)) * linear("mlp.up_proj", normed)
        return x + linear("mlp.down_proj", product)

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All outputs that any phase of the model has."""
        x, outputs = inputs["hidden_states"].astype(np.float64), {}
        for index in range(self.config.layers):
            x = self.layer(index, x, inputs, outputs)
        return {"last_hidden_state": x, **outputs}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: f"{v.spelling}-{v.phase}")
def test_llama_is_right_by_the_formulas(family: tuple[Config, Path], variant: Variant) -> None:
    config, folder = family
    path = folder / variant.file_name
    tolerance = 1e-5 if config.dtype == "float32" else 1e-2
    for batch, sequence, past in [(1, 1, 7), (2, 5, 3), (1, 17, 31), (3, 8, 0)]:
        past = past if variant.phase == "decode" else 0
        inputs = random_inputs(config, variant.phase, batch, sequence, past)
        expected = Oracle(config, path).run(inputs)
        actual = run(path, inputs)
        assert set(actual) == set(expected if variant.phase != "whole" else ["last_hidden_state"])
        for name, value in actual.items():
            assert value.dtype == config.dtype
            np.testing.assert_allclose(value, expected[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("phase", PHASES)
def test_the_reference_evaluator_agrees_on_both_spellings(
    family: tuple[Config, Path], phase: str
) -> None:
    config, folder = family
    inputs = random_inputs(config, phase, batch=2, sequence=3, past=4 if phase == "decode" else 0)
    results = [
        ReferenceEvaluator(str(folder / Variant(spelling, phase).file_name)).run(None, inputs)
        for spelling in SPELLINGS
    ]
    tolerance = 1e-5 if config.dtype == "float32" else 1e-2
    for left, right in zip(*results, strict=True):
        np.testing.assert_allclose(
            left.astype(np.float64), right.astype(np.float64), rtol=tolerance, atol=tolerance
        )


def test_decoding_token_by_token_equals_the_whole_sequence(tmp_path: Path) -> None:
    write_models(tmp_path, GROUPED, VARIANTS)
    inputs = random_inputs(GROUPED, "whole", batch=2, sequence=9)
    whole = run(tmp_path / "newest-whole.onnx", inputs)["last_hidden_state"]

    def tokens(start: int, end: int) -> dict[str, np.ndarray]:
        return {name: value[:, start:end] for name, value in inputs.items()}

    step = run(tmp_path / "primitives-prefill.onnx", tokens(0, 4))
    for token in range(4, 9):
        cache = {
            past: step[present]
            for layer in range(GROUPED.layers)
            for past, present in zip(past_names(layer), present_names(layer), strict=True)
        }
        step = run(tmp_path / "primitives-decode.onnx", tokens(token, token + 1) | cache)
        np.testing.assert_allclose(
            step["last_hidden_state"][:, 0], whole[:, token], rtol=1e-5, atol=1e-5
        )


def test_each_spelling_keeps_to_its_operators(family: tuple[Config, Path]) -> None:
    config, folder = family
    raised = {"RMSNormalization", "RotaryEmbedding", "Attention", "Swish"}
    for variant in VARIANTS:
        path = folder / variant.file_name
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path, load_external_data=False)
        operators = Counter(node.op_type for node in model.graph.node)
        if variant.spelling == "newest":
            assert operators == {
                "MatMul": 7 * config.layers,
                "RMSNormalization": 2 * config.layers,
                "RotaryEmbedding": 2 * config.layers,
                "Attention": config.layers,
                "Swish": config.layers,
                "Mul": config.layers,
                "Add": 2 * config.layers,
            }
        else:
            assert not raised & set(operators)
        sizes = model.graph.input[0].type.tensor_type.shape.dim
        assert [size.dim_param for size in sizes[:2]] == ["batch", "sequence"]


def test_weights_do_not_change_from_run_to_run(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_models(tmp_path / name, TINY, VARIANTS[:1])
    first, second = (
        sorted((tmp_path / name).iterdir(), key=lambda file: file.name)
        for name in ("first", "second")
    )
    assert [f.name for f in first] == ["primitives-whole.onnx", "weights.data"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hidden", "48", "--heads", "5"], "hidden (48) must be heads (5) times an even number"),
        (["--hidden", "48", "--heads", "6", "--kv-heads", "4"], "multiple of kv heads (4)"),
        (["--layers", "0"], "every size must be at least 1"),
    ],
)
def test_sizes_that_make_no_model_are_refused(
    tmp_path: Path, options: list[str], message: str
) -> None:
    command = [sys.executable, "-m", "bench.models.llama_layer", str(tmp_path / "out"), *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_encoder_gives_the_published_similarities() -> None:
    # The example in the model's own documentation, as its authors computed it with PyTorch.
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    published = [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
    encoder = ensure_encoder()
    inputs = tokenise(encoder.tokenizer, texts)
    hidden = run(encoder.model, inputs)["last_hidden_state"]
    np.testing.assert_allclose(
        similarities(hidden, inputs["attention_mask"]), published, rtol=0, atol=6e-5
    )


def test_padding_does_not_change_a_sentence() -> None:
    encoder = ensure_encoder()
    short = tokenise(encoder.tokenizer, ["A short sentence."])
    padded = tokenise(encoder.tokenizer, ["A short sentence."], length=33)
    count = short["input_ids"].shape[1]
    alone, among = (run(encoder.model, x)["last_hidden_state"] for x in (short, padded))
    np.testing.assert_allclose(alone, among[:, :count], rtol=0, atol=2e-5)


def test_the_encoder_is_spelled_as_exported() -> None:
    path = ensure_encoder().model
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path, load_external_data=False)
    operators = Counter(node.op_type for node in model.graph.node)
    # Six layers; per layer two norms and one activation; one more norm over the embeddings.
    assert operators["Pow"] == operators["Sqrt"] == 13
    assert operators["ReduceMean"] == 26
    assert operators["Erf"] == operators["Softmax"] == 6
    assert operators["MatMul"] == 6 * 8
    assert operators["Reshape"] == operators["Concat"] == 6 * 4
    assert not {"LayerNormalization", "Gelu", "Attention"} & set(operators)
    for value in [*model.graph.input, *model.graph.output]:
        sizes = value.type.tensor_type.shape.dim
        assert [size.dim_param for size in sizes[:2]] == ["batch", "sequence"]


def test_a_passage_fills_every_length() -> None:
    for batch, length in [(1, 1), (2, 128), (3, 512)]:
        inputs = passage(ensure_encoder().tokenizer, batch, length)
        for values in inputs.values():
            assert values.shape == (batch, length)
        assert inputs["attention_mask"].all()


def test_what_is_made_once_is_made_again_after_a_failure(tmp_path: Path) -> None:
    folder, calls = tmp_path / "made", []

    def fail(partial: Path) -> None:
        (partial / "half").touch()
        raise RuntimeError

    def make(partial: Path) -> None:
        calls.append(partial)
        (partial / "whole").touch()

    with pytest.raises(RuntimeError):
        made_once(folder, "key", fail)
    assert not folder.exists()
    for key in ("key", "key", "other"):
        assert made_once(folder, key, make) == folder
        assert sorted(f.name for f in folder.iterdir()) == ["made-from.sha256", "whole"]
    assert len(calls) == 2
