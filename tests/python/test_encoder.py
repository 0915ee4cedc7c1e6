"""The pretrained encoder, compiled, against ONNX Runtime and against itself."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper

from bench.models.encoder import Encoder, ensure_encoder
from bench.models.sentences import passage, tokenise
from bench.opweld_command import (
    FUSION_LEVELS,
    explain_model,
    input_options,
    opweld_path,
    run_model,
)
from tests.python.onnx_node_suite import run_cases

# Vector multiples and tails, in both free dimensions.
SHAPES = [(1, 1), (1, 3), (7, 8), (2, 15), (1, 16), (3, 17), (2, 31), (1, 33), (2, 128), (1, 512)]

SENTENCES = [
    "Short.",
    "Padding follows this sentence, since the next one is a good deal longer than it.",
    "The longest sentence of a batch decides the length of all of them; what is missing in the "
    "others is filled up, masked, and must not change what they mean.",
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return ensure_encoder()


@pytest.fixture(scope="module")
def sentences(encoder: Encoder) -> dict[str, np.ndarray]:
    return tokenise(encoder.tokenizer, SENTENCES)


def write_requests(
    encoder: Encoder, folder: Path, batches: dict[str, dict[str, np.ndarray]]
) -> list[dict]:
    """A request per batch, with ONNX Runtime's results as what is expected."""
    session = onnxruntime.InferenceSession(encoder.model, providers=["CPUExecutionProvider"])
    requests = []

    def write(name: str, tensor: str, value: np.ndarray) -> str:
        path = folder / f"{name}-{tensor}.pb"
        path.write_bytes(numpy_helper.from_array(value, tensor).SerializeToString())
        return str(path)

    for name, inputs in batches.items():
        hidden = session.run(["last_hidden_state"], inputs)[0]
        requests.append(
            {
                "name": name,
                "model": str(encoder.model),
                "inputs": [write(name, tensor, value) for tensor, value in inputs.items()],
                "outputs": [write(name, "last_hidden_state", hidden)],
                "rtol": 1e-4,
                "atol": 2e-5,
            }
        )
    return requests


@pytest.mark.parametrize("threads", [1, 2])
def test_one_compile_serves_every_length_and_batch(
    encoder: Encoder, sentences: dict, tmp_path: Path, threads: int
) -> None:
    batches = {f"{b}x{n}": passage(encoder.tokenizer, b, n) for b, n in SHAPES}
    batches["sentences"] = sentences
    requests = write_requests(encoder, tmp_path, batches)
    command = [str(opweld_path()), "run-cases", "--json", f"--threads={threads}"]
    answers = run_cases(command, requests)
    assert [a for a in answers if not a.passed] == []
    assert {(a.name, a.fusion) for a in answers} == set(product(batches, FUSION_LEVELS))
    # One compile for each level of fusion, however many shapes were run.
    assert sum(a.compiled for a in answers) == len(FUSION_LEVELS)


def test_projections_of_one_operand_are_one_kernel(encoder: Encoder) -> None:
    # Rows too few for a matmul to follow another in a kernel.
    kernels = explain_model(encoder.model, "--dim", "sequence=16")["kernels"]
    # The mask and the last norm; five in each layer, of which two begin with a norm.
    assert len(kernels) == 2 + 6 * 5
    assert sum(kernel["kind"] == "contract" for kernel in kernels) == 6 * 2
    chains = [kernel["nodes"] for kernel in kernels if kernel["kind"] == "chain"]
    assert len(chains) == 6 * 2
    for layer in range(6):
        path = f"/encoder/layer.{layer}/attention/self"
        merged = " + ".join(f"{path}/{name}/MatMul" for name in ("query", "key", "value"))
        assert any(merged in nodes for nodes in chains)


def test_strict_numerics_are_bit_identical_fused_and_unfused(
    encoder: Encoder, sentences: dict
) -> None:
    results = [
        run_model(encoder.model, sentences, f"--fusion={level}", "--numerics=strict")
        for level in FUSION_LEVELS
    ]
    bits = [result["last_hidden_state"].view(np.uint32) for result in results]
    assert bits[0].any()
    for other in bits[1:]:
        np.testing.assert_array_equal(bits[0], other)


@pytest.mark.parametrize("level", FUSION_LEVELS)
def test_results_do_not_depend_on_the_number_of_threads(
    encoder: Encoder, sentences: dict, level: str
) -> None:
    bits = [
        run_model(encoder.model, sentences, f"--fusion={level}", f"--threads={threads}")[
            "last_hidden_state"
        ].view(np.uint32)
        for threads in (1, 2, 3)
    ]
    assert bits[0].any()
    for other in bits[1:]:
        np.testing.assert_array_equal(bits[0], other)


def test_peak_memory_stays_near_the_weights(
    encoder: Encoder, sentences: dict, tmp_path: Path
) -> None:
    command = [opweld_path(), "run", encoder.model, *input_options(sentences, tmp_path)]
    command += ["--output", tmp_path / "out.npz"]
    # Linux counts what a process was before it became another program, so it must not begin as this
    # one, which may have PyTorch loaded.
    measure = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"
    )
    peak = subprocess.check_output([sys.executable, "-c", measure, *map(str, command)])
    weights = Path(f"{encoder.model}.data").stat().st_size
    assert weights < int(peak) < 1.3 * weights + 200e6
