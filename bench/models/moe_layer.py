"""The mixture of experts of a decoder layer as in Mixtral, with seeded weights, as ONNX models.

    h = RMSNorm(x)                       p = softmax(h router), the best two of each token
    y = x + sum over those of p / (their sum) * down(silu(gate h) * up h)

Written three times. `fused` has the experts as the operator MoE of com.microsoft, in which each
token meets those it has chosen alone. `dense` is in standard operators, which have no product in
groups: every expert computes every token, and those that were not chosen count zero times.
`branches` is what PyTorch's exporter makes of the loop over experts in Mixtral of Hugging Face's
transformers: NonZero finds who chose an expert, Gather picks their rows, and ScatterElements adds
the results.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.models.cache import BUILD, digest_of, made_once

SPELLINGS = ("fused", "dense", "branches")


@dataclass(frozen=True)
class Mixture:
    """Sizes, and the seed of all weights."""

    width: int  # of a token
    inner: int  # of an expert
    experts: int
    chosen: int = 2
    epsilon: float = 1e-5
    seed: int = 0

    @property
    def expert_elements(self) -> int:
        """Weights of one expert."""
        return 3 * self.width * self.inner


def moe_models(mixture: Mixture) -> dict[str, Path]:
    """The model in each spelling; tokens are free."""

    def write(folder: Path) -> None:
        weights = weights_of(mixture)
        writers = {"fused": _fused, "dense": _dense, "branches": _branches}
        for spelling, write_one in writers.items():
            onnx.save(write_one(mixture, weights), folder / f"{spelling}.onnx")

    name = f"moe-{mixture.width}-{mixture.inner}-{mixture.experts}"
    folder = BUILD / "models" / "arena" / name
    made_once(folder, digest_of(asdict(mixture), files=[Path(__file__)]), write)
    return {spelling: folder / f"{spelling}.onnx" for spelling in SPELLINGS}


def weights_of(mixture: Mixture) -> dict[str, np.ndarray]:
    """gamma, router [D, E], gate and up [E, I, D], down [E, D, I]: elements stay about as large."""
    generator = np.random.default_rng(mixture.seed)
    width, inner, experts = mixture.width, mixture.inner, mixture.experts

    def random(*shape: int, depth: int) -> np.ndarray:
        return generator.standard_normal(shape, np.float32) / np.float32(depth**0.5)

    return {
        "gamma": np.float32(1) + random(width, depth=100),
        "router": random(width, experts, depth=width),
        "gate": random(experts, inner, width, depth=width),
        "up": random(experts, inner, width, depth=width),
        "down": random(experts, width, inner, depth=inner),
    }


def experts_in_use(mixture: Mixture, x: np.ndarray) -> int:
    """How many experts at least one of the tokens chooses."""
    weights = weights_of(mixture)
    scale = np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + mixture.epsilon)
    logits = (x / scale * weights["gamma"]) @ weights["router"]
    best = np.argsort(-logits, axis=-1)[:, : mixture.chosen]
    return len(np.unique(best))


def _fused(mixture: Mixture, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    # Rows of gate and up take turns.
    both = np.stack([weights["gate"], weights["up"]], axis=2)
    both = both.reshape(mixture.experts, 2 * mixture.inner, mixture.width)
    tensors = {name: weights[name] for name in ("gamma", "router", "down")} | {"gate_up": both}
    nodes = [
        *_begin(mixture),
        helper.make_node(
            "MoE",
            ["h", "logits", "gate_up", "", "down"],
            ["experts"],
            name="experts",
            domain="com.microsoft",
            k=mixture.chosen,
            normalize_routing_weights=1,
            activation_type="swiglu",
            swiglu_fusion=1,
            activation_alpha=1.0,
            activation_beta=0.0,
        ),
        helper.make_node("Add", ["x", "experts"], ["y"], name="residual"),
    ]
    return _model(mixture, nodes, tensors)


def _dense(mixture: Mixture, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    tensors = {name: weights[name] for name in ("gamma", "router")}
    # [E, in, out], and the last axis of what each expert gives for each token.
    for name in ("gate", "up", "down"):
        tensors[name] = np.ascontiguousarray(weights[name].transpose(0, 2, 1))
    tensors |= {
        "chosen": np.array([mixture.chosen], np.int64),
        "zero": np.array(0, np.float32),
        "last": np.array([-1], np.int64),
        "first": np.array([0], np.int64),
    }
    nodes = [
        *_begin(mixture),
        helper.make_node("Softmax", ["logits"], ["p"], axis=-1),
        helper.make_node("TopK", ["p", "chosen"], ["best", "which"], axis=-1),
        helper.make_node("ReduceMin", ["best", "last"], ["least"], keepdims=1),
        helper.make_node("ReduceSum", ["best", "last"], ["total"], keepdims=1),
        helper.make_node("GreaterOrEqual", ["p", "least"], ["is_chosen"]),
        helper.make_node("Where", ["is_chosen", "p", "zero"], ["kept"]),
        helper.make_node("Div", ["kept", "total"], ["share"]),
        helper.make_node("Transpose", ["share"], ["by_expert"], perm=[1, 0]),
        helper.make_node("Unsqueeze", ["by_expert", "last"], ["scale"]),
        helper.make_node("MatMul", ["h", "gate"], ["g"]),
        helper.make_node("MatMul", ["h", "up"], ["u"]),
        helper.make_node("Sigmoid", ["g"], ["open"]),
        helper.make_node("Mul", ["g", "open"], ["silu"]),
        helper.make_node("Mul", ["silu", "u"], ["inner"]),
        helper.make_node("MatMul", ["inner", "down"], ["each"]),
        helper.make_node("Mul", ["each", "scale"], ["scaled"]),
        helper.make_node("ReduceSum", ["scaled", "first"], ["experts"], keepdims=0),
        helper.make_node("Add", ["x", "experts"], ["y"]),
    ]
    return _model(mixture, nodes, tensors)


def _branches(mixture: Mixture, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    tensors = {name: weights[name] for name in ("gamma", "router")}
    tensors |= {
        "chosen": np.array([mixture.chosen], np.int64),
        "experts": np.array(mixture.experts, np.int64),
        "off_on": np.array([0, 1], np.int64),
        "last": np.array([-1], np.int64),
        "halves": np.array([1, 1], np.int64),
        "second": np.array([1], np.int64),
        "rows": np.array([-1, mixture.width], np.int64),
        "first": np.array([0], np.int64),
        "choices": np.array(mixture.chosen, np.int64),
    }
    nodes = [
        *_begin(mixture),
        helper.make_node("Softmax", ["logits"], ["p"], axis=-1),
        helper.make_node("TopK", ["p", "chosen"], ["best", "which"], name="top", axis=-1),
        helper.make_node("ReduceSum", ["best", "last"], ["total"], keepdims=1),
        helper.make_node("Div", ["best", "total"], ["share"]),
        helper.make_node("OneHot", ["which", "experts", "off_on"], ["hot"], axis=-1),
        helper.make_node("Transpose", ["hot"], ["mask"], perm=[2, 1, 0]),
        helper.make_node("Reshape", ["share", "last"], ["flat"]),
        helper.make_node("Shape", ["h"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["sum_0"]),
        helper.make_node("Unsqueeze", ["h", "first"], ["front"]),
    ]
    for expert in range(mixture.experts):
        for name in ("gate", "up", "down"):
            tensors[f"{name}_{expert}"] = np.ascontiguousarray(weights[name][expert].T)
        tensors[f"number_{expert}"] = np.array(expert, np.int64)
        nodes += _branch(expert)
    nodes.append(helper.make_node("Add", ["x", f"sum_{mixture.experts}"], ["y"], name="residual"))
    return _model(mixture, nodes, tensors)


def _branch(expert: int) -> list[onnx.NodeProto]:
    """Adds the expert to sum_N, for those who chose it; the result is sum_N+1."""

    def node(op: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
        own = inputs.replace("*", str(expert)).split()
        results = outputs.replace("*", str(expert)).split()
        name = f"experts.{expert}/{results[0]}"
        return helper.make_node(op, own, results, name=name, **attributes)

    to_sum = f"sum_{expert + 1}"
    return [
        node("Gather", "mask number_*", "mine_*", axis=0),
        node("NonZero", "mine_*", "places_*"),
        node("Transpose", "places_*", "pairs_*", perm=[1, 0]),
        node("Split", "pairs_* halves", "slots_* tokens_*", axis=1),
        node("Squeeze", "slots_* second", "slot_*"),
        node("Squeeze", "tokens_* second", "token_*"),
        node("Gather", "front token_*", "picked_*", axis=1),
        node("Reshape", "picked_* rows", "row_*"),
        node("MatMul", "row_* gate_*", "g_*"),
        node("Sigmoid", "g_*", "open_*"),
        node("Mul", "g_* open_*", "silu_*"),
        node("MatMul", "row_* up_*", "u_*"),
        node("Mul", "silu_* u_*", "inner_*"),
        node("MatMul", "inner_* down_*", "each_*"),
        node("Mul", "token_* choices", "first_*"),
        node("Add", "slot_* first_*", "place_*"),
        node("Gather", "flat place_*", "weight_*", axis=0),
        node("Unsqueeze", "weight_* last", "scale_*"),
        node("Mul", "each_* scale_*", "scaled_*"),
        node("Shape", "scaled_*", "shape_*"),
        node("Expand", "tokens_* shape_*", "to_*"),
        node("ScatterElements", "sum_* to_* scaled_*", to_sum, axis=0, reduction="add"),
    ]


def _begin(mixture: Mixture) -> list[onnx.NodeProto]:
    return [
        helper.make_node(
            "RMSNormalization", ["x", "gamma"], ["h"], name="norm", epsilon=mixture.epsilon
        ),
        helper.make_node("MatMul", ["h", "router"], ["logits"], name="router"),
    ]


def _model(
    mixture: Mixture, nodes: list[onnx.NodeProto], tensors: dict[str, np.ndarray]
) -> onnx.ModelProto:
    shape = ["tokens", mixture.width]
    graph = helper.make_graph(
        nodes,
        "moe",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = helper.find_min_ir_version_for(opsets[:1])
    return model
