"""Engines that run a model of transformers as it is: eager mode, Inductor, Opweld.

Each runs in a process of its own (`bench/engines/apart.py`), so that neither threads nor memory nor
compiled code of one are in the way of another.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch._dynamo
import torch._inductor.config
from transformers import StaticCache

from bench.engines.base import Engine, Loaded
from bench.model_speed import ModelTask
from bench.models.small_transformers import MODELS, make, result
from bench.process_memory import bytes_in_use, forget_peak, peak_bytes


class Called(Loaded):
    """A model that is a call, with what is to be done before each."""

    def __init__(self, call: Callable[[], object], prepare: Callable[[], None]) -> None:
        self.call = call
        self.prepare = prepare

    def run_once(self) -> float:
        """See the base class; the result is dropped after the clock has stopped."""
        self.prepare()
        start = time.perf_counter()
        given = self.call()
        taken = time.perf_counter() - start
        del given
        return taken

    def close(self) -> None:
        """See the base class."""
        self.call = None


class EagerModel(Engine):
    """The model as it is."""

    name = "eager"
    reads_onnx = False

    def version(self) -> str:
        """See the base class."""
        return f"torch {torch.__version__}"

    def load(self, task: ModelTask) -> Called:
        """See the base class.

        Memory is counted from when the model has run once in eager mode, which shows what it takes
        by itself.
        """
        torch.set_num_threads(task.threads)
        torch.set_grad_enabled(False)
        self.warm_up()
        model = make(task.name, task.sizes)
        inputs, prepare = _inputs(model, task)
        prepare()
        model(**inputs)
        before = bytes_in_use()
        known = forget_peak()
        prepare()
        start = time.perf_counter()
        call = self.compile(model)
        first = result(call(**inputs))
        taken = time.perf_counter() - start
        loaded = Called(lambda: call(**inputs), prepare)
        loaded.compile_seconds = taken
        peak, after = peak_bytes(), bytes_in_use()
        if known and before is not None and peak is not None and after is not None:
            loaded.peak_bytes = max(0, peak - before)
            loaded.held_bytes = max(0, after - before)
        loaded.outputs = {"result": first.numpy().copy()}
        return loaded

    def warm_up(self) -> None:
        """Has packages loaded and whatever else happens once in a process."""

    def compile(self, model: torch.nn.Module) -> Callable[..., object]:
        """What is called in place of the model."""
        return model


def _inputs(
    model: torch.nn.Module, task: ModelTask
) -> tuple[dict[str, object], Callable[[], None]]:
    """What the model is called with, and what makes each call the same."""
    inputs = MODELS[task.name].inputs(task.length, task.sizes)
    if not task.decodes:
        if hasattr(model.config, "use_cache"):
            model.config.use_cache = False
        return inputs, lambda: None
    cache = StaticCache(config=model.config, max_cache_len=task.sizes.positions)
    model(**inputs, past_key_values=cache)

    def prepare() -> None:
        for layer in cache.layers:
            layer.cumulative_length.fill_(task.length)

    token = inputs["input_ids"][:, -1:]
    return {"input_ids": token, "past_key_values": cache}, prepare


class InductorModel(EagerModel):
    """`torch.compile` with weights frozen, so that it may pack and fold them."""

    name = "inductor"

    def warm_up(self) -> None:
        """See the base class."""
        torch._inductor.config.freezing = True
        torch._inductor.config.force_disable_caches = True
        self.compile(torch.nn.Linear(16, 16).eval())(torch.ones(2, 16))

    def compile(self, model: torch.nn.Module) -> Callable[..., object]:
        """See the base class."""
        return torch.compile(model, fullgraph=True, dynamic=False)


class OpweldModel(EagerModel):
    """`torch.compile` with the backend of this package."""

    name = "opweld"

    def version(self) -> str:
        """See the base class."""
        import opweld

        return f"opweld {opweld.__version__}"

    def warm_up(self) -> None:
        """See the base class."""
        self.compile(torch.nn.Linear(16, 16).eval())(torch.ones(2, 16))

    def compile(self, model: torch.nn.Module) -> Callable[..., object]:
        """See the base class."""
        return torch.compile(model, backend="opweld", fullgraph=True, dynamic=False)
