"""Models and compiled programs, as users meet them."""

import html
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opweld import _core, arrays
from opweld.account import Account, make_account
from opweld.verification import Verification, make_verification


@dataclass
class Stats:
    """What a program has done since it was compiled."""

    calls: int = 0
    copied_inputs: int = 0
    """Inputs that were not dense in row-major order and had to be copied."""
    compile_seconds: float = 0.0
    last: _core.RunReport | None = None
    """The last run: kernels, bytes, and the seconds of every kernel."""


class Program:
    """A compiled model, called like a function; from any number of threads at once.

    Runs for all values of its free sizes. Python goes on while it runs.
    """

    def __init__(
        self, core: _core.Program, model: "Model | None", settings: Mapping[str, Any]
    ) -> None:
        self._core = core
        self._model = model  # None: it was loaded from a file
        self._settings = dict(settings)
        self._lock = threading.Lock()
        self._stats = Stats(compile_seconds=core.compile_seconds())

    @property
    def inputs(self) -> list[_core.TensorInfo]:
        """Names, dtypes and sizes of the inputs, in order."""
        return self._core.inputs()

    @property
    def outputs(self) -> list[_core.TensorInfo]:
        """Names, dtypes and sizes of the outputs, in order."""
        return self._core.outputs()

    @property
    def symbols(self) -> list[str]:
        """Names of the free sizes, sorted."""
        return self._model.symbols

    @property
    def stats(self) -> Stats:
        """Calls, copies, seconds, and the report of the last run."""
        return self._stats

    def __call__(self, *inputs: Any, **named: Any) -> list[Any]:
        """Runs the model on arrays, in the order of `inputs` or by their names.

        Arrays are those of numpy, tensors of PyTorch, or anything with `__dlpack__` or the buffer
        protocol, in the memory of the processor. What lies dense in row-major order is not copied.

        Returns:
            The outputs in order, of the kind of the inputs, in memory of their own.

        Raises:
            UsageError: a count, name, dtype, rank or size does not fit; the message names the
                input and the axis.
            Error: the data asks for something impossible, such as a row that is not there.
        """
        if named:
            inputs = self._in_order(inputs, named)
        outputs, report, copies = arrays.run(self._core, inputs)
        with self._lock:
            self._stats.calls += 1
            self._stats.copied_inputs += copies
            self._stats.last = report
        return outputs

    def _in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        names = [info.name for info in self.inputs]
        rest = names[len(inputs) :]
        for name in named:
            if name not in rest:
                known = "is given twice" if name in names else "is none of the model's"
                message = f"the input '{name}' {known}; the inputs are {', '.join(names)}"
                raise _core.UsageError(message)
        for name in rest:
            if name not in named:
                raise _core.UsageError(f"input '{name}' is missing")
        return (*inputs, *(named[name] for name in rest))

    def explain(self, sizes: Mapping[str, int] | None = None, /, **values: int) -> Account:
        """What was fused, what was not and why, and the bytes that kernels move.

        Args:
            sizes: values of the model's free sizes, for names that are no identifiers.
            values: the same as keywords, `explain(batch=1, sequence=128)`.

        Raises:
            UsageError: a free size has no value, or one that it cannot have.
        """
        return make_account(self._core, {**(sizes or {}), **values})

    def verify(self, *inputs: Any, **named: Any) -> Verification:
        """Holds a run on these arrays against the model unfused, and in double precision.

        What has to agree: each kernel with the operators that it stands for, on the inputs that it
        had; the outputs from end to end, where no rounding of f16 or bf16 adds up; and the code of
        custom operators with what they declare. `opweld verify` does the same for a file. The
        reference is plain loops, so this takes far longer than a run.

        Returns:
            What was compared and how far it is apart; `ok` where all agrees. It prints as text,
            and shows as a table in notebooks.

        Raises:
            UsageError: as for a call.
        """
        if self._model is None:
            raise _core.UsageError("verify needs the model, and a file of a program has it no more")
        if named:
            inputs = self._in_order(inputs, named)
        readables = [arrays.readable(each) for each in inputs]
        return make_verification(self._model._core.verify(readables, self._model_settings()))

    def report(
        self,
        path: str | os.PathLike[str],
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        inputs: Sequence[Any] | None = None,
        repeats: int = 10,
        **values: int,
    ) -> Path:
        """Writes the page of `opweld report`, which any browser opens without a network.

        It has the graph before and after, every kernel with what bounds it, the reason of every
        fusion that was not done, and what each level of fusion moves and takes. The model is
        compiled at all levels and run for that, on random inputs where none are given.

        Args:
            path: of the file to write, "report.html".
            sizes: values of the model's free sizes, for names that are no identifiers; 1 for a
                batch and 128 for anything else where there is no value.
            inputs: arrays to run on, in order; sizes are then theirs.
            repeats: timed runs, of which the median is shown; 0: the page has no times.
            values: sizes as keywords, `report("report.html", batch=1, sequence=128)`.

        Returns:
            The path.

        Raises:
            UsageError: a size is none that there is, or none that it can have.
            Error: the file cannot be written, or the package was built without the page.
        """
        self._model._core.write_report(
            os.fspath(path),
            self._model_settings(),
            name=self._model.name,
            sizes={**(sizes or {}), **values},
            repeats=repeats,
            inputs=[arrays.readable(each) for each in inputs or ()],
        )
        return Path(path)

    def _model_settings(self) -> _core.CompileSettings:
        """As it was compiled; what was measured then is found in the cache folder."""
        return _core.CompileSettings(**self._settings | {"tune_seconds": 0.0})

    def __repr__(self) -> str:
        inputs = ", ".join(map(repr, self.inputs))
        outputs = ", ".join(map(repr, self.outputs))
        return f"opweld.Program(({inputs}) -> ({outputs}))"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program to a file, whose name ends in ".opw".

        `load_program`, the command `opweld run` and programs in C (opweld/runtime.h) run it without
        compiling. Code is for the target that the program was compiled for.

        Raises:
            UsageError: an operator of a plugin is left in it, or it was loaded from a file itself.
            Error: the file cannot be written.
        """
        self._core.save(os.fspath(path))

    def _repr_html_(self) -> str:
        if self._model is None:
            return f"<code>{html.escape(repr(self))}</code>"
        symbols = self._model.symbols
        if not symbols:
            return self.explain()._repr_html_()
        wanted = ", ".join(f"{name}=..." for name in symbols)
        return (
            f"<code>{html.escape(repr(self))}</code>"
            f"<p>Its account is for given sizes: <code>explain({html.escape(wanted)})</code></p>"
        )


class Model:
    """A model before it is compiled; safe to use from several threads."""

    def __init__(self, core: _core.Model, name: str = "") -> None:
        self._core = core
        self._name = name

    @property
    def name(self) -> str:
        """What reports call it: the name of its file, or empty."""
        return self._name

    @property
    def inputs(self) -> list[_core.TensorInfo]:
        """Names, dtypes and sizes of the inputs, in order."""
        return self._core.inputs()

    @property
    def outputs(self) -> list[_core.TensorInfo]:
        """Names, dtypes and sizes of the outputs, in order."""
        return self._core.outputs()

    @property
    def symbols(self) -> list[str]:
        """Names of the free sizes, sorted."""
        return self._core.symbols()

    def text(self) -> str:
        """The textual form; large weights are shown by a hash."""
        return self._core.text()

    def compile(self, **settings: Any) -> Program:
        """Compiles it; the settings are those of `opweld.compile`."""
        return Program(self._core.compile(_core.CompileSettings(**settings)), self, settings)


def load(path: str | os.PathLike[str]) -> Model:
    """Reads an ONNX file, or a graph in its textual form if the name ends in ".graph".

    Weights stay in the mapped file, which must not change while the model is in use.

    Raises:
        Error: the file cannot be read, or has an operator that Opweld lacks; names the node.
    """
    return Model(_core.load(os.fspath(path)), Path(path).name)


def load_program(path: str | os.PathLike[str], *, threads: int = 0) -> Program:
    """Reads what `Program.save` or the command `opweld compile` wrote, ready to be called.

    Weights stay in the mapped file, which must not change while the program is in use. The code in
    it is run as it is: load only files from whom you would load a shared library.

    Args:
        path: the file.
        threads: to run on; 0: one for each processor.

    Raises:
        UsageError: this machine lacks what the code was compiled for.
        Error: the file is no compiled model, is damaged, or is of another version of Opweld.
    """
    return Program(_core.load_program(os.fspath(path), threads), None, {})


def parse(text: str) -> Model:
    """Reads the textual form of a graph.

        graph g(%x: f32[s, 8]) { %y = relu(%x) return %y as "y" }

    Raises:
        Error: the text is no graph; the message has the line.
    """
    return Model(_core.parse(text))


def compile(
    model: Model | str | os.PathLike[str],
    *,
    fusion: str = "auto",
    numerics: str = "default",
    threads: int = 0,
    target: str = "host",
    single_launch: bool = False,
    in_place: Mapping[str, str] | None = None,
    tuned: bool = True,
    tune_seconds: float = 0.0,
    tune_sizes: Mapping[str, int] | None = None,
) -> Program:
    """Compiles a model for this machine.

    Args:
        model: a Model, or the path of a file that `load` reads.
        fusion: "none", "ops" (the operator library alone) or "auto" (neighbours welded as well).
        numerics: "default", or "strict": fused results are those of unfused ones to the bit.
        threads: to run on; 0: one for each core.
        target: "host", or a narrower view of it: "host-generic", "host-avx2", "host-avx512",
            "host-amx".
        single_launch: hand all kernels to the threads at once; pays where kernels are short.
        in_place: outputs that take over the memory of an input, {"present_key": "past_key"}.
        tuned: take block sizes that were measured on this machine before.
        tune_seconds: measure them now, for at most so long.
        tune_sizes: the sizes to measure at.

    Raises:
        UsageError: a setting is none that there is.
        Error: the model cannot be compiled.
    """
    if not isinstance(model, Model):
        model = load(model)
    return model.compile(
        fusion=fusion,
        numerics=numerics,
        threads=threads,
        target=target,
        single_launch=single_launch,
        in_place=dict(in_place or {}),
        tuned=tuned,
        tune_seconds=tune_seconds,
        tune_sizes=dict(tune_sizes or {}),
    )
