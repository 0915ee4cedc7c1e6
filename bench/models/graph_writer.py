"""Writes ONNX graphs node by node, named and spelled the way PyTorch's exporter does.

Node names carry the module path of the layer they come from (`/encoder/layer.0/attention/...`),
which is what a compiler's per-layer report groups by, and constants are `Constant` nodes, as in
exported files. Weights go to one external data file beside the model, so that two models may
share them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The start of each tensor in the data file: a page, so that readers can map it as it lies.
ALIGNMENT = 4096

# Smaller tensors stay inside the model file, as exporters keep them.
EXTERNAL_BYTES = 1024


class WeightFile:
    """An external data file under construction: tensors by name, each stored once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._tensors: dict[str, TensorProto] = {}

    def add(self, name: str, value: np.ndarray) -> TensorProto:
        """Appends `value` and returns the initializer that refers to it."""
        if name in self._tensors:
            raise ValueError(f"weight '{name}' is stored already")
        value = np.ascontiguousarray(value)
        if value.nbytes < EXTERNAL_BYTES:
            tensor = numpy_helper.from_array(value, name)
        else:
            self._file.seek(-self._file.tell() % ALIGNMENT, 1)
            tensor = TensorProto(
                name=name,
                dims=value.shape,
                data_type=helper.np_dtype_to_tensor_dtype(value.dtype),
                data_location=TensorProto.EXTERNAL,
            )
            for key, text in (
                ("location", self.path.name),
                ("offset", str(self._file.tell())),
                ("length", str(value.nbytes)),
            ):
                tensor.external_data.add(key=key, value=text)
            value.tofile(self._file)
        self._tensors[name] = tensor
        return tensor

    def __getitem__(self, name: str) -> TensorProto:
        return self._tensors[name]

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def close(self) -> None:
        """Flushes the file; nothing can be added afterwards."""
        self._file.close()


class GraphWriter:
    """Collects nodes in order. Tensors are passed around by name."""

    def __init__(self, opset: int, weights: WeightFile) -> None:
        self.opset = opset
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, TensorProto] = {}
        self._scope = ""
        self._names: Counter[str] = Counter()

    @contextmanager
    def scope(self, path: str) -> Iterator[None]:
        """Prefixes the names of the nodes written inside with `/path`."""
        outer, self._scope = self._scope, f"{self._scope}/{path}"
        yield
        self._scope = outer

    def weight(self, name: str) -> str:
        """Uses a tensor of the weight file as an initializer."""
        self._initializers[name] = self._weights[name]
        return name

    def node(
        self, op: str, *inputs: str, outputs: Sequence[str | None] = (None,), **attributes: object
    ) -> str:
        """Appends a node and returns the name of its first output.

        `outputs` has an entry for each output: the name of a graph output, or None for a value
        that is named after the node.
        """
        name = self._unique_name(op)
        names = [given or f"{name}_output_{i}" for i, given in enumerate(outputs)]
        self._nodes.append(helper.make_node(op, inputs, names, name=name, **attributes))
        return names[0]

    def constant(self, value: object, dtype: np.typing.DTypeLike) -> str:
        """Appends a `Constant` node: a scalar, or a tensor from nested lists."""
        return self.node("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def dimension(self, tensor: str, axis: int) -> str:
        """The size of one axis at run time, as an int64 scalar."""
        return self.node(
            "Gather", self.node("Shape", tensor), self.constant(axis, np.int64), axis=0
        )

    def reshape(self, tensor: str, *shape: str | int) -> str:
        """Reshapes; sizes known only at run time are given as the names of int64 scalars."""
        parts = [
            self.constant([size], np.int64)
            if isinstance(size, int)
            else self.node("Unsqueeze", size, self.constant([0], np.int64))
            for size in shape
        ]
        return self.node("Reshape", tensor, self.node("Concat", *parts, axis=0))

    def save(
        self,
        path: Path,
        name: str,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
    ) -> None:
        """Writes the model file. The weight file must lie in the same folder."""
        graph = helper.make_graph(
            self._nodes, name, inputs, outputs, list(self._initializers.values())
        )
        opsets = [helper.make_opsetid("", self.opset)]
        version = helper.find_min_ir_version_for(opsets)
        domains = sorted({node.domain for node in self._nodes} - {""})
        opsets += [helper.make_opsetid(domain, 1) for domain in domains]
        model = helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=version,
            producer_name="opweld bench/models",
        )
        path.write_bytes(model.SerializeToString(deterministic=True))

    def _unique_name(self, op: str) -> str:
        stem = f"{self._scope}/{op}"
        count = self._names[stem]
        self._names[stem] += 1
        return f"{stem}_{count}" if count else stem


def value_info(
    name: str, dtype: np.typing.DTypeLike, shape: Sequence[str | int]
) -> onnx.ValueInfoProto:
    """A graph input or output; sizes given as text are free dimensions of that name."""
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )
