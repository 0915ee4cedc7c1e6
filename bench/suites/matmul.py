"""Single matmuls with constant weights, as a fraction of what the machine can do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.limits import measure_limits
from bench.models.cache import BUILD, digest_of, made_once
from bench.suites.contest import Contest, Settings, hold_contest

# One row has to read all weights for each answer, so its floor is that of memory; the others use
# each weight often enough for arithmetic to decide.
# Rows, depth, columns: squares, then the shapes of MiniLM and of Llama 2 7B at 128 tokens.
SHAPES = [
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (128, 384, 384),
    (128, 384, 1536),
    (128, 1536, 384),
    (128, 4096, 4096),
    (1, 4096, 4096),
]
SEED = 20
# Sums of up to 4096 products of normal numbers: about 64, in fp32.
TOLERANCE = 1e-3


def matmul(settings: Settings) -> list[Contest]:
    """One fp32 matmul at a time, against ONNX Runtime and the machine's own limits."""
    limits = measure_limits(settings.threads)
    contests = []
    for rows, depth, columns in SHAPES:
        generator = np.random.default_rng(SEED)
        inputs = {"x": generator.standard_normal((rows, depth), np.float32)}
        name = f"{rows} x {depth} x {columns}"
        model = ensure_model(rows, depth, columns)
        contest = hold_contest(name, model, inputs, TOLERANCE, settings, levels=["auto"])
        arithmetic = 2 * rows * depth * columns / limits.flops
        weights = 4 * depth * columns / limits.read_bytes if rows == 1 else 0.0
        contests.append(contest.against(max(arithmetic, weights)))
    return contests


def ensure_model(rows: int, depth: int, columns: int) -> Path:
    """An ONNX file of one MatMul by a constant, made once."""

    def write(folder: Path) -> None:
        generator = np.random.default_rng(SEED + 1)
        weights = generator.standard_normal((depth, columns), np.float32)
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "matmul",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])],
            [numpy_helper.from_array(weights, "w")],
        )
        opset = [helper.make_opsetid("", 17)]
        onnx.save(
            helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "model.onnx"
        )

    folder = BUILD / "models" / f"matmul-{rows}-{depth}-{columns}"
    key = digest_of(SEED, rows, depth, columns)
    return made_once(folder, key, write) / "model.onnx"
