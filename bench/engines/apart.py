"""Runs an engine in a process of its own, which serves every model of a run.

So the thread pools, allocators and settings of engines stay out of each other's way, and an engine
that crashes or hangs costs its own row and no more.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from bench.engines.base import CannotRunError, Engine, Loaded, Task
from bench.models.cache import BUILD
from bench.process_memory import bytes_in_use, forget_peak, peak_bytes

# Compilation with a search for the fastest variant takes minutes on few cores.
LOAD_SECONDS = 900.0
RUN_SECONDS = 300.0

# Opweld keeps weights and intermediates on huge pages, which is worth a good part of the time of
# whatever streams weights. These settings, which any user can make, give the others the same: the
# first is PyTorch's own, the second the C library's, for all memory that engines allocate.
HUGE_PAGES = {"THP_MEM_ALLOC_ENABLE": "1", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

LOGS = BUILD / "bench" / "logs"


class Apart(Engine):
    """Stands for the engine `kind` of `module`; the process is started when it is needed."""

    def __init__(
        self, name: str, module: str, kind: str, threads: int, reads_onnx: bool = True
    ) -> None:
        self.name = name
        self.reads_onnx = reads_onnx
        self._target = (module, kind)
        self._threads = threads
        self._process: multiprocessing.Process | None = None
        self._pipe: Connection | None = None

    def version(self) -> str:
        """See the base class."""
        return self.ask("version", None, LOAD_SECONDS)

    def load(self, task: Task) -> Loaded:
        """See the base class."""
        return LoadedApart(self, *self.ask("load", task, LOAD_SECONDS))

    def ask(self, what: str, argument: object, patience: float) -> object:
        """Sends a request and waits for its answer.

        Raises CannotRunError when the engine says so, when its process ends, and when it takes
        longer than `patience` seconds, after which the process is ended.
        """
        if self._process is None:
            self._start()
        try:
            self._pipe.send((what, argument))
            if not self._pipe.poll(patience):
                self.close()
                raise CannotRunError(f"gave no answer within {patience:.0f} s")
            succeeded, answer = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self._process.join()
            code = self._process.exitcode
            self._process = None
            raise CannotRunError(f"its process ended with code {code}") from error
        if not succeeded:
            raise CannotRunError(answer)
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def _start(self) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"{self.name.replace(' ', '-')}.log"
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, *self._target, self._threads, log)
        )
        # The C library reads its settings as a program starts: they have to be there before.
        with environment(HUGE_PAGES):
            self._process.start()
        theirs.close()


class LoadedApart(Loaded):
    """A model in the process of an engine."""

    def __init__(
        self,
        engine: Apart,
        handle: int,
        outputs: dict,
        compile_seconds: float | None,
        peak_bytes: int | None,
        held_bytes: int | None,
    ) -> None:
        self._engine = engine
        self._handle = handle
        self.outputs = outputs
        self.compile_seconds = compile_seconds
        self.peak_bytes = peak_bytes
        self.held_bytes = held_bytes

    def run_once(self) -> float:
        """See the base class."""
        return self._engine.ask("run", self._handle, RUN_SECONDS)

    def close(self) -> None:
        """See the base class."""
        try:
            self._engine.ask("drop", self._handle, RUN_SECONDS)
        except CannotRunError:
            self._engine.close()


@contextmanager
def environment(settings: dict[str, str]) -> Iterator[None]:
    """Variables for the processes that are started inside."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(pipe: Connection, module: str, kind: str, threads: int, log: Path) -> None:
    """The life of the process: what libraries print goes to `log`."""
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    engine: Engine | None = None
    models: dict[int, Loaded] = {}
    while True:
        try:
            what, argument = pipe.recv()
        except EOFError:
            return
        try:
            if engine is None:
                engine = getattr(importlib.import_module(module), kind)()
            answer = None
            if what == "version":
                answer = engine.version()
            elif what == "load":
                model, peak = load_with_peak(engine, argument)
                handle = max(models, default=0) + 1
                models[handle] = model
                answer = (handle, model.outputs, model.compile_seconds, peak, model.held_bytes)
            elif what == "run":
                answer = models[argument].run_once()
            else:
                models.pop(argument).close()
        except Exception as error:  # whatever a library raises is a reason to be told
            traceback.print_exc()
            sys.stderr.flush()
            pipe.send((False, reason_of(error)))
        else:
            pipe.send((True, answer))


def load_with_peak(engine: Engine, task: Task) -> tuple[Loaded, int | None]:
    """The loaded model, and by how much memory in use grew at most meanwhile.

    An engine that has measured that itself, from a better moment on, is believed.
    """
    known = forget_peak()
    before = bytes_in_use()
    model = engine.load(task)
    peak = peak_bytes()
    if model.peak_bytes is not None:
        return model, model.peak_bytes
    if not known or before is None or peak is None:
        return model, None
    return model, max(0, peak - before)


def reason_of(error: BaseException) -> str:
    """The first line of what an error says, short enough to stand under a table."""
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0]
    if not isinstance(error, CannotRunError):
        line = f"{type(error).__name__}: {line}"
    return line if len(line) <= 200 else line[:197] + "..."
